"""Selection of backends that are exact on this machine, and the vectors of the profile (design section 6)."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from bytewise.inference.exact.attention import AttentionRule, attend
from bytewise.inference.exact.cache import ExactCache
from bytewise.inference.exact.elementwise import rms_norm, silu
from bytewise.inference.exact.matmul import Backend
from bytewise.inference.exact.quantise import ACTIVATION_BITS, quantise
from bytewise.inference.known_answers import operations
from bytewise.inference.known_answers.operations import PROFILE_DIGEST
from bytewise.inference.sampling.sampler import draw, keep, weigh
from bytewise.protocol import digests
from bytewise.protocol.digests import Label
from bytewise.protocol.errors.actors import CannotExecute, NotExact
from bytewise.protocol.units import Decimal, Digest, fraction

WIDTH, HEADS, SHARED, TOKENS = 64, 4, 2, 9
"""Shape of the block that computes the vectors: width, query heads, key and value heads, tokens."""


def first_exact(backends: Sequence[Backend], verify: Callable[[Backend], object] | None = None) -> Backend:
    """Returns the first backend that passes `verify`. If `verify` is None, the backend must pass the known answers of all
    operations. Raises `CannotExecute` if none passes, with the reason of the last one."""
    reason = "no backend"
    for backend in backends:
        try:
            (verify or verify_operations)(backend)
            return backend
        except (NotExact, CannotExecute, RuntimeError) as error:
            reason = f"{backend.name}: {str(error)[:120]}"
    raise CannotExecute(f"no backend passes the known answers; {reason}")


def verify_profile(backend: Backend) -> Digest:
    """Checks all known answers and recomputes the profile's vectors on this backend, and returns their digest. Raises
    `NotExact` if anything differs."""
    verify_operations(backend)
    found = profile_digest(backend)
    if found != PROFILE_DIGEST:
        raise NotExact(f"profile vectors on {backend.name}: {found.hex()}")
    return found


def verify_operations(backend: Backend) -> str:
    """Checks that every operation of a path with this backend gives its known answers, and returns the backend's name. Raises
    `NotExact` if one does not."""
    operations.verify_elementwise()
    operations.verify_products(backend)
    return operations.verify_attention_products(backend)


def profile_digest(backend: Backend) -> Digest:
    """Returns a hash of the intermediate values of one block on fixed numbers: norm, product, attention, SiLU, product,
    sampler."""
    x = _numbers("input", (1, TOKENS, WIDTH), 2.0**-9)
    norm, epsilon = _numbers("norm", (WIDTH,), 2.0**-12), torch.full((1,), 2.0**-17)
    normed = rms_norm(x, norm, epsilon, torch.full((1,), float(WIDTH), dtype=torch.float64))
    projected = _linear(backend, "qkv", normed, WIDTH * (HEADS + 2 * SHARED) // HEADS)
    heads = projected.view(1, TOKENS, HEADS + 2 * SHARED, WIDTH // HEADS).transpose(1, 2)
    query, keys, values = heads[:, :HEADS], heads[:, HEADS:-SHARED], heads[:, -SHARED:]
    cache = ExactCache(1, 1, SHARED, WIDTH // HEADS, TOKENS)
    stored = cache.update(keys, values, 0)
    mixed = attend(AttentionRule(backend, torch.full((1,), 0.25)), query, *stored).transpose(1, 2)
    logits = _linear(backend, "head", silu(mixed.reshape(1, TOKENS, WIDTH)), 4 * WIDTH)
    draws = [_draws(logits[0, i], i) for i in range(TOKENS)]
    parts = [tensor.contiguous().cpu().numpy().tobytes() for tensor in (normed, projected, mixed, logits)]
    return digests.labelled(Label.VECTORS, *parts, *[token for row in draws for token in row])


def _draws(logits: Tensor, position: int) -> list[int]:
    tokens = []
    for temperature, top_k, top_p in (("0.7", 0, "1"), ("1.3", 17, "0.95"), ("0.01", 0, "0.5")):
        weights = weigh(logits, fraction(Decimal(temperature)))
        key = digests.labelled(Label.SAMPLER, position, temperature.encode())
        tokens.append(draw(keep(weights, top_k, fraction(Decimal(top_p))), key))
    return tokens


def _linear(backend: Backend, name: str, x: Tensor, outputs: int) -> Tensor:
    weight = _numbers(name, (outputs, x.shape[-1]), 1.0, 127).to(torch.int8)
    rows = quantise(x.reshape(-1, x.shape[-1]), ACTIVATION_BITS)
    sums = backend.product(rows.values, backend.pack(weight)).to(torch.float32)
    return (sums * rows.scale * _numbers(f"{name}-scale", (outputs,), 2.0**-22, 4095)).view(*x.shape[:-1], outputs)


def _numbers(name: str, shape: tuple[int, ...], unit: float, limit: int = 4095) -> Tensor:
    count = torch.Size(shape).numel()
    return torch.tensor(operations.integers(name, count, limit), dtype=torch.float32).view(shape) * unit
