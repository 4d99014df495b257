"""The layer contracts of `pyproject.toml`: kept by the source as it is, and broken by each import that they forbid."""

import contextlib
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.source import PACKAGES, ROOT, name_of, product_files

PLANTS = {
    "layers": [
        ("kms/planted.py", "import verifier"),
        ("bytewise/storage/planted.py", "import bytewise.da"),
        ("bytewise/da/planted.py", "import chain"),
        ("serving/planted.py", "import committee"),
        ("bytewise/protocol/planted.py", "import bytewise.crypto"),
        ("bytewise/crypto/planted.py", "import bytewise.ports"),
        ("kms/planted.py", "import enclave"),
        ("verifier/planted.py", "import cli"),
        ("verifier/planted.py", "import bytewise_client"),
        ("bytewise_client/planted.py", "import serving"),
        ("dashboard/planted.py", "import committee"),
        ("verifier/planted.py", "import dashboard"),
    ],
    "keyless": [
        ("dashboard/planted.py", "import chain.sending.keys"),
        ("dashboard/planted.py", "import bytewise.storage.outbox"),
        ("dashboard/planted.py", "import kms.storage.keyring"),
        ("dashboard/planted.py", "import kms.shard.release"),
    ],
    "pure": [
        ("bytewise/protocol/planted.py", "from time import time"),
        ("bytewise/protocol/planted.py", "import secrets"),
        ("bytewise/crypto/planted.py", "import socket"),
        ("bytewise/protocol/planted.py", "import httpx2"),
    ],
    "torch-free": [
        ("committee/planted.py", "import bytewise.inference"),
        ("kms/planted.py", "import torch"),
        ("dashboard/planted.py", "import bytewise.inference"),
        ("bytewise_client/planted.py", "def late() -> None:\n    import torch"),
        ("verifier/planted.py", "def late() -> None:\n    import transformers"),
    ],
    "client": [("bytewise_client/planted.py", "import typer"), ("bytewise_client/planted.py", "import bytewise.storage")],
    "operators": [("serving/planted.py", "import kms.shard")],
    "enclave": [("verifier/planted.py", "import enclave"), ("committee/planted.py", "import enclave")],
    "simulator": [("kms/planted.py", "import bytewise.tee_simulated"), ("verifier/planted.py", "import bytewise.tee_simulated")],
    "wiring": [
        ("serving/planted.py", "import chain.client.rpc"),
        ("verifier/planted.py", "import bytewise.da"),
        ("dashboard/planted.py", "import chain.client.rpc"),
    ],
    "web3": [("verifier/planted.py", "import web3"), ("bytewise/da/planted.py", "from web3 import Web3")],
    "torch": [("serving/planted.py", "import torch"), ("bytewise/tee/planted.py", "import transformers")],
    "sqlalchemy": [("kms/planted.py", "import sqlalchemy"), ("chain/planted.py", "from sqlalchemy import orm")],
    "ray": [("verifier/planted.py", "import ray"), ("cli/planted.py", "def late() -> None:\n    import ray")],
    "bridge": [("verifier/cluster/planted.py", "import bytewise.storage"), ("verifier/cluster/planted.py", "import kms")],
    "loops": [("committee/planted.py", "import trio")],
    "adversaries": [("cli/planted.py", "import adversaries")],
    "acyclic": [("bytewise/protocol/units.py", "import bytewise.protocol.court.tally")],
}
"""Contract id → imports (file, line) that it must not let pass."""


def lint(folder: Path, *contracts: str) -> subprocess.CompletedProcess[str]:
    """`lint-imports` on a tree of packages with its own `pyproject.toml`."""
    chosen = [f"--contract={name}" for name in contracts]
    command = [sys.executable, "-c", _RUN, "--no-logo", "--no-cache", f"--config={folder / 'pyproject.toml'}", *chosen]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)


_RUN = "import sys; sys.path.insert(0, '.'); from importlinter.cli import lint_imports_command; lint_imports_command()"
"""The command, with the tree in front of an editable install of ours."""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the first-party source, to plant something in for a moment."""
    folder = tmp_path_factory.mktemp("tree")
    for path in product_files():
        copy = folder / name_of(path)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(path.read_text())
    (folder / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text())
    return folder


@contextlib.contextmanager
def planted(file: Path, line: str) -> Iterator[None]:
    """The file with a line more, for as long as the context lasts."""
    before = file.read_text() if file.exists() else None
    file.write_text(f"{before or ''}\n{line}\n")
    try:
        yield
    finally:
        file.unlink() if before is None else file.write_text(before)


def test_every_package_and_every_contract_is_under_test() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    assert tuple(settings["root_packages"]) == PACKAGES
    assert {contract["id"] for contract in settings["contracts"]} == PLANTS.keys()


def test_every_shared_package_has_its_layer() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    layers = {name.strip() for row in settings["contracts"][0]["layers"] for name in row.split("|")}
    shared = {f"bytewise.{p.stem if p.is_file() else p.name}" for p in (ROOT / "bytewise").iterdir() if _is_module(p)}
    assert layers == shared | set(PACKAGES) - {"bytewise"}


def _is_module(path: Path) -> bool:
    return (path / "__init__.py").exists() or (path.suffix == ".py" and path.name != "__init__.py")


def test_the_source_keeps_every_contract(tree: Path) -> None:
    result = lint(tree)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(("contract", "file", "line"), [(c, f, x) for c, plants in PLANTS.items() for f, x in plants])
def test_a_planted_import_breaks_its_contract(contract: str, file: str, line: str, tree: Path) -> None:
    with planted(tree / file, line):
        result = lint(tree, contract)
    assert result.returncode == 1, result.stdout + result.stderr
    assert "BROKEN" in result.stdout


def test_an_indirect_import_of_torch_is_found(tree: Path) -> None:
    with (
        planted(tree / "bytewise/storage/planted.py", "import torch"),
        planted(tree / "kms/planted.py", "import bytewise.storage.planted"),
    ):
        result = lint(tree, "torch-free")
    assert result.returncode == 1 and "kms.planted" in result.stdout
