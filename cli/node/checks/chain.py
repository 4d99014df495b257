"""Checks of `bytewise doctor` that ask the chain: its nodes, the contracts, the account and its duties."""

import statistics
import time
from collections.abc import Iterator

from bytewise.protocol.court.params import ParamSet
from bytewise.protocol.decisions.snapshot import Holdings
from bytewise.protocol.errors.branches import BytewiseError
from bytewise.protocol.evidence.appraisal_policy import TEST_CHAIN_IDS
from bytewise.protocol.units import ZERO_DIGEST, hex0x
from bytewise.service.clock import SystemClock, monotonic_s
from bytewise.service.installation import package_version
from bytewise.service.readiness import MAX_AHEAD_S, Check
from bytewise.storage.protection import Protection
from chain.client.address_book import contracts_of_other_releases
from chain.client.rpc import LOGS_PER_CALL_BLOCKS, ChainClient, at_number
from chain.deployment.lengths import finality_s, measured_block_s
from cli.node.checks.shard import policy, share, share_age
from cli.node.roles import JUDGES, NodeRole
from cli.node.view import CheckOfNode, NodeView
from cli.output import ether
from serving.chain_view import ChainReadiness
from serving.readiness import least_stake_wei, operator_required_wei
from serving.settings import OperatorSettings, read_environment
from verifier.observation import ShardPresence, measurement_check, required_wei
from verifier.settings import NodeSettings

HEAD_AGE_S = 120
"""Largest allowed age of a chain node's newest block, in seconds. It is ten blocks of main net."""
AGREED_DEPTH = 64
"""Number of blocks below the newest block of the slowest chain node, at which all chain nodes must have the same block. It is two
epochs of main net."""
CALLS, RTT_S = 9, 2.0
"""Number of calls with which `round_trip` measures a chain node, and the longest allowed time of one call, in seconds."""


def chain_id(view: NodeView) -> Check:
    """Checks that every chain node is on the chain of the address book."""
    wanted, wrong = view.network.chain_id, []
    for place, node in enumerate(view.nodes, 1):
        try:
            node.head()
        except BytewiseError as error:
            wrong.append(f"node {place}: {error}")
    found = "; ".join(wrong) or f"{wanted} on {len(view.nodes)} of {len(view.nodes)} nodes"
    return Check("chain_id", not wrong, found, f"chain {wanted} on every node", "Correct [chain] rpc_url, or the address book.")


def contract_code(view: NodeView) -> Check:
    """Checks that the contracts have the code and wiring of the address book. `view.reader` raises an error if they do not."""
    addresses = len(view.reader.network.code)
    return Check(
        "contract_code", True, f"{addresses} contracts as the book says", "every code hash of the address book",
        "Take the address book from the network's deployer again.",
    )  # fmt: skip


def contract_release(view: NodeView) -> Check:
    """Checks that the contracts are those with which this release was built. The code is compared because the chain does not name
    a version of this program."""
    version, book = package_version(), view.reader.network
    other = contracts_of_other_releases(view.chain, book)
    found = f"{len(book.code) - len(other)} of {len(book.code)} contracts are of release {version}"
    return Check(
        "contract_release", not other, found + (f", not {', '.join(other)}" if other else ""),
        "all contracts as this release was built with them",
        "Install the release that the network's deployer names (docs/guide/upgrade-a-node.md).",
    )  # fmt: skip


def head_age(view: NodeView) -> Check:
    """Checks the age of each chain node's newest block by this machine's clock. The largest age counts."""
    ages = [max(SystemClock().now() - node.head().timestamp, 0) for node in view.nodes]
    return Check(
        "head_age", max(ages) <= HEAD_AGE_S, f"{max(ages)} s", f"at most {HEAD_AGE_S} s",
        "Wait until the node has synchronised, or name another one.",
    )  # fmt: skip


def node_agreement(view: NodeView) -> Check:
    """Checks that all chain nodes have the same block at a depth of `AGREED_DEPTH`, and that none is far behind."""
    heads = [node.head().number for node in view.nodes]
    at = max(min(heads) - AGREED_DEPTH, 0)
    hashes = {node.block(at).hash for node in view.nodes}
    found = f"{len(hashes)} different blocks at height {at}" if len(hashes) > 1 else f"{len(heads)} nodes agree at height {at}"
    return Check(
        "node_agreement", len(hashes) == 1 and max(heads) - min(heads) <= AGREED_DEPTH, found, "one block on all nodes",
        "One node is on a fork or far behind: replace it.",
    )  # fmt: skip


def node_count(view: NodeView) -> Check:
    """Checks that the settings name enough chain nodes, so that one lying or broken chain node cannot mislead a node that has
    money at stake."""
    count, needed = len(view.nodes), 1 if view.role in (NodeRole.WATCHTOWER, NodeRole.MONITOR) else 2
    is_test = view.network.chain_id == 31337
    return Check(
        "node_count", count >= needed or is_test, f"{count}" + (" (a development chain)" if is_test else ""),
        f"at least {needed}, of different providers", "Name more nodes in [chain] rpc_urls: one alone can mislead this node.",
    )  # fmt: skip


def log_range(view: NodeView) -> Check:
    """Checks that every chain node answers a query for the events of `LOGS_PER_CALL_BLOCKS` blocks: this program asks for at most
    that many blocks in one call."""
    network = view.network
    for node in view.nodes:
        head = node.head().number
        first = max(head - LOGS_PER_CALL_BLOCKS + 1, 0)
        node.logs("ReceiptAnchor", network.addresses.receipt_anchor, ["BatchAnchored"], first, head)
    return Check(
        "log_range", True, f"{LOGS_PER_CALL_BLOCKS} blocks in one call", f"{LOGS_PER_CALL_BLOCKS} blocks in one call",
        "Choose a node that allows it.",
    )  # fmt: skip


def old_state(view: NodeView) -> Check:
    """Checks that the chain nodes can still read a state that is as old as a challenge window and the longest time until a
    receipt is anchored together."""
    seconds = _params(view).times.window + _params(view).times.max_anchor_delay
    newest = view.chain.head()
    blocks = newest.number - view.reader.network.deploy_block
    older = view.chain.block(max(newest.number - min(blocks, 100), 0))
    pace = max((newest.timestamp - older.timestamp) / max(newest.number - older.number, 1), 0.1)
    at = max(newest.number - int(seconds / pace), int(view.network.deploy_block))
    view.reader.client.balance(view.network.addresses.ledger, at_number(at))
    return Check(
        "old_state", True, f"readable at block {at}", f"{seconds} s back", "Choose a node that keeps the state for as long.",
    )  # fmt: skip


def round_trip(view: NodeView) -> Check:
    """Checks that a call to the first chain node is fast enough. The slowest of `CALLS` calls counts."""
    times = sorted(_round_trips(view.nodes[0]))
    median, worst = statistics.median(times), times[-1]
    return Check(
        "round_trip", worst <= RTT_S, f"median {1000 * median:.0f} ms, worst of {CALLS} {1000 * worst:.0f} ms",
        f"worst at most {1000 * RTT_S:.0f} ms", "Choose a node that is nearer or less busy.",
    )  # fmt: skip


def _round_trips(node: ChainClient) -> Iterator[float]:
    node.head()
    for _ in range(CALLS):
        began = monotonic_s()
        node.rpc("eth_blockNumber")
        yield monotonic_s() - began


def clock(view: NodeView) -> Check:
    """Checks that this machine's clock is not behind the chain's clock. A clock that is ahead fails `head_age` instead. On a test
    chain the check always passes, because there any time can be set."""
    behind = view.chain.head().timestamp - time.time()
    is_late = behind > MAX_AHEAD_S and view.network.chain_id not in TEST_CHAIN_IDS
    return Check(
        "clock", not is_late, f"{behind:.0f} s behind the newest block" if behind > 1 else "not behind the newest block",
        f"at most {MAX_AHEAD_S} s behind", "Start a time service (chrony, systemd-timesyncd).",
    )  # fmt: skip


def registration(view: NodeView) -> Check:
    """Checks that the account is registered as its role requires, and that an operator is not suspended."""
    mine = _holdings(view)
    if view.role is NodeRole.OPERATOR:
        found = "suspended" if mine.is_suspended else "registered" if mine.is_operator else "not registered"
        return Check(
            "registration", mine.is_operator and not mine.is_suspended, f"{view.account} is {found}", "a registered operator",
            "`bytewise operator register`; a suspended operator is readmitted by the curator.",
        )  # fmt: skip
    pool = "no pool" if mine.pool == ZERO_DIGEST else f"pool {hex0x(mine.pool)[:10]}…"
    return Check(
        "registration", mine.pool != ZERO_DIGEST, f"{view.account} is in {pool}", "a verifier of a pool",
        "`bytewise verifier register`",
    )  # fmt: skip


def registered_measurement(view: NodeView) -> Check:
    """Checks that the network still allows the measurement with which the account joined its pool, and that the stake counts."""
    found = view.reader.registered_measurement(view.account, view.head)
    is_enough = _holdings(view).stake_wei >= _params(view).money.min_verifier_stake
    return measurement_check(found, view.account, is_enough)


def stake(view: NodeView) -> Check:
    """Checks that the account has enough stake for its role. An operator needs enough to accept one more request."""
    mine, money, serves = _holdings(view), _params(view).money, view.role is NodeRole.OPERATOR
    least = least_stake_wei(mine, money) if serves else money.min_verifier_stake
    verb = "operator register --endpoint URL" if serves else "verifier register"
    more = f"Stop the node and deposit more: `bytewise {verb} --stake {least}`"
    return Check(
        "stake", mine.stake_wei >= least, ether(mine.stake_wei),
        f"at least {ether(least)}" + (f", of which open receipts lock {ether(mine.collateral_wei)}" if serves else ""),
        f"{more}, or wait until open receipts free what they bind." if serves else f"{more}.",
    )  # fmt: skip


def balance(view: NodeView) -> Check:
    """Checks that the account's balance covers the worst case of its role (`worst_case_wei`)."""
    mine, least = _holdings(view).balance_wei, worst_case_wei(view)
    return Check(
        "balance", mine >= least, ether(mine), f"at least {ether(least)}: bonds, and gas at the highest fee that it pays",
        f"Send ether to {view.account}.",
    )  # fmt: skip


def serving(view: NodeView) -> Check:
    """Checks that the operator may accept requests. The chain must be in the state that `/readyz` of the operator's process
    requires: among others, the operator's settings must accept the active key epoch."""
    from bytewise.inference.profiles import model_id_of

    settings = view.settings
    assert isinstance(settings, OperatorSettings), "asked only for an operator"
    environment, model_id = read_environment(settings.model.environment_file), model_id_of(settings.model.artifact)
    fee_wei, accept = settings.signer.max_fee_wei, settings.accept
    closed = ChainReadiness(view.reader, view.account, environment.digest, model_id, fee_wei, accept).read().closed_because
    return Check(
        "serving", closed is None, closed or "requests are accepted", "requests are accepted",
        "Mend what the reason names: until then requests get no answer.",
    )  # fmt: skip


def worst_case_wei(view: NodeView) -> int:
    """Returns the most wei that a node of this role may pay before any of that money comes back. `/readyz` of the node's process
    requires the same balance."""
    signer, settings, params = view.signer_settings, view.settings, _params(view)
    assert signer is not None, "a shard and a monitor pay nothing"
    snapshot = view.reader.snapshot(view.account, view.head)
    if isinstance(settings, NodeSettings):
        fee = 0 if settings.observes else signer.max_fee_wei
        return required_wei(snapshot, settings.role, params, fee, settings.demand_policy.budget_wei)
    return operator_required_wei(params, snapshot.price_wei, signer.max_fee_wei)


def key_shards(view: NodeView) -> Check:
    """Checks that enough shards of the active key epoch say that their share is in force. `/readyz` asks the shards in the same
    way."""
    snapshot, presence = view.reader.snapshot(view.account, view.head), ShardPresence()
    if snapshot.active_epoch:
        presence.note(view.reader.epoch(snapshot.active_epoch, view.head))
    return presence.check()


def protection(view: NodeView) -> Check:
    """Checks that the protection table has every vote of this account that is committed on the chain in an open round."""
    table = Protection(view.database, SystemClock())
    first = int(view.network.deploy_block)
    snapshot = view.reader.snapshot(view.account, view.head, view.reader.opened(first, view.head))
    cast = [case for case in snapshot.disputes for mine in [case.seat_of(view.account)] if mine is not None and mine.committed]
    missing = [case for case in cast if table.known(case.id, case.round, view.account) is None]
    found = ", ".join(f"dispute {hex0x(case.id)[:10]}… round {case.round} is missing" for case in missing)
    return Check(
        "protection", not missing, found or f"{len(cast)} votes of open rounds are known", "every vote of an open round",
        "Restore the newest database, or `bytewise member import-votes`; never vote with this one.",
    )  # fmt: skip


def vote_time(view: NodeView) -> Check:
    """Checks that the first half of a commit phase is long enough for the draw to become final and for one execution of the
    model. In the second half, a member that got no partials votes NO_KEY."""
    times, final_s = _params(view).times, finality_s(view.network.chain_id, measured_block_s(view.chain))
    return Check(
        "vote_time", times.commit_time // 2 >= final_s + times.execution_bound, f"{times.commit_time} s to commit",
        f"twice the {final_s} s until shards see the draw and the longest execution, {times.execution_bound} s",
        "The parameters leave no time: do not join this network.",
    )  # fmt: skip


def _holdings(view: NodeView) -> Holdings:
    return view.reader.holdings(view.account, view.head)


def _params(view: NodeView) -> ParamSet:
    return view.reader.params(view.reader.params_version(view.head), view.head)


GATES = (chain_id, contract_code)
"""The gates are the first checks that ask the chain. If one fails, no later check is run."""
EVERYBODY = (contract_release, head_age, node_agreement, node_count, log_range, old_state, round_trip, clock)
"""Checks that apply to every role."""


def checks_of(role: NodeRole) -> tuple[CheckOfNode, ...]:
    """Returns the checks of the chain that apply to a role, without `GATES`, in the order in which they run."""
    staked = (registration, stake) if role in (*JUDGES, NodeRole.OPERATOR) else ()
    paying = (balance,) if role not in (NodeRole.MONITOR, NodeRole.SHARD) else ()
    judging = (registered_measurement, key_shards, vote_time, protection) if role in JUDGES else ()
    own = {NodeRole.OPERATOR: (serving,), NodeRole.SHARD: (share, policy, share_age)}.get(role, ())
    return (*EVERYBODY, *staked, *paying, *judging, *own)
