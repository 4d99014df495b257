"""`bytewise attention score`: scores which accounts noticed the attention tests of revealed ranges."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.units import Address, address, hex0x
from cli.options import DA_URLS, NETWORK_FILE, RPC_URLS, NetworkOption, RpcOption
from cli.output import Fields, OutputFormat, OutputOption, Row, emit, plain, print_entries

if TYPE_CHECKING:
    from bytewise.protocol.attention.reveal import AttentionReveal
    from bytewise.protocol.attention.score import AttentionScore
    from bytewise_client.connection import Connection
    from chain.reads.attention import Rerun, ScoredRange

FilesArgument = Annotated[list[Path], typer.Argument(metavar="FILE…", help="Reveals: files of `bytewise attention reveal`.")]


def score(
    files: FilesArgument,
    network: NetworkOption = NETWORK_FILE,
    rpc: RpcOption = RPC_URLS,
    artifact: Annotated[
        Path | None,
        typer.Option("--artifact", help="Artifact of the model: computes again the answers that no verdict proves false."),
    ] = None,
    watcher: Annotated[
        list[str] | None, typer.Option("--watchtower", help="Account of a watchtower to score, 0x-hex; repeatable.")
    ] = None,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Score who noticed the tests of revealed ranges: auditors, committee members and watchtowers.

    Each reveal is first checked against the chain: commitment before the range, key, rate, every test. A test counts only if its
    answer is proven false, by a verdict or, with --artifact, by running the model here. An audit or vote that could not decide
    does not count as a miss: the score counts it separately. Convictions of the fund's operator about receipts that are no tests
    are listed as real frauds.

    Exit codes: 0 scored, 2 a reveal does not prove its tests, 5 the range is not over, or a service is down, 64 wrong input.

    Example: bytewise attention score range-1.reveal.json --artifact ./artifact
    """
    from bytewise.protocol.attention.score import score_tests
    from bytewise_client.connection import connected
    from chain.reads.attention import scored_range

    watchers = [_account(each) for each in watcher or []]
    reveals = [_reveal(path) for path in files]
    with connected(network, rpc, DA_URLS) as connection:
        rerun = None if artifact is None else _rerun(connection, artifact)
        ranges = [scored_range(connection.reader, each, rerun) for each in reveals]
    scores = score_tests([record for each in ranges for record in each.records], watchers)
    rows = [account_row(who, found) for who, found in sorted(scores.items())]
    emit(output, {"ranges": [range_row(each) for each in ranges], "accounts": rows}, lambda: _print(ranges, rows))


def _reveal(path: Path) -> "AttentionReveal":
    """Reads a reveal from a file. Raises `ConfigurationError` if the file is no reveal."""
    from bytewise.protocol.errors.actors import RevealRefused
    from chain.reads.attention import read_reveal

    try:
        return read_reveal(path)
    except RevealRefused as error:
        advice = "name a file of `bytewise attention reveal`"
        raise ConfigurationError(path.name, f"is no reveal ({error.values[1]}): {advice}") from None


def _account(text: str) -> Address:
    try:
        return address(text)
    except MalformedValue as error:
        raise ConfigurationError("--watchtower", str(error)) from None


def _rerun(connection: "Connection", folder: Path) -> "Rerun":
    """Returns the function that computes the answer of a test again, for tests that no verdict has proven false. The function
    returns True if the test's answer is false, False if it is right, and None if the test has no opening or is of
    another model. It raises `CannotExecute` if this machine cannot run the model."""
    from bytewise.inference.profiles import AnyEngine, model_id_of, open_engine
    from bytewise.protocol.attention.reveal import AttentionTest
    from bytewise.protocol.records.trace import differing_fields
    from bytewise.protocol.units import Digest

    model, head, engines = model_id_of(folder), connection.reader.head(), dict[Digest, AnyEngine]()

    def rerun(test: AttentionTest) -> bool | None:
        receipt = test.receipt
        if test.answer is None or receipt.model_id != model:
            return None
        if receipt.environment not in engines:
            engines[receipt.environment] = open_engine(folder, connection.documents.environment(receipt.environment, head))
        engine = engines[receipt.environment]
        request, output = test.answer.request, test.answer.output
        truth = engine.confirm(request, engine.verify(request, output, receipt.out_hash)).truth
        return bool(differing_fields(receipt, truth.output.tokens_hash, truth.trace_root))

    return rerun


def range_row(found: "ScoredRange") -> Row:
    """Returns the facts about one revealed range as plain JSON data."""
    from bytewise.protocol.economics.attention import UNLIKELY, tail_chance

    proofs, chance = [each.is_false for each in found.records], tail_chance(found.terms, found.drawn)
    return {
        "operator": found.terms.operator, "first": int(found.terms.first), "last": int(found.terms.last),
        "rate": found.terms.rate_ppm / 1_000_000, "drawn": found.drawn,
        "expected": found.terms.expected, "chance": chance, "unlikely": chance < UNLIKELY,
        "tests": len(proofs), "proven": proofs.count(True),
        "unproven": proofs.count(None), "answered_truly": proofs.count(False),
        "disputed": sum(each.challenger is not None for each in found.records), "block": found.block,
        "real_frauds": [{"receipt": hex0x(each.receipt_id), "verdict": each.verdict.name} for each in found.real_frauds],
    }  # fmt: skip


def account_row(account: Address, found: "AttentionScore") -> Row:
    """Returns the score of one account as plain JSON data."""
    return {"account": account, "caught_bps": found.caught_bps, **asdict(found)}


def score_words(row: Row) -> Fields:
    """Returns the fields of one account's score as text for people. `row` is the account's row from `account_row`."""
    caught = row["caught_bps"]
    return {
        "score": "nothing to decide" if caught is None else f"{caught / 100:.1f}%",
        "audits:": _count(row["audits"]), "seats:": _count(row["seats"]), "as a watchtower:": _count(row["watch"]),
    }  # fmt: skip


def _count(counted: dict[str, Any]) -> str:
    return " ".join(f"{value} {name.replace('_', ' ')}" for name, value in counted.items() if value) or "none"


def _print(ranges: "Iterable[ScoredRange]", rows: Sequence[Row]) -> None:
    console = Console()
    for row in map(range_row, ranges):
        what = (f"{row['tests']} tests, {row['proven']} proven false, {row['unproven']} unproven (--artifact runs them), "
                f"{row['answered_truly']} answered truly, {row['disputed']} disputed")  # fmt: skip
        console.print(plain(f"operator {row['operator']}, receipts {row['first']} to {row['last']}", "bold"), soft_wrap=True)
        console.print(plain(f"  rate {row['rate']}: {row['drawn']} drawn, {row['expected']:.1f} expected"), soft_wrap=True)
        if row["unlikely"]:
            told = f"  UNLIKELY at this rate (chance {row['chance']:.1e}): the fund may have searched for its key"
            console.print(plain(told, "bold red"), soft_wrap=True)
        console.print(plain(f"  {what}"), soft_wrap=True)
        for fraud in row["real_frauds"]:
            console.print(plain(f"  REAL FRAUD, no test: {fraud['receipt']} {fraud['verdict']}", "bold red"), soft_wrap=True)
    print_entries(((row["account"], score_words(row)) for row in rows), "scored accounts", console)
