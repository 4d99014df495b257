"""`bytewise key verify-erasure`: checks whether enough shards have signed statements that they erased their shares."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.errors.branches import Fault
from bytewise.protocol.units import ZERO_DIGEST, Address
from bytewise.service.exit_codes import Exit
from cli.options import NETWORK_FILE, RPC_URLS, NetworkOption, RpcOption
from cli.output import OutputFormat, OutputOption, emit, moment, printable

if TYPE_CHECKING:
    from bytewise.protocol.keys.ceremony import Erasure, SignedErasure
    from kms.ceremony.erasure import JudgedStatement, SharesToErase


FilesArgument = Annotated[
    list[Path], typer.Argument(metavar="FILE...", help="Statements of one key epoch: `erasure-*.json` of the shards' folders.")
]


def verify_erasure(
    files: FilesArgument,
    network: NetworkOption = NETWORK_FILE,
    rpc: RpcOption = RPC_URLS,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Verify erasure statements, and show whether enough shards gave one.

    With enough statements, old shares or an ended key cannot be rebuilt.

    With n shards and threshold t, n - t + 1 statements are needed for each version of the shares. The chain has the holders and
    the threshold of each version. Nobody can check that a statement is true. The command checks that the shard's account on the
    chain signed the statement, for this network, key epoch and version.

    Exit codes: 0 enough statements for each version, 2 a statement is forged or of another network, 3 too few statements for a
    version yet, 5 the node does not answer, 64 wrong input.
    """
    from bytewise_client.connection import chain_of
    from chain.client.address_book import read_network, verify_code
    from chain.reads.key_epochs import share_history
    from chain.reads.reader import SnapshotReader
    from kms.ceremony.erasure import count_statements, judge_statement, shares_to_erase

    statements = [_read(file) for file in files]
    epochs = sorted({each.statement.epoch for each in statements})
    if len(epochs) != 1:
        raise ConfigurationError("FILE...", f"statements of key epochs {', '.join(map(str, epochs))}: give those of one")
    book = read_network(network)
    client = chain_of(rpc, book.chain_id)
    reader = SnapshotReader(client, verify_code(client, book))
    block = reader.head()
    dealt, disputable = share_history(client, book, epochs[0], block), reader.is_open_for_disputes(epochs[0], block)
    wanted = shares_to_erase(book.contracts, epochs[0], reader.epoch_on_chain(epochs[0], block), dealt, disputable)
    judged = [_best_judgement(each, wanted) for each in statements]
    counts = [count_statements([judge_statement(each, shares) for each in statements], shares) for shares in wanted]
    lines, summary = list(map(statement_line, files, judged)), _summary(wanted, counts)
    emit(output, _document(files, judged, wanted, counts), lambda: _print(lines, summary))
    if any(each.invalid for each in judged):
        raise typer.Exit(Exit.MISMATCH)
    raise typer.Exit(Exit.OK if all(map(_is_enough, wanted, counts)) else Exit.INCONCLUSIVE)


def _print(*parts: Iterable[str]) -> None:
    for part in parts:
        for line in part:
            print(printable(line))


def _best_judgement(signed: "SignedErasure", wanted: "Sequence[SharesToErase]") -> "JudgedStatement":
    """Judges a statement for each version of the shares, and returns one of the judgements.

    Returns the judgement for the newest version for which the statement counts. If there is none, returns the judgement for the
    newest version of which the shard had a share, or for the newest version if the shard had none.
    """
    from kms.ceremony.erasure import judge_statement

    judged = [judge_statement(signed, each) for each in reversed(wanted)]
    held = [each for each, shares in zip(judged, reversed(wanted), strict=True) if signed.shard in shares.holders]
    return next((each for each in judged if not (each.invalid or each.irrelevant)), (held or judged)[0])


def _is_enough(wanted: "SharesToErase", counts: "Mapping[int, Erasure]") -> bool:
    return len(counts) >= wanted.needed


def _missing(wanted: "SharesToErase", counts: "Mapping[int, Erasure]") -> dict[int, Address]:
    return {index: each for index, each in enumerate(wanted.holders, start=1) if index not in counts}


def _read(file: Path) -> "SignedErasure":
    from bytewise.protocol.encoding import decode
    from bytewise.protocol.keys.ceremony import SignedErasure

    try:
        return decode(SignedErasure, file.read_bytes())
    except (OSError, Fault) as error:
        why = f"is no erasure statement (`bytewise shard erase` writes them): {str(error)[:200]}"
        raise ConfigurationError(str(file), why) from None


def statement_line(file: Path, judged: "JudgedStatement") -> str:
    """Returns the judgement of an erasure statement as one line for people. `file` is the path of the statement."""
    if judged.invalid:
        return f"{file}: FALSE: {judged.invalid}"
    if judged.irrelevant:
        return f"{file}: does not count: {judged.signed.shard} {judged.irrelevant}"
    statement = judged.signed.statement
    when = moment(statement.at, "%Y-%m-%d %H:%M UTC")
    kept = "no share of the epoch" if statement.kept == ZERO_DIGEST else f"no share but that of version {statement.version}"
    return f"{file}: {judged.signed.shard} has {kept} since {when}; {statement.erased} files erased"


def _summary(wanted: "Sequence[SharesToErase]", counts: "Sequence[Mapping[int, Erasure]]") -> Iterator[str]:
    from bytewise.protocol.suites import is_rebuilt

    newest = wanted[-1]
    yield f"key epoch {newest.epoch} ({newest.on_chain.assurance})"
    for shares, counted in zip(wanted, counts, strict=True):
        line = (
            f"shares of version {shares.version}: {len(counted)} of {len(shares.holders)} shards say so; {shares.needed} must, "
        )
        line += f"for any {shares.threshold} of their shares open"
        if not _is_enough(shares, counted):
            silent = (f"{index} {each}" for index, each in _missing(shares, counted).items())
            line += f"; NOT out of reach: missing are shards {', '.join(silent)}"
        yield line
    what = f"the key of epoch {newest.epoch}" if newest.ended else f"the shares of epoch {newest.epoch} before those in force"
    if all(map(_is_enough, wanted, counts)):
        yield f"out of reach, if they kept their word: {what}"
    else:
        yield f"NOT out of reach: {what}"
    if is_rebuilt(newest.epoch):
        yield "enclaves rebuilt this key: what shards erase says nothing about them"


def _document(
    files: Sequence[Path],
    judged: "Sequence[JudgedStatement]",
    wanted: "Sequence[SharesToErase]",
    counts: "Sequence[Mapping[int, Erasure]]",
) -> dict[str, Any]:
    newest = wanted[-1]
    return {
        "epoch": newest.epoch,
        "state": newest.on_chain.state.name,
        "assurance": newest.on_chain.assurance,
        "version": newest.on_chain.version,
        "versions": [
            {
                "version": shares.version,
                "holders": len(shares.holders),
                "threshold": shares.threshold,
                "needed": shares.needed,
                "said": sorted(counted),
                "missing": list(_missing(shares, counted).values()),
                "enough": _is_enough(shares, counted),
            }
            for shares, counted in zip(wanted, counts, strict=True)
        ],
        "enough": all(map(_is_enough, wanted, counts)),
        "statements": [
            {
                "file": str(file),
                "shard": each.signed.shard,
                "erased": each.signed.statement.erased,
                "at": each.signed.statement.at,
                "invalid": each.invalid,
                "irrelevant": each.irrelevant,
            }
            for file, each in zip(files, judged, strict=True)
        ],
    }
