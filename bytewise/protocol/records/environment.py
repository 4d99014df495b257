"""Environments, in which answers are computed. They are registered on the chain by digest (design section 4)."""

from dataclasses import dataclass

from bytewise.protocol import digests
from bytewise.protocol.digests import Label
from bytewise.protocol.encoding import encode
from bytewise.protocol.units import Digest, short_text

PROFILE_EXACT_1 = "exact-1"
"""Arithmetic profile in which disputes depend only on profile and model (design section 6)."""


PROFILE_PINNED_1 = "pinned-1"
"""Profile of the paper: floats, judged only where the whole environment is equal (docs/reference/pinned-1.md)."""


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
    """Number of token ids. Each id is below it."""


@dataclass(frozen=True, slots=True)
class Version:
    """One pinned component."""

    name: str
    """Component, e.g. torch."""
    version: str
    """Its version."""


@dataclass(frozen=True, slots=True)
class Environment:
    """A registered environment. Under `exact-1` only profile and limits count; the other fields are kept for forensics."""

    container: Digest
    """Digest of the container image, or the measurement of the source tree where there is no container."""
    profile: str
    """Arithmetic profile."""
    gpu_arch: str
    """Name of the architecture, at most 32 ASCII characters; `cpu` for exact-1 on any processor."""
    driver: str
    """Driver version, or `none`."""
    libraries: tuple[Version, ...]
    """Libraries that touch the numbers, ascending by name."""
    engine_flags: tuple[str, ...]
    """Flags of the engine, ascending."""
    limits: Limits
    """Accepted sizes."""

    @property
    def digest(self) -> Digest:
        """The identifier under which it is registered."""
        return digests.labelled(Label.ENVIRONMENT, encode(self))

    @property
    def gpu_arch_id(self) -> Digest:
        """`gpuArch` of a receipt."""
        return short_text(self.gpu_arch)
