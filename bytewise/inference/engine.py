"""The engine: generates the one answer to a request, and checks a claim by one forward pass (design section 6)."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic

import torch

from bytewise.inference import memory
from bytewise.inference.answer import AnswerBuilder, TokenTexts
from bytewise.inference.artifact.artifact import Artifact
from bytewise.inference.backend_selection import AnyPath, open_path, other_backend
from bytewise.inference.determinism import fixed
from bytewise.inference.dispatch_guard import guarded
from bytewise.inference.engine_paths import AnyCache, HeadRow
from bytewise.inference.exact.quantise import NOT_FINITE
from bytewise.inference.judging import Claim, Judge
from bytewise.inference.manifest import TOKENIZER_FILE
from bytewise.protocol.errors.actors import CannotExecute, NotExact
from bytewise.protocol.errors.records import OutsideLimits
from bytewise.protocol.records.compare import Generated, Verification
from bytewise.protocol.records.environment import PROFILE_EXACT_1
from bytewise.protocol.records.request import Output, Request, execution_hash
from bytewise.protocol.records.statements import CannotReason
from bytewise.protocol.units import Digest

# Division of claims into passes: as many in one pass as fit into memory.


def batches(order: Sequence[int], size: Callable[[int], int], fits: Callable[[int, int], bool]) -> Iterator[Sequence[int]]:
    """Divides claims, ascending by their tokens `size`, into runs for which `fits(claims, tokens of the longest)` holds.

    A claim that does not fit even alone is its own run; the caller handles it.
    """
    start = 0
    for stop, claim in enumerate(order):
        if stop > start and not fits(stop + 1 - start, size(claim)):
            yield order[start:stop]
            start = stop
    if start < len(order):
        yield order[start:]


# Prefix reuse: an answer whose prompt begins like the last conversation starts from its keys and values.

ROOM = 1024
"""Tokens by which caches exceed the need, so that a conversation can go on in them."""


class Prefix(Generic[AnyCache]):
    """Cache of the newest conversation, and the tokens in it."""

    def __init__(self, make: Callable[[int], AnyCache], longest: int) -> None:
        """`make` creates an empty cache of a capacity. `longest` bounds the additional room."""
        self._make, self._longest = make, longest
        self._kept: tuple[AnyCache, list[int]] | None = None

    def take(self, prompt: Sequence[int], capacity: int) -> tuple[AnyCache, int]:
        """A cache with at least that capacity, and how many tokens of the prompt are already in it; never all of them."""
        kept, self._kept = self._kept, None
        if kept is None or kept[0].capacity < capacity:
            # Free the old cache before making the new one, because memory never has room for two.
            del kept
            return self._make(max(capacity, min(capacity + ROOM, self._longest))), 0
        cache, tokens = kept
        pairs = zip(tokens, prompt[:-1], strict=False)
        shared = next((i for i, (old, new) in enumerate(pairs) if old != new), min(len(tokens), len(prompt) - 1))
        cache.crop(shared)
        return cache, shared

    def put(self, cache: AnyCache, tokens: Sequence[int]) -> None:
        """Keeps a cache that holds exactly these tokens, instead of the previous one."""
        self._kept = (cache, list(tokens))


Judged = Verification | CannotExecute | OutsideLimits
"""Result of one claim of several."""

LOGITS_BYTES = 16 * 2**20
"""Bytes of logits of one piece of claims, where they are needed. More would be most of the memory of a small model."""

# Messages of the library's CPU allocator, on Linux and elsewhere, and of its kernels: a plain RuntimeError with only a text.
_NO_MEMORY = ("can't allocate memory", "not enough memory", "bad_alloc")


@contextlib.contextmanager
def memory_bounded() -> Iterator[None]:
    """Turns every form of running out of memory into `CannotExecute` with the reason RESOURCES."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        known = isinstance(error, MemoryError | torch.OutOfMemoryError) or any(text in str(error) for text in _NO_MEMORY)
        if not known:
            raise
        raise CannotExecute("out of memory", CannotReason.RESOURCES) from None


@contextlib.contextmanager
def still_exact() -> Iterator[None]:
    """Turns `NotExact` into `CannotExecute` (BACKEND): the machine was exact when the engine started and no longer is."""
    try:
        yield
    except NotExact as error:
        raise CannotExecute(str(error), CannotReason.BACKEND) from None


class ExactEngine:
    """The deterministic engine of one artifact. It implements the port `Engine`. It does one job at a time, on one thread."""

    profile = PROFILE_EXACT_1

    def __init__(
        self, artifact: Artifact, *, threads: int = 1, path: str = "auto", backend: str | None = None, kernel: str | None = None,
        guard: bool = False, chunk: int | None = None, reuse_prefix: bool = False, cache_bytes: int | None = None,
    ) -> None:  # fmt: skip
        """Takes the fastest path that passes its known answers (or the named one), and warms up under the dispatch guard.

        `path` is `auto`, `native` or `torch`; `backend` (torch) and `kernel` (native) narrow it. `CannotExecute` if none
        passes, or the model needs another. `guard` keeps the guard on. `chunk` is the most tokens of one forward call; None
        chooses what suits the path. `reuse_prefix` keeps the newest conversation's keys and values (see `prefix`).
        `cache_bytes` bounds the memory of the caches of one job; None is half of what the weights leave. No byte depends on any
        of them.
        """
        with memory_bounded(), fixed(threads):
            self.path: AnyPath = open_path(artifact, threads, path, backend, kernel)
            """The path that computes the logits."""
        self.artifact = artifact
        self._words = TokenTexts(artifact.content[TOKENIZER_FILE], artifact.manifest.architecture.vocabulary)
        self.verify_passes = 0
        self._threads, self._guard, self._asked_chunk = threads, guard, chunk
        self._chunk = self.path.chunk if chunk is None else chunk
        self._library_threads = 1 if self.path.own_threads else threads
        self._second: ExactEngine | None = None
        weights = sum(file.size for file in artifact.manifest.files)
        self.allowance = memory.allowance(self.path.memory(), weights) if cache_bytes is None else cache_bytes
        longest = artifact.manifest.architecture.max_context
        # Room for more than this answer is left only if even the longest answer fits.
        roomy = longest if self._fits(1, longest) else 0
        self._prefix = Prefix(lambda capacity: self._cache(1, capacity), roomy) if reuse_prefix else None
        with memory_bounded(), fixed(self._library_threads), guarded(True):
            # Two chunks of prefill, then one token of decode: every operation that any request can reach.
            cache = self.path.cache(1, 4)
            self.path.teacher_force(cache, [[0, 0, 0]], [0], 2)
            self.path.feed(cache, 0, 3)

    @property
    def backend(self) -> str:
        """Name of the path in use: `native-` with its kernel, or `torch-` with its way to multiply."""
        return self.path.name

    def generate(self, request: Request) -> Generated:
        """The one answer to the request; `OutsideLimits` or `CannotExecute` if there is none."""
        self._check(request)
        capacity = _capacity(request)
        with memory_bounded(), fixed(self._library_threads), guarded(self._guard):
            answer = self._answer(request)
            cache, known = self._prefix.take(request.prompt, capacity) if self._prefix else (self._cache(1, capacity), 0)
            rows = self.path.teacher_force(
                cache, [request.prompt[known:]], [len(request.prompt) - 1 - known], self._chunk, answer.scored
            )
            answer.add(self._bounded(rows[0][0]))
            while answer.reason is None:
                answer.add(self._feed(cache, answer))
            if self._prefix:
                self._prefix.put(cache, [*request.prompt, *(step.token for step in answer.steps[:-1])])
            return answer.finish()

    def verify(self, request: Request, claimed: Output, out_hash: Digest) -> Verification:
        """Checks a claim by one teacher-forced pass. From its first divergence on, the true continuation is generated."""
        (found,) = self.verify_many([(request, claimed, out_hash)])
        if isinstance(found, Verification):
            return found
        raise found

    def verify_many(self, claims: Sequence[Claim]) -> list[Judged]:
        """Checks several claims, as many in one pass as memory allows. Each result is the same as if the claim were alone.

        A claim that cannot be judged has the error of `verify` in its place; the others are judged.
        """
        with fixed(self._library_threads), guarded(self._guard):
            return self._judged(claims)

    def confirm(self, request: Request, verification: Verification) -> Verification:
        """The verification, if it may lead to a vote against the claim: a second path must give the whole true answer too.

        The profile's vectors must pass on both paths in the same run; `CannotExecute` otherwise. A match needs none of this.
        """
        if verification.divergence is None:
            return verification
        with still_exact():
            self.vectors()
        self.concur(request, verification.truth.output, verification.truth.out_hash)
        return verification

    def concur(self, request: Request, output: Output, out_hash: Digest) -> None:
        """Returns if the second backend passes the profile's vectors and gives exactly this answer; else raises
        `CannotExecute`."""
        with still_exact():
            second = self.second_backend()
            second.vectors()
        again = second.verify(request, output, out_hash)
        if again.divergence is not None:
            raise CannotExecute(f"backends {self.backend} and {second.backend} disagree at {again.divergence.position}")

    def second_backend(self) -> "ExactEngine":
        """An engine of the same artifact on a path that shares no product with this one. `CannotExecute` if none passes."""
        if self._second is None:
            with memory_bounded(), fixed(self._threads):
                name = other_backend(self.path, self._threads)
            self._second = ExactEngine(
                self.artifact,
                threads=self._threads,
                backend=name,
                guard=self._guard,
                chunk=self._asked_chunk,
                cache_bytes=self.allowance,
            )
        return self._second

    def vectors(self) -> Digest:
        """Runs the known answers and the profile's golden vectors on this path; `NotExact` names what differs."""
        with memory_bounded(), fixed(self._library_threads):
            return self.path.vectors()

    def verify_room(self, tokens: int, jobs: int = 1) -> None:
        """`CannotExecute` (RESOURCES) unless the caches of so many jobs with so many tokens each may be in memory together."""
        if not self._fits(jobs, tokens):
            needed = self.path.cache_bytes(jobs, tokens)
            what = f"a cache of {jobs} times {tokens} tokens needs {needed} bytes, allowed are {self.allowance}"
            raise CannotExecute(what, CannotReason.RESOURCES)

    def close(self) -> None:
        """Frees what the paths hold. Do not use the engine afterwards."""
        self.path.close()
        if self._second is not None:
            self._second.close()

    def _judged(self, claims: Sequence[Claim]) -> list[Judged]:
        found = [self._judge(claim) for claim in claims]
        results: dict[int, Judged] = {i: each for i, each in enumerate(found) if not isinstance(each, Judge)}
        judges = {i: each for i, each in enumerate(found) if isinstance(each, Judge)}
        # Claims of similar length in one pass waste few slots.
        order = sorted(judges, key=lambda i: _capacity(claims[i][0]))
        for some in batches(order, lambda i: _capacity(claims[i][0]), self._fits):
            verdicts = self._verdicts([judges[i] for i in some])
            if verdicts is None:
                # Less memory than was allowed: start again with half as many at a time.
                half = -(-len(some) // 2)
                verdicts = [each for part in (some[:half], some[half:]) for each in self._judged([claims[i] for i in part])]
            results |= zip(some, verdicts, strict=True)
        return [results[i] for i in range(len(claims))]

    def _judge(self, claim: Claim) -> Judge | CannotExecute | OutsideLimits:
        request, claimed, out_hash = claim
        try:
            with memory_bounded():
                self._check(request)
                return Judge(self._answer(request), claimed, out_hash, self.artifact.manifest.architecture.vocabulary)
        except (CannotExecute, OutsideLimits) as error:
            return error

    def _verdicts(self, judges: Sequence[Judge]) -> list[Judged] | None:
        """Results of claims that are judged in one pass; None if memory ran out for several of them."""
        try:
            with memory_bounded():
                cache = self._teacher_force(judges)
                self.verify_passes += 1
                return [self._finish(judge, cache.select(i)) for i, judge in enumerate(judges)]
        except CannotExecute as error:
            divisible = len(judges) > 1 and CannotReason.RESOURCES in error.values
            return None if divisible else [error] * len(judges)

    def _fits(self, batch: int, capacity: int) -> bool:
        return self.path.cache_bytes(batch, capacity) <= self.allowance

    def _cache(self, batch: int, capacity: int) -> Any:
        self.verify_room(capacity, batch)
        return self.path.cache(batch, capacity)

    def _teacher_force(self, judges: Sequence[Judge]) -> Any:
        # Feed in pieces, so that only the rows of one piece are in memory, however long the claims are.
        inputs = [judge.inputs for judge in judges]
        requests = [judge.answer.request for judge in judges]
        cache = self._cache(len(judges), max(map(_capacity, requests)))
        scored = any(judge.answer.scored for judge in judges)
        longest = max(map(len, inputs))
        piece = self._piece(longest, len(judges), scored)
        for start in range(0, longest, piece):
            keep = [max(len(request.prompt) - 1 - start, 0) for request in requests]
            rows = self.path.teacher_force(cache, [ids[start : start + piece] for ids in inputs], keep, piece, scored)
            for judge, mine in zip(judges, rows, strict=True):
                judge.take(map(self._bounded, mine))
        return cache

    def _piece(self, longest: int, claims: int, scored: bool) -> int:
        # Tokens of each claim at a time: equal pieces, none of them much too long and no short rest.
        most = LOGITS_BYTES // (4 * self.artifact.manifest.architecture.vocabulary)
        wanted = max(1, min(self._chunk, most) if scored else self._chunk)
        pieces = max(1, round(longest * claims / wanted))
        return -(-longest // pieces)

    def _finish(self, judge: Judge, cache: Any) -> Verification:
        answer = judge.answer
        cache.crop(position_of_next(answer))
        while answer.reason is None:
            judge.grow(self._feed(cache, answer))
        return judge.verdict()

    def _feed(self, cache: Any, answer: AnswerBuilder) -> HeadRow:
        return self._bounded(self.path.feed(cache, answer.steps[-1].token, position_of_next(answer), answer.scored))

    def _bounded(self, row: HeadRow) -> HeadRow:
        # A row that is not finite ends the answer, so every request has one. A finite row above the proven bound is a bug.
        if self.artifact.manifest.bound < row.exponent < NOT_FINITE:
            raise NotExact(f"head row with E = {row.exponent}, proven to be at most {self.artifact.manifest.bound}")
        return row

    def _answer(self, request: Request) -> AnswerBuilder:
        execution = execution_hash(self.artifact.model_id, PROFILE_EXACT_1, request.decode, request.prompt)
        return AnswerBuilder(request, execution, self._words)

    def _check(self, request: Request) -> None:
        if request.model_id != self.artifact.model_id:
            raise CannotExecute(f"model {request.model_id.hex()} is not loaded", CannotReason.MODEL_MISSING)
        shape = self.artifact.manifest.architecture
        if max(request.prompt) >= shape.vocabulary:
            raise OutsideLimits("prompt token", max(request.prompt), shape.vocabulary - 1)
        total = _capacity(request)
        if total > shape.max_context:
            raise OutsideLimits("context", total, shape.max_context)


def _capacity(request: Request) -> int:
    return len(request.prompt) + request.decode.max_new_tokens


def position_of_next(answer: AnswerBuilder) -> int:
    """Position at which the newest token of an answer is fed: the first one that the cache does not hold."""
    return len(answer.request.prompt) + len(answer.steps) - 1
