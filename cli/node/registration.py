"""Finds the transactions with which an account registers or leaves, estimates their cost, and sends them in order."""

import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from bytewise.protocol.decisions.snapshot import Holdings
from bytewise.protocol.digests import keccak256_abi
from bytewise.protocol.errors.actors import ConfigurationError, SignerRefused, SigningRefused, TransactionPending, TryAgain
from bytewise.protocol.errors.branches import BytewiseError, Fault
from bytewise.protocol.evidence.appraisal_policy import EvidenceType
from bytewise.protocol.units import ZERO_DIGEST, Digest, digest, hex0x, unhex
from bytewise.service.clock import SystemClock, monotonic_s
from bytewise.storage.nonce_lease import NonceLease, hold_lease
from bytewise.storage.receipt_store import ReceiptStore
from chain.client.rpc import Inclusion, at_number
from chain.deployment.calls import ContractCall, dry_run, estimated_call, request_of
from chain.reads.reader import RegistryDocuments
from chain.sending.transactions import TransactionCall, fee_limit, send_all
from cli.node.checks.host import own_measurement
from cli.node.roles import NodeRole
from cli.node.view import NodeView
from cli.output import ether, moment

STEP_S = 120.0
"""Longest time to wait until a transaction is in a block, and for the next block, in seconds. It is ten blocks of main net."""
POLL_S = 0.5
"""Pause between two looks at the newest block, in seconds."""
_MOST_RECEIPTS = 10_000
"""Most signed receipts that are read to find out which of them can still be anchored."""


class Step(NamedTuple):
    """One transaction with which an account registers or leaves."""

    purpose: str
    """Effect of the transaction, as text for people."""
    call: ContractCall
    needs_next_block: bool = False
    """True if the contract accepts the transaction only in a later block than the previous step."""


def verifier_steps(
    view: NodeView, stake_wei: int, pool: str | None, platform_id: str | None, measurement: str | None
) -> list[Step]:
    """Returns the steps that are missing until the account is a verifier with this stake and measurement. `stake_wei` is the
    stake that the account should have in total. Raises `ConfigurationError` if an option that is needed is missing or wrong."""
    mine = view.reader.holdings(view.account, view.head)
    named = None if measurement is None else _digest("--measurement", measurement)
    if mine.pool != ZERO_DIGEST:
        # Quitting loses audits that are not finished. So the account quits only if the user named another measurement.
        return [*_deposit(mine, stake_wei), *_renewal(view, max(mine.stake_wei, stake_wei), named)]
    joined, program = _pool(view, pool), own_measurement(view) if named is None else named
    machine = _machine(view) if platform_id is None else _digest("--platform-id", platform_id)
    if machine is None or program is None:
        missing = "--platform-id" if machine is None else "--measurement"
        raise ConfigurationError(missing, "missing: only simulated machines are computed here (docs/reference/attestation.md)")
    announcement = keccak256_abi(("address", "bytes32"), (view.account, machine))
    return [
        *_deposit(mine, stake_wei),
        Step("announce the machine, so that nobody takes its id first", ContractCall("Registry", "announce", (announcement,))),
        Step(f"join pool {hex0x(joined)[:10]}…", ContractCall("Registry", "join", (joined, machine, program)), True),
    ]


def _renewal(view: NodeView, stake_wei: int, program: Digest | None) -> list[Step]:
    """Returns the steps that quit the pool and join it again with a new measurement, or no steps if `program` is None or
    registered.

    The contract would refuse a wrong `join` only after the account has quit, so all conditions of `join` are checked here
    first. The contract lets the last holder of a machine join with that machine at once.
    """
    registered = view.reader.membership(view.account, view.head)
    if program is None or program == registered.measurement:
        return []
    if not view.reader.is_allowed(program, view.head):
        raise ConfigurationError("--measurement", f"{hex0x(program)} is not allowed yet: wait until the curator allows it")
    least = view.reader.params(view.reader.params_version(view.head), view.head).money.min_verifier_stake
    if stake_wei < least:
        raise ConfigurationError("--stake", f"{stake_wei}: another measurement is registered, and joining again takes {least}")
    join = ContractCall("Registry", "join", (registered.pool, registered.platform_id, program))
    return [
        Step(f"quit, since {hex0x(registered.measurement)[:10]}… is registered", ContractCall("Registry", "quit", ())),
        Step(f"join pool {hex0x(registered.pool)[:10]}… again, with {hex0x(program)[:10]}…", join),
    ]


def operator_steps(view: NodeView, stake_wei: int, endpoint: str) -> list[Step]:
    """Returns the steps that are missing until the account is an operator with this stake in total, at this endpoint."""
    if not endpoint.startswith("https://"):
        raise ConfigurationError("--endpoint", f"{endpoint[:80]} is not https://…")
    mine = view.reader.holdings(view.account, view.head)
    registered = RegistryDocuments(view.reader).operators(view.head).get(view.account) if mine.is_operator else None
    register = Step(f"register {endpoint}", ContractCall("Registry", "registerOperator", (endpoint,)))
    return [*_deposit(mine, stake_wei), *([] if registered == endpoint else [register])]


class Later(NamedTuple):
    """An amount that the account can withdraw only later."""

    amount_wei: int
    what: str
    """Kind of the amount: `stake` or `credit`."""
    when: str
    """Time or condition from which the amount can be withdrawn, as text for people."""


def leaving(view: NodeView) -> tuple[list[Step], list[Later]]:
    """Returns the steps with which the account can leave now, and the amounts that it can withdraw only later."""
    mine, steps = view.reader.holdings(view.account, view.head), list[Step]()
    if mine.pool != ZERO_DIGEST:
        steps.append(Step(f"quit pool {hex0x(mine.pool)[:10]}…", ContractCall("Registry", "quit")))
    unbonding, later = _unbonding(view, mine) if view.reader.record_life(view.head) is None else ([], [_at_eigenlayer(mine)])
    steps += unbonding
    if mine.credit_due_wei:
        steps.append(Step(f"withdraw {ether(mine.credit_due_wei)} of credit", ContractCall("Ledger", "withdraw")))
    if mine.credit_wei > mine.credit_due_wei:
        opens_at = _call(view, "Ledger", "dueOf", view.account)["nextUnlockAt"]
        later.append(Later(mine.credit_wei - mine.credit_due_wei, "credit", _from(view, opens_at)))
    return steps, [each for each in later if each.amount_wei]


def _unbonding(view: NodeView, mine: Holdings) -> tuple[list[Step], list[Later]]:
    steps, later, waiting = list[Step](), list[Later](), _waiting_receipts(view, mine.last_seq)
    if mine.unbond_due_wei:
        steps.append(Step(f"withdraw {ether(mine.unbond_due_wei)} of stake", ContractCall("StakeVault", "finishUnbond")))
    if mine.unbonding_wei > mine.unbond_due_wei:
        opens_at = _call(view, "StakeVault", "unbondingOf", view.account)["nextAt"]
        later.append(Later(mine.unbonding_wei - mine.unbond_due_wei, "stake", _from(view, opens_at)))
    if mine.stake_wei and waiting:
        later.append(Later(mine.stake_wei, "stake", f"after the operator has anchored what it signed ({waiting})"))
    elif mine.stake_wei:
        delay_s = view.reader.params(view.reader.params_version(view.head), view.head).times.unbond_delay
        call = ContractCall("StakeVault", "requestUnbond", (mine.stake_wei,))
        steps.append(Step(f"begin to withdraw {ether(mine.stake_wei)} of stake", call))
        later.append(Later(mine.stake_wei, "stake", _from(view, int(_call(view, "Guardian", "clock")) + delay_s)))
    return steps, later


def _waiting_receipts(view: NodeView, last_seq: int) -> str:
    """Describes the signed receipts of an operator that can still be anchored, or returns an empty text if there are none. The
    stake must stay for them, because anchoring needs free stake. A receipt counts until its request expires."""
    if view.role is not NodeRole.OPERATOR:
        return ""
    store, now = ReceiptStore(view.database, SystemClock(), view.account), view.chain.head().timestamp
    batch = store.open_batch()
    if batch is not None:
        return f"receipts {batch.first_seq} to {batch.first_seq + batch.count - 1}"
    signed = [int(each.receipt.seq) for each in store.unbatched(_MOST_RECEIPTS, last_seq + 1)]
    open_ = [seq for seq, expires_at in sorted(store.expiries(signed).items()) if expires_at >= now]
    return f"receipts {open_[0]} to {open_[-1]}" if open_ else ""


def _at_eigenlayer(mine: Holdings) -> Later:
    return Later(mine.stake_wei, "stake", "by the programs of EigenLayer, where it is allocated")


def _from(view: NodeView, opens_at: int) -> str:
    """Tells when an amount can be withdrawn, as text for people. `opens_at` is the second of the protocol clock from which on the
    contracts pay it."""
    clock = int(_call(view, "Guardian", "clock"))
    if opens_at <= clock:
        return "when open receipts or disputes no longer bind it, and the network is not paused"
    return f"not before {moment(view.chain.head().timestamp + opens_at - clock)}; a pause of the network delays it"


def _call(view: NodeView, contract: str, function: str, *arguments: Any) -> Any:
    where = ContractCall(contract, function).target(view.network)
    return view.chain.call(contract, where, function, *arguments, block=at_number(view.head))


def quotes(view: NodeView, steps: list[Step]) -> Iterator[dict[str, Any]]:
    """Yields each step as it would be sent: purpose, target, value, calldata and gas. The gas is None if the chain node
    gives no estimate, usually because the step depends on an earlier step."""
    for step in steps:
        request = request_of(view.network, view.account, step.call)
        try:
            gas: int | None = view.chain.estimate(request)
        except (BytewiseError, ValueError):
            gas = None  # the contract accepts the step only after an earlier one
        yield {
            "purpose": step.purpose, "call": str(step.call), "target": request["to"], "value_wei": step.call.value_wei,
            "calldata": request["data"], "gas": gas,
        }  # fmt: skip


def cost_wei(view: NodeView, steps: list[Step]) -> int:
    """Returns the most wei that all steps may cost: the values of the calls, and a million gas for each at the largest fee cap of
    now (`fee_limit`)."""
    gas_price = fee_limit(view.chain.head().base_fee_wei)
    return sum(step.call.value_wei + 1_000_000 * gas_price for step in steps)


def send(view: NodeView, steps: list[Step], told: Callable[[Step, str], None]) -> None:
    """Sends the steps in order, under the account's nonce lease. `told` is called after each step. Raises `LeaseTaken` if the
    node runs, and `ConfigurationError` if transactions of the node are not in a block yet or a contract refuses a step."""
    # The property asks a person for the keystore's password if it is needed, so this happens before anything is sent.
    signer = view.signer
    lease = NonceLease(view.database, SystemClock(), view.network.chain_id, signer.address)
    with hold_lease(lease, threading.Event(), wait=False):
        _verify_nothing_under_way(view, lease)
        for step in steps:
            if step.needs_next_block:
                _next_block(view)
            try:
                dry_run(view.chain, view.network, view.account, step.call)
                transaction = estimated_call(view.chain, view.network, signer, step.call)
                done = _included(view, transaction)
            except (SignerRefused, SigningRefused):
                raise
            except Fault as error:
                raise ConfigurationError(str(step.call), f"refused: {error}") from None
            told(step, f"block {done.number}, transaction {hex0x(done.transaction)}")


def _included(view: NodeView, transaction: TransactionCall) -> Inclusion:
    """Sends one transaction and waits until it is in a block. Raises `TryAgain` if that takes too long. The error says
    not to start the node before, because the node does not know that the transaction uses a nonce."""
    try:
        return send_all(view.chain, [transaction], STEP_S)[0]
    except TransactionPending as error:
        do = "do not start the node before it is in one, and repeat this command, which replaces it"
        raise TryAgain("chain", f"{error}; {do}") from None


def _verify_nothing_under_way(view: NodeView, lease: NonceLease) -> None:
    """Raises `ConfigurationError` if the node signed transactions that are not in a block yet. A step would use the nonce of such
    a transaction, and the node would then stop sending. If the account is stopped already, for example because its key was
    stolen, nothing is raised, so that it can leave."""
    used = view.chain.nonce(view.account)
    following = lease.next_nonce(used)
    if following > used and not lease.stop_reason():
        why = f"{following - used} signed by the node are in no block: start it until `bytewise status` shows none under way"
        raise ConfigurationError("transactions", why)


def _next_block(view: NodeView) -> None:
    began, first = monotonic_s(), view.chain.head().number
    while view.chain.head().number == first:
        if monotonic_s() - began > STEP_S:
            raise TryAgain("chain", f"no new block in {STEP_S:.0f} s")
        threading.Event().wait(POLL_S)


def _deposit(mine: Holdings, stake_wei: int) -> list[Step]:
    missing = stake_wei - mine.stake_wei
    return [Step("deposit stake", ContractCall("StakeVault", "deposit", (), missing))] if missing > 0 else []


def _pool(view: NodeView, named: str | None) -> Digest:
    pools = [each.digest for each in view.network.pools]
    if named is not None:
        found = _digest("--pool", named)
        if found not in pools:
            raise ConfigurationError("--pool", f"{named[:20]}… is none of {', '.join(map(hex0x, pools))}")
        return found
    if len(pools) != 1:
        raise ConfigurationError("--pool", f"name one of {', '.join(map(hex0x, pools))}")
    return pools[0]


def _machine(view: NodeView) -> Digest | None:
    from cryptography.hazmat.primitives import hashes

    from bytewise.tee_simulated.authorities import Platform

    enclave = view.enclave
    if enclave is None or enclave.evidence is not EvidenceType.SIMULATED or enclave.platform_file is None:
        return None
    return Digest(Platform(enclave.platform_file).pck_ca.certificate.fingerprint(hashes.SHA256()))


def _digest(option: str, text: str) -> Digest:
    try:
        return digest(unhex(text))
    except Fault:
        raise ConfigurationError(option, f"{text[:80]} is not 0x and 64 hex digits") from None
