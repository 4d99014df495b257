"""Forward loop of the torch path on a CUDA device. The matrix units of the device compute integer products, and decoding uses
fixed shapes."""

import contextlib
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import _get_current_dispatch_mode

from bytewise.inference.artifact.artifact import Artifact
from bytewise.inference.engine_paths import HeadRow
from bytewise.inference.exact.cache import CachedTensor, ExactCache, TokenCache
from bytewise.inference.exact.matmul import Backend, Float32Backend, Float64Backend, backend_named
from bytewise.inference.exact.quantise import ACTIVATION_BITS, Rows, quantise
from bytewise.inference.known_answers import known_models, operations
from bytewise.inference.manifest import Architecture
from bytewise.inference.torch_path import CHUNK, Runner, head_rows
from bytewise.protocol.errors.actors import CannotExecute
from bytewise.protocol.records.statements import CannotReason
from bytewise.protocol.units import Digest
from bytewise.service.settings import library_variables

# Exact integer products on a CUDA device, with its units for 8-bit integers, bfloat16, TF32 and float64.

LEAST_ROWS = 32
"""Number of rows of the smallest int8 product. The library requires more than 16 rows on CUDA. The next tile height is 32."""

UNIT = 8
"""The sizes of an int8 product are padded to multiples of this number."""


class CudaInt8Backend(Float64Backend):
    """Backend that splits each value into two int8 limbs and multiplies them on the int8 tensor cores. It computes attention in
    float64."""

    name = "cuda-int8"

    def pack(self, weight: Tensor) -> Tensor:
        """Returns the weight as [K, N], a view of memory that is padded to [N', K']. Tensor cores need the operands in this
        order."""
        padded = torch.zeros((_up(weight.shape[0]), _up(weight.shape[1])), dtype=torch.int8, device=weight.device)
        padded[: weight.shape[0], : weight.shape[1]] = weight
        return padded[: weight.shape[0], : weight.shape[1]].t()

    def product(self, values: Tensor, packed: Tensor) -> Tensor:
        """Returns the exact products of the values q.

        Each value has the limbs hi = floor(q / 128) and lo = q - 128 hi. They are stacked and padded with zeros, so that one
        int8 product is enough.
        """
        (rows, depth), columns, deep = values.shape, packed.shape[1], packed.stride(1)
        whole = packed.as_strided((deep, _up(columns)), (1, deep))
        integers = values.to(torch.int16)
        limbs = torch.zeros((max(LEAST_ROWS, _up(2 * rows)), deep), dtype=torch.int8, device=values.device)
        limbs[:rows, :depth] = (integers >> 7).to(torch.int8)
        limbs[rows : 2 * rows, :depth] = (integers & 127).to(torch.int8)
        sums = torch._int_mm(limbs, whole)[: 2 * rows, :columns]
        return sums[:rows].to(torch.float64).mul_(128.0).add_(sums[rows:])


class CudaFloat64Backend(Float64Backend):
    """Backend that multiplies in float64, on the tensor cores if they support it."""

    name = "cuda-float64"


class CudaBfloat16Backend(Float32Backend):
    """Backend that splits integers into parts up to 256, because bfloat16 represents these exactly. It sums their products in
    float32, in chunks whose sums do not exceed 2^24."""

    name = "cuda-bfloat16"
    kind = torch.bfloat16

    def multiply(self, left: Tensor, right: Tensor) -> Tensor:
        """Returns the product with float32 sums. On a processor, which has no such product, this method first widens the
        operands."""
        if not left.is_cuda:
            return super().multiply(left.to(torch.float32), right.to(torch.float32))
        function = torch.mm if left.dim() == 2 else torch.bmm
        return function(left, right, out_dtype=torch.float32)


class CudaTf32Backend(Float32Backend):
    """Backend that multiplies float32 operands of 8 bits on the TF32 tensor cores, which keep 11 bits."""

    name = "cuda-tf32"

    def multiply(self, left: Tensor, right: Tensor) -> Tensor:
        """Returns the product. TF32 is allowed only during this product."""
        with _tf32():
            return super().multiply(left, right)


@contextlib.contextmanager
def _tf32() -> Iterator[None]:
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


def _up(size: int) -> int:
    return -(-size // UNIT) * UNIT


CUDA_BACKENDS: tuple[Backend, ...] = (CudaInt8Backend(), CudaBfloat16Backend(), CudaTf32Backend(), CudaFloat64Backend())
"""All CUDA backends, in the order of their nominal speed, fastest first."""


# Decoding in fixed shapes: every step is the same sequence of kernels over the same memory, so that CUDA can replay it.

BUCKET = 256
"""Number of cache slots by which the attended part of a cache grows. There is one CUDA graph for each size that is in use."""

WARM_UP_RUNS = 3
"""Number of runs on a separate stream before a graph is captured. The library requires them."""


def can_be_static(shape: Architecture) -> bool:
    """Returns whether every decoding step of the model has the same shape. Two features prevent this. Sliding windows cut the
    keys by position, and the router chooses experts by value."""
    return not shape.windows and not shape.experts


class StaticCache(ExactCache):
    """Keys and values of one sequence at fixed addresses. The tensor `at` has the position of the newest token. The slots after
    it are not filled."""

    def __init__(self, shape: Architecture, slots: int) -> None:
        super().__init__(shape.layers, 1, shape.key_value_heads, shape.head_width, slots)
        self.at = torch.zeros(1, dtype=torch.int64)
        self._order = torch.arange(slots)

    def load(self, source: ExactCache) -> None:
        """Copies all tokens of another cache of one sequence into this cache."""
        count = source.length
        self._values.zero_()
        self._scale.zero_()
        self._values[..., :count, :] = source._values[..., :count, :]
        self._scale[..., :count] = source._scale[..., :count]

    def store_newest(self, target: ExactCache) -> None:
        """Appends the token of the last step to the cache `target`."""
        slot = target.length
        target._values[..., slot, :] = self._values[..., slot, :]
        target._scale[..., slot] = self._scale[..., slot]
        target.advance(1)

    def advance(self, count: int) -> None:
        """Does nothing, because the caller sets `at` before each step."""

    def _store(self, kind: int, layer: int, rows: Rows) -> CachedTensor:
        values, scale = self._values[kind, layer], self._scale[kind, layer]
        values.index_copy_(2, self.at, rows.values.to(values.dtype))
        scale.index_copy_(3, self.at, rows.scale.transpose(2, 3))
        return CachedTensor(values, scale, self._order <= self.at)


@dataclass(frozen=True, slots=True)
class StaticNetwork:
    """The model's shape, and two functions that together compute one decoding step. A CUDA graph can record the functions."""

    shape: Architecture
    """Shape of the model."""
    hidden: Callable[[ExactCache, Tensor, Tensor], Tensor]
    """Function that returns the output [1, 1, D] of the final norm for tokens and positions [1, 1]. It also fills the cache."""
    logits: Callable[[Rows], Tensor]
    """Function that returns the logits [1, V] for a quantised row."""


class CapturedStep:
    """One decoding step in a fixed shape. Its input and output tensors stay at their addresses."""

    def __init__(self, network: StaticNetwork, slots: int, captured: bool) -> None:
        self.cache = StaticCache(network.shape, slots)
        self.slots = slots
        self._network, self._captured, self._token = network, captured, torch.zeros((1, 1), dtype=torch.int64)
        self._graph: Any = None
        self._compute()

    def run(self, token: int, position: int) -> tuple[Rows, Tensor]:
        """Computes one step for a token at a position, and returns the quantised row and the logits. The next step overwrites
        both."""
        self._token.fill_(token)
        self.cache.at.fill_(position)
        if self._captured and self._graph is None and _get_current_dispatch_mode() is None:
            # The capture runs without the guard, which reads values: a capture cannot wait for values.
            self._graph = self._capture()
        if self._graph is None:
            self._compute()
        else:
            self._graph.replay()
        return self._rows, self._logits

    def _compute(self) -> None:
        hidden = self._network.hidden(self.cache, self._token, self.cache.at[None])
        self._rows = quantise(hidden[0], ACTIVATION_BITS)
        self._logits = self._network.logits(self._rows)

    def _capture(self) -> Any:
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(WARM_UP_RUNS):
                self._compute()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._compute()
        return graph


class StaticDecoder:
    """Decoder that feeds tokens in fixed shapes. It serves one sequence after another."""

    def __init__(self, network: StaticNetwork, captured: bool, bucket: int = BUCKET) -> None:
        """Makes a decoder. With `captured`, it makes a CUDA graph of each step. `bucket` is the number of slots by which the
        shapes grow."""
        self._network, self._captured, self._bucket = network, captured, bucket
        self._steps: dict[int, CapturedStep] = {}
        self._held: tuple[weakref.ref[ExactCache], int, int] | None = None
        """Three facts about the present step: the cache whose tokens are also in the step's memory, the number of these tokens,
        and the number of slots of the step."""

    def feed(self, cache: ExactCache, token: int) -> HeadRow:
        """Feeds one more token at the end of a cache of one sequence, and returns the head row."""
        position = cache.length
        step = self._step(-(-(position + 1) // self._bucket) * self._bucket)
        if not self._holds(cache, step):
            step.cache.load(cache)
        rows, logits = step.run(token, position)
        step.cache.store_newest(cache)
        self._held = (weakref.ref(cache), cache.length, step.slots)
        return head_rows(rows, logits)[0]

    def forget(self) -> None:
        """Forgets which cache was copied into the fixed shapes. Call it after other code has changed a cache. The next token
        then copies its whole cache again."""
        self._held = None

    def _step(self, slots: int) -> CapturedStep:
        if slots not in self._steps:
            self._steps[slots] = CapturedStep(self._network, slots, self._captured)
        return self._steps[slots]

    def _holds(self, cache: ExactCache, step: CapturedStep) -> bool:
        return self._held is not None and (self._held[0](), *self._held[1:]) == (cache, cache.length, step.slots)


WORKSPACE, WORKSPACES = "CUBLAS_WORKSPACE_CONFIG", (":4096:8", ":16:8")
"""Environment variable that the library requires before it runs deterministic algorithms on CUDA, and the two values that it
accepts."""


class DeviceRunner(Runner):
    """Torch path of one artifact on one backend and device. A tensor is created on that device, unless the code names another."""

    def __init__(self, artifact: Artifact, backend: Backend, device: str, bucket: int = BUCKET) -> None:
        """Builds the model on the device.

        If the model allows it, decoding has fixed shapes of multiples of `bucket` slots. On CUDA these shapes are graphs. With
        `bucket` 0, decoding has no fixed shapes.
        """
        self._device, self._bucket = torch.device(device), bucket
        with self._device:
            super().__init__(artifact, backend, device)
        network = StaticNetwork(self.shape, self._forward, self._head.of_rows)
        captured, fixed = self._device.type == "cuda", bucket > 0 and can_be_static(self.shape)
        self._decoder = StaticDecoder(network, captured, bucket) if fixed else None

    def cache(self, batch: int, capacity: int) -> ExactCache:
        """Returns an empty cache on the device, with room for `capacity` tokens of each of `batch` sequences."""
        shape = self.shape
        with self._device:
            return ExactCache(shape.layers, batch, shape.key_value_heads, shape.head_width, capacity)

    def memory(self) -> int:
        """Returns the size in bytes of the card's memory, or of the machine's memory if the device is not a card."""
        return torch.cuda.mem_get_info(self._device)[1] if self._device.type == "cuda" else super().memory()

    def feed(self, cache: TokenCache, token: int, position: int, logits: bool = True) -> HeadRow:
        """Decodes one step: feeds one more token of one sequence at the end of its cache, and returns the head row. The row
        always keeps its logits."""
        with self._device:
            if self._decoder is None or not isinstance(cache, ExactCache):
                return super().feed(cache, token, position)
            return self._decoder.feed(cache, token)

    def teacher_force(
        self, cache: TokenCache, sequences: Sequence[Sequence[int]], keep: Sequence[int], chunk: int = CHUNK, logits: bool = True
    ) -> list[list[HeadRow]]:
        """Runs the model on the tokens of all sequences and appends them to the cache on the device (prefill). Returns the head
        rows of each sequence `i` from its index `keep[i]` on. Rows always keep their logits."""
        if self._decoder is not None:
            self._decoder.forget()
        with self._device:
            return super().teacher_force(cache, sequences, keep, chunk)

    def vectors(self) -> Digest:
        """Runs known-answer tests, golden vectors and known models on this backend and device, and returns the digest of the
        vectors. Raises `NotExact`, which names the difference."""
        with self._device:
            digest = operations.verify_profile(self.backend)
        # Whole models, whose golden rows were computed without any device, show that a card is exact.
        known_models.verify(lambda known: DeviceRunner(known, self.backend, self._device.type, self._bucket), lambda _: True)
        return digest


def open_cuda(artifact: Artifact, name: str | None = None) -> DeviceRunner:
    """Returns the path on the current CUDA device with the named backend. Without a name, it takes the first backend that
    passes its known-answer tests.

    Raises `CannotExecute` if there is no such device or backend, if no backend passes, or if the process was started without one
    of `WORKSPACES` in the variable `WORKSPACE`.
    """
    if not torch.cuda.is_available():
        raise CannotExecute("no CUDA device is here", CannotReason.BACKEND)
    if library_variables((WORKSPACE,)).get(WORKSPACE) not in WORKSPACES:
        # The library reads the variable once, and refuses its products without it.
        raise CannotExecute(f"start the process with {WORKSPACE}={WORKSPACES[0]}", CannotReason.BACKEND)
    wanted = CUDA_BACKENDS if name is None else (backend_named(name, CUDA_BACKENDS),)
    with torch.device("cuda"):
        backend = operations.first_exact(wanted)
    return DeviceRunner(artifact, backend, "cuda")
