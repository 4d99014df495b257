"""`bytewise journal`: verifies a journal, signs its checkpoints, exports entries with proofs, and signs checkpoints of other
journals as a witness."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, NoReturn

import typer
from rich.console import Console

from bytewise.protocol.encoding import encode
from bytewise.protocol.errors.actors import ConfigurationError, StoreCorrupt
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.units import Digest, hex0x
from bytewise.service.exit_codes import Exit
from cli.options import SETTINGS, NodeConfigOption, digest_argument
from cli.output import OutputFormat, OutputOption, emit, moment, plain

if TYPE_CHECKING:
    from bytewise.crypto.checkpoint import CheckpointKeys, NoteKey, SignedCheckpoint
    from bytewise.service.sections import CheckpointSettings
    from bytewise.storage.journal import Journal, VerifiedExport

HeadOption = Annotated[
    str | None, typer.Option("--head", help="A head that this command printed before, which must still be in it.")
]
ExportOption = Annotated[
    Path | None, typer.Option("--export", help="Verify this file of `bytewise journal export` instead of a node's database.")
]
KeysOption = Annotated[
    str | None,
    typer.Option("--keys", help="With --export: fingerprint of the journal's keys, as its owner's `journal verify` prints it."),
]
KeptOption = Annotated[
    list[Path] | None,
    typer.Option("--checkpoint", help="A checkpoint that you kept, which the journal must continue; repeatable."),
]
WitnessKeyOption = Annotated[
    list[str] | None,
    typer.Option("--witness", help="With --export: key of a witness that must have signed a --checkpoint; repeatable."),
]
OutFileOption = Annotated[Path, typer.Option("--out", help="File to write; it must not exist.")]


def verify(
    config: NodeConfigOption = Path(SETTINGS), head: HeadOption = None, export: ExportOption = None, keys: KeysOption = None,
    kept: KeptOption = None, witnesses: WitnessKeyOption = None, output: OutputOption = OutputFormat.TABLE,
) -> None:  # fmt: skip
    """Verify the journal of a node, or an export of one, which needs neither node nor database.

    The journal records what the node means to do before the node does it. Of a node's journal, the command verifies the hash
    chain, the node's signature on each entry, and that the journal continues every checkpoint that the node signed. If the end of
    the journal and its checkpoints were cut off, only a copy outside the node shows it: give a head (--head) or a checkpoint
    (--checkpoint) that you stored earlier. The node may run meanwhile.

    Exit codes: 0 the journal holds, 2 an entry was altered, lost or added, or your head or checkpoint is not in the journal, 3
    the export holds, but without --keys it is open whose journal it is, 64 wrong input.

    Example: bytewise journal verify --export entries.json --keys 0x5f1c… --checkpoint kept.checkpoint
    """
    notes = [read_kept(file) for file in kept or []]
    if export is not None:
        if head is not None:
            raise ConfigurationError("--head", "is for a node's database: give --checkpoint with --export")
        _verify_export(export, keys, notes, [named_witness("--witness", each) for each in witnesses or []], output)
        return
    if keys is not None or witnesses:
        raise ConfigurationError("--keys", "and --witness belong to --export")
    _verify_node(_open(config), None if head is None else digest_argument("--head", head), notes, output)


def checkpoint(
    config: NodeConfigOption = Path(SETTINGS),
    out: Annotated[Path | None, typer.Option("--out", help="Write a copy to this file, which must not exist.")] = None,
) -> None:
    """Sign how many entries the journal has, and the root of their tree.

    The node signs a checkpoint each hour by itself, if its settings have the section [checkpoints]. Give checkpoints to other
    people: with a checkpoint they can see later whether an earlier entry was changed. If there is no new entry, the newest
    checkpoint is shown.

    Exit codes: 0 signed, 2 the journal does not continue what it signed before, 64 wrong input, or the file exists.

    Example: bytewise journal checkpoint --config bytewise-watchtower/bytewise.toml --out mine.checkpoint
    """
    _refuse_existing(out)
    node = _open(config)
    signed = node.newest_checkpoint()
    if out is not None:
        _write(out, signed.note.encode().encode())
    print(f"checkpoint of {signed.checkpoint.size} entries, {moment(signed.checkpoint.at)}; root {hex0x(signed.checkpoint.root)}")


def export(
    out: OutFileOption,
    config: NodeConfigOption = Path(SETTINGS),
    first: Annotated[int, typer.Option("--from", min=0, help="Number of the first entry.")] = 0,
    last: Annotated[int | None, typer.Option("--to", min=0, help="Number of the last entry; by default the newest.")] = None,
    since: Annotated[
        list[Path] | None, typer.Option("--since", help="A checkpoint that your reader has; repeatable. It may be an older one.")
    ] = None,
) -> None:
    """Write entries to one file with proofs to a signed checkpoint.

    A new checkpoint is signed if the journal has entries after its newest checkpoint. Everybody who gets the file can read the
    exported entries and no others. If your reader has an older checkpoint, add it with --since. Then the file also proves that no
    entry before that checkpoint was changed.

    Exit codes: 0 written, 2 the journal does not continue what it signed before, 64 wrong input, or the file exists.

    Example: bytewise journal export --config bytewise-watchtower/bytewise.toml --out entries.json --from 120 --to 140
    """
    from bytewise.storage.journal import ExportRejected, make_export, verify_export

    _refuse_existing(out)
    node, earlier = _open(config), [read_kept(file) for file in since or []]
    signed = node.newest_checkpoint()
    end = signed.checkpoint.size if last is None else last + 1
    try:
        data = make_export(node.journal, node.keys.public, signed, first, end, earlier)
        verify_export(data, kept=earlier)
    except MalformedValue as error:
        raise ConfigurationError("--from, --to, --since", str(error)) from None
    except ExportRejected as error:
        _refuse(f"{error.args[0]}: {error.args[1]}")
    _write(out, data)
    fingerprint = hex0x(node.keys.public.fingerprint)
    print(f"{out}: entries {first} to {end - 1} of {signed.checkpoint.size}, {len(data)} bytes; keys {fingerprint}")


def witness(
    file: Annotated[Path, typer.Argument(metavar="EXPORT", help="File of `bytewise journal export --since YOUR_LAST`.")],
    name: Annotated[str, typer.Option("--name", help="Your name as a witness, such as example.org/witness.")],
    key: Annotated[Path, typer.Option("--key", help="Your Ed25519 key for this alone; made at the first use.")],
    memory: Annotated[Path, typer.Option("--memory", help="Folder of the newest checkpoint of each journal that you signed.")],
    out: OutFileOption,
) -> None:
    """Sign that a journal continues every checkpoint of it that you have signed before.

    The folder --memory has the newest checkpoint that you signed of each journal. Ask the journal's owner for an export since
    your checkpoint: the command signs only if the journal continues it. Your signature does not say that the entries are true.

    Exit codes: 0 written, 2 the export does not hold, or the journal was changed, 6 another process uses the key, 64 wrong input.

    Example: bytewise journal witness entries.json --name example.org/w1 --key w1.key --memory seen --out mine.checkpoint
    """
    from bytewise.crypto.checkpoint import cosign, witness_key
    from bytewise.service.clock import SystemClock
    from bytewise.service.node_files.key_lock import hold_key
    from bytewise.storage.checkpoints import SUFFIX
    from bytewise.storage.journal import journal_key

    _refuse_existing(out)
    signed = _verified("EXPORT", data := read_export(file), None, []).checkpoint
    place = memory / f"{signed.checkpoint.origin.rpartition('/')[2]}{SUFFIX}"
    secret = journal_key(key)
    try:
        public = witness_key(name, secret)
    except MalformedValue as error:
        raise ConfigurationError("--name", str(error)) from None
    # Without the lock, two runs at the same time could both find no stored checkpoint, and sign two different histories.
    with hold_key(key):
        _verified("EXPORT", data, None, [read_kept(place)] if place.exists() else [])
        try:
            made = cosign(signed, name, secret, SystemClock().now()).note.encode().encode()
        except MalformedValue as error:
            _refuse(f"nobody could read the checkpoint with another signature: {error}")
        _remember(place, made)
        _write(out, made)
    print(f"{out}: checkpoint of {signed.checkpoint.size} entries, signed by {public.text}")


def _remember(place: Path, made: bytes) -> None:
    """Stores a checkpoint in the witness's folder. This happens before the signature leaves the process. A crash between the two
    loses the signature, but the witness never forgets a checkpoint that it signed."""
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError("--memory", f"{error.strerror}: name a folder") from None
    _write(place, made)


class _NodeJournal(NamedTuple):
    """The journal of a node, opened by its settings."""

    journal: "Journal"
    keys: "CheckpointKeys"
    settings: "CheckpointSettings | None"

    def newest_checkpoint(self) -> "SignedCheckpoint":
        """Returns a checkpoint of all entries of the journal, and signs a new one if there are new entries. Raises `typer.Exit`
        if the journal does not continue an earlier checkpoint."""
        from bytewise.service.clock import SystemClock
        from bytewise.storage.checkpoints import CheckpointKeeper

        if self.settings is None:
            raise ConfigurationError(
                "checkpoints", 'no such section in the settings: add [checkpoints] with folder = "checkpoints"'
            )
        try:
            found = CheckpointKeeper(self.journal, self.keys, self.settings, SystemClock()).newest()
        except StoreCorrupt as error:
            _refuse(str(error))
        if found is None:
            raise ConfigurationError("journal", "has no entry yet: start the node first")
        return found


def _open(config: Path) -> _NodeJournal:
    from bytewise.crypto.checkpoint import CheckpointKeys
    from bytewise.service.clock import SystemClock
    from bytewise.storage.journal import Journal, journal_key
    from cli.node.view import NodeView
    from dashboard.monitor.settings import MonitorSettings
    from kms.settings import ShardSettings

    view = NodeView(config)
    if isinstance(view.settings, MonitorSettings):
        raise ConfigurationError(config.name, "is of a monitor, which does nothing that a journal would record")
    if isinstance(view.settings, ShardSettings):
        raise ConfigurationError(config.name, "is of a shard, whose release log takes the place of a journal")
    file = view.settings.db.journal_key_file
    if not file.exists():
        raise ConfigurationError(file.name, "is not there: the node writes it when it starts for the first time")
    key = journal_key(file)
    return _NodeJournal(Journal(view.database, key, SystemClock()), CheckpointKeys(key), view.settings.checkpoints)


def _verify_node(node: _NodeJournal, head: Digest | None, kept: list["SignedCheckpoint"], output: OutputFormat) -> None:
    from bytewise.crypto.checkpoint import signed_by
    from bytewise.storage.checkpoints import CheckpointFolder, verify_continued

    try:
        found, leaves = node.journal.verified(head), node.journal.leaves()
        stored = [] if node.settings is None else CheckpointFolder(node.settings.folder, node.keys.public).all()
        for each in kept:
            if not all(signed_by(node.keys.public, each)):
                raise StoreCorrupt("journal", f"the kept checkpoint of {each.checkpoint.size} entries is not signed by its keys")
        verify_continued(leaves, [*stored, *kept])
    except (StoreCorrupt, MalformedValue) as error:
        _refuse(str(error))
    fingerprint, count = hex0x(node.keys.public.fingerprint), len(stored) + len(kept)
    result = {
        "entries": found.entries, "head": hex0x(found.head), "newest_at": found.newest_at, "checkpoints": count,
        "keys": fingerprint,
    }  # fmt: skip
    newest = f", the newest of {moment(found.newest_at)}" if found.entries else ""
    line = f"{found.entries} entries{newest}; head {hex0x(found.head)}; {count} checkpoints hold; keys {fingerprint}"
    emit(output, result, lambda: Console().print(plain(line), soft_wrap=True))


def _verify_export(
    file: Path, keys: str | None, kept: list["SignedCheckpoint"], witnesses: list["NoteKey"], output: OutputFormat
) -> None:
    fingerprint = None if keys is None else digest_argument("--keys", keys)
    found = _verified("--export", read_export(file), fingerprint, kept)
    for each in witnesses:
        try:
            is_signed = any(note.note.is_signed_by(each) for note in kept)
        except MalformedValue as error:
            _refuse(f"a --checkpoint of the witness {each.name}: {error}")
        if not is_signed:
            _refuse(f"no --checkpoint has a valid signature of the witness {each.name}")
    emit(output, _export_json(found), lambda: _print_export(found))
    if fingerprint is None:
        line = (
            f"Whose journal it is stays open: compare --keys {hex0x(found.export.keys.fingerprint)} with what its owner prints."
        )
        Console(stderr=True).print(plain(line, "yellow"), soft_wrap=True)
        raise typer.Exit(Exit.INCONCLUSIVE)


def _export_json(found: "VerifiedExport") -> dict[str, Any]:
    point = found.checkpoint.checkpoint
    return {
        "keys": hex0x(found.export.keys.fingerprint), "size": point.size, "root": hex0x(point.root), "signed_at": point.at,
        "continues": [each.checkpoint.size for each in found.earlier],
        "entries": [
            {"number": e.number, "at": e.at, "kind": e.kind, "subject": hex0x(e.subject), "body": e.body} for e in found.entries
        ],
    }  # fmt: skip


def _print_export(found: "VerifiedExport") -> None:
    console, point, entries = Console(), found.checkpoint.checkpoint, found.entries
    for each in entries:
        body = encode(each.body).decode()
        console.print(plain(f"{each.number}  {moment(each.at)}  {each.kind}  {hex0x(each.subject)}  {body}"), soft_wrap=True)
    line = f"entries {entries[0].number} to {entries[-1].number} of {point.size}, signed {moment(point.at)}"
    console.print(plain(line, "bold"), soft_wrap=True)
    for before in found.earlier:
        console.print(plain(f"  it continues the checkpoint of {before.checkpoint.size} entries"), soft_wrap=True)


def _verified(option: str, data: bytes, fingerprint: Digest | None, kept: list["SignedCheckpoint"]) -> "VerifiedExport":
    """Verifies an export that a user named with `option`. Raises `ConfigurationError` if it is none, and `typer.Exit` if it does
    not hold."""
    from bytewise.storage.journal import ExportFailure, ExportRejected, verify_export

    try:
        return verify_export(data, fingerprint, kept)
    except ExportRejected as error:
        name, why = error.args
        if name is ExportFailure.MALFORMED:
            raise ConfigurationError(option, f"is no export: {why}") from None
        _refuse(f"{name}: {why}")


def _refuse(line: str) -> NoReturn:
    Console(stderr=True).print(plain(line, "red"), soft_wrap=True)
    raise typer.Exit(Exit.MISMATCH)


def _refuse_existing(file: Path | None) -> None:
    if file is not None and file.exists():
        raise ConfigurationError(file.name, "exists; evidence is never overwritten: name a new file")


def read_export(file: Path) -> bytes:
    """Reads the file of a journal export, up to one byte more than the largest export, so that a larger file is noticed. Raises
    `ConfigurationError` if the file cannot be read."""
    from bytewise.protocol.encoding import MAX_DOCUMENT_BYTES

    try:
        with file.open("rb") as opened:
            return opened.read(MAX_DOCUMENT_BYTES + 1)
    except OSError as error:
        raise ConfigurationError(file.name, f"{error.strerror}: name a file of `bytewise journal export`") from None


def read_kept(file: Path) -> "SignedCheckpoint":
    """Reads a signed checkpoint from a file. Raises `ConfigurationError` if the file has none."""
    from bytewise.storage.checkpoints import read_checkpoint

    try:
        return read_checkpoint(file)
    except MalformedValue as error:
        raise ConfigurationError(file.name, f"is no checkpoint: {error}") from None


def named_witness(option: str, text: str) -> "NoteKey":
    """Parses the public key of a witness that a user gave with an option. Raises `ConfigurationError` if the text is no such
    key."""
    from bytewise.crypto.checkpoint import SignatureType, parse_key

    try:
        key = parse_key(text)
    except MalformedValue as error:
        raise ConfigurationError(option, str(error)) from None
    if key.kind is not SignatureType.COSIGNATURE:
        raise ConfigurationError(option, "is no key of a witness: give what `bytewise journal witness` prints")
    return key


def _write(file: Path, data: bytes) -> None:
    from bytewise.service.files import replace_file

    replace_file(file, data)
