"""The native path: the C engine runs a model from the artifact's own tensors. It reads tokens and gives head rows."""

import ctypes
import functools
import math
import weakref
from collections.abc import Sequence
from typing import Self

import torch
from torch import Tensor

from bytewise.inference import memory
from bytewise.inference.artifact.artifact import Artifact
from bytewise.inference.engine_paths import HeadRow
from bytewise.inference.known_answers import known_models, operations
from bytewise.inference.known_answers.operations import PROFILE_DIGEST
from bytewise.inference.manifest import WEIGHTS_FILE, Architecture
from bytewise.inference.native.backend import MOST_HEAD_WIDTH, NativeBackend
from bytewise.inference.native.library import ThreadPool, checked
from bytewise.protocol.errors.actors import ArtifactMismatch, CannotExecute
from bytewise.protocol.errors.records import OutsideLimits
from bytewise.protocol.records.statements import CannotReason
from bytewise.protocol.units import Digest

# Slot of each tensor of an artifact in the C engine: the numbers of model.h.

_LINEARS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
_PARTS = {"": torch.int8, ".low": torch.int8, ".scale": torch.float32, ".bias": torch.float32}
_NORMS = ("input_layernorm", "post_attention_layernorm", "q_norm", "k_norm")
_TABLES = ("rope.low.cos", "rope.low.sin", "rope.high.cos", "rope.high.sin")

EMBEDDING_TYPES = {torch.float32: 0, torch.bfloat16: 1, torch.float16: 2}
"""Types of the embedding with their numbers in C."""

LAYER_SLOTS: dict[str, tuple[int, torch.dtype]] = {
    **{
        f"{linear}{part}": (index * len(_PARTS) + place, dtype)
        for index, linear in enumerate(_LINEARS)
        for place, (part, dtype) in enumerate(_PARTS.items())
    },
    **{norm: (len(_LINEARS) * len(_PARTS) + index, torch.float32) for index, norm in enumerate(_NORMS)},
}
"""Place and type of each tensor of a layer in the C engine's tables. The key is the tensor's name after `layers.{i}.`."""

GLOBAL_SLOTS: dict[str, tuple[int, torch.dtype | None]] = {
    **{f"head{part}": (place, dtype) for place, (part, dtype) in enumerate(_PARTS.items())},
    "norm": (len(_PARTS), torch.float32),
    # The embedding keeps the type of the checkpoint.
    "embedding": (len(_PARTS) + 1, None),
    **{table: (len(_PARTS) + 2 + index, torch.float64) for index, table in enumerate(_TABLES)},
}
"""Place and type of each tensor outside the layers, by name. With None, any type of `EMBEDDING_TYPES` is allowed."""


CHUNK = 512
"""Most tokens of one forward call for one sequence. This limit bounds the memory. No byte depends on it."""

FAMILIES = ("llama", "mistral", "qwen2", "qwen3")
"""Families whose computation the C engine implements."""

_SHORT, _INT = ctypes.c_int16, ctypes.c_int32


def missing_feature(shape: Architecture) -> str | None:
    """Returns a feature of this architecture that the C engine lacks, or None if it can run the model."""
    lacks = {
        f"family {shape.family}": shape.family not in FAMILIES,
        f"activation {shape.activation}": shape.activation != "silu",
        "norms after attention and gated unit": shape.extra_norms,
        "soft-capped scores": shape.attention_softcap != "0",
        "soft-capped logits": shape.final_softcap != "0",
        "experts": shape.experts > 0,
        f"heads of width {shape.head_width}": shape.head_width > MOST_HEAD_WIDTH or shape.head_width % 2 != 0,
    }
    return next((feature for feature, absent in lacks.items() if absent), None)


class NativeCache:
    """Cache of the keys and values of a batch, in the C engine's layout. `select` returns a view of one sequence."""

    def __init__(self, path: "NativePath", batch: int, capacity: int) -> None:
        library = path.pool.library
        self.capacity = capacity
        self.handle = library.native_cache_open(path.handle, batch, capacity)
        if self.handle is None:
            raise CannotExecute("out of memory", CannotReason.RESOURCES)
        self._free = weakref.finalize(self, library.native_cache_close, self.handle)
        self._whole: NativeCache | None = None
        self.sequences = list(range(batch))
        self.lengths = [0] * batch

    def crop(self, length: int) -> None:
        """Drops the tokens from index `length` on, in each sequence of this cache."""
        for sequence in self.sequences:
            self.lengths[sequence] = min(length, self.lengths[sequence])

    def select(self, sequence: int) -> Self:
        """Returns the cache of one sequence of the batch. It shares memory with the batch."""
        one = object.__new__(type(self))
        # The view keeps the whole cache alive until the last view is gone.
        one._whole, one.handle, one.capacity, one.lengths = self, self.handle, self.capacity, self.lengths
        one.sequences = [self.sequences[sequence]]
        return one


class NativePath:
    """Native path: the model of one artifact on one kernel. Use it from one thread, for one call at a time. Do not use it in a
    child process after a fork."""

    chunk, own_threads = CHUNK, True

    def __init__(self, artifact: Artifact, *, kernel: str | None = None, threads: int = 1) -> None:
        """Passes the addresses of the model's tensors to the C engine. With `kernel` None, the path takes the fastest kernel.

        Raises `CannotExecute` if the kernel is not available, or if the engine lacks a feature of the model. Raises
        `ArtifactMismatch` if a tensor does not fit.
        """
        shape = artifact.manifest.architecture
        lacking = missing_feature(shape)
        if lacking is not None:
            raise CannotExecute(f"the native engine lacks {lacking}", CannotReason.BACKEND)
        self.shape = shape
        self.pool = ThreadPool(kernel, threads)
        self.name = f"native-{self.pool.kernel}"
        self.handle: int | None = None
        self._bound: list[Tensor] = []
        try:
            self._bind(artifact)
        except BaseException:
            self.close()
            raise

    def cache(self, batch: int, capacity: int) -> NativeCache:
        """Returns an empty cache with room for `capacity` tokens of each of `batch` sequences."""
        return NativeCache(self, batch, capacity)

    def cache_bytes(self, batch: int, capacity: int) -> int:
        """Returns the size in bytes of the cache that `cache` would make."""
        return int(self.pool.library.native_cache_bytes(self._open_handle(), batch, capacity))

    def memory(self) -> int:
        """Returns the size in bytes of the memory in which caches are allocated."""
        return memory.of_machine()

    def feed(self, cache: NativeCache, token: int, position: int, logits: bool = True) -> HeadRow:
        """Decodes one step: feeds one more token of one sequence at the end of its cache, and returns the head row. `logits` is
        as for `teacher_force`."""
        (sequence,) = cache.sequences
        if position != cache.lengths[sequence]:
            raise OutsideLimits("position", position, cache.lengths[sequence])
        return self._run(cache, [(token, sequence, position)], [0], logits)[0]

    def teacher_force(
        self, cache: NativeCache, sequences: Sequence[Sequence[int]], keep: Sequence[int], chunk: int = CHUNK, logits: bool = True
    ) -> list[list[HeadRow]]:
        """Feeds all tokens of each sequence to the model and appends them to the sequence's cache. For sequence `i`, returns
        one `HeadRow` for each of these tokens from index `keep[i]` to the last.

        The path computes the tokens of all sequences together, without padding. One call to C computes at most `chunk` tokens
        times the number of sequences. If `logits` is false, a row has only the token of its largest logit, and computes its
        logits when they are read.
        """
        rows: list[list[HeadRow]] = [[] for _ in sequences]
        tokens: list[tuple[int, int, int]] = []
        owners: list[int | None] = []
        for index, (slot, sequence) in enumerate(zip(cache.sequences, sequences, strict=True)):
            first = cache.lengths[slot]
            tokens += [(token, slot, first + i) for i, token in enumerate(sequence)]
            owners += [index if i >= keep[index] else None for i in range(len(sequence))]
        most = chunk * len(sequences)
        for start in range(0, len(tokens), most):
            wanted = [(i, owner) for i, owner in enumerate(owners[start : start + most]) if owner is not None]
            found = self._run(cache, tokens[start : start + most], [i for i, _ in wanted], logits)
            for (_, owner), row in zip(wanted, found, strict=True):
                rows[owner].append(row)
        return rows

    def vectors(self) -> Digest:
        """Runs the known-answer tests of products and the known models on this path. Raises `NotExact`, which names the
        difference. Returns the digest of the profile's vectors, which is a constant: the known models cover what the vectors
        cover, and the C engine does not compute the vectors."""
        # The longest depth exceeds the sum that any lane of the kernels accumulates before the lane is emptied.
        operations.verify_products(NativeBackend(self.pool), (8, 1040, 8200))
        known_models.verify(self._of_another, lambda shape: missing_feature(shape) is None)
        return PROFILE_DIGEST

    def close(self) -> None:
        """Ends the threads and drops the tensors. A second call does nothing."""
        if self.handle is not None:
            self.pool.library.native_engine_close(self.handle)
            self.handle, self._bound = None, []
        self.pool.close()

    def _open_handle(self) -> int:
        if self.handle is None:
            raise CannotExecute("the native engine is closed", CannotReason.BACKEND)
        return self.handle

    def _of_another(self, artifact: Artifact) -> "NativePath":
        return NativePath(artifact, kernel=self.pool.kernel, threads=self.pool.threads)

    def _run(
        self, cache: NativeCache, tokens: Sequence[tuple[int, int, int]], wanted: Sequence[int], logits: bool
    ) -> list[HeadRow]:
        handle = self._open_handle()
        for token, _, position in tokens:
            if not 0 <= token < self.shape.vocabulary:
                raise OutsideLimits("token", token, self.shape.vocabulary - 1)
            if position >= cache.capacity:
                raise OutsideLimits("cache", position + 1, cache.capacity)
        # Arrays of ctypes, not tensors: a token's weights have just gone through the caches, so each operation of the tensor
        # library would cost tens of microseconds.
        count, kept, width = len(tokens), len(wanted), self.shape.width
        rows, exponents, best = (_SHORT * (kept * width))(), (_INT * kept)(), (_INT * kept)()
        said = torch.empty((kept, self.shape.vocabulary), dtype=torch.float32) if logits else None
        inputs = ((_INT * count)(*column) for column in zip(*tokens, strict=True))
        status = self.pool.library.native_forward(
            handle, cache.handle, count, *inputs, kept, (_INT * kept)(*wanted), rows, exponents, best,
            None if said is None else said.data_ptr(),
        )  # fmt: skip
        checked(status)
        for _, sequence, position in tokens:
            cache.lengths[sequence] = position + 1
        raw, size = bytes(rows), 2 * width
        return [
            self._head_row(raw[i * size : (i + 1) * size], exponents[i], best[i], None if said is None else said[i])
            for i in range(kept)
        ]

    def _head_row(self, row: bytes, exponent: int, token: int, said: Tensor | None) -> HeadRow:
        if token < 0:
            return HeadRow(row, exponent, None)
        return HeadRow(row, exponent, functools.partial(self._logits, row, exponent) if said is None else said, token)

    def _logits(self, row: bytes, exponent: int) -> Tensor:
        handle = self._open_handle()
        logits = torch.empty(self.shape.vocabulary, dtype=torch.float32)
        checked(self.pool.library.native_logits(handle, row, exponent, logits.data_ptr()))
        return logits

    def _bind(self, artifact: Artifact) -> None:
        shape, tensors = self.shape, dict(artifact.tensors)
        library = self.pool.library
        embedding, epsilon, scale = (_tensor(artifact, tensors, name) for name in ("embedding", "epsilon", "attention_scale"))
        numbers = (float(epsilon[0]), float(scale[0]))
        if embedding.dtype not in EMBEDDING_TYPES or not all(math.isfinite(number) and number > 0 for number in numbers):
            raise ArtifactMismatch(artifact.name, f"{WEIGHTS_FILE}: embedding, epsilon or attention_scale")
        sizes = (
            shape.layers, shape.width, shape.intermediate, shape.heads, shape.key_value_heads, shape.head_width, shape.vocabulary,
            shape.max_context + 1, int(shape.query_key_norm), EMBEDDING_TYPES[embedding.dtype],
        )  # fmt: skip
        windows = [shape.window(layer) for layer in range(shape.layers)]
        self.handle = library.native_engine_open(self.pool.handle, _longs(sizes), _longs(windows), *numbers)
        if self.handle is None:
            raise ArtifactMismatch(artifact.name, "manifest: sizes of the architecture")
        for name, (slot, dtype) in GLOBAL_SLOTS.items():
            self._bind_one(artifact, tensors, -1, name, slot, dtype or embedding.dtype)
        for layer in range(shape.layers):
            for name, (slot, dtype) in LAYER_SLOTS.items():
                self._bind_one(artifact, tensors, layer, f"layers.{layer}.{name}", slot, dtype)
        if library.native_engine_ready(self.handle):
            raise ArtifactMismatch(artifact.name, f"{WEIGHTS_FILE}: a tensor is missing")

    def _bind_one(
        self, artifact: Artifact, tensors: dict[str, Tensor], layer: int, name: str, slot: int, dtype: torch.dtype
    ) -> None:
        tensor = tensors.get(name)
        if tensor is None:
            # Biases, low limbs and head norms exist only in some families. The last check is for tensors that must exist.
            return
        if tensor.dtype != dtype or not tensor.is_contiguous():
            raise ArtifactMismatch(artifact.name, f"{WEIGHTS_FILE}: {name} is not {str(dtype).removeprefix('torch.')}")
        if tensor.data_ptr() % tensor.element_size():
            tensor = tensor.clone()
        size = tensor.numel() * tensor.element_size()
        if self.pool.library.native_engine_bind(self.handle, layer, slot, tensor.data_ptr(), size):
            raise ArtifactMismatch(artifact.name, f"{WEIGHTS_FILE}: {name} has shape {tuple(tensor.shape)}")
        self._bound.append(tensor)


def _tensor(artifact: Artifact, tensors: dict[str, Tensor], name: str) -> Tensor:
    tensor = tensors.get(name)
    if tensor is None or not tensor.numel():
        raise ArtifactMismatch(artifact.name, f"{WEIGHTS_FILE}: {name} is missing")
    return tensor


def _longs(values: Sequence[int]) -> ctypes.Array[ctypes.c_int64]:
    return (ctypes.c_int64 * len(values))(*values)
