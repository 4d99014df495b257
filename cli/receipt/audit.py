"""`bytewise audit`: posted results of light audits, who is drawn for a receipt, and money for its auditors.

The audit draw is public, and nobody can choose the auditors of a receipt. `bytewise audit request` therefore only pays the
auditors that the draw has chosen.
"""

from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from rich.console import Console

from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.units import Address, Digest, hex0x
from cli.chain.privileged_call import call_context, deliver
from cli.network import read_rows, receipt_entry
from cli.options import (
    DA_URLS,
    NETWORK_FILE,
    RPC_URLS,
    CallOptions,
    DaOption,
    NetworkOption,
    ReceiptArgument,
    RpcOption,
    with_call_options,
)
from cli.output import (
    LIMIT,
    LimitOption,
    OutputFormat,
    OutputOption,
    Row,
    brief,
    emit,
    ether,
    limited,
    print_entries,
    print_warnings,
)
from cli.receipt.search import found_receipt

if TYPE_CHECKING:
    from bytewise.protocol.court.params import ParamSet
    from bytewise.protocol.records.statements import AuditResult
    from bytewise_client.connection import Connection
    from bytewise_client.receipt_search import Found


ValueOption = Annotated[
    int | None, typer.Option("--value", min=1, help="Wei for the auditors' pool; by default what the missing bounties lack.")
]


class DrawnAuditor(NamedTuple):
    """A verifier that the draw chose for a receipt."""

    account: Address
    seats: int
    """Number of seats that the verifier has in the draw: units of its stake at the batch's block."""
    stage: str
    """How far the audit is on the chain: `nothing`, `posted`, `opened` or `paid`."""
    result: str
    """The result that the verifier posted: `match`, `mismatch` or `none`. Empty if it has not posted."""


class AuditState(NamedTuple):
    """The audits of one receipt at one block."""

    receipt_id: Digest
    batch_id: int
    beacon_block: int
    """Number of the block whose hash draws the auditors."""
    is_drawn: bool
    """True once a block follows the beacon block. Only then can a contract read the hash that draws the auditors."""
    auditors: tuple[DrawnAuditor, ...]
    bounty_wei: int
    """Wei that each auditor is paid if a second auditor opens the same result and no verdict contradicts it."""
    pool_wei: int
    """Wei that the contract has for the bounties of all receipts. It comes from the fees that operators pay for the places of
    receipts in batches, and from anybody who pays into it."""
    time_left_s: int
    """Seconds of the protocol clock until the challenge window ends."""
    has_beacon: bool
    """True while the contract can read the beacon block's hash. Without the hash it accepts no result, even if the challenge
    window is open."""
    is_open: bool
    """True while the contract accepts results for the batch's key epoch. It accepts none after a compromise."""

    @property
    def missing(self) -> int:
        """Number of drawn auditors that have not posted a result."""
        return sum(each.stage == "nothing" for each in self.auditors)

    @property
    def lacking_wei(self) -> int:
        """Wei that the pool of bounties lacks to pay all unpaid bounties of this receipt."""
        due = self.bounty_wei * sum(each.stage != "paid" for each in self.auditors)
        return max(0, due - self.pool_wei)


def list_audits(
    network: NetworkOption = NETWORK_FILE, rpc: RpcOption = RPC_URLS, limit: LimitOption = LIMIT,
    output: OutputOption = OutputFormat.TABLE,
) -> None:  # fmt: skip
    """List audited receipts, the newest first: results that verifiers posted, and the verdict.

    The list may contain a result whose batch does not contain the receipt, because the contract accepts such a result. `bytewise
    audit show` shows only the results of the receipt's drawn auditors.

    Exit codes: 0 listed, 5 the node does not answer, 64 wrong input.

    Example: bytewise audit list --limit 10 --output jsonl
    """
    from bytewise_client.network_state import audited_receipts

    rows = limited(read_rows(network, rpc, audited_receipts), limit)
    emit(output, rows, lambda: _print_receipts(rows))


def _print_receipts(rows: list[Row]) -> None:
    console = Console()
    print_entries(map(receipt_entry, rows), "audited receipts", console)
    print_warnings(console, rows)


def show(
    receipt_id: ReceiptArgument,
    network: NetworkOption = NETWORK_FILE,
    rpc: RpcOption = RPC_URLS,
    da: DaOption = DA_URLS,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Show who is drawn to audit a receipt, what each has posted, and what the bounties lack.

    Exit codes: 0 shown, 4 no such receipt, 5 a service is down, 64 wrong input.

    Example: bytewise audit show 0x71e0…
    """
    from bytewise_client.connection import connected

    with connected(network, rpc, da) as connection:
        state = audit_state(connection, found_receipt(connection, receipt_id))
    emit(output, _record(state), lambda: _print(state))


@with_call_options
def request(asked: CallOptions, receipt_id: ReceiptArgument, da: DaOption = DA_URLS, value: ValueOption = None) -> None:
    """Pay for the audit of a receipt: feed the pool from which its drawn auditors get their bounties.

    Nobody can choose the auditors: the draw is public. If it drew no auditor for this receipt, only a dispute gets the receipt
    checked (`bytewise dispute open`, `bytewise pool create`). The pool is for all receipts, so a part of your money may go to
    auditors of other receipts.

    Exit codes: 0 the pool accepts the payment (or has it, or lacks nothing), 4 no such receipt, 5 a service is down, or what was
    sent is in no block yet (look before you repeat the command), 6 a running node uses the key, 64 wrong input, nobody is drawn,
    every drawn auditor has posted its result, or too late.

    Example: bytewise audit request 0x71e0… --key me.key --send
    """
    from bytewise_client.connection import connected
    from chain.deployment.calls import ContractCall

    of = call_context(asked)
    with connected(asked.network, asked.rpc, da) as connection:
        state = audit_state(connection, found_receipt(connection, receipt_id))
    _verify_useful(state)
    wei = state.lacking_wei if value is None else value
    if wei:
        deliver(of, ContractCall("Audits", "feed", (), wei), _record(state) if asked.output is not OutputFormat.TABLE else None)
    else:
        emit(asked.output, _record(state), lambda: print("the pool pays these bounties already; --value WEI adds to it"))


def _verify_useful(state: AuditState) -> None:
    """Raises `ConfigurationError` if no auditor is drawn yet, or if no drawn auditor can still post a result."""
    if not state.is_drawn:
        raise ConfigurationError("RECEIPT_ID", f"its auditors are drawn by block {state.beacon_block}: ask again after it")
    if not state.auditors:
        advice = "only a dispute has it opened: `bytewise dispute open`, or `bytewise pool create`"
        raise ConfigurationError("RECEIPT_ID", f"nobody is drawn to audit it, and nobody can be asked to; {advice}")
    if not state.missing:
        raise ConfigurationError("RECEIPT_ID", "every drawn auditor has posted its result: `bytewise audit show` has them")
    if not state.time_left_s:
        raise ConfigurationError("RECEIPT_ID", "its window is over: no result is accepted any more")
    if not state.has_beacon:
        raise ConfigurationError("RECEIPT_ID", _lost_beacon(state))
    if not state.is_open:
        raise ConfigurationError("RECEIPT_ID", _COMPROMISED)


_COMPROMISED = "its key epoch was compromised: no result is accepted"


def _lost_beacon(state: AuditState) -> str:
    return f"the chain no longer has the hash of block {state.beacon_block}, which drew its auditors: no result is accepted"


def audit_state(connection: "Connection", found: "Found") -> AuditState:
    """Reads the audits of a receipt from the chain, at the block at which the receipt was found."""
    from bytewise.protocol.court.sortition import BEACON_DELAY_BLOCKS, beacon_is_known

    reader, header, head = connection.reader, found.header, found.head
    batch = reader.batch(header.batch_id, head)
    assert batch is not None, "the receipt was found in it"
    params = reader.params(batch[1].params_version, head)
    beacon_block, identifier = header.block + BEACON_DELAY_BLOCKS, found.checked.receipt_id
    is_drawn = beacon_block < head
    clock = reader.snapshot(header.operator, head).clock
    return AuditState(
        identifier, header.batch_id, beacon_block, is_drawn, _drawn(connection, found, params, beacon_block) if is_drawn else (),
        params.money.bounty, reader.money(head).audit_pool,
        max(0, reader.window_end(identifier, header.batch_id, head) - clock), beacon_is_known(int(header.block), head),
        reader.is_open_for_audits(int(header.key_epoch), head),
    )  # fmt: skip


def _drawn(connection: "Connection", found: "Found", params: "ParamSet", beacon_block: int) -> tuple[DrawnAuditor, ...]:
    """Returns the verifiers that the beacon draws for the receipt, with the stage and result of each on the chain."""
    from bytewise.protocol.court.sortition import audit_is_drawn, seats_in_audit_draw
    from bytewise.protocol.decisions.audits import results_in

    reader, header, head, identifier = connection.reader, found.header, found.head, found.checked.receipt_id
    beacon, rate = reader.block_hash(beacon_block), params.shares.audit_rate_bps
    posts = [each for each in reader.audits(header.block, head) if each.result.receipt_id == identifier]
    posted = results_in(posts, header.batch_id)
    auditors = []
    for who, stake in reader.auditors(header.environment, header.block, head):
        seats = seats_in_audit_draw(stake, params.money.audit_unit, is_member=True)
        if audit_is_drawn(beacon, identifier, who, rate, seats):
            stage = reader.audit_stage(identifier, header.batch_id, who, head)
            auditors.append(DrawnAuditor(who, seats, stage.name.lower(), _result(posted.get(who))))
    return tuple(auditors)


def _result(posted: "AuditResult | None") -> str:
    from bytewise.protocol.records.statements import AuditOutcome

    return "" if posted is None else AuditOutcome(posted.result).name.lower()


def _record(state: AuditState) -> dict[str, Any]:
    return {
        "receipt": hex0x(state.receipt_id), "batch": state.batch_id, "drawn_by_block": state.beacon_block,
        "is_drawn": state.is_drawn, "auditors": [each._asdict() for each in state.auditors], "missing": state.missing,
        "bounty_wei": str(state.bounty_wei), "pool_wei": str(state.pool_wei), "lacking_wei": str(state.lacking_wei),
        "time_left_s": state.time_left_s, "has_beacon": state.has_beacon, "is_open": state.is_open,
    }  # fmt: skip


def _print(state: AuditState) -> None:
    console = Console()
    if not state.is_drawn:
        console.print(f"auditors are drawn by block {state.beacon_block}")
    else:
        entries = (
            (each.account, {"seats": each.seats, "stage": each.stage, "result": each.result or "none yet"})
            for each in state.auditors
        )
        print_entries(entries, "drawn auditors: only a dispute has this receipt opened", console)
    if state.is_drawn and not state.has_beacon:
        console.print(_lost_beacon(state), soft_wrap=True)
    if not state.is_open:
        console.print(_COMPROMISED, soft_wrap=True)
    console.print(
        f"time left {state.time_left_s} s, bounty {brief(state.bounty_wei)} ETH each, pool {brief(state.pool_wei)} ETH, "
        f"lacking {ether(state.lacking_wei)}",
        soft_wrap=True,
    )
