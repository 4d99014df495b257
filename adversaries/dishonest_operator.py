"""An operator that cheats on its first four receipts: an altered token, another artifact, a forged trace, another text.

`python -m adversaries.dishonest_operator --config FILE --other ARTIFACT`: the same settings file as `bytewise operator run`.
"""

import argparse
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from bytewise.inference.artifact import artifact
from bytewise.inference.engine import ExactEngine
from bytewise.ports import Engine
from bytewise.protocol.digests import Label, labelled
from bytewise.protocol.records.compare import Generated, Verification
from bytewise.protocol.records.request import Output, Request, output_for
from bytewise.protocol.units import Digest
from bytewise.service.settings import load_settings
from serving.settings import OperatorSettings
from serving.wiring import run

# Dishonest engines, one for each fraud. They wrap an honest engine, so that `serving` needs no switch for cheating.


class AltersOneToken:
    """Gives the true answer with one token in the middle changed. The trace root stays that of the true computation."""

    def __init__(self, honest: Engine) -> None:
        self._honest = honest

    def generate(self, request: Request) -> Generated:
        """The true answer with its middle token replaced by the next id."""
        true = self._honest.generate(request)
        tokens = list(true.output.token_ids)
        middle = len(tokens) // 2
        tokens[middle] = tokens[middle] + 1 if tokens[middle] == 0 else tokens[middle] - 1
        return Generated(output_for(request, tuple(tokens), true.output.finish_reason), true.leaves)

    def verify(self, request: Request, claimed: Output, out_hash: Digest) -> Verification:
        """As the honest engine."""
        return self._honest.verify(request, claimed, out_hash)


class RunsAnotherArtifact:
    """Always runs a cheaper model than the receipt names: tokens and trace are those of the other artifact."""

    def __init__(self, honest: Engine, other: Engine, other_id: Digest) -> None:
        self._honest = honest
        self._other = other
        self._other_id = other_id

    def generate(self, request: Request) -> Generated:
        """The answer of the other artifact, under the name of the promised one."""
        given = self._other.generate(replace(request, model_id=self._other_id))
        return replace(given, output=output_for(request, given.output.token_ids, given.output.finish_reason))

    def verify(self, request: Request, claimed: Output, out_hash: Digest) -> Verification:
        """As the honest engine."""
        return self._honest.verify(request, claimed, out_hash)


class ForgesTheTrace:
    """Gives true tokens with a trace that was not computed, like a cached or guessed answer."""

    def __init__(self, honest: Engine) -> None:
        self._honest = honest

    def generate(self, request: Request) -> Generated:
        """The true answer with one forged leaf."""
        true = self._honest.generate(request)
        forged = (labelled(Label.TRACE_LEAF, b"forged", true.leaves[0]), *true.leaves[1:])
        return replace(true, leaves=forged)

    def verify(self, request: Request, claimed: Output, out_hash: Digest) -> Verification:
        """As the honest engine."""
        return self._honest.verify(request, claimed, out_hash)


@dataclass(frozen=True, slots=True)
class Relabelled(Generated):
    """An answer with the `out_hash` of another answer."""

    claimed: Digest
    """The `out_hash` of the other answer."""

    @property
    def out_hash(self) -> Digest:
        """The `out_hash` in the receipt."""
        return self.claimed


class ShowsAnotherText:
    """Runs the model, but shows, seals and signs another text. `outHash` stays that of the true answer."""

    def __init__(self, honest: Engine) -> None:
        self._honest = honest
        self._altered = AltersOneToken(honest)

    def generate(self, request: Request) -> Generated:
        """An altered answer with the `out_hash` of the true one."""
        altered = self._altered.generate(request)
        true = self._honest.generate(request)
        return Relabelled(altered.output, altered.leaves, true.out_hash)

    def verify(self, request: Request, claimed: Output, out_hash: Digest) -> Verification:
        """As the honest engine."""
        return self._honest.verify(request, claimed, out_hash)


class CheatsInTurn:
    """Commits one fraud of each kind in the first requests, then gives honest answers."""

    def __init__(self, honest: Engine, frauds: tuple[Engine, ...]) -> None:
        self._honest = honest
        self._turns = list(frauds)

    def generate(self, request: Request) -> Generated:
        """The answer of the next fraud."""
        answer = (self._turns[0] if self._turns else self._honest).generate(request)
        # A failed request does not count, because the client sends it again.
        self._turns = self._turns[1:]
        return answer

    def verify(self, request: Request, claimed: Output, out_hash: Digest) -> Verification:
        """As the honest engine."""
        return self._honest.verify(request, claimed, out_hash)


def main() -> int:
    """Serves dishonestly until terminated."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", required=True, type=Path, help="settings of the operator")
    parser.add_argument("--other", required=True, type=Path, help="artifact that runs under the promised one's name")
    arguments = parser.parse_args()

    def cheat(honest: Engine) -> Engine:
        loaded = artifact.load(arguments.other)
        other = RunsAnotherArtifact(honest, ExactEngine(loaded, threads=1), loaded.model_id)
        return CheatsInTurn(honest, (AltersOneToken(honest), other, ForgesTheTrace(honest), ShowsAnotherText(honest)))

    return run(load_settings(OperatorSettings, arguments.config), cheat)


if __name__ == "__main__":
    sys.exit(main())
