"""`python -m committee --config FILE`: a staked verifier with seats (`bytewise member run`).

Exit codes: `bytewise.service.exit_codes`.
"""

import os
import secrets
import sys
from collections.abc import Sequence
from pathlib import Path

from bytewise.crypto.bls import BlsSigner
from bytewise.protocol.errors.actors import (
    ConfigurationError,
)
from bytewise.service.entry_point import Parser, run_entry
from bytewise.service.schedule import stop_on_signals
from bytewise.service.secret import read_secret, write_secret
from bytewise.service.settings import load_settings
from bytewise.storage.duties import Duties
from bytewise.storage.protection import Protection, ReliedRoots
from chain.reads.history import CourtHistory
from committee.ballots import Ballots
from committee.certificates import Certificates
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
    certificates = _certificates(context)
    ballots = Ballots(
        context.network, context.records, context.da, Duties(context.database, context.clock),
        Protection(context.database, context.clock, context.lease), context.journal, context.signer, context.pool, os.urandom,
        context.settings.votes, context.fence, certificates,
    )  # fmt: skip
    auditor = context.auditor() if context.settings.policy.audits else None
    return context.node(auditor, None, ballots, ballots, certificates)


def _certificates(context: NodeContext) -> Certificates | None:
    """The part that makes certificates, if gossip is on and the member has a key for them. Registers the key."""
    gossip, key_file = context.gossip, context.settings.gossip.bls_key_file
    if gossip is None or key_file is None:
        return None
    bls, me, history = bls_signer(key_file), context.signer.address, CourtHistory(context.chain)
    head = context.chain.head()
    if any(context.chain.holdings(me, head).pool) and history.keys_at(head, head).get(me) != bls.public_key:
        context.sender.register_bls(bls)
    protection = Protection(context.database, context.clock, context.lease)
    relied = ReliedRoots(context.database)
    return Certificates(context.network.disputes_domain, history, gossip, protection, relied, context.signer, bls)


def bls_signer(path: Path) -> BlsSigner:
    """The key of a file, which is made if it is missing."""
    if not path.exists():
        write_secret(path, (secrets.randbelow(2**254 - 1) + 1).to_bytes(32).hex().encode())
    try:
        return BlsSigner(bytes.fromhex(read_secret(path).reveal().decode()))
    except ValueError:
        raise ConfigurationError("gossip.bls_key_file", f"{path.name}: needs 32 bytes in hex") from None


if __name__ == "__main__":
    sys.exit(main())
