"""`bytewise dispute`: what an operator does about a dispute against it."""

from pathlib import Path
from typing import Annotated

import typer

from bytewise.protocol.decisions.snapshot import Dispute
from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.errors.branches import Fault
from bytewise.protocol.records.statements import Verdict
from bytewise.service.clock import SystemClock
from bytewise.service.settings import load_settings
from bytewise.storage.duties import Duties
from bytewise.storage.engine import check_revision, open_database
from chain.client.access import open_chain
from chain.client.address_book import read_network, verify_code
from chain.deployment.calls import ContractCall, dry_run
from chain.reads.reader import SnapshotReader
from chain.sending.keys import load_signer
from cli.connect import digest_argument
from serving.disputes import APPEAL
from serving.settings import OperatorSettings


def appeal(
    dispute: Annotated[str, typer.Argument(metavar="DISPUTE", help="Dispute id, 0x-hex, as in the operator's log.")],
    config: Annotated[Path, typer.Option("--config", help="Settings file of the operator (`bytewise operator run`).")],
    dry: Annotated[bool, typer.Option("--dry-run", help="Only try it on the chain, and say what it costs.")] = False,
) -> None:
    """Appeal a verdict against your operator, once.

    The next, larger committee decides, and your bond is lost if it agrees. Find out first whether your answer was right:
    `bytewise verify RECEIPT --opening FILE --artifact DIR`. The running operator sends the appeal at its next look at the chain.

    Exit codes: 0 ordered or possible, 5 the node does not answer, 64 wrong input, or refused by the contract (another phase,
    too late, appealed before, last level).
    """
    settings = load_settings(OperatorSettings, config)
    network, account = read_network(settings.network.file), load_signer(settings.keys.operator_file).address
    client = open_chain(*settings.network.endpoints, network.chain_id, settings.network.timeout_s)
    reader = SnapshotReader(client, verify_code(client, network))
    head, name = reader.head(), digest_argument("DISPUTE", dispute)
    case = reader.dispute(name, head)
    if case is None:
        raise ConfigurationError("DISPUTE", f"there is no dispute {dispute} on this network")
    if case.operator != account:
        raise ConfigurationError("DISPUTE", f"is against {case.operator}, not against this operator, {account}")
    if case.verdict is Verdict.UPHELD:
        raise ConfigurationError("DISPUTE", "was decided for this operator: there is nothing to appeal")
    balance = reader.holdings(account, head).balance_wei
    if balance < case.appeal_bond_wei:
        raise ConfigurationError("balance", f"{account} has {balance} wei, an appeal takes {case.appeal_bond_wei}")
    try:
        dry_run(client, network, account, ContractCall("Disputes", "appeal", (name,), case.appeal_bond_wei))
    except Fault as error:
        raise ConfigurationError("DISPUTE", f"cannot be appealed now: {error}") from None
    print(_terms(case, balance, reader.epoch_on_chain(case.key_epoch, head).assurance))
    if dry:
        return
    database = open_database(settings.database_url)
    check_revision(database)
    # The chain takes an appeal now, so an order that ended before (a reorganisation moved its time) is open again.
    Duties(database, SystemClock()).order(APPEAL, name, case.appeal_end)
    print("ordered; the running operator sends it")


def _terms(case: Dispute, balance_wei: int, label: str) -> str:
    return (
        f"verdict {case.verdict.name} in round {case.round} (assurance: {label}), to be appealed until {case.appeal_end} "
        f"(protocol clock); bond {case.appeal_bond_wei} wei of {balance_wei}, lost if the next committee says the same"
    )
