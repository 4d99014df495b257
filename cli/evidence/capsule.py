"""`bytewise capsule`: makes, verifies, shows and prints an evidence capsule, and adds signatures for its block."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from bytewise.protocol.errors.actors import ConfigurationError, TryAgain
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.units import Address, address, hex0x
from bytewise.service.exit_codes import Exit
from cli.options import DA_URLS, NETWORK_FILE, RPC_URLS, DaOption, NetworkOption, PasswordFileOption, RpcOption, digest_argument
from cli.output import CHECK_STYLES, OutputFormat, OutputOption, by_prefix, emit, moment, plain, print_checks

if TYPE_CHECKING:
    from bytewise.protocol.keys.release_log import SignedRelease
    from bytewise.storage.journal import VerifiedExport
    from bytewise_client.connection import Connection
    from chain.capsule.maker import AnchoredReceipt, Enclosed
    from chain.capsule.report import CapsuleReport
    from chain.capsule.verification import Trust

FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="The capsule.")]
BookOption = Annotated[
    Path | None, typer.Option("--network", help="Address book of the network that you mean; its deployment is accepted.")
]
DeploymentOption = Annotated[list[str] | None, typer.Option("--deployment", help="Or: digest of a deployment; repeatable.")]
BlockHashOption = Annotated[
    str | None, typer.Option("--block-hash", help="Hash of the capsule's block, from a source that you trust.")
]
WitnessOption = Annotated[
    list[str] | None, typer.Option("--witness", help="Or: account whose signature for the block you accept; repeatable.")
]
ThresholdOption = Annotated[int, typer.Option("--witnesses", min=1, help="How many of those accounts must have signed.")]
BeaconOption = Annotated[
    str | None, typer.Option("--beacon-checkpoint", help="Or: root of a finalized beacon block that you trust.")
]
FinalityOption = Annotated[
    str, typer.Option("--finality", help="Block to prove: finalized, safe or latest (which may still be replaced).")
]
OpeningOption = Annotated[
    Path | None, typer.Option("--opening", help="Saved answer whose request and answer are disclosed in the capsule.")
]
ReleasesOption = Annotated[
    list[Path] | None, typer.Option("--releases", help="Release log of a shard (JSON of `GET /v1/log`); repeatable.")
]
JournalOption = Annotated[
    list[Path] | None,
    typer.Option("--journal", help="File of `bytewise journal export`; its entries about the receipt are taken. Repeatable."),
]
SignedOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--checkpoint", help="Checkpoint with signatures of witnesses, of which --journal exports the entries; repeatable."
    ),
]
JournalKeysOption = Annotated[
    list[str] | None, typer.Option("--journal-keys", help="Fingerprint of the keys of a journal that you know; repeatable.")
]
JournalWitnessOption = Annotated[
    list[str] | None,
    typer.Option(
        "--journal-witness", help="Key of a witness. One of them must have signed each journal's checkpoint; repeatable."
    ),
]
OutOption = Annotated[Path | None, typer.Option("--out", help="File to write; by default named after the receipt.")]
InPlaceOption = Annotated[Path | None, typer.Option("--out", help="File to write; by default FILE itself, which is replaced.")]


def make(
    subject: Annotated[str, typer.Argument(metavar="RECEIPT_ID|DISPUTE", help="Id of a receipt or dispute, or its beginning.")],
    network: NetworkOption = NETWORK_FILE,
    rpc: RpcOption = RPC_URLS,
    da: DaOption = DA_URLS,
    finality: FinalityOption = "finalized",
    opening: OpeningOption = None,
    releases: ReleasesOption = None,
    journal: JournalOption = None,
    checkpoint: SignedOption = None,
    logs: Annotated[bool, typer.Option("--logs/--no-logs", help="Whether to prove the votes' events, with their quotes.")] = True,
    out: OutOption = None,
) -> None:
    """Write what a receipt and its verdict rest on to one file that needs neither chain nor DA.

    The chain node must have the state of the proven block, as every node has for about the newest hundred blocks. A disputed
    receipt is read from DA only if a contract opened the dispute or the node lacks it. All who get the file can read its opening.

    Exit codes: 0 written, 4 no such receipt or dispute, 5 a service is down or the dispute is not over yet, 64 wrong input.

    Example: bytewise capsule make 0x71e0 --network network.json --rpc http://127.0.0.1:8545
    """
    from bytewise.protocol.records.receipt import receipt_id
    from bytewise.service.sections import verify_finality
    from bytewise_client.connection import connected
    from chain.capsule.maker import make_capsule
    from chain.capsule.schema import SUFFIX

    verify_finality("--finality", finality)
    _verify_new(out)
    with connected(network, rpc, da) as connection:
        member = _member(connection, subject)
        enclosed = _enclosed(connection, member, opening, releases or [], logs)
        enclosed = enclosed._replace(journals=_exported(journal or [], checkpoint or []))
        data = make_capsule(connection.reader.client, connection.network, member, enclosed, finality)
    file = out or Path(f"{hex0x(receipt_id(connection.network.anchor_domain, member.receipt))[:18]}{SUFFIX}")
    _verify_new(file)
    _write(file, data)
    print(f"{file}: {len(data)} bytes; `bytewise capsule show {file}` says what it shows")


def _verify_new(file: Path | None) -> None:
    if file is not None and file.exists():
        raise ConfigurationError(file.name, "exists; a capsule is never overwritten: give --out with a new name")


def _member(connection: "Connection", subject: str) -> "AnchoredReceipt":
    """Returns the receipt that a user names by its id or by the id of its dispute. Raises `typer.Exit` if there is none."""
    from chain.capsule.maker import AnchoredReceipt, disputed_member
    from cli.receipt.search import found_receipt

    network, reader = connection.network, connection.reader
    opened = reader.opened(network.deploy_block, reader.head())
    known = {hex0x(name): each for each in opened for name in (each.id, each.receipt_id)}
    named, lacking = by_prefix("RECEIPT_ID|DISPUTE", subject, known), None
    if named is not None:
        subject = hex0x(known[named].receipt_id)
        try:
            if (member := disputed_member(reader.client, network, known[named].id)) is not None:
                return member
        except TryAgain as error:
            lacking = error
    try:
        found = found_receipt(connection, subject)
    except typer.Exit as ended:
        raise lacking or ended from None
    signed = found.checked.signed
    return AnchoredReceipt(signed.receipt, signed.signature, found.header.batch_id, found.checked.proof)


def _enclosed(
    connection: "Connection", member: "AnchoredReceipt", opening: Path | None, releases: list[Path], with_logs: bool
) -> "Enclosed":
    from bytewise.protocol.errors.records import UnknownEnvironment
    from bytewise.protocol.records.receipt import receipt_id
    from bytewise_client.saved_answer import read_answer
    from chain.capsule.maker import Enclosed

    identifier = receipt_id(connection.network.anchor_domain, member.receipt)
    payload = None if opening is None else read_answer(opening).of_receipt(identifier).payload
    if opening is not None and (payload is None or payload.request.req_hash != member.receipt.req_hash):
        raise ConfigurationError("--opening", "the file has no opening of this receipt")
    try:
        environment = connection.documents.environment(member.receipt.environment, connection.reader.head())
    except UnknownEnvironment:
        environment = None
    records = tuple(each for file in releases for each in _records(file) if each.record.receipt_id == identifier)
    return Enclosed(environment, payload, records, with_logs=with_logs)


def _records(file: Path) -> "tuple[SignedRelease, ...]":
    """Reads the release records of a shard from a file. Raises `ConfigurationError` if the file is no release log."""
    from bytewise.protocol.encoding import decode
    from bytewise.protocol.errors.branches import Fault
    from bytewise.protocol.keys.release_log import ReleaseLog

    try:
        return decode(ReleaseLog, file.read_bytes()).entries
    except OSError as error:
        raise ConfigurationError(file.name, f"{error.strerror}: name the file of a release log") from None
    except Fault as error:
        raise ConfigurationError(file.name, f"is no release log: {error}") from None


def _exported(files: list[Path], points: list[Path]) -> "tuple[VerifiedExport, ...]":
    """Reads and verifies exports of journals. `points` are files of checkpoints with further signatures. Each replaces the
    checkpoint of the same text in an export. Raises `ConfigurationError` if an export does not verify or a checkpoint is in no
    export."""
    from bytewise.protocol.encoding import encode
    from bytewise.storage.journal import ExportRejected, verify_export
    from cli.evidence.journal import read_export, read_kept

    found, signed = list["VerifiedExport"](), {each.note.text: each.note.encode() for each in map(read_kept, points)}
    for file in files:
        try:
            export = verify_export(read_export(file))
            note = signed.pop(export.checkpoint.note.text, export.export.checkpoint)
            found.append(verify_export(encode(replace(export.export, checkpoint=note))))
        except ExportRejected as error:
            raise ConfigurationError(file.name, f"is no export that verifies: {': '.join(error.args)}") from None
    if signed:
        raise ConfigurationError("--checkpoint", "is of no --journal: export the entries again, up to that checkpoint")
    return tuple(found)


def verify(
    file: FileArgument, network: BookOption = None, deployment: DeploymentOption = None, block_hash: BlockHashOption = None,
    witness: WitnessOption = None, witnesses: ThresholdOption = 1, beacon_checkpoint: BeaconOption = None,
    journal_keys: JournalKeysOption = None, journal_witness: JournalWitnessOption = None,
    output: OutputOption = OutputFormat.TABLE,
) -> None:  # fmt: skip
    """Verify a capsule offline: neither chain nor DA is asked.

    Say which network you mean by --network or --deployment, and which block you trust by --block-hash, --witness or
    --beacon-checkpoint. If you name no network or no block, the result is UNVERIFIABLE, and the command prints the conditions
    under which the capsule holds.

    Exit codes: 0 valid, 2 invalid, 3 unverifiable because of open conditions, 64 wrong input, or no capsule.

    Example: bytewise capsule verify 0x5f1c.capsule.json --network network.json --block-hash 0x9a3e…
    """
    report = verified(
        file, trust_of(network, deployment, block_hash, witness, witnesses, beacon_checkpoint, journal_keys, journal_witness)
    )
    show_report(report, output)
    raise typer.Exit(int(exit_of_report(report)))


def show(
    file: FileArgument, network: BookOption = None, deployment: DeploymentOption = None, block_hash: BlockHashOption = None,
    witness: WitnessOption = None, witnesses: ThresholdOption = 1, beacon_checkpoint: BeaconOption = None,
    journal_keys: JournalKeysOption = None, journal_witness: JournalWitnessOption = None,
    output: OutputOption = OutputFormat.TABLE,
) -> None:  # fmt: skip
    """Tell on one screen what a capsule shows, on what that rests, and what it does not show.

    Exit codes: 0 shown, 2 the capsule is invalid and shows nothing, 64 wrong input, or no capsule.

    Example: bytewise capsule show 0x5f1c.capsule.json
    """
    from chain.capsule.conclusion import report_json
    from chain.capsule.report import Result

    report = verified(
        file, trust_of(network, deployment, block_hash, witness, witnesses, beacon_checkpoint, journal_keys, journal_witness)
    )
    emit(output, report_json(report), lambda: _summary(report))
    code = exit_of_report(report)
    raise typer.Exit(int(Exit.OK if report.result is not Result.FAIL else code))


def print_(
    file: FileArgument,
    out: Annotated[Path, typer.Option("--out", help="HTML file to write.")],
    network: BookOption = None, deployment: DeploymentOption = None, block_hash: BlockHashOption = None,
    witness: WitnessOption = None, witnesses: ThresholdOption = 1, beacon_checkpoint: BeaconOption = None,
    journal_keys: JournalKeysOption = None, journal_witness: JournalWitnessOption = None,
) -> None:  # fmt: skip
    """Write a capsule's report as one HTML page for paper: no scripts, nothing fetched.

    Exit codes: 0 written, 64 wrong input, no capsule, or the page exists.

    Example: bytewise capsule print 0x5f1c.capsule.json --network network.json --out verdict.html
    """
    from cli.evidence.capsule_report import report_page

    if out.exists():
        raise ConfigurationError(out.name, "exists; name a new file")
    report = verified(
        file, trust_of(network, deployment, block_hash, witness, witnesses, beacon_checkpoint, journal_keys, journal_witness)
    )
    _write(out, report_page(report).encode())
    print(f"{out}: print it, or open it in a browser")


def page(
    out: Annotated[Path, typer.Option("--out", help="HTML file to write.")] = Path("capsule.html"),
) -> None:
    """Write the page that verifies capsules in a browser, without a network.

    Keep it beside your capsules: it is one file, and needs nothing else.

    Exit codes: 0 written, 64 the file exists or cannot be written.

    Example: bytewise capsule page --out capsule.html
    """
    from chain.capsule.verification import PAGE

    if out.exists():
        raise ConfigurationError(out.name, "exists; name a new file")
    try:
        data = PAGE.read_bytes()
    except OSError as error:
        raise ConfigurationError(PAGE.name, f"{error.strerror}: install Bytewise again") from None
    _write(out, data)
    print(f"{out}: open it in a browser, and choose a capsule")


def witness(
    file: FileArgument,
    key: Annotated[Path, typer.Option("--key", help="Key file of the witness, 0x-hex or a keystore, readable by you alone.")],
    password_file: PasswordFileOption = None,
    rpc: RpcOption = RPC_URLS,
    out: InPlaceOption = None,
) -> None:
    """Sign that your own node has the capsule's block as finalized, and write the capsule with the signature.

    Your signature covers the block only. The proofs in the capsule show the rest.

    Exit codes: 0 written, 5 the node does not answer or the block is not finalized, 64 wrong input, or the node has another
    block there.

    Example: bytewise capsule witness 0x5f1c.capsule.json --key watchtower.key --rpc http://127.0.0.1:8545
    """
    from bytewise_client.connection import chain_of
    from chain.capsule.maker import add_witness
    from cli.chain.privileged_call import signer_of

    data, target = _read(file), out or file
    if out is not None and out.exists():
        raise ConfigurationError(out.name, "exists; name a new file")
    signed = add_witness(data, lambda chain_id: chain_of(rpc, chain_id), signer_of(0, key, None, password_file))
    _write(target, signed)
    print(f"{target}: signed")


def finality(
    file: FileArgument,
    bootstrap: Annotated[Path, typer.Option("--bootstrap", help="Answer of `light_client/bootstrap/CHECKPOINT`.")],
    update: Annotated[
        Path, typer.Option("--finality", help="Answer of `light_client/finality_update`, of the same epoch as FILE.")
    ],
    updates: Annotated[
        Path | None,
        typer.Option("--updates", help="Answer of `light_client/updates`, if the checkpoint is of an earlier period."),
    ] = None,
    out: InPlaceOption = None,
) -> None:
    """Add signatures of sync committees: they show the block as finalized to whoever trusts one beacon block.

    The files are answers of a beacon node's API under `/eth/v1/beacon/`. CHECKPOINT is the root of a finalized beacon block that
    your readers can find elsewhere. The file of `--updates` has one answer for each period of 27 hours. The first is for the
    period of CHECKPOINT, the last for the period before that of the capsule's block.

    Exit codes: 0 written, 64 wrong input, or the signatures do not show this block.

    Example: bytewise capsule finality 0x5f1c.capsule.json --bootstrap bootstrap.json --finality finality.json
    """
    from chain.capsule.maker import add_finality

    if out is not None and out.exists():
        raise ConfigurationError(out.name, "exists; name a new file")
    several = [] if updates is None else _answer(updates)
    if not isinstance(several, list):
        raise ConfigurationError("--updates", "is no list of updates")
    signed = add_finality(_read(file), _answer(bootstrap), several, _answer(update))
    _write(out or file, signed)
    print(f"{out or file}: the block is finalized by the sync committee")


def _answer(file: Path) -> Any:
    """Reads a file with the JSON answer of a beacon node. Raises `ConfigurationError` if the file is no JSON."""
    from bytewise.protocol.encoding import parse_typed
    from bytewise.protocol.errors.records import NotCanonical

    try:
        return parse_typed(_read(file))
    except NotCanonical:
        raise ConfigurationError(file.name, "is no JSON: save the answer of a beacon node") from None


# Functions that `bytewise verify FILE` (`cli.evidence.verify`) uses too.


def verified(file: Path, trust: "Trust") -> "CapsuleReport":
    """Verifies a capsule's file and returns the report. Raises `ConfigurationError` if the file is no capsule."""
    from chain.capsule.report import Group, Result
    from chain.capsule.verification import verify_capsule

    report = verify_capsule(_read(file), trust)
    first = report.checks[0]
    if first.group is Group.CAPSULE and first.result is Result.FAIL:
        raise ConfigurationError(file.name, f"is no capsule: {first.failure}: {first.detail}")
    return report


def trust_of(
    network: Path | None,
    deployments: list[str] | None,
    block_hash: str | None,
    witnesses: list[str] | None,
    threshold: int,
    checkpoint: str | None = None,
    journals: list[str] | None = None,
    journal_witnesses: list[str] | None = None,
) -> "Trust":
    """Returns the facts that the reader of a capsule trusts: deployments, a block, witnesses, a beacon block and journals.

    The arguments are the values of a verb's options, and None for an option that the user left out. `threshold` is the number of
    witnesses that must have signed.
    """
    from chain.capsule.facts import deployment_of
    from chain.capsule.verification import Trust
    from chain.client.address_book import read_network
    from cli.evidence.journal import named_witness

    accepted = {digest_argument("--deployment", each) for each in deployments or []}
    if network is not None:
        accepted.add(deployment_of(read_network(network)).digest)
    block = None if block_hash is None else digest_argument("--block-hash", block_hash)
    accounts = frozenset(map(_account, witnesses or []))
    if threshold > max(1, len(accounts)):
        raise ConfigurationError("--witnesses", f"{threshold} of {len(accounts)} accounts: name as many by --witness")
    known = frozenset(digest_argument("--journal-keys", each) for each in journals or [])
    seers = frozenset(named_witness("--journal-witness", each) for each in journal_witnesses or [])
    point = None if checkpoint is None else digest_argument("--beacon-checkpoint", checkpoint)
    return Trust(frozenset(accepted), block, accounts, threshold, point, None, known, seers)


def exit_of_report(report: "CapsuleReport") -> Exit:
    """Returns the exit code for a capsule's report: OK if it passed, MISMATCH if it failed, INCONCLUSIVE if it is
    unverifiable."""
    from chain.capsule.report import Result

    return {Result.PASS: Exit.OK, Result.FAIL: Exit.MISMATCH, Result.UNVERIFIABLE: Exit.INCONCLUSIVE}[report.result]


def show_report(report: "CapsuleReport", output: OutputFormat) -> None:
    """Prints a capsule's report: every group of checks, the completeness of the record, and the conclusion."""
    from chain.capsule.conclusion import report_json

    emit(output, report_json(report), lambda: _print_report(report))


def _print_report(report: "CapsuleReport") -> None:
    console = Console()
    print_checks(
        (
            (each.group.value, each.result.value, each.detail if each.failure is None else f"{each.failure}: {each.detail}")
            for each in report.checks
        ),
        console,
    )
    _preflight(console, report)
    _conclusion(console, report)


def _preflight(console: Console, report: "CapsuleReport") -> None:
    from chain.capsule.conclusion import preflight_of

    checklist = preflight_of(report)
    if checklist is None:
        return
    console.print("completeness of the record:", style="bold")
    for point, mark in checklist.marks:
        console.print(plain(f"  {mark.value:<8}{point.value}"), soft_wrap=True)
    console.print(plain(f"  it supports: {checklist.claim}"), soft_wrap=True)


def _summary(report: "CapsuleReport") -> None:
    console = Console()
    if report.capsule is not None and report.facts is not None:
        claim, batch = report.capsule.claim, report.facts.batch
        for line in (
            f"receipt  {hex0x(claim.receipt_id)}",
            f"operator {batch.operator}, number {report.capsule.receipt.seq} of batch {report.capsule.membership.batch_id}",
            f"anchored {moment(batch.anchored_at)}, block {batch.block}",
            f"chain    {claim.chain_id}, as of block {claim.block}",
        ):
            console.print(plain(line), soft_wrap=True)
    _conclusion(console, report)


def _conclusion(console: Console, report: "CapsuleReport") -> None:
    from chain.capsule.conclusion import conclude

    end = conclude(report)
    console.print(Text(end.word, style=CHECK_STYLES.get(end.word, "bold yellow")))
    for title, lines in (("It shows:", end.shows), ("Conditions:", end.conditions), ("It does not show:", end.limits)):
        if lines:
            console.print(title, style="bold")
        for line in lines:
            console.print(plain(f"  - {line}"), soft_wrap=True)


def _account(text: str) -> Address:
    try:
        return address(text)
    except MalformedValue:
        raise ConfigurationError("--witness", "must be 0x and 40 hex digits") from None


def _read(file: Path) -> bytes:
    """Reads a file up to one byte more than the largest capsule, so that a larger file is noticed. Raises `ConfigurationError` if
    the file cannot be read."""
    from chain.capsule.schema import MAX_BYTES

    try:
        with file.open("rb") as opened:
            return opened.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigurationError(file.name, f"{error.strerror}: name the file of a capsule") from None


def _write(file: Path, data: bytes) -> None:
    from bytewise.service.files import replace_file

    replace_file(file, data)
