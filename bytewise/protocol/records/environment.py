"""Environments: descriptions of where answers are computed. They are registered on the chain by digest (design section 4)."""

from dataclasses import dataclass

from bytewise.protocol import digests
from bytewise.protocol.digests import Label
from bytewise.protocol.encoding import encode
from bytewise.protocol.units import Digest, short_text

PROFILE_EXACT_1 = "exact-1"
"""Arithmetic profile of exact integer sums. Disputes under it depend only on profile and model (design section 6)."""


PROFILE_PINNED_1 = "pinned-1"
"""Arithmetic profile of the paper, with floats. An answer is judged only where the whole environment is equal
(docs/reference/pinned-1.md)."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes that the environment accepts. A request outside them is a defect of the record."""

    max_context: int
    """Most tokens of prompt and answer together."""
    max_new_tokens: int
    """Most generated tokens."""
    max_request_bytes: int
    """Most bytes of a canonical request."""
    vocabulary: int
    """Number of token ids of the model. Every id is below this number."""


@dataclass(frozen=True, slots=True)
class Version:
    """One component with its pinned version."""

    name: str
    """Name of the component, e.g. torch."""
    version: str
    """Version of the component."""


@dataclass(frozen=True, slots=True)
class Environment:
    """A registered environment.

    Under `exact-1` only profile and limits matter; the other fields are kept to investigate faults.
    """

    container: Digest
    """Digest of the container image, or the measurement of the source tree where there is no container."""
    profile: str
    """Name of the arithmetic profile."""
    gpu_arch: str
    """Name of the GPU architecture, at most 32 ASCII characters; `cpu` for exact-1 on any processor."""
    driver: str
    """Driver version, or `none`."""
    libraries: tuple[Version, ...]
    """Libraries that affect the computed numbers, ascending by name."""
    engine_flags: tuple[str, ...]
    """Flags of the engine, ascending."""
    limits: Limits
    """Sizes that the environment accepts."""

    @property
    def digest(self) -> Digest:
        """The digest under which the environment is registered."""
        return digests.labelled(Label.ENVIRONMENT, encode(self))

    @property
    def gpu_arch_id(self) -> Digest:
        """The architecture's name as bytes32, as in the `gpuArch` field of a receipt."""
        return short_text(self.gpu_arch)
