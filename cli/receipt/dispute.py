"""`bytewise dispute`: shows disputes, opens one for a watchtower, and appeals a verdict for an operator."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer
from rich.console import Console

from bytewise.protocol.court.params import BPS
from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.errors.branches import Fault
from bytewise.protocol.units import Address, Digest, digest, hex0x, unhex
from bytewise.service.settings import load_settings
from cli.network import dispute_entry, read_rows, seat_entry
from cli.node.roles import NodeRole, verify_role
from cli.options import NETWORK_FILE, RPC_URLS, NetworkOption, RpcOption, asked_password, receipt_argument
from cli.output import (
    LIMIT,
    LimitOption,
    OutputFormat,
    OutputOption,
    Row,
    by_prefix,
    emit,
    ether,
    limited,
    print_entries,
    print_warnings,
    rows_of,
    rows_with,
)

if TYPE_CHECKING:
    from bytewise.protocol.address_book import Network
    from bytewise.protocol.decisions.snapshot import Dispute
    from bytewise.storage.archive import SeenReceipt
    from chain.deployment.calls import ContractCall
    from chain.reads.reader import SnapshotReader
    from verifier.settings import NodeSettings


OperatorOption = Annotated[
    str | None, typer.Option("--operator", help="Only disputes against this account, or its first digits.")
]
VerdictOption = Annotated[str | None, typer.Option("--verdict", help="Only with this verdict: none, upheld, overturned, …")]
DisputeArgument = Annotated[str, typer.Argument(metavar="DISPUTE", help="Dispute id, 0x-hex, or its first digits.")]


def list_disputes(
    network: NetworkOption = NETWORK_FILE,
    rpc: RpcOption = RPC_URLS,
    operator: OperatorOption = None,
    verdict: VerdictOption = None,
    limit: LimitOption = LIMIT,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """List disputes, the newest first: operator, phase, verdict and payments.

    Exit codes: 0 listed, 5 the node does not answer, 64 wrong input.

    Example: bytewise dispute list --verdict overturned --output jsonl
    """
    from bytewise.protocol.records.statements import Verdict
    from bytewise_client.network_state import disputes

    if verdict is not None and verdict.upper() not in Verdict.__members__:
        raise ConfigurationError("--verdict", f"{verdict} is none of {', '.join(Verdict.__members__).lower()}")
    rows = rows_with("--operator", operator, read_rows(network, rpc, disputes), "operator")
    rows = limited([each for each in rows if verdict is None or each["verdict"] == verdict.upper()], limit)
    emit(output, rows, lambda: _print(rows))


def show(
    dispute: DisputeArgument,
    network: NetworkOption = NETWORK_FILE,
    rpc: RpcOption = RPC_URLS,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Show one dispute with the seats and votes of its committee.

    Exit codes: 0 shown, 4 there is no such dispute, 5 the node does not answer, 64 wrong input.

    Example: bytewise dispute show 0x71e0
    """
    from bytewise_client.network_state import disputes

    (row,) = rows_of("DISPUTE", dispute, read_rows(network, rpc, disputes), "dispute")
    emit(output, row, lambda: _print([row], members=True))


def _print(rows: list[Row], members: bool = False) -> None:
    console = Console()
    print_entries((dispute_entry(each, {}) for each in rows), "disputes", console)
    if members:
        console.print("members of its committee", style="bold")
        print_entries((seat_entry(each) for row in rows for each in row["members"]), "members", console)
    print_warnings(console, rows)


def open_(
    receipt: Annotated[str, typer.Argument(metavar="RECEIPT", help="Receipt id, 0x-hex.")],
    config: Annotated[Path, typer.Option("--config", help="Settings file of the watchtower (`bytewise init`).")],
    dry: Annotated[bool, typer.Option("--dry-run", help="Only try it on the chain, and say what it costs and may pay.")] = False,
) -> None:
    """Dispute a receipt with the bond of your watchtower.

    The watchtower must have checked the receipt. The command stores an order, and the running watchtower opens the dispute at its
    next tick, within its budget. The bond is lost if the committee confirms the answer.

    Exit codes: 0 ordered or possible, 5 the node does not answer, 64 wrong input, refused by the contract (window over,
    disputed before), or not opened by this node (policy.challenges is false, the budget is spent).
    """
    from verifier.settings import NodeSettings

    identifier = receipt_argument(receipt)
    settings = load_settings(NodeSettings, config)
    if not settings.watches:
        raise ConfigurationError("--config", f"is of a {settings.role}: only a watchtower opens disputes by order")
    if settings.observes and not dry:
        advice = 'set policy.strategy = "defend", and policy.dry_run = false, or add --dry-run'
        raise ConfigurationError("--config", f"this node only observes: {advice}")
    if not settings.policy.challenges and not dry:
        raise ConfigurationError(
            "policy.challenges", "is false, so this node opens no dispute: set it to true and restart the node, or add --dry-run"
        )
    terms = _opening_terms(settings, identifier)
    print(terms.text)
    if not dry:
        if terms.bond_wei > terms.budget_left_wei:
            advice = "raise watch.budget_wei and restart the node, or wait until own disputes are won"
            raise ConfigurationError("watch.budget_wei", f"the bond exceeds the rest of the budget: {advice}")
        _order_dispute(settings.db.location, identifier, terms.window_end)
        print("ordered; the running watchtower opens it")


class _OpeningTerms(NamedTuple):
    text: str
    """The terms as text for people."""
    window_end: int
    """End of the receipt's challenge window, in seconds of the protocol clock."""
    bond_wei: int
    budget_left_wei: int
    """Wei of `watch.budget_wei` that remain after the bonds of disputes that this account opened in the last
    `watch.budget_blocks` blocks and has not won. The running node also subtracts disputes whose transactions are not on the
    chain yet."""


def _opening_terms(settings: "NodeSettings", receipt: Digest) -> _OpeningTerms:
    """Returns what a dispute of the receipt costs and may pay. Raises `ConfigurationError` with the reason if the dispute cannot
    be opened now."""
    from chain.client.access import open_chain
    from chain.client.address_book import read_network, verify_code
    from chain.deployment.calls import dry_run as try_call
    from chain.deployment.calls import request_of
    from chain.reads.reader import SnapshotReader
    from chain.sending.keys import open_signer

    seen, network = _checked_receipt(settings, receipt), read_network(settings.network_file)
    password = asked_password(settings.signer.key_file, settings.signer.password_file)
    me = open_signer(settings.signer, network, password).address
    client = open_chain(*settings.chain.rpc, network.chain_id, settings.chain.timeout_s)
    reader = SnapshotReader(client, verify_code(client, network))
    head = reader.head()
    batch, snapshot = reader.anchored(seen.batch_id, head)[0], reader.snapshot(me, head)
    params = reader.params(batch.params_version, head)
    bond, balance = params.required_bond, snapshot.me.balance_wei
    if balance < bond:
        raise ConfigurationError("balance", f"{me} has {ether(balance)}, a dispute takes {ether(bond)}: send ether to it")
    call = _opening_call(seen, me, network, bond)
    try:
        try_call(client, network, me, call)
        gas = client.estimate(request_of(network, me, call))
    except Fault as error:
        raise ConfigurationError("RECEIPT", f"cannot be disputed now: {error}") from None
    end = reader.window_end(receipt, seen.batch_id, head)
    alpha = params.money.slash_amount * params.shares.alpha_bps // BPS
    left = _budget_left_wei(settings, reader, me, head)
    text = (
        f"bond {ether(bond)} of {ether(balance)}, gas {gas} (about {ether(gas * client.head().base_fee_wei)} now), "
        f"time left {max(0, end - snapshot.clock)} s\n"
        f"if the operator is convicted: the bond back, and {ether(alpha)} if the node committed to the right answer; "
        f"if the answer is confirmed: minus {ether(bond)}\n"
        f"rest of the budget (watch.budget_wei): {ether(max(0, left))}"
    )
    return _OpeningTerms(text, end, bond, left)


def _budget_left_wei(settings: "NodeSettings", reader: "SnapshotReader", me: Address, head: int) -> int:
    from verifier.disputes.own_disputes import unwon_wei

    first = max(int(reader.network.deploy_block), head - settings.watch.budget_blocks)
    return settings.watch.budget_wei - unwon_wei(reader, me, first, head)


def _checked_receipt(settings: "NodeSettings", receipt: Digest) -> "SeenReceipt":
    from bytewise.service.clock import SystemClock
    from bytewise.storage.archive import Archive
    from bytewise.storage.engine import check_revision, open_database

    database = open_database(settings.db.location)
    check_revision(database)
    seen = Archive(database, SystemClock()).receipt(receipt)
    if seen is None:
        raise ConfigurationError("RECEIPT", f"this node has not checked {hex0x(receipt)}: wait until it has read its batch")
    return seen


def _opening_call(seen: "SeenReceipt", me: Address, network: "Network", bond_wei: int) -> "ContractCall":
    """Returns the call that opens the dispute, to try it on the chain. It differs from the node's own call only in the
    commitment, because only the node knows the answers that auditors reported to it."""
    from bytewise.protocol.court.commitments import alt_commit, dispute_id
    from bytewise.protocol.signing import struct_values
    from chain.deployment.calls import ContractCall

    domain, receipt, signed = network.disputes_domain, seen.receipt_id, seen.signed
    commitment = alt_commit(domain, dispute_id(domain, receipt), me, receipt, receipt)
    arguments = (struct_values(signed.receipt), signed.signature, seen.batch_id, seen.proof, commitment)
    return ContractCall("Disputes", "open", arguments, bond_wei)


def _order_dispute(database_url: str, receipt: Digest, window_end: int) -> None:
    from bytewise.service.clock import SystemClock
    from bytewise.storage.duties import Duties
    from bytewise.storage.engine import open_database
    from verifier.disputes.watchtower import DISPUTE

    Duties(open_database(database_url), SystemClock()).order(DISPUTE, receipt, window_end)


def appeal(
    dispute: DisputeArgument,
    config: Annotated[Path, typer.Option("--config", help="Settings file of the operator (`bytewise operator run`).")],
    dry: Annotated[bool, typer.Option("--dry-run", help="Only try it on the chain, and say what it costs.")] = False,
) -> None:
    """Appeal a verdict against your operator, once.

    A larger committee then decides. You lose your bond if the verdict stays the same, even if it names another answer, and if
    the larger committees decide nothing. So check your answer first with
    `bytewise verify RECEIPT --opening FILE --artifact DIR`. The command stores an order, and the running operator sends the
    appeal at its next tick.

    Exit codes: 0 ordered or possible, 5 the node does not answer, 64 wrong input, or refused by the contract (wrong phase, too
    late, appealed before, last level).
    """
    from chain.client.access import open_chain
    from chain.client.address_book import read_network, verify_code
    from chain.reads.reader import SnapshotReader
    from chain.sending.keys import open_signer
    from serving.settings import OperatorSettings

    verify_role(config, NodeRole.OPERATOR)
    settings = load_settings(OperatorSettings, config)
    network = read_network(settings.network_file)
    password = asked_password(settings.signer.key_file, settings.signer.password_file)
    account = open_signer(settings.signer, network, password).address
    client = open_chain(*settings.chain.rpc, network.chain_id, settings.chain.timeout_s)
    reader = SnapshotReader(client, verify_code(client, network))
    head = reader.head()
    case, balance = _appealable(reader, account, dispute, head)
    print(_terms(case, balance, reader.epoch_on_chain(case.key_epoch, head).assurance))
    if not dry:
        _order_appeal(settings.db.location, case)
        print("ordered; the running operator sends it")


def _appealable(reader: "SnapshotReader", account: Address, text: str, head: int) -> "tuple[Dispute, int]":
    """Returns the dispute that the operator can appeal now, and the operator's balance in wei. Raises `ConfigurationError` with
    the reason if it cannot."""
    from bytewise.protocol.records.statements import Verdict
    from chain.deployment.calls import ContractCall, dry_run

    case = reader.dispute(_named(reader, text, head), head)
    if case is None:
        raise ConfigurationError("DISPUTE", f"there is no dispute {text} on this network")
    if case.operator != account:
        raise ConfigurationError("DISPUTE", f"is against {case.operator}, not against this operator, {account}")
    if case.verdict is Verdict.UPHELD:
        raise ConfigurationError("DISPUTE", "was decided for this operator: there is nothing to appeal")
    balance = reader.holdings(account, head).balance_wei
    if balance < case.appeal_bond_wei:
        needs = ether(case.appeal_bond_wei)
        raise ConfigurationError("balance", f"{account} has {ether(balance)}, an appeal takes {needs}: send ether to it")
    try:
        dry_run(reader.client, reader.network, account, ContractCall("Disputes", "appeal", (case.id,), case.appeal_bond_wei))
    except Fault as error:
        raise ConfigurationError("DISPUTE", f"cannot be appealed now: {error}") from None
    return case, balance


def _order_appeal(database_url: str, case: "Dispute") -> None:
    from bytewise.service.clock import SystemClock
    from bytewise.storage.duties import Duties
    from bytewise.storage.engine import check_revision, open_database
    from serving.disputes import APPEAL

    database = open_database(database_url)
    check_revision(database)
    # A reorganisation can move the deadline of an earlier order, so that the order ended. The chain accepts an appeal now, so the
    # order is opened again.
    Duties(database, SystemClock()).order(APPEAL, case.id, case.appeal_end)


def _named(reader: "SnapshotReader", text: str, head: int) -> Digest:
    """Returns the id of the dispute that a user typed in full or by its first digits. Raises `ConfigurationError` if this network
    has no such dispute."""
    known = (hex0x(each.id) for each in reader.opened(reader.network.deploy_block, head))
    found = by_prefix("DISPUTE", text, known)
    if found is None:
        raise ConfigurationError("DISPUTE", f"there is no dispute {text} on this network")
    return digest(unhex(found))


def _terms(case: "Dispute", balance_wei: int, label: str) -> str:
    return (
        f"verdict {case.verdict.name} in round {case.round} (assurance: {label}), to be appealed until {case.appeal_end} "
        f"(protocol clock); bond {ether(case.appeal_bond_wei)} of {ether(balance_wei)}, lost unless the verdict becomes another"
    )
