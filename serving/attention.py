"""`python -m serving.attention --config FILE --folder DIR`: the operator of an attention fund (`bytewise attention run`).

It is `python -m serving` with one difference: after an answer was computed, it is made false if the fund's secret schedule
selects it. Only this machine can reach the endpoint, because no user may get a false answer.
"""

import ipaddress
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bytewise.protocol.attention.reveal import RevealedAnswer
from bytewise.protocol.attention.schedule import FraudSchedule, false_answer
from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.records.request import Request
from bytewise.protocol.records.trace import Generated
from bytewise.protocol.units import Address
from bytewise.service.entry_point import Parser, run_entry
from bytewise.service.node_files.attention_folder import AttentionFolder
from bytewise.service.settings import load_settings
from serving.pipeline import AnswerHook
from serving.settings import OperatorSettings
from serving.wiring import run


@dataclass(frozen=True, slots=True)
class ScheduledAnswers:
    """The answer hook of an attention fund (`serving.pipeline.AnswerHook`). It makes an answer false if the schedule selects
    the answer."""

    schedule: FraudSchedule
    folder: AttentionFolder
    """Folder that stores the opening of each false answer for the reveal."""

    def finish(self, seq: int, request: Request, answer: Generated) -> Generated:
        """Returns the answer, or a false answer if the schedule selects number `seq`.

        The hook writes the opening of a false answer to the disk before the operator signs the receipt. A retry replaces the
        opening.
        """
        kind = self.schedule.fraud_at(seq)
        if kind is None:
            return answer
        false = false_answer(kind, request, answer)
        # Nothing is logged: before the reveal, no log may tell tests from other answers.
        self.folder.keep_opening(seq, RevealedAnswer(request, false.output))
        return false


def verify_private(settings: OperatorSettings) -> None:
    """Checks that only this machine can reach the endpoint, because no user may get a false answer. Raises `ConfigurationError`
    if another machine can reach it."""
    host = settings.listen.host
    try:
        is_local = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_local = False
    if not is_local:
        raise ConfigurationError("listen.host", f"{host}: the operator of a fund answers its own questions only; use 127.0.0.1")


def main(arguments: Sequence[str] | None = None) -> int:
    """Reads settings and schedule and runs the operator. Returns the exit code of the process."""
    parser = Parser("serving.attention", __doc__)
    parser.add_argument("--folder", type=Path, required=True, help="folder that `bytewise attention commit` wrote")
    given = parser.parse_args(arguments)
    return run_entry("operator", lambda: _serve(given.config, AttentionFolder(given.folder)))


def _serve(config: Path, folder: AttentionFolder) -> int:
    settings, schedule = load_settings(OperatorSettings, config), folder.schedule()
    verify_private(settings)

    def hook_of(operator: Address, chain_id: int) -> AnswerHook:
        terms = schedule.terms
        if (terms.operator, terms.chain_id) != (operator, chain_id):
            raise ConfigurationError("folder", f"its schedule is of {terms.operator}, and these settings run {operator}")
        return ScheduledAnswers(schedule, folder).finish

    return run(settings, config=config, hook_of=hook_of)


if __name__ == "__main__":
    sys.exit(main())
