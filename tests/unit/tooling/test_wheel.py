"""What `pip install .` installs: every file that programs read, the checkout's measurement, no other project's package."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.service.installation import PACKAGES, check_packages, own_file
from bytewise.tee.measurement import ENCLAVE_ENTRY, SHARD_ENTRY, closure, measure
from cli.demo import actors
from cli.demo.plan import MODEL_NAME
from tests import source
from tests.source import ROOT

BUILT_FROM = ("setup.py", "pyproject.toml", "constraints.txt", "README.md", "LICENSE", f"models/{MODEL_NAME}", *PACKAGES)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what is in the wheel. It is built without a compiler, which is quick and must not stop the build."""
    tree, out = tmp_path_factory.mktemp("tree"), tmp_path_factory.mktemp("wheel")
    unwanted = shutil.ignore_patterns("contracts", "__pycache__", "*.so")
    for name in BUILT_FROM:
        (tree / name).parent.mkdir(exist_ok=True)
        copy = shutil.copy if (ROOT / name).is_file() else lambda a, b: shutil.copytree(a, b, ignore=unwanted)
        copy(ROOT / name, tree / name)
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index", "-w", str(out), str(tree)]
    done = subprocess.run(command, env=os.environ | {"CC": "false"}, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    (wheel,) = out.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(out / "site")
    return out / "site"


def bytewise(*path: Path) -> "subprocess.CompletedProcess[str]":
    """`bytewise version` with these folders before others on the search path."""
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(map(str, path)), "PYTHONSAFEPATH": "1"}
    command = [sys.executable, "-m", "bytewise", "version"]
    return subprocess.run(command, cwd=path[0], env=environment, capture_output=True, text=True, timeout=120)


def test_wheel_has_every_file_of_the_packages(site: Path) -> None:
    asked = subprocess.run(["git", "ls-files", *PACKAGES], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
    wanted = {name for name in asked.stdout.split() if not name.startswith("chain/contracts/") and (ROOT / name).is_file()}
    assert {name for name in wanted if not (site / name).is_file()} == set()
    assert {"bytewise/py.typed", "bytewise_client/py.typed"} <= wanted, "type checkers of strategies and applications read them"
    assert {path.name for path in site.iterdir()} - {"bytewise-0.1.0.dist-info"} == set(PACKAGES)


def test_wheel_has_the_model_of_the_demo(site: Path) -> None:
    names = {path.name for path in (ROOT / "models" / MODEL_NAME).iterdir()}
    assert {path.name for path in own_file(f"models/{MODEL_NAME}", site).iterdir()} == names


@pytest.mark.parametrize("entry", [ENCLAVE_ENTRY, SHARD_ENTRY])
def test_wheel_and_checkout_have_one_measurement(site: Path, entry: str) -> None:
    """Also where other projects' packages are beside it, which a program imports."""
    (site / "torch").mkdir()
    (site / "torch" / "__init__.py").touch()
    try:
        assert "torch" not in closure(site, entry)
        assert measure(site, entry) == measure(ROOT, entry)
    finally:
        shutil.rmtree(site / "torch")


def test_wheel_runs_from_its_own_folder(site: Path) -> None:
    done = bytewise(site)
    assert done.returncode == 0 and done.stdout.startswith("bytewise "), done.stderr


def test_package_that_hides_ours_is_refused_by_name(site: Path, tmp_path: Path) -> None:
    (tmp_path / "cli").mkdir()
    (tmp_path / "cli" / "__init__.py").touch()
    done = bytewise(tmp_path, site)
    assert done.returncode == 64 and done.stdout == "", done.stderr
    assert f"package cli: comes from {tmp_path}, Bytewise is in {site}" in done.stderr


def test_package_that_was_installed_over_ours_is_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    for module in [name for name in sys.modules if name.split(".")[0] in PACKAGES]:
        monkeypatch.delitem(sys.modules, module)
    for name in PACKAGES:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").touch()
    records = {"bytewise-0.1.0": "cli/__init__.py,sha256=x,0\n", "lichain-2": "bin/x,,\nlib/chain/__init__.py,,\n"}
    for owner, record in records.items():
        (tmp_path / f"{owner}.dist-info").mkdir()
        (tmp_path / f"{owner}.dist-info" / "RECORD").write_text(record)
    check_packages(tmp_path)
    (tmp_path / "lichain-2.dist-info" / "RECORD").write_text("bin/x,,\nchain/__init__.py,sha256=x,0\n")
    with pytest.raises(ConfigurationError, match="package chain: was installed by lichain-2 too"):
        check_packages(tmp_path)


def test_packages_that_are_checked_are_the_root_packages() -> None:
    assert PACKAGES == source.PACKAGES


def test_missing_chain_program_is_named_with_the_command_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(actors, "SOURCE_ROOT", tmp_path / "site-packages")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with pytest.raises(ConfigurationError, match=f"{actors.ANVIL}@{actors.ANVIL_VERSION}"):
        actors.anvil(tmp_path)
    for folder in ("bin", f"node_modules/{actors.ANVIL}/bin"):
        program = tmp_path / folder / "anvil"
        program.parent.mkdir(parents=True)
        program.touch(0o755)
        assert actors.anvil(tmp_path) == program


def test_chain_program_has_the_version_of_the_checkout() -> None:
    assert f'"{actors.ANVIL}": "{actors.ANVIL_VERSION}"' in (ROOT / "chain" / "contracts" / "package.json").read_text()
