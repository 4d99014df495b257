"""Writes an image archive for `docker load` and `podman load`, and computes the image id before any daemon loads the archive.

The id of an image is the SHA-256 of its configuration, which names the SHA-256 of each layer (OCI image specification,
config.md).
"""

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

_CHUNK = 1 << 20


class Image(NamedTuple):
    """Layers and configuration of an image. Each layer is the path of an uncompressed tar file."""

    layers: Sequence[Path]
    config: bytes

    @property
    def id(self) -> str:
        """Id of the image in hexadecimal, without `sha256:`."""
        return hashlib.sha256(self.config).hexdigest()


def image(layers: Sequence[Path], settings: Mapping[str, Any], created: str) -> Image:
    """Returns an image for Linux on amd64. `settings` are the `config` of the specification (user, environment, …)."""
    config = {
        "architecture": "amd64", "os": "linux", "created": created, "config": dict(settings),
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{_digest(path)}" for path in layers]},
    }  # fmt: skip
    return Image(layers, _json(config))


def write(made: Image, tag: str, out: BinaryIO) -> None:
    """Writes the archive to `out`: layers, configuration, and the manifest that `docker load` reads."""
    names = [f"{number}.tar" for number in range(len(made.layers))]
    manifest = [{"Config": f"{made.id}.json", "RepoTags": [tag], "Layers": names}]
    with tarfile.open(fileobj=out, mode="w|", format=tarfile.USTAR_FORMAT) as archive:
        for name, path in zip(names, made.layers, strict=True):
            with path.open("rb") as layer:
                archive.addfile(_entry(name, path.stat().st_size), layer)
        for name, data in ((f"{made.id}.json", made.config), ("manifest.json", _json(manifest))):
            archive.addfile(_entry(name, len(data)), io.BytesIO(data))


def _entry(name: str, size: int) -> tarfile.TarInfo:
    # A new entry has time 0, owner 0 and no names.
    entry = tarfile.TarInfo(name)
    entry.size = size
    return entry


def _json(document: Any) -> bytes:
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
