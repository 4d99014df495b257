"""A measurement changes with every first-party line that the program can run, and with nothing else."""

import platform
from collections.abc import Callable
from pathlib import Path

import pytest

from bytewise.protocol import digests
from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.units import ZERO_DIGEST
from bytewise.tee.measurement import ENCLAVE_ENTRY, closure, compiled_sources, measure

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture()
def tree(tmp_path: Path) -> Path:
    files = {
        "constraints.txt": "torch==2.13.0\n", "app/__init__.py": "",
        "app/__main__.py": "import os\nfrom app import one\nfrom . import two\n",
        "app/one.py": "def late():\n    from lib.deep import value\n    return value\n", "app/two.py": "import json\n",
        "app/unused.py": "x = 1\n", "lib/__init__.py": "", "lib/deep.py": "from .other import value\n",
        "lib/other.py": "value = 1\n", "lib/fast.c": "int value = 1;\n", "lib/fast.h": "extern int value;\n",
        "tools/__init__.py": "", "tools/slow.c": "int value = 1;\n", "setup.py": "FLAGS = []\n",
    }  # fmt: skip
    for name, content in files.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(content)
    return tmp_path


def test_the_closure_follows_relative_late_and_package_imports(tree: Path) -> None:
    found = closure(tree, "app.__main__")
    assert set(found) == {"app", "app.__main__", "app.one", "app.two", "lib", "lib.deep", "lib.other"}


CHANGES: dict[str, tuple[bool, Callable[[Path], object]]] = {
    "a comment in an imported file": (True, lambda t: (t / "lib/other.py").write_text("value = 1  # same\n")),
    "a package's own file": (True, lambda t: (t / "lib/__init__.py").write_text("#\n")),
    "a pinned library": (True, lambda t: (t / "constraints.txt").write_text("torch==2.13.1\n")),
    "a new import": (True, lambda t: (t / "app/two.py").write_text("import app.unused\n")),
    "a file that is not imported": (False, lambda t: (t / "app/unused.py").write_text("x = 2\n")),
    "a C source beside an imported module": (True, lambda t: (t / "lib/fast.c").write_text("int value = 2;\n")),
    "a header": (True, lambda t: (t / "lib/fast.h").write_text("extern long value;\n")),
    "a new C source": (True, lambda t: (t / "lib/more.c").write_text("int more;\n")),
    "the flags that C is compiled with": (True, lambda t: (t / "setup.py").write_text("FLAGS = ['-ffast-math']\n")),
    "a C source beside nothing that is imported": (False, lambda t: (t / "tools/slow.c").write_text("int value = 2;\n")),
    "a new file": (False, lambda t: (t / "app/more.py").write_text("x = 2\n")),
}


@pytest.mark.parametrize("name", CHANGES)
def test_measurement_covers_the_executable_closure(tree: Path, name: str) -> None:
    differs, change = CHANGES[name]
    before = measure(tree, "app.__main__")
    change(tree)
    assert (measure(tree, "app.__main__") != before) is differs


def test_measurement_changes_with_program_model_and_interpreter(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    models = [ZERO_DIGEST, digests.sha256(b"one"), digests.sha256(b"other")]
    found = {measure(tree, "app.__main__", model) for model in models} | {measure(tree, "app.one")}
    assert len(found) == 4 and measure(tree, "app.__main__") == measure(tree, "app.__main__", ZERO_DIGEST)
    monkeypatch.setattr(platform, "python_version", lambda: "3.11.99")
    assert measure(tree, "app.__main__") not in found


def test_two_entry_points_of_the_same_modules_are_two_programs(tree: Path) -> None:
    for name, other in (("left", "right"), ("right", "left")):
        (tree / "app" / f"{name}.py").write_text(f"import app.{other}\n")
    assert closure(tree, "app.left") == closure(tree, "app.right")
    assert measure(tree, "app.left") != measure(tree, "app.right")


def test_a_tree_without_entry_or_constraints_cannot_be_measured(tree: Path) -> None:
    with pytest.raises(ConfigurationError):
        measure(tree, "app.nothing")
    (tree / "constraints.txt").unlink()
    with pytest.raises(ConfigurationError):
        measure(tree, "app.__main__")


def test_measurement_does_not_depend_on_the_location_of_the_tree(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = tmp_path_factory.mktemp("copy")
    for path in tree.rglob("*"):
        if path.is_file():
            (other / path.relative_to(tree)).parent.mkdir(exist_ok=True)
            (other / path.relative_to(tree)).write_bytes(path.read_bytes())
    assert measure(tree, "app.__main__") == measure(other, "app.__main__")


def test_key_client_closure_has_no_server_database_or_chain_client() -> None:
    names = set(closure(ROOT, "enclave.release_client"))
    assert {
        "bytewise.crypto.envelope", "bytewise.crypto.curve", "bytewise.tee.appraisal", "bytewise.protocol.evidence.claims",
    } <= names  # fmt: skip
    assert not {name for name in names if name.split(".")[0] in {"chain", "verifier", "committee", "serving"}}
    assert not {
        n for n in names if n.startswith(("bytewise.storage", "bytewise.tee_simulated", "kms.shard.api", "kms.shard.release"))
    }


def test_enclave_is_measured_with_its_engine() -> None:
    found = compiled_sources(ROOT, closure(ROOT, ENCLAVE_ENTRY))
    on_disk = {str(path.relative_to(ROOT)) for path in (ROOT / "bytewise/inference/native").glob("*.[ch]")}
    assert on_disk and set(found) == on_disk | {"setup.py"}
