"""Loading an artifact: nothing is used before its bytes are known to be those that the model id names (design section 6)."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from safetensors.torch import load as load_tensors
from torch import Tensor

from bytewise.inference.manifest import MANIFEST_FILE, TEMPLATE_FILE, TOKENIZER_FILE, WEIGHTS_FILE, ArtifactFile, Manifest
from bytewise.protocol import digests
from bytewise.protocol.digests import Label
from bytewise.protocol.encoding import decode
from bytewise.protocol.environment import PROFILE_EXACT_1
from bytewise.protocol.errors import ArtifactMismatch, CannotExecute, Fault
from bytewise.protocol.units import Digest

Progress = Callable[[str, int, int], None]
"""Called with a file name, bytes done and bytes in all."""

READ_BYTES = 8 * 2**20
"""Read in pieces of this size, so that progress is seen."""


@dataclass(frozen=True, slots=True)
class Artifact:
    """A verified artifact. The bytes that were hashed are kept, so that a file cannot change between check and use."""

    path: Path
    """Folder that it was read from."""
    manifest: Manifest
    """What it says of itself."""
    model_id: Digest
    """Digest of the manifest."""
    content: dict[str, bytes] = field(repr=False)
    """Bytes of every file of the manifest."""

    @property
    def tensors(self) -> dict[str, Tensor]:
        """Tensors of the weights file by name."""
        tensors: dict[str, Tensor] = load_tensors(self.content[WEIGHTS_FILE])
        return tensors

    @property
    def name(self) -> str:
        """Name for people: the folder's. It is no part of the model id."""
        return self.path.name

    @property
    def tokenizer_digest(self) -> Digest:
        """Digest of the tokenizer file."""
        return self.manifest.tokenizer_digest

    @property
    def template_digest(self) -> Digest:
        """Digest of the chat template."""
        return self.manifest.template_digest


def model_id_of(path: Path) -> Digest:
    """Model id that the artifact claims, from its manifest alone; the other files are not read."""
    return read_manifest(path).model_id


def read_manifest(path: Path) -> Manifest:
    """The manifest of an artifact folder; `CannotExecute` without one, `ArtifactMismatch` for a malformed one."""
    try:
        raw = (path / MANIFEST_FILE).read_bytes()
    except OSError as error:
        raise CannotExecute(f"no artifact at {path.name}: {error.strerror}") from None
    try:
        manifest = decode(Manifest, raw)
    except Fault as error:
        raise ArtifactMismatch(path.name, f"{MANIFEST_FILE}: {error}") from None
    if manifest.profile != PROFILE_EXACT_1:
        raise ArtifactMismatch(path.name, f"profile {manifest.profile[:40]}")
    return manifest


def load(path: Path, progress: Progress | None = None) -> Artifact:
    """The artifact of a folder, every file checked against the manifest; `ArtifactMismatch` names the file that differs."""
    manifest = read_manifest(path)
    content = {file.name: _read(path, file, progress) for file in manifest.files}
    missing = {WEIGHTS_FILE, TOKENIZER_FILE, TEMPLATE_FILE} - content.keys()
    if missing:
        raise ArtifactMismatch(path.name, f"manifest lacks {', '.join(sorted(missing))}")
    if digests.labelled(Label.TOKENIZER, content[TOKENIZER_FILE]) != manifest.tokenizer_digest:
        raise ArtifactMismatch(path.name, "tokenizer digest")
    if digests.labelled(Label.TEMPLATE, content[TEMPLATE_FILE]) != manifest.template_digest:
        raise ArtifactMismatch(path.name, "template digest")
    return Artifact(path, manifest, manifest.model_id, content)


def _read(path: Path, file: ArtifactFile, progress: Progress | None) -> bytes:
    data = bytearray()
    try:
        with (path / file.name).open("rb") as source:
            # One byte more than the manifest says is enough to see that a file is too long.
            while piece := source.read(min(READ_BYTES, file.size + 1 - len(data))):
                data += piece
                if progress is not None:
                    progress(file.name, len(data), file.size)
    except OSError as error:
        raise ArtifactMismatch(path.name, f"{file.name}: {error.strerror}") from None
    if len(data) != file.size:
        raise ArtifactMismatch(path.name, f"{file.name}: not {file.size} bytes")
    raw = bytes(data)
    if digests.sha256(raw) != file.sha256:
        raise ArtifactMismatch(path.name, f"{file.name}: bytes differ from the manifest")
    return raw
