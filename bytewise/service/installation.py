"""Finds the program's own files, in a checkout or in an installed wheel, and checks that its packages are really its own.

Most names of our root packages are common words, which other projects may use too. `check_packages` refuses to continue if one
of our packages comes from another project.
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
"""The root packages of this project."""

SOURCE_ROOT = Path(str(bytewise.__file__)).resolve().parent.parent
"""The folder from which this process imports our packages: the checkout, or `site-packages`."""

_PACKAGED = Path("bytewise") / "packaged"
"""Folder in a wheel with copies of files that a checkout has outside its packages (`setup.py`)."""


def is_wheel(root: Path = SOURCE_ROOT) -> bool:
    """Returns whether this folder contains an installed wheel. If so, packages of other projects are in the same folder as
    ours."""
    return (root / _PACKAGED).is_dir()


def own_file(name: str, root: Path = SOURCE_ROOT) -> Path:
    """Returns the path of a file or folder of the repository, for example `constraints.txt`. The file may be missing."""
    return root / _PACKAGED / name if is_wheel(root) else root / name


def package_version() -> str:
    """Returns the version of this program, or `unknown` if the program is not installed."""
    try:
        return version("bytewise")
    except PackageNotFoundError:
        return "unknown"


def check_packages(root: Path = SOURCE_ROOT) -> None:
    """Raises `ConfigurationError` if one of our packages is missing, or if a package of another project hides it or was installed
    over it."""
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
