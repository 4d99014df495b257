"""generate and verify: one request gives one string of bytes, and checking a claim is one forward pass (design section 6)."""

import contextlib
from collections.abc import Iterator, Sequence

import torch

from bytewise.inference import self_test
from bytewise.inference.answer import Answer
from bytewise.inference.artifact import Artifact
from bytewise.inference.cache import ExactCache
from bytewise.inference.determinism import fixed
from bytewise.inference.dispatch_guard import guarded
from bytewise.inference.divergence import first_divergence
from bytewise.inference.judging import believable, follow
from bytewise.inference.matmul import BACKENDS, Backend, backend_named
from bytewise.inference.paths import HeadRow
from bytewise.inference.runner import CHUNK, Runner
from bytewise.protocol.compare import Generated, Verification
from bytewise.protocol.environment import PROFILE_EXACT_1
from bytewise.protocol.errors import CannotExecute, NotExact, OutsideLimits
from bytewise.protocol.messages import CannotReason
from bytewise.protocol.request import Output, Request, execution_hash
from bytewise.protocol.units import Digest

Claim = tuple[Request, Output, Digest]
"""A request, the claimed answer, the claimed out_hash."""

# Of the library's CPU allocator, on Linux and elsewhere, and of its kernels: a plain RuntimeError with nothing but a text.
_NO_MEMORY = ("can't allocate memory", "not enough memory", "bad_alloc")


@contextlib.contextmanager
def memory_bounded() -> Iterator[None]:
    """Whatever the library calls it, memory that runs out is `CannotExecute` with the reason RESOURCES."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        known = isinstance(error, MemoryError | torch.OutOfMemoryError) or any(text in str(error) for text in _NO_MEMORY)
        if not known:
            raise
        raise CannotExecute("out of memory", CannotReason.RESOURCES) from None


class ExactEngine:
    """The deterministic engine of one artifact; implements the port `Engine`. One job at a time: not for several threads."""

    def __init__(
        self, artifact: Artifact, *, threads: int = 1, backend: str | None = None, guard: bool = False, chunk: int = CHUNK
    ) -> None:
        """Tests the backends, takes the first that passes (or the named one) and warms up under the dispatch guard.

        `CannotExecute` if none passes. `guard` keeps the guard on; no byte depends on `threads`, `backend`, `guard` or `chunk`.
        """
        self.artifact = artifact
        self.verify_passes = 0
        self._threads, self._guard, self._chunk = threads, guard, chunk
        self._second: ExactEngine | None = None
        wanted = BACKENDS if backend is None else (backend_named(backend),)
        with memory_bounded(), fixed(threads):
            self._backend: Backend = self_test.first_exact(wanted)
            self._runner = Runner(artifact, self._backend)
            with guarded(True):
                self._runner.teacher_force(self._runner.cache(1, 2), [[0, 0]], [0])

    @property
    def backend(self) -> str:
        """Name of the backend in use."""
        return self._backend.name

    def generate(self, request: Request) -> Generated:
        """The one answer to the request; `OutsideLimits` or `CannotExecute` if there is none."""
        self._check(request)
        with memory_bounded(), fixed(self._threads), guarded(self._guard):
            answer = self._answer(request)
            cache = self._runner.cache(1, len(request.prompt) + request.decode.max_new_tokens)
            rows = self._runner.teacher_force(cache, [request.prompt], [len(request.prompt) - 1], self._chunk)
            answer.add(rows[0][0])
            return self._continue(answer, cache)

    def verify(self, request: Request, claimed: Output, out_hash: Digest) -> Verification:
        """Checks a claim by one teacher-forced pass; at its first divergence the true continuation is generated."""
        return self.verify_many([(request, claimed, out_hash)])[0]

    def verify_many(self, claims: Sequence[Claim]) -> list[Verification]:
        """Checks several claims in one teacher-forced pass over a ragged batch; each result is as if it were alone."""
        for request, _, _ in claims:
            self._check(request)
        tokens = [believable(request, claimed, self.artifact.manifest.architecture.vocabulary) for request, claimed, _ in claims]
        # The last claimed token is an input only if the true answer goes on after it.
        inputs = [(*claim[0].prompt, *given[:-1]) for claim, given in zip(claims, tokens, strict=True)]
        capacity = max(len(ids) for ids in inputs) + max(request.decode.max_new_tokens for request, _, _ in claims)
        with memory_bounded(), fixed(self._threads), guarded(self._guard):
            cache = self._runner.cache(len(claims), capacity)
            keep = [len(request.prompt) - 1 for request, _, _ in claims]
            rows = self._runner.teacher_force(cache, inputs, keep, self._chunk)
            self.verify_passes += 1
            return [self._judge(claims[i], tokens[i], rows[i], cache.select(i)) for i in range(len(claims))]

    def confirm(self, request: Request, verification: Verification) -> Verification:
        """The verification, if a vote for its other hash is allowed: a second backend gives the whole true answer too.

        The profile's vectors must pass on both backends in the same run; `CannotExecute` otherwise. A match needs none of it.
        """
        if verification.divergence is None:
            return verification
        try:
            second = self.second_backend()
            self.vectors()
            second.vectors()
        except NotExact as error:
            # Not a mistake of ours: this machine was exact when the engine started and is not any more.
            raise CannotExecute(str(error), CannotReason.BACKEND) from None
        truth = verification.truth
        again = second.verify(request, truth.output, truth.out_hash)
        if again.divergence is not None:
            raise CannotExecute(f"backends {self.backend} and {second.backend} disagree at {again.divergence.position}")
        return verification

    def second_backend(self) -> "ExactEngine":
        """An engine of the same artifact on another backend; `CannotExecute` if no other passes."""
        if self._second is None:
            others = tuple(backend for backend in reversed(BACKENDS) if backend.name != self.backend)
            with memory_bounded(), fixed(self._threads):
                name = self_test.first_exact(others).name
            self._second = ExactEngine(self.artifact, threads=self._threads, backend=name, guard=self._guard, chunk=self._chunk)
        return self._second

    def vectors(self) -> Digest:
        """Runs the known answers and the profile's golden vectors on this backend; `NotExact` names what differs."""
        with memory_bounded(), fixed(self._threads):
            return self_test.verify_profile(self._backend)

    def _judge(self, claim: Claim, tokens: tuple[int, ...], rows: list[HeadRow], cache: ExactCache) -> Verification:
        request, claimed, out_hash = claim
        answer = follow(self._answer(request), tokens, rows)
        cache.crop(len(request.prompt) + len(answer.steps) - 1)
        truth = self._continue(answer, cache)
        return Verification(truth, first_divergence(truth, claimed, out_hash), 1)

    def _continue(self, answer: Answer, cache: ExactCache) -> Generated:
        while answer.reason is None:
            position = len(answer.request.prompt) + len(answer.steps) - 1
            answer.add(self._runner.feed(cache, answer.steps[-1].token, position))
        return answer.finish()

    def _answer(self, request: Request) -> Answer:
        execution = execution_hash(self.artifact.model_id, PROFILE_EXACT_1, request.decode, request.prompt)
        return Answer(request, execution)

    def _check(self, request: Request) -> None:
        if request.model_id != self.artifact.model_id:
            raise CannotExecute(f"model {request.model_id.hex()} is not loaded")
        shape = self.artifact.manifest.architecture
        if max(request.prompt) >= shape.vocabulary:
            raise OutsideLimits("prompt token", max(request.prompt), shape.vocabulary - 1)
        total = len(request.prompt) + request.decode.max_new_tokens
        if total > shape.max_context:
            raise OutsideLimits("context", total, shape.max_context)
