"""Measurement of a program: one digest over the first-party files that it can import, pinned libraries, interpreter and model.

The measurement finds imports in the source text. It therefore executes nothing, and an import inside a function counts too. C
sources beside an imported module count, together with the script that compiles them. A program does not load a library that was
made from other sources.

The digest does not cover the bytes of third-party wheels, which are pinned by name and version only. It also does not cover the
compiler, other files, the kernel and the machine. The model's digest covers the model, because the program verifies every file of
the model against it before it asks for the measurement.
"""

import ast
import platform
from pathlib import Path

from bytewise.protocol import digests
from bytewise.protocol.digests import Label
from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.units import ZERO_DIGEST, Digest
from bytewise.service.installation import PACKAGES, is_wheel, own_file

ENCLAVE_ENTRY = "enclave.__main__"
"""Module that starts the program that opens envelopes."""

SHARD_ENTRY = "kms.__main__"
"""Module that starts the program that has a share of an epoch's key."""

COVERS = (
    "first-party import closure and its C sources, pinned library versions, Python version, model digest; "
    "not wheels' bytes, compiler, kernel, hardware or isolation"
)
"""Text for the appraisal policy that says what a simulated measurement covers."""


C_SUFFIXES = (".c", ".h")
BUILD_SCRIPT = "setup.py"


def measure(root: Path, entry: str = ENCLAVE_ENTRY, model: Digest = ZERO_DIGEST) -> Digest:
    """Returns the measurement of the program that starts at module `entry` in the source tree `root` and runs `model`. For a
    program without a model, `model` is zero.

    Raises `ConfigurationError` if the tree does not have the module `entry` or the constraints file.
    """
    modules = closure(root, entry)
    files = modules | compiled_sources(root, modules)
    parts: list[bytes] = [platform.python_version().encode(), entry.encode(), _read(own_file("constraints.txt", root)), model]
    for name, path in sorted(files.items()):
        parts += [name.encode(), digests.sha256(path.read_bytes())]
    return digests.labelled(Label.MEASUREMENT, *parts)


def closure(root: Path, entry: str) -> dict[str, Path]:
    """Returns every first-party module that `entry` imports, directly or not, with its file. It includes `entry` and the
    parents of modules. Raises `ConfigurationError` if `entry` does not exist."""
    if _file_of(root, entry) is None:
        raise ConfigurationError("measurement", f"no module {entry}")
    found: dict[str, Path] = {}
    waiting = [entry]
    while waiting:
        name = waiting.pop()
        path = _file_of(root, name)
        if path is None or name in found:
            continue
        found[name] = path
        if "." in name:
            waiting.append(name.rpartition(".")[0])
        waiting += _imports(name, path)
    return found


def compiled_sources(root: Path, modules: dict[str, Path]) -> dict[str, Path]:
    """Returns the C files beside these modules, and the script that compiles them, by their path in the tree."""
    folders = {path.parent for path in modules.values()}
    found = [file for folder in folders for file in folder.iterdir() if file.suffix in C_SUFFIXES]
    named = {str(file.relative_to(root)): file for file in found}
    script = own_file(BUILD_SCRIPT, root)
    if found and script.is_file():
        named[BUILD_SCRIPT] = script
    return named


def _imports(name: str, path: Path) -> list[str]:
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    names: list[str] = []
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(package, node.level, node.module or "")
            # `from package import name` may name a module or a value; the caller drops names without a file.
            names += [base] + [f"{base}.{alias.name}" for alias in node.names]
    return names


def _absolute(package: str, level: int, module: str) -> str:
    if level == 0:
        return module
    base = package.split(".")[: len(package.split(".")) - level + 1]
    return ".".join([*base, module] if module else base)


def _file_of(root: Path, name: str) -> Path | None:
    parts = name.split(".")
    if is_wheel(root) and parts[0] not in PACKAGES:
        # Packages of other projects are beside ours: constraints.txt has their versions.
        return None
    stem = root.joinpath(*parts)
    for path in (stem.with_suffix(".py"), stem / "__init__.py"):
        if path.is_file():
            return path
    return None


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigurationError(path.name, error.strerror) from None
