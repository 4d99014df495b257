"""An operator that cheats on its first four receipts: an altered token, another artifact, a forged trace, another text.

`python -m adversaries.dishonest_operator --config FILE --other ARTIFACT` takes the same settings file as `bytewise operator run`.
With `--every N` it cheats on every Nth answer for ever, one kind after the other. With `--planted FILE` it writes each fraud to
FILE before it answers, one JSON object a line, so that a test knows which receipts are false.
"""

import argparse
import json
import os
import sys
from dataclasses import replace
from pathlib import Path

from bytewise.inference.artifact import artifact
from bytewise.inference.engine import ExactEngine
from bytewise.ports import Engine
from bytewise.protocol.attention.schedule import FraudKind, false_answer
from bytewise.protocol.records.request import Output, Request, output_for
from bytewise.protocol.records.trace import Generated, Verification
from bytewise.protocol.units import Digest
from bytewise.service.settings import load_settings
from serving.settings import OperatorSettings
from serving.wiring import run

# Dishonest engines, one for each fraud. They wrap an honest engine, so that `serving` needs no switch for cheating.


class AltersOneToken:
    """Engine that changes one token in the middle of the true answer. The trace root stays that of the true computation."""

    def __init__(self, honest: Engine) -> None:
        self._honest = honest

    def generate(self, request: Request) -> Generated:
        """Returns the true answer with its middle token replaced by a neighbouring id."""
        return false_answer(FraudKind.TOKEN, request, self._honest.generate(request))

    def verify(self, request: Request, claimed: Output, out_hash: Digest) -> Verification:
        """Verifies as the honest engine does."""
        return self._honest.verify(request, claimed, out_hash)


class RunsAnotherArtifact:
    """Engine that always runs a cheaper model than the receipt names. Tokens and trace are those of the other artifact."""

    def __init__(self, honest: Engine, other: Engine, other_id: Digest) -> None:
        self._honest = honest
        self._other = other
        self._other_id = other_id

    def generate(self, request: Request) -> Generated:
        """Returns the answer of the other artifact as if the promised artifact had given it."""
        given = self._other.generate(replace(request, model_id=self._other_id))
        return replace(given, output=output_for(request, given.output.token_ids, given.output.finish_reason))

    def verify(self, request: Request, claimed: Output, out_hash: Digest) -> Verification:
        """Verifies as the honest engine does."""
        return self._honest.verify(request, claimed, out_hash)


class ForgesTheTrace:
    """Engine that returns true tokens with a trace that it did not compute. An operator with cached or guessed answers would do
    the same."""

    def __init__(self, honest: Engine) -> None:
        self._honest = honest

    def generate(self, request: Request) -> Generated:
        """Returns the true answer with one forged trace leaf."""
        return false_answer(FraudKind.TRACE, request, self._honest.generate(request))

    def verify(self, request: Request, claimed: Output, out_hash: Digest) -> Verification:
        """Verifies as the honest engine does."""
        return self._honest.verify(request, claimed, out_hash)


class ShowsAnotherText:
    """Engine that runs the model, but shows, seals and signs another text. The `out_hash` stays that of the true answer."""

    def __init__(self, honest: Engine) -> None:
        self._honest = honest

    def generate(self, request: Request) -> Generated:
        """Returns an altered answer with the `out_hash` of the true answer."""
        return false_answer(FraudKind.TEXT, request, self._honest.generate(request))

    def verify(self, request: Request, claimed: Output, out_hash: Digest) -> Verification:
        """Verifies as the honest engine does."""
        return self._honest.verify(request, claimed, out_hash)


class CheatsInTurn:
    """Engine that commits one fraud of each kind in the first requests, then gives honest answers. If `every` is N, it cheats
    on the first answer and then on every Nth one, for ever."""

    def __init__(self, honest: Engine, frauds: tuple[Engine, ...], every: int = 0, planted: Path | None = None) -> None:
        self._honest = honest
        self._turns = list(frauds)
        self._every = every
        self._planted = planted
        self._answers = 0

    def generate(self, request: Request) -> Generated:
        """Returns the answer of the next fraud if it is time to cheat, otherwise an honest answer."""
        cheats = self._turns and self._answers % max(self._every, 1) == 0
        answer = (self._turns[0] if cheats else self._honest).generate(request)
        # A failed request does not count, because the client sends it again.
        self._answers += 1
        if cheats:
            self._write_down(self._turns[0], answer)
            self._turns = self._turns[1:] + (self._turns[:1] if self._every else [])
        return answer

    def _write_down(self, fraud: Engine, answer: Generated) -> None:
        if self._planted is None:
            return
        line = {"kind": type(fraud).__name__, "tokens": answer.output.tokens_hash.hex(), "out": answer.out_hash.hex()}
        with self._planted.open("a") as file:
            file.write(json.dumps(line) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def verify(self, request: Request, claimed: Output, out_hash: Digest) -> Verification:
        """Verifies as the honest engine does."""
        return self._honest.verify(request, claimed, out_hash)


def main() -> int:
    """Serves dishonest answers until the process is terminated."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", required=True, type=Path, help="settings of the operator")
    parser.add_argument("--other", required=True, type=Path, help="artifact that runs under the promised one's name")
    parser.add_argument("--every", default=0, type=int, help="cheat on every Nth answer for ever (default: on the first four)")
    parser.add_argument("--planted", type=Path, help="file to which each fraud is written")
    arguments = parser.parse_args()

    def cheat(honest: Engine) -> Engine:
        loaded = artifact.load(arguments.other)
        other = RunsAnotherArtifact(honest, ExactEngine(loaded, threads=1), loaded.model_id)
        frauds = (AltersOneToken(honest), other, ForgesTheTrace(honest), ShowsAnotherText(honest))
        return CheatsInTurn(honest, frauds, arguments.every, arguments.planted)

    return run(load_settings(OperatorSettings, arguments.config), cheat)


if __name__ == "__main__":
    sys.exit(main())
