"""Finds the program's own files, in a checkout or in an installed wheel, and checks that its packages are its own.

Most names of our root packages are common words, which other projects may use too. `check_packages` refuses to continue if one of
our packages comes from another project.
"""

import importlib.util
import re
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import bytewise
from bytewise.protocol.errors.actors import ConfigurationError

PACKAGES = (
    "bytewise",
    "bytewise_client",
    "chain",
    "serving",
    "verifier",
    "committee",
    "kms",
    "enclave",
    "dashboard",
    "cli",
    "gossip",
    "adversaries",
)
"""Root packages of this project."""

SOURCE_ROOT = Path(str(bytewise.__file__)).resolve().parent.parent
"""The folder that this process imports our packages from: the checkout, or `site-packages`."""

_PACKAGED = Path("bytewise") / "packaged"
"""Folder of a wheel with copies of files that a checkout has outside its packages (setup.py)."""


def is_wheel(root: Path = SOURCE_ROOT) -> bool:
    """Whether a wheel was installed into this folder. Packages of other projects are then beside ours."""
    return (root / _PACKAGED).is_dir()


def own_file(name: str, root: Path = SOURCE_ROOT) -> Path:
    """Path of a file or folder of the repository, by its path there, for example `constraints.txt`. The file may be missing."""
    return root / _PACKAGED / name if is_wheel(root) else root / name


def package_version() -> str:
    """Version of this program; `unknown` where it was not installed."""
    try:
        return version("bytewise")
    except PackageNotFoundError:
        return "unknown"


def check_packages(root: Path = SOURCE_ROOT) -> None:
    """`ConfigurationError` if another project's package hides one of ours, or was installed over it."""
    for name in PACKAGES:
        spec = importlib.util.find_spec(name)
        found = Path(spec.origin).resolve().parent.parent if spec and spec.origin else None
        if found != root:
            raise ConfigurationError(f"package {name}", f"comes from {found}, Bytewise is in {root}: {_ADVICE}")
    ours = re.compile(rb"^(%b)/__init__\.py," % b"|".join(name.encode() for name in PACKAGES), re.MULTILINE)
    for record in sorted(root.glob("*.dist-info/RECORD")):
        owner = record.parent.name.removesuffix(".dist-info")
        claimed = ours.search(record.read_bytes()) if not owner.startswith("bytewise-") else None
        if claimed:
            raise ConfigurationError(f"package {claimed[1].decode()}", f"was installed by {owner} too: {_ADVICE}")


_ADVICE = "install Bytewise into an environment of its own"
