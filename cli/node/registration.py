"""The transactions of a registration: finds the missing ones, estimates their cost, and sends them in order."""

import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from bytewise.protocol.decisions.snapshot import Holdings
from bytewise.protocol.digests import keccak256_abi
from bytewise.protocol.errors.actors import ConfigurationError, SignerRefused, SigningRefused, TryAgain
from bytewise.protocol.errors.branches import BytewiseError, Fault
from bytewise.protocol.evidence.appraisal_policy import EvidenceType
from bytewise.protocol.units import ZERO_DIGEST, Digest, digest, hex0x, unhex
from bytewise.service.clock import SystemClock, monotonic_s
from bytewise.storage.nonce_lease import NonceLease, hold_lease
from chain.deployment.calls import ContractCall, dry_run, measured, request_of
from chain.sending.fees import fees_at
from chain.sending.transactions import send_all
from cli.node.host_checks import own_measurement
from cli.node.view import NodeView

STEP_S = 120.0
"""Longest wait for one transaction, and for the block after it, in seconds: ten blocks of main net."""
POLL_S = 0.5


class Step(NamedTuple):
    """One transaction of a registration."""

    purpose: str
    """Its effect, as text for people."""
    call: ContractCall
    needs_next_block: bool = False
    """Whether the contract accepts it only in a later block than the step before."""


def verifier_steps(
    view: NodeView, stake_wei: int, pool: str | None, platform_id: str | None, measurement: str | None
) -> list[Step]:
    """The missing steps until the account is a verifier with that stake and that measurement. `ConfigurationError` for a missing
    choice."""
    mine = view.reader.holdings(view.account, view.head)
    named = None if measurement is None else _digest("--measurement", measurement)
    if mine.pool != ZERO_DIGEST:
        # Quitting costs the audits that wait: only who names a measurement wants it.
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
    """Quits and joins again with another measurement than the registered one. The contract lets the last holder of a machine join
    with it at once. It would refuse a wrong joining only after the quitting, so everything that it asks is asked here."""
    registered = view.reader.membership(view.account, view.head)
    if program is None or program == registered.measurement:
        return []
    if not view.reader.is_allowed(program, view.head):
        raise ConfigurationError("--measurement", f"{hex0x(program)} is not allowed yet: wait until governance approves it")
    least = view.reader.params(view.reader.params_version(view.head), view.head).money.min_verifier_stake
    if stake_wei < least:
        raise ConfigurationError("--stake", f"{stake_wei}: another measurement is registered, and joining again takes {least}")
    join = ContractCall("Registry", "join", (registered.pool, registered.platform_id, program))
    return [
        Step(f"quit, since {hex0x(registered.measurement)[:10]}… is registered", ContractCall("Registry", "quit", ())),
        Step(f"join pool {hex0x(registered.pool)[:10]}… again, with {hex0x(program)[:10]}…", join),
    ]


def operator_steps(view: NodeView, stake_wei: int, endpoint: str) -> list[Step]:
    """The missing steps until the account is an operator with that stake."""
    if not endpoint.startswith("https://"):
        raise ConfigurationError("--endpoint", f"{endpoint[:80]} is not https://…")
    mine = view.reader.holdings(view.account, view.head)
    register = Step(f"register {endpoint}", ContractCall("Registry", "registerOperator", (endpoint,)))
    return [*_deposit(mine, stake_wei), *([] if mine.is_operator else [register])]


def quotes(view: NodeView, steps: list[Step]) -> Iterator[dict[str, Any]]:
    """Each step as it would be sent: target, value, calldata, and its gas if the step can be tried before the others."""
    for step in steps:
        request = request_of(view.network, view.account, step.call)
        try:
            gas: int | None = view.chain.estimate(request)
        except (BytewiseError, ValueError):
            gas = None  # the step depends on an earlier one
        yield {
            "purpose": step.purpose, "call": str(step.call), "target": request["to"], "value_wei": step.call.value_wei,
            "calldata": request["data"], "gas": gas,
        }  # fmt: skip


def cost_wei(view: NodeView, steps: list[Step]) -> int:
    """The most that all steps may cost: their values, and gas at today's price."""
    gas_price = fees_at(view.chain.head().base_fee_wei).max_fee
    return sum(step.call.value_wei + 1_000_000 * gas_price for step in steps)


def send(view: NodeView, steps: list[Step], told: Callable[[Step, str], None]) -> None:
    """Sends the steps in order while no other process may send for the account. `LeaseTaken` if the node runs;
    `ConfigurationError` if transactions of the node are in no block yet, or a contract refuses a step."""
    lease = NonceLease(view.database, SystemClock(), view.network.chain_id, view.account)
    with hold_lease(lease, threading.Event(), wait=False):
        _verify_nothing_under_way(view, lease)
        for step in steps:
            if step.needs_next_block:
                _next_block(view)
            try:
                dry_run(view.chain, view.network, view.account, step.call)
                done = send_all(view.chain, [measured(view.chain, view.network, view.signer, step.call)], STEP_S)[0]
            except (SignerRefused, SigningRefused):
                raise
            except Fault as error:
                raise ConfigurationError(str(step.call), f"refused: {error}") from None
            told(step, f"block {done.number}, transaction {hex0x(done.transaction)}")


def _verify_nothing_under_way(view: NodeView, lease: NonceLease) -> None:
    """A step would take the nonce of a transaction that the node signed, and the node would then stop sending for good."""
    used = view.chain.nonce(view.account)
    following = lease.next_nonce(used)
    if following > used:
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

    from bytewise.tee_simulated.root import Platform

    enclave = view.enclave
    if enclave is None or enclave.evidence is not EvidenceType.SIMULATED or enclave.platform_file is None:
        return None
    return Digest(Platform(enclave.platform_file).pck_ca.certificate.fingerprint(hashes.SHA256()))


def _digest(option: str, text: str) -> Digest:
    try:
        return digest(unhex(text))
    except Fault:
        raise ConfigurationError(option, f"{text[:80]} is not 0x and 64 hex digits") from None
