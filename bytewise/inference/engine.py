"""The engine. It generates the one answer to a request, and checks a claim by one forward pass (design section 6)."""

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
from bytewise.protocol.records.environment import PROFILE_EXACT_1
from bytewise.protocol.records.request import Output, Request, execution_hash
from bytewise.protocol.records.statements import CannotReason
from bytewise.protocol.records.trace import Generated, Verification
from bytewise.protocol.units import Digest

# Division of claims into passes: as many in one pass as fit into memory.


def batches(order: Sequence[int], size: Callable[[int], int], fits: Callable[[int, int], bool]) -> Iterator[Sequence[int]]:
    """Yields runs of claims, so that each run satisfies `fits(number of claims, tokens of the longest claim)`.

    `order` lists the claims, ascending by their number of tokens. `size` returns that number. A claim that does not fit even
    alone is a run of its own, and the caller handles it.
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
"""Number of tokens by which a new cache exceeds the need of its first request, so that the conversation can go on in this
cache."""


class Prefix(Generic[AnyCache]):
    """Cache of keys and values of the newest conversation, with the tokens that are in it. If the next prompt begins with the
    same tokens, it reuses their keys and values."""

    def __init__(self, make: Callable[[int], AnyCache], longest: int) -> None:
        """Begins without a cache. `make` creates an empty cache for a number of tokens. A new cache gets at most `longest`
        tokens of capacity, unless its first request needs more."""
        self._make, self._longest = make, longest
        self._kept: tuple[AnyCache, list[int]] | None = None

    def take(self, prompt: Sequence[int], capacity: int) -> tuple[AnyCache, int]:
        """Returns a cache with at least that capacity, and the number of tokens of the prompt that are already in it.

        The prompt's last token is never among them. The caller owns the cache until it calls `put`. If no old cache is
        suitable, this method makes an empty one.
        """
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
        """Stores a cache for the next `take`, in place of the previous cache. `tokens` are exactly the tokens that are in the
        cache."""
        self._kept = (cache, list(tokens))


Judged = Verification | CannotExecute | OutsideLimits
"""Result for one claim: the verification, or the error that prevented it."""

LOGITS_BYTES = 16 * 2**20
"""Target for the bytes of logits of one piece of the claims, if the claims need logits. Without it, logits would take most of
the memory of a small model. A piece can exceed it by half, because all pieces have the same length."""

# Messages of the library's CPU allocator, on Linux and elsewhere, and of its kernels: a plain RuntimeError with only a text.
_NO_MEMORY = ("can't allocate memory", "not enough memory", "bad_alloc")


@contextlib.contextmanager
def memory_bounded() -> Iterator[None]:
    """Context manager that turns every form of running out of memory into `CannotExecute` with the reason RESOURCES."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        known = isinstance(error, MemoryError | torch.OutOfMemoryError) or any(text in str(error) for text in _NO_MEMORY)
        if not known:
            raise
        raise CannotExecute("out of memory", CannotReason.RESOURCES) from None


@contextlib.contextmanager
def still_exact() -> Iterator[None]:
    """Context manager that turns `NotExact` into `CannotExecute` with the reason BACKEND. It is for a machine that was exact
    when the engine started, and no longer is."""
    try:
        yield
    except NotExact as error:
        raise CannotExecute(str(error), CannotReason.BACKEND) from None


class ExactEngine:
    """Deterministic engine of one artifact. It implements the port `Engine`. Use it from one thread, for one job at a time."""

    profile = PROFILE_EXACT_1

    def __init__(
        self, artifact: Artifact, *, threads: int = 1, path: str = "auto", backend: str | None = None, kernel: str | None = None,
        guard: bool = False, chunk: int | None = None, reuse_prefix: bool = False, cache_bytes: int | None = None,
    ) -> None:  # fmt: skip
        """Opens the requested path, or the fastest path that passes its known-answer tests. Then warms the path up under the
        dispatch guard.

        `path` is `auto`, `cuda`, `native` or `torch`. `backend` (torch, cuda) and `kernel` (native) narrow the choice. `guard`
        keeps the dispatch guard on. `chunk` is the most tokens of one forward call; with None the path chooses it. `reuse_prefix`
        keeps the newest conversation's keys and values (see `Prefix`). `cache_bytes` bounds the memory of one job's caches;
        with None the bound is half of the memory that the weights leave. No byte of an answer depends on these arguments.
        Raises `CannotExecute` if no path passes or memory is short, and `NotExact` if a switch of the process is wrong.
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
            # Two chunks of prefill, then one token of decode: every operation of the path that any request can reach.
            cache = self.path.cache(1, 4)
            self.path.teacher_force(cache, [[0, 0, 0]], [0], 2)
            self.path.feed(cache, 0, 3)

    @property
    def backend(self) -> str:
        """Name of the path in use: `native-` and the name of its kernel, or `torch-` and the name of its backend (on a GPU
        `torch-cuda-…`)."""
        return self.path.name

    def generate(self, request: Request) -> Generated:
        """Returns the one answer to the request. Raises `OutsideLimits` or `CannotExecute` if there is no answer."""
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
        """Checks a claimed output and out_hash by one forward pass over the claimed tokens.

        After the first divergence the engine itself generates the rest of the true answer. Raises `OutsideLimits` or
        `CannotExecute` if it cannot judge the claim.
        """
        (found,) = self.verify_many([(request, claimed, out_hash)])
        if isinstance(found, Verification):
            return found
        raise found

    def verify_many(self, claims: Sequence[Claim]) -> list[Judged]:
        """Checks several claims. One pass has as many claims as memory allows. Each result is the same as if the engine checked
        the claim alone.

        If the engine cannot judge a claim, the claim's place in the list has the error that `verify` would raise. The engine
        judges the other claims all the same.
        """
        with fixed(self._library_threads), guarded(self._guard):
            return self._judged(claims)

    def confirm(self, request: Request, verification: Verification) -> Verification:
        """Confirms a divergence before it may lead to a vote against the claim, and returns the verification.

        A second path must give the whole true answer too. The profile's vectors must pass on both paths now. Raises
        `CannotExecute` if one of these checks fails. A verification without divergence is returned without checks.
        """
        if verification.divergence is None:
            return verification
        with still_exact():
            self.vectors()
        self.concur(request, verification.truth.output, verification.truth.out_hash)
        return verification

    def concur(self, request: Request, output: Output, out_hash: Digest) -> None:
        """Checks that the second backend passes the profile's vectors and gives exactly this answer. Raises `CannotExecute` if
        it does not."""
        with still_exact():
            second = self.second_backend()
            second.vectors()
        again = second.verify(request, output, out_hash)
        if again.divergence is not None:
            raise CannotExecute(f"backends {self.backend} and {second.backend} disagree at {again.divergence.position}")

    def second_backend(self) -> "ExactEngine":
        """Returns an engine of the same artifact on a path that shares no product with this engine. The first call creates it.
        Raises `CannotExecute` if no such engine passes its known-answer tests."""
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
        """Runs the tests of `Path.vectors` on this path, and returns the digest of the profile's golden vectors. Raises
        `NotExact`, which names the difference."""
        with memory_bounded(), fixed(self._library_threads):
            return self.path.vectors()

    def verify_room(self, tokens: int, jobs: int = 1) -> None:
        """Raises `CannotExecute` (RESOURCES) if the memory allowed for caches is too small for `jobs` jobs with `tokens` tokens
        each."""
        if not self._fits(jobs, tokens):
            needed = self.path.cache_bytes(jobs, tokens)
            what = f"a cache of {jobs} times {tokens} tokens needs {needed} bytes, allowed are {self.allowance}"
            raise CannotExecute(what, CannotReason.RESOURCES)

    def close(self) -> None:
        """Frees the threads and memory of the paths. Do not use the engine afterwards."""
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
        """Returns the results of claims that are judged in one pass. If memory runs out and there are several claims, returns
        None."""
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
        # Number of tokens of each claim in one piece. Pieces are equal, so none is much too long and the last is not short.
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
        # A row that is not finite ends the answer, so every request has an answer. A finite row above the proven bound is a bug.
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
    """Returns the position at which the engine feeds the newest token of an answer. It is the first position that is not in the
    cache."""
    return len(answer.request.prompt) + len(answer.steps) - 1
