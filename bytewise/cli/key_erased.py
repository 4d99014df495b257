"""`bytewise kms erased`: whether enough shards say that they have erased their shares."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from bytewise.cli.connect import NETWORK_FILE, RPC_URLS, NetworkOption, RpcOption, address_book, chain_of
from bytewise.cli.exits import Exit
from bytewise.cli.verify import Output, OutputOption
from bytewise.protocol.ceremony import Erasure, SignedErasure
from bytewise.protocol.encoding import decode
from bytewise.protocol.errors import ConfigurationError, Fault
from bytewise.protocol.suites import is_rebuilt
from bytewise.protocol.units import ZERO_DIGEST
from chain.book import verify_code
from chain.reader import DocketReader
from kms.dkg.erasures import Counted, Wanted, count, judge, wanted_shares
from kms.keyring import load_document

FilesArgument = Annotated[
    list[Path], typer.Argument(metavar="FILE...", help="Statements of one key epoch: `erasure-*.json` of the shards' folders.")
]
BeforeOption = Annotated[
    Path | None,
    typer.Option(
        "--before", help="Epoch document of the shares that were dealt again, if other shards or another threshold had them."
    ),
]


def erased(
    files: FilesArgument,
    before: BeforeOption = None,
    network: NetworkOption = NETWORK_FILE,
    rpc: RpcOption = RPC_URLS,
    output: OutputOption = Output.TABLE,
) -> None:
    """Verify erasure statements, and tell whether so many shards gave one that old shares, or an ended key, are out of reach.

    With n shards of which t open, n - t + 1 must say so. Nobody can check such a word; each is held against the account that the
    chain names, the network, the key epoch and the version of its shares.

    Exit codes: 0 enough say so, 2 a statement is forged or of another network, 3 too few say so yet, 5 the node does not answer,
    64 asked wrongly.
    """
    said = [_read(file) for file in files]
    epochs = sorted({each.statement.epoch for each in said})
    if len(epochs) != 1:
        raise ConfigurationError("FILE...", f"statements of key epochs {', '.join(map(str, epochs))}: give those of one")
    document = load_document(before) if before is not None else None
    book = address_book(network)
    client = chain_of(rpc, book.chain_id)
    reader = DocketReader(client, verify_code(client, book))
    wanted = wanted_shares(book.contracts, epochs[0], reader.epoch_on_chain(epochs[0], reader.head()), document)
    judged = [judge(each, wanted) for each in said]
    counts = count(judged, wanted)
    if output is Output.JSON:
        print(json.dumps(_state(files, judged, wanted, counts), indent=2))
    else:
        for line in (*map(_told, files, judged), *_summed(wanted, counts, document is None)):
            print(line)
    if any(each.false for each in judged):
        raise typer.Exit(Exit.MISMATCH)
    raise typer.Exit(Exit.OK if len(counts) >= wanted.needed else Exit.INCONCLUSIVE)


def _read(file: Path) -> SignedErasure:
    try:
        return decode(SignedErasure, file.read_bytes())
    except (OSError, Fault) as error:
        why = f"is no erasure statement (`python -m kms erase` writes them): {str(error)[:200]}"
        raise ConfigurationError(str(file), why) from None


def _told(file: Path, judged: Counted) -> str:
    if judged.false:
        return f"{file}: FALSE: {judged.false}"
    if judged.besides:
        return f"{file}: does not count: {judged.signed.shard} {judged.besides}"
    said = judged.signed.statement
    when = datetime.fromtimestamp(said.at, UTC).strftime("%Y-%m-%d %H:%M UTC")
    kept = "no share of the epoch" if said.kept == ZERO_DIGEST else f"no share but that of version {said.version}"
    return f"{file}: {judged.signed.shard} has {kept} since {when}; {said.erased} files erased"


def _summed(wanted: Wanted, counts: Mapping[int, Erasure], of_now: bool) -> Sequence[str]:
    what = (
        f"the key of epoch {wanted.epoch}"
        if wanted.ended
        else f"the shares of epoch {wanted.epoch} before version {wanted.on_chain.version}"
    )
    have, needed, holders = len(counts), wanted.needed, len(wanted.holders)
    label = f"key epoch {wanted.epoch} ({wanted.on_chain.assurance})"
    lines = [f"{label}: {have} of {holders} shards say so; {needed} must, for any {wanted.threshold} of their shares open"]
    if have >= needed:
        lines.append(f"out of reach, if they kept their word: {what}")
    else:
        silent = [str(index) for index in range(1, holders + 1) if index not in counts]
        lines.append(f"NOT out of reach: {what}; missing are shards {', '.join(silent)}")
    if of_now and wanted.on_chain.version:
        lines.append(
            "counted are the shards that the chain names now; where others had shares before, name their document (--before)"
        )
    if is_rebuilt(wanted.epoch):
        lines.append("enclaves rebuilt this key: what shards erase says nothing about them")
    return lines


def _state(files: Sequence[Path], judged: Sequence[Counted], wanted: Wanted, counts: Mapping[int, Erasure]) -> dict[str, Any]:
    return {
        "epoch": wanted.epoch,
        "state": wanted.on_chain.state.name,
        "assurance": wanted.on_chain.assurance,
        "version": wanted.on_chain.version,
        "holders": len(wanted.holders),
        "threshold": wanted.threshold,
        "needed": wanted.needed,
        "said": sorted(counts),
        "enough": len(counts) >= wanted.needed,
        "statements": [
            {
                "file": str(file),
                "shard": each.signed.shard,
                "erased": each.signed.statement.erased,
                "at": each.signed.statement.at,
                "false": each.false,
                "besides": each.besides,
            }
            for file, each in zip(files, judged, strict=True)
        ],
    }
