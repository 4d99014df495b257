"""Common part of loaded artifacts of every profile: a manifest, and the bytes that were checked against it."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

from bytewise.inference.manifest import MANIFEST_FILE, TEMPLATE_FILE, TOKENIZER_FILE, ModelDescription
from bytewise.protocol import digests
from bytewise.protocol.digests import Label
from bytewise.protocol.encoding import decode
from bytewise.protocol.errors.actors import ArtifactMismatch, CannotExecute
from bytewise.protocol.errors.branches import Fault
from bytewise.protocol.records.statements import CannotReason
from bytewise.protocol.units import Digest

AnyManifest = TypeVar("AnyManifest", bound=ModelDescription)


@dataclass(frozen=True, slots=True)
class VerifiedArtifact(Generic[AnyManifest]):
    """Verified artifact. It keeps the hashed bytes in memory, so replacing a file after the check has no effect."""

    path: Path
    """Folder from which the artifact was read."""
    manifest: AnyManifest
    """Manifest of the artifact."""
    model_id: Digest
    """Digest of the manifest."""
    content: dict[str, bytes] = field(repr=False)
    """Bytes of the manifest's files by name. An `exact-1` artifact leaves out the weights file, whose bytes are in its
    tensors."""

    @property
    def name(self) -> str:
        """Name for people: the folder's name. It is not part of the model id."""
        return self.path.name

    @property
    def tokenizer_digest(self) -> Digest:
        """Digest of the tokenizer file."""
        return self.manifest.tokenizer_digest

    @property
    def template_digest(self) -> Digest:
        """Digest of the chat template."""
        return self.manifest.template_digest


def manifest_of(path: Path, kind: type[AnyManifest]) -> AnyManifest:
    """Returns the manifest of an artifact folder. Raises `CannotExecute` if there is no manifest, and `ArtifactMismatch` if it
    is malformed."""
    try:
        return decode(kind, (path / MANIFEST_FILE).read_bytes())
    except OSError as error:
        raise CannotExecute(f"no artifact at {path.name or path}: {error.strerror}", CannotReason.MODEL_MISSING) from None
    except Fault as error:
        raise ArtifactMismatch(path.name, f"{MANIFEST_FILE}: {error}") from None


def verify_named(path: Path, manifest: ModelDescription, *needed: str) -> None:
    """Raises `ArtifactMismatch` if the manifest lacks one of the files that its profile needs."""
    missing = sorted(set(needed) - {file.name for file in manifest.files})
    if missing:
        raise ArtifactMismatch(path.name, f"manifest lacks {', '.join(missing)}")


def verify_texts(path: Path, manifest: ModelDescription, content: dict[str, bytes]) -> None:
    """Raises `ArtifactMismatch` if the tokenizer or the chat template does not have the digest in the manifest. Every request
    contains these digests."""
    if digests.labelled(Label.TOKENIZER, content[TOKENIZER_FILE]) != manifest.tokenizer_digest:
        raise ArtifactMismatch(path.name, "tokenizer digest")
    if digests.labelled(Label.TEMPLATE, content[TEMPLATE_FILE]) != manifest.template_digest:
        raise ArtifactMismatch(path.name, "template digest")
