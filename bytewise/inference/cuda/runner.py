"""The forward loop of the torch path with everything on one device."""

from collections.abc import Sequence

import torch

from bytewise.inference.artifact.artifact import Artifact
from bytewise.inference.cuda.backends import CUDA_BACKENDS
from bytewise.inference.cuda.graphs import BUCKET, Network, StaticDecoder, can_be_static
from bytewise.inference.engine_paths import HeadRow
from bytewise.inference.exact.cache import ExactCache, TokenCache
from bytewise.inference.exact.matmul import Backend, backend_named
from bytewise.inference.known_answers import known_models, self_test
from bytewise.inference.runner import CHUNK, Runner
from bytewise.protocol.errors import CannotExecute
from bytewise.protocol.records.statements import CannotReason
from bytewise.protocol.units import Digest
from bytewise.service.settings import library_variables

WORKSPACE, WORKSPACES = "CUBLAS_WORKSPACE_CONFIG", (":4096:8", ":16:8")
"""What the library wants of the environment before it runs deterministic algorithms on CUDA."""


class DeviceRunner(Runner):
    """The model of one artifact on one backend and device: tensors without a stated device are made there."""

    def __init__(self, artifact: Artifact, backend: Backend, device: str, bucket: int = BUCKET) -> None:
        """Where the model allows it, decoding has fixed shapes of multiples of `bucket` slots (0: never), on CUDA as graphs."""
        self._device, self._bucket = torch.device(device), bucket
        with self._device:
            super().__init__(artifact, backend, device)
        network = Network(self.shape, self._forward, self._head.of_rows)
        captured, fixed = self._device.type == "cuda", bucket > 0 and can_be_static(self.shape)
        self._decoder = StaticDecoder(network, captured, bucket) if fixed else None

    def cache(self, batch: int, capacity: int) -> ExactCache:
        """An empty cache on the device."""
        shape = self.shape
        with self._device:
            return ExactCache(shape.layers, batch, shape.key_value_heads, shape.head_width, capacity)

    def memory(self) -> int:
        """Bytes of the card's memory, or of the machine's where the device is no card."""
        return torch.cuda.mem_get_info(self._device)[1] if self._device.type == "cuda" else super().memory()

    def feed(self, cache: TokenCache, token: int, position: int, logits: bool = True) -> HeadRow:
        """Decode: one more token of one sequence, at the end of its cache. Its logits are always kept."""
        with self._device:
            if self._decoder is None or not isinstance(cache, ExactCache):
                return super().feed(cache, token, position)
            return self._decoder.feed(cache, token)

    def teacher_force(
        self, cache: TokenCache, sequences: Sequence[Sequence[int]], keep: Sequence[int], chunk: int = CHUNK, logits: bool = True
    ) -> list[list[HeadRow]]:
        """Prefill, as on a processor."""
        if self._decoder is not None:
            self._decoder.forget()
        with self._device:
            return super().teacher_force(cache, sequences, keep, chunk)

    def vectors(self) -> Digest:
        """Known answers, golden vectors and known models on this backend and device; `NotExact` names what differs."""
        with self._device:
            digest = self_test.verify_profile(self.backend)
        # Whole models, whose golden rows were computed without any device: this is where a card proves itself.
        known_models.verify(lambda known: DeviceRunner(known, self.backend, self._device.type, self._bucket), lambda _: True)
        return digest


def open_cuda(artifact: Artifact, name: str | None = None) -> DeviceRunner:
    """The path on the current CUDA device with the named backend, or the first that passes its known answers there.

    `CannotExecute` if there is no such device, none passes, or the process was not started with `WORKSPACE`.
    """
    if not torch.cuda.is_available():
        raise CannotExecute("no CUDA device is here", CannotReason.BACKEND)
    if library_variables((WORKSPACE,)).get(WORKSPACE) not in WORKSPACES:
        # The library reads it once and refuses its products without it.
        raise CannotExecute(f"start the process with {WORKSPACE}={WORKSPACES[0]}", CannotReason.BACKEND)
    wanted = CUDA_BACKENDS if name is None else (backend_named(name, CUDA_BACKENDS),)
    with torch.device("cuda"):
        backend = self_test.first_exact(wanted)
    return DeviceRunner(artifact, backend, "cuda")
