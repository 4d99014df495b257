"""Our engine as a process for measurements: `python -m bench.ours ARTIFACT PATH THREADS`, with PATH one of `KINDS`."""

import sys
from collections.abc import Sequence
from pathlib import Path

from bench.worker import Claim, serve
from bytewise.inference import engine
from bytewise.inference.artifact import artifact
from bytewise.inference.backend_selection import fastest_first
from bytewise.inference.determinism import environment, fixed
from bytewise.inference.exact.matmul import BACKENDS
from bytewise.inference.known_answers.operations import first_exact
from bytewise.protocol.records.request import REQUEST_VERSION, DecodePolicy, Request
from bytewise.protocol.records.trace import Generated, Verification
from bytewise.protocol.units import U64, U256, ZERO_ADDRESS, Decimal, Digest

KINDS = ("auto", "native", "torch", "torch-alone")
"""Paths that can be measured: the engine's own choice, the C engine, the torch path, or the torch path without any matrix product
of the C engine."""


class Ours:
    """Our engine on one artifact. The measured work includes traces, hashes and checks, as in production."""

    def __init__(self, path: Path, kind: str, threads: int) -> None:
        self._artifact, self._threads = artifact.load(path), threads
        self._environment = environment(self._artifact).digest
        asked, backend = kind, None
        if kind == "torch-alone":
            with fixed(threads):
                asked, backend = "torch", first_exact(fastest_first(BACKENDS, threads)).name
        self._engine = engine.ExactEngine(self._artifact, threads=threads, path=asked, backend=backend)
        self._made: dict[tuple[tuple[int, ...], int], Generated] = {}

        self.model = self._artifact.name
        self.name = self._engine.backend

    def request(self, prompt: Sequence[int], count: int) -> Request:
        """Returns a greedy request for `count` tokens, without a stop."""
        decode = DecodePolicy(count, Decimal("0"), Decimal("1"), 0, ())
        return Request(
            version=REQUEST_VERSION, model_id=self._artifact.model_id, model_name=self._artifact.name,
            environment=self._environment, decode=decode, seed=U64(0), prompt=tuple(prompt),
            template_digest=self._artifact.template_digest, tokenizer_digest=self._artifact.tokenizer_digest,
            prompt_commitments=None, nonce=Digest(bytes(32)), chain_id=U256(31337), expiry=U64(2**40), client=ZERO_ADDRESS,
            reply_key=None,
        )  # fmt: skip

    def generate(self, prompt: Sequence[int], count: int) -> Sequence[int]:
        """Generates an answer, keeps it as a claim for `judge`, and returns its tokens."""
        generated = self._engine.generate(self.request(prompt, count))
        self._made[tuple(prompt), count] = generated
        return generated.output.token_ids

    def prepare(self, claims: Sequence[Claim]) -> None:
        """Generates the answers of claims that were not generated yet, because a claim must be true to be verified in full."""
        for prompt, count in claims:
            if (tuple(prompt), count) not in self._made:
                self.generate(prompt, count)

    def judge(self, claims: Sequence[Claim], together: bool) -> None:
        """Verifies the claims, in one batch or one by one. Raises `SystemExit` if a claim does not match, because its time would
        mean nothing."""
        given = []
        for prompt, count in claims:
            made = self._made[tuple(prompt), count]
            given.append((self.request(prompt, count), made.output, made.out_hash))
        groups = [given] if together else [[claim] for claim in given]
        for group in groups:
            for verification in self._engine.verify_many(group):
                if not isinstance(verification, Verification) or verification.divergence is not None:
                    raise SystemExit("the engine contradicts itself: a measurement of it means nothing")

    def logits(self, tokens: Sequence[int]) -> Sequence[float]:
        """Returns the logits after the last token."""
        path = self._engine.path  # The engine has no method for logits. A second path would count as its memory.
        with fixed(self._threads):
            [[row]] = path.teacher_force(path.cache(1, len(tokens)), [tokens], [len(tokens) - 1], len(tokens))
        assert row.logits is not None, "the logits are not finite"
        values: list[float] = row.logits.tolist()
        return values


def main(arguments: list[str]) -> None:
    """Serves the engine to the parent process."""
    path, kind, threads = arguments
    serve(lambda: Ours(Path(path), kind, int(threads)))


if __name__ == "__main__":
    main(sys.argv[1:])
