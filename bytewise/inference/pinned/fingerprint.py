"""The Environment that this machine is: what must be equal for float results to be (design section 6, the paper's rule)."""

import platform
from importlib.metadata import version

import torch

from bytewise.inference.determinism import LIBRARIES, MAX_REQUEST_BYTES
from bytewise.inference.manifest import Architecture
from bytewise.inference.pinned import machine
from bytewise.inference.pinned.switches import flags
from bytewise.protocol import digests
from bytewise.protocol.errors import CannotExecute
from bytewise.protocol.records.environment import PROFILE_PINNED_1, Environment, Limits, Version
from bytewise.protocol.records.statements import CannotReason
from bytewise.protocol.units import ZERO_DIGEST, Digest

JUDGED = ("profile", "gpu_arch", "driver", "libraries", "engine_flags")
"""Fields that a machine can find out about itself. The container is what attestation measures; limits are the operator's."""


def fingerprint(
    shape: Architecture, *, device: str = "cpu", threads: int = 1, container: Digest = ZERO_DIGEST, max_new_tokens: int = 1024
) -> Environment:
    """The environment of this machine and process, to be registered; `CannotExecute` (ENVIRONMENT) if it cannot be told."""
    found = _machine(device)
    limits = Limits(shape.max_context, min(max_new_tokens, shape.max_context), MAX_REQUEST_BYTES, shape.vocabulary)
    told = tuple(sorted([*found.facts, *flags(threads), f"torch-build={_build()}"]))
    return Environment(container, PROFILE_PINNED_1, found.arch, found.driver, _libraries(device), told, limits)


def verify_here(environment: Environment, shape: Architecture, device: str, threads: int) -> Environment:
    """The environment, if this machine and process are it; `CannotExecute` (ENVIRONMENT) names the first thing that differs."""
    here = fingerprint(shape, device=device, threads=threads)
    for name in JUDGED:
        ours, theirs = getattr(here, name), getattr(environment, name)
        if ours != theirs:
            raise CannotExecute(f"another environment: {name} {_parting(theirs, ours)}", CannotReason.ENVIRONMENT)
    return environment


def _parting(theirs: object, ours: object) -> str:
    if not isinstance(theirs, tuple) or not isinstance(ours, tuple):
        return f"is {theirs}, here {ours}"
    only_theirs, only_ours = ([str(_words(each)) for each in a if each not in b] for a, b in ((theirs, ours), (ours, theirs)))
    return f"has {', '.join(only_theirs) or 'less'}, here {', '.join(only_ours) or 'less'}"[:300]


def _words(part: object) -> object:
    return f"{part.name} {part.version}" if isinstance(part, Version) else part


def _machine(device: str) -> machine.Machine:
    if device == "cpu":
        return machine.read_cpu()
    if device != "cuda" or not torch.cuda.is_available():
        raise CannotExecute(f"device {device[:40]} is not here", CannotReason.ENVIRONMENT)
    return machine.read_gpu(torch.cuda.current_device())


def _libraries(device: str) -> tuple[Version, ...]:
    found = {name: version(name) for name in LIBRARIES} | {"python": platform.python_version()}
    found["libc"] = " ".join(platform.libc_ver()) or "unknown"
    if device == "cuda":
        cudnn = torch.backends.cudnn.version()  # type: ignore[no-untyped-call]
        found |= {"cuda": str(torch.version.cuda), "cudnn": str(cudnn)}
    return tuple(Version(name, found[name]) for name in sorted(found))


def _build() -> str:
    # Two builds of one version differ in compiler, BLAS and the kernels that they hold.
    return digests.sha256(torch.__config__.show().encode()).hex()[:16]
