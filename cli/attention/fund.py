"""`bytewise attention commit`, `run` and `reveal`: the verbs with which a fund runs attention tests.

A range is the sequence of receipt numbers for which one schedule decides which answers are false. The carrier is the ordinary
receipt, anchored before the range, whose request contains the commitment to the schedule.
"""

import os
import secrets
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.units import U64, U256, Digest, address, hex0x
from cli.actors import ConfigOption
from cli.options import DA_URLS, NETWORK_FILE, RPC_URLS, DaOption, NetworkOption, RpcOption
from cli.output import OutputFormat, OutputOption, Row, emit, plain

if TYPE_CHECKING:
    from bytewise.protocol.attention.schedule import AttentionTerms, FraudSchedule
    from bytewise.protocol.records.receipt import SignedReceipt
    from bytewise.protocol.records.request import Request
    from bytewise.service.node_files.attention_folder import AttentionFolder
    from chain.reads.reader import SnapshotReader

FolderOption = Annotated[Path, typer.Option("--folder", help="Folder of this range of tests; it is secret until the reveal.")]
RateOption = Annotated[float, typer.Option("--rate", help="Chance that a receipt of the range is false, above 0 to 1.")]
QUESTION = "Which harbour is the largest?"
"""Question of the request that contains the commitment."""
TOKENS = 8
"""Most tokens of the answer to that request."""


UrlArgument = Annotated[str, typer.Argument(metavar="URL", help="Base address of the fund's own operator.")]
OperatorOption = Annotated[str, typer.Option("--operator", help="Account of that operator, 0x-hex.")]
CountOption = Annotated[int, typer.Option("--count", min=1, max=1_000_000, help="Receipts of the range.")]
FirstOption = Annotated[
    int | None, typer.Option("--first", min=2, help="First number of the range; by default the first after a largest batch.")
]
CertificateOption = Annotated[
    Path | None, typer.Option("--certificate", help="TLS certificate to trust, PEM, e.g. the operator's tls.pem.")
]
ApiKeyOption = Annotated[str, typer.Option("--api-key", help="Sent as bearer token.", envvar="BYTEWISE_API_KEY")]


def commit(
    url: UrlArgument, operator: OperatorOption, count: CountOption, rate: RateOption, folder: FolderOption,
    first: FirstOption = None, certificate: CertificateOption = None, api_key: ApiKeyOption = "none",
    network: NetworkOption = NETWORK_FILE, rpc: RpcOption = RPC_URLS, output: OutputOption = OutputFormat.TABLE,
) -> None:  # fmt: skip
    """Commit to a secret schedule of false answers, before its range of receipts begins.

    The command draws the secret key of the schedule and writes it to the new folder. Then it sends one ordinary request to the
    operator, with the commitment as a stop string. The receipt of this request brings the commitment to the chain, but nothing
    public shows that the receipt contains a commitment. If the command is interrupted, repeat it with the same folder. Afterwards
    serve the range by `bytewise attention run`.

    Exit codes: 0 committed, 5 the chain or the operator does not answer, 64 wrong input, or the range began already.

    Example: bytewise attention commit https://127.0.0.1:8443 --operator 0x7099… --count 10000 --rate 0.005 --folder range-1
    """
    from bytewise.protocol.attention.reveal import CARRIER_SEQ
    from bytewise.service.node_files.attention_folder import AttentionFolder
    from bytewise_client.connection import connected

    kept = AttentionFolder(folder)
    with connected(network, rpc, DA_URLS) as connection:
        reader = connection.reader
        try:
            terms = _terms(reader, operator, first, count, rate)
            if not kept.path.exists():
                _verify_new(reader, terms)
        except MalformedValue as error:
            raise ConfigurationError("commit", f"{error}: see --operator, --count, --first and --rate") from None
    schedule = _schedule(kept, terms)
    receipt = _ask(kept, schedule, url, certificate, api_key)[0].receipt
    if receipt.operator != terms.operator:
        raise ConfigurationError("--operator", f"{url} is served by {receipt.operator}: name it, and a new folder")
    if receipt.seq != CARRIER_SEQ:
        why = "a range wants an account without receipts, so that it can have one schedule only"
        raise ConfigurationError("--operator", f"{receipt.operator} has signed {receipt.seq - 1} receipts before: {why}")
    row = _row(schedule) | {"carrier_seq": int(receipt.seq), "folder": str(folder)}
    emit(output, row, lambda: _print_commitment(row))


def _terms(reader: "SnapshotReader", operator: str, first: int | None, count: int, rate: float) -> "AttentionTerms":
    """Returns the terms of a schedule: chain, operator, range and rate. Raises `ConfigurationError` if the range could begin in
    the same batch as the receipt with the commitment."""
    from bytewise.protocol.attention.schedule import RATE_UNIT, AttentionTerms

    head, account = reader.head(), address(operator)
    most = reader.params(reader.params_version(head), head).shares.max_batch
    start = most + 1 if first is None else first
    if start <= most:
        raise ConfigurationError(
            "--first", f"{start}: the batch of the commitment may have {most} receipts; name {most + 1} or more"
        )
    ppm = round(rate * RATE_UNIT) if 0 <= rate <= 1 else 0
    return AttentionTerms(U256(reader.network.chain_id), account, U64(start), U64(start + count - 1), ppm)


def _verify_new(reader: "SnapshotReader", terms: "AttentionTerms") -> None:
    """Raises `ConfigurationError` if the operator's account has anchored receipts. It is not called for a command that continues
    an interrupted one, because the receipt with the commitment may be anchored then."""
    if last := reader.holdings(terms.operator, reader.head()).last_seq:
        raise ConfigurationError("--operator", f"{terms.operator} has anchored {last} receipts: a range wants a new account")


def _schedule(kept: "AttentionFolder", terms: "AttentionTerms") -> "FraudSchedule":
    """Returns the schedule in the folder. Creates it if the folder is new, and otherwise continues an interrupted command. Raises
    `ConfigurationError` if the folder's commitment is already sent, or if its terms differ."""
    from bytewise.protocol.attention.schedule import FraudSchedule

    if not kept.path.exists():
        kept.create(FraudSchedule(terms, Digest(secrets.token_bytes(32))))
        return kept.schedule()
    found = kept.schedule()
    if kept.carrier.exists():
        raise ConfigurationError(str(kept.path), "has a commitment already: name a new folder for each range")
    same = (found.terms.operator, found.terms.count, found.terms.rate_ppm) == (terms.operator, terms.count, terms.rate_ppm)
    if not same:
        raise ConfigurationError(str(kept.path), "is of an interrupted commit with other terms: name a new folder")
    return found


def _ask(
    kept: "AttentionFolder", schedule: "FraudSchedule", url: str, certificate: Path | None, api_key: str
) -> "tuple[SignedReceipt, Request]":  # fmt: skip
    """Sends the request with the commitment, stores the answer in the folder, and returns the receipt with its request. A
    repeated call uses the same idempotency key, so it gets the same answer."""
    import json

    from bytewise.service.files import replace_file
    from bytewise_client.endpoint import Endpoint

    endpoint = Endpoint(url, certificate, api_key)
    try:
        body = {
            "model": endpoint.model(), "messages": [{"role": "user", "content": QUESTION}], "max_tokens": TOKENS,
            "temperature": 0, "stop": [schedule.stop_string],
        }  # fmt: skip
        answer = endpoint.ask(body, f"attention-{hex0x(schedule.commitment)[2:34]}")
    finally:
        endpoint.close()
    replace_file(kept.carrier, json.dumps(answer).encode())
    return read_carrier(kept)


def read_carrier(kept: "AttentionFolder") -> "tuple[SignedReceipt, Request]":
    """Reads the carrier from the folder: the receipt whose request contains the commitment. Returns the receipt and the request.
    Raises `ConfigurationError` if the stored answer has no signed receipt or no opening."""
    from bytewise_client.saved_answer import read_answer

    (choice,) = read_answer(kept.carrier).choices[:1]
    if choice.signed is None or choice.payload is None:
        raise ConfigurationError(kept.carrier.name, "has no signed receipt with its opening: is it an operator of this network?")
    return choice.signed, choice.payload.request


def _row(schedule: "FraudSchedule") -> Row:
    terms = schedule.terms
    return {
        "operator": terms.operator, "first": int(terms.first), "last": int(terms.last), "rate": terms.rate_ppm / 1_000_000,
        "commitment": hex0x(schedule.commitment), "tests": sum(1 for _ in schedule.frauds()),
    }  # fmt: skip


def _print_commitment(row: Row) -> None:
    console = Console()
    console.print(plain(f"commitment {row['commitment']}", "bold"), soft_wrap=True)
    console.print(plain(f"  carried by receipt {row['carrier_seq']} of {row['operator']}"), soft_wrap=True)
    console.print(
        plain(f"  range {row['first']} to {row['last']}, rate {row['rate']}: {row['tests']} tests, which only you know")
    )
    console.print(plain(f"to do: bytewise attention run --folder {row['folder']} --config operator.toml"), soft_wrap=True)


def run(config: ConfigOption, folder: FolderOption) -> None:
    """Run the operator of a fund until SIGTERM: as `bytewise operator run`, with false answers by the schedule.

    The operator listens on this machine only: the fund asks all questions itself, so no user gets a false answer. The operator's
    stake pays every penalty, as for any operator. Its log does not show which answers are tests.

    Exit codes: 0 stopped by a signal, 6 another process uses the key, 64 wrong settings or folder.

    Example: bytewise attention run --folder range-1 --config operator.toml
    """
    command = ["serving.attention", "--folder", str(folder), "--config", str(config)]
    os.execv(sys.executable, [sys.executable, "-P", "-m", *command])


def reveal(
    folder: FolderOption,
    out: Annotated[Path, typer.Option("--out", help="File of the reveal, which you publish; it must not exist.")],
    network: NetworkOption = NETWORK_FILE,
    rpc: RpcOption = RPC_URLS,
    da: DaOption = DA_URLS,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Write the reveal of a range: key, commitment, every test with its proof and its opening.

    The command refuses until the whole range is anchored, every challenge window of the range has closed and every dispute about
    a test is final, because a test that is known too early tests nobody. Anybody can check the file against the chain
    (`bytewise attention score`).

    Exit codes: 0 written, 2 what was anchored does not prove the schedule, 5 too early, or a service is down, 64 wrong input.

    Example: bytewise attention reveal --folder range-1 --out range-1.reveal.json
    """
    from bytewise.protocol.encoding import encode
    from bytewise.service.files import replace_file
    from bytewise.service.node_files.attention_folder import AttentionFolder
    from bytewise_client.attention import make_reveal
    from bytewise_client.connection import connected

    if out.exists():
        raise ConfigurationError(str(out), "exists: name another file")
    kept = AttentionFolder(folder)
    schedule = kept.schedule()
    signed, request = read_carrier(kept)
    with connected(network, rpc, da) as connection:
        found = make_reveal(connection, schedule, signed, request, kept.opening)
    replace_file(out, encode(found))
    openings = sum(each.answer is not None for each in found.frauds)
    row = _row(schedule) | {"openings": openings, "file": str(out)}
    emit(output, row, lambda: _print_reveal(row))


def _print_reveal(row: Row) -> None:
    console = Console()
    console.print(plain(f"wrote {row['file']}: {row['tests']} tests, {row['openings']} with opening", "bold"), soft_wrap=True)
    console.print(plain("to do: publish it; anybody scores it by `bytewise attention score`"), soft_wrap=True)
