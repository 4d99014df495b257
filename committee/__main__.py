"""`python -m committee --config FILE`: runs a committee member, a staked verifier that also votes in disputes (`bytewise member
run`).

Exit codes: `bytewise.service.exit_codes`.
"""

import itertools
import os
import secrets
import sys
from collections.abc import Sequence
from pathlib import Path

from bytewise.crypto.bls import BlsSigner
from bytewise.protocol.errors.actors import (
    ConfigurationError,
)
from bytewise.protocol.units import Address
from bytewise.service.entry_point import Parser, run_entry
from bytewise.service.schedule import stop_on_signals
from bytewise.service.secret import read_secret, write_secret
from bytewise.service.settings import load_settings
from bytewise.storage.duties import Duties
from bytewise.storage.protection import Protection, ReliedRoots
from chain.acts.actor import ContractSender
from chain.reads.history import CourtHistory, KeyRegister
from committee.ballots import Ballots, SeatResults
from committee.certificates import Certificates
from verifier.node import Node
from verifier.settings import NodeSettings, Role
from verifier.wiring import NodeContext, run


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the member until SIGTERM or SIGINT, and returns the exit code."""
    config = Parser("committee", __doc__).parse_args(arguments).config

    def work() -> int:
        settings = load_settings(NodeSettings, config)
        if settings.role is not Role.MEMBER:
            raise ConfigurationError("role", f"{settings.role}: this program runs a member; start others with `verifier run`")
        return run("committee", settings, build_node, stop_on_signals(), config)

    return run_entry("committee", work)


def build_node(context: NodeContext) -> Node:
    """Builds the node of a committee member: a verifier with the parts that vote and make verdict certificates."""
    certificates = _certificates(context)
    ballots = Ballots(
        context.network, context.records, context.da, Duties(context.database, context.clock),
        Protection(context.database, context.clock, context.lease), context.journal, context.signer, context.pool, os.urandom,
        context.settings.votes, context.fence, certificates,
    )  # fmt: skip
    auditor = context.auditor() if context.settings.policy.audits else None
    seats = SeatResults(CourtHistory(context.chain), context.signer.address)
    return context.node(auditor, None, ballots, ballots, (seats,) if certificates is None else (certificates, seats))


def _certificates(context: NodeContext) -> Certificates | None:
    """Builds the part that makes verdict certificates. If the member is in a pool and the chain lacks its BLS key, registers the
    key. Returns None if gossip is off or the settings name no BLS key file."""
    gossip, key_file = context.gossip, context.settings.gossip.bls_key_file
    if gossip is None or key_file is None:
        return None
    me, history, head = context.signer.address, CourtHistory(context.chain), context.chain.head()
    pool = context.chain.pool(context.chain.holdings(me, head).pool, head)
    if pool is None:
        bls = bls_signer(key_file)
    else:
        bls = registered_key(history.key_register(head), context.sender, me, pool.tree, head, key_file)
    protection = Protection(context.database, context.clock, context.lease)
    relied = ReliedRoots(context.database)
    return Certificates(context.network.disputes_domain, history, gossip, protection, relied, context.signer, bls)


def registered_key(
    register: KeyRegister, sender: ContractSender, me: Address, tree: Address, head: int, path: Path
) -> BlsSigner:  # fmt: skip
    """Returns the member's BLS key for the pool of this stake tree, and registers the key on the chain if it is not there.

    The contract binds a key to one account and one pool for good, and a replaced key never counts again. If a key file's key
    cannot be used in this pool, the function tries or creates the next file beside it: `bls.key`, `bls-2.key`, `bls-3.key`.
    """
    files = (path if number == 1 else path.with_stem(f"{path.stem}-{number}") for number in itertools.count(1))
    keys = (bls_signer(each) for each in files)
    bls = next(each for each in keys if register.is_usable(me, each.public_key, tree))
    if register.keys_at(tree, head).get(me) != bls.public_key:
        sender.register_bls(bls)
    return bls


def bls_signer(path: Path) -> BlsSigner:
    """Reads the BLS key of a file. A missing file is created with a new key. Raises `ConfigurationError` if the file is
    malformed."""
    if not path.exists():
        write_secret(path, (secrets.randbelow(2**254 - 1) + 1).to_bytes(32).hex().encode())
    try:
        return BlsSigner(bytes.fromhex(read_secret(path).reveal().decode()))
    except ValueError:
        raise ConfigurationError("gossip.bls_key_file", f"{path.name}: needs 32 bytes in hex") from None


if __name__ == "__main__":
    sys.exit(main())
