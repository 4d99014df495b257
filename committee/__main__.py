"""`python -m committee --config FILE`: a staked verifier with seats (`bytewise member run`).

Exit codes: `bytewise.service.exit_codes`.
"""

import os
import sys
from collections.abc import Sequence

from bytewise.protocol.errors.actors import (
    ConfigurationError,
)
from bytewise.service.entry_point import Parser, run_entry
from bytewise.service.schedule import stop_on_signals
from bytewise.service.settings import load_settings
from bytewise.storage.duties import Duties
from bytewise.storage.protection import Protection
from committee.ballots import Ballots
from verifier.node import Node
from verifier.settings import NodeSettings, Role
from verifier.wiring import NodeContext, run


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the member until SIGTERM; the exit code."""
    config = Parser("committee", __doc__).parse_args(arguments).config

    def work() -> int:
        settings = load_settings(NodeSettings, config)
        if settings.role is not Role.MEMBER:
            raise ConfigurationError("role", f"{settings.role}: this program runs a member; start others with `verifier run`")
        return run("committee", settings, build_node, stop_on_signals(), config)

    return run_entry("committee", work)


def build_node(context: NodeContext) -> Node:
    """A node that votes."""
    ballots = Ballots(
        context.network, context.records, context.da, Duties(context.database, context.clock),
        Protection(context.database, context.clock, context.lease), context.journal, context.signer, context.pool, os.urandom,
        context.settings.votes, context.fence,
    )  # fmt: skip
    auditor = context.auditor() if context.settings.policy.audits else None
    return context.node(auditor, None, ballots, ballots)


if __name__ == "__main__":
    sys.exit(main())
