"""`bytewise verify`: checks an answer or a receipt."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple, NoReturn

import typer
from rich.console import Console
from rich.text import Text

from bytewise.protocol.errors.actors import CannotExecute, ConfigurationError
from bytewise.protocol.units import hex0x
from bytewise.service.exit_codes import Exit
from cli.options import DA_URLS, NETWORK_FILE, RPC_URLS, DaOption, NetworkOption, RpcOption, receipt_argument
from cli.output import OutputFormat, OutputOption, emit, escaped, plain, print_checks, print_warning, progress_bars

if TYPE_CHECKING:
    from rich.progress import Progress

    from bytewise.inference.profiles import AnyEngine
    from bytewise.inference.tokenizer import Tokenizer
    from bytewise.protocol.records.preflight import Preflight
    from bytewise.protocol.records.receipt import Receipt
    from bytewise.protocol.records.seal import Payload
    from bytewise_client.checks import Rerun, Seen, Standing
    from bytewise_client.receipt_search import Found
    from bytewise_client.saved_answer import SavedAnswer

OpeningOption = Annotated[Path | None, typer.Option("--opening", help="What the client kept: the answer, or its opening.")]
ArtifactOption = Annotated[Path | None, typer.Option("--artifact", help="Folder of the model's artifact, to re-execute.")]


SubjectArgument = Annotated[
    str,
    typer.Argument(
        metavar="RECEIPT_ID|FILE",
        help="The file of a saved answer or of a capsule; or a receipt's id, 0x-hex, or its first digits.",
    ),
]


def verify(
    subject: SubjectArgument, network: NetworkOption = NETWORK_FILE, rpc: RpcOption = RPC_URLS, da: DaOption = DA_URLS,
    opening: OpeningOption = None, artifact: ArtifactOption = None, output: OutputOption = OutputFormat.TABLE,
) -> None:  # fmt: skip
    """Check an answer or a receipt, by re-running it if you hold its opening.

    This is the paper's Algorithm 3.

    Every member of a saved answer is compared with the signed records. With --artifact DIR, the text is compared with the decoded
    tokens of the receipt, and the answer is computed again. The result is VERIFIED or the first divergence. Without opening or
    artifact, all public records are checked, and the chain's verdict or the drawn audits are reported. If the chain has neither,
    the result is INCONCLUSIVE: no right to open. A file whose text was not compared is INCONCLUSIVE, too.

    A capsule is verified as by `bytewise capsule verify`: neither chain nor DA is asked.

    Exit codes: 0 verified, 2 mismatch, altered answer or defect proven, 3 inconclusive, 4 not found, 5 a service is down (for DA
    this waits 5 s in all), 64 wrong input. If one answer has several receipts, code 2 goes before 5, 5 before 4, and 4 before 3.
    """
    from bytewise_client.connection import connected
    from bytewise_client.verification import verify_answer, verify_receipt
    from cli.receipt.search import receipt_named, search_bar

    if subject.endswith(CAPSULE_SUFFIX):
        _verify_capsule(Path(subject), network, opening or artifact, output)
    asked = _asked(subject, opening, artifact)
    with connected(network, rpc, da) as connection, progress_bars() as bars:

        def open_model(found: "Found") -> LocalModel:
            return _open_model(found, artifact, bars)

        with search_bar(bars) as tell:
            if asked.saved is not None and not asked.receipt:
                found = verify_answer(connection, asked.saved, open_model, tell)
            else:
                found = verify_receipt(connection, receipt_named(connection, asked.receipt), asked.saved, open_model, tell)
    emit(output, found.as_json(), lambda: show_report(Console(), found.seen))
    raise typer.Exit(int(found.end.exit))


CAPSULE_SUFFIX = ".capsule.json"
"""End of the name of a capsule's file. `bytewise verify` reads a file with another name as a saved answer."""


def _verify_capsule(file: Path, network: Path, more: Path | None, output: OutputFormat) -> NoReturn:
    """Verifies a capsule, prints the report, and raises `typer.Exit` with its exit code. If the address book's file exists, its
    deployment is accepted. `more` is a file that the user gave and that a capsule cannot use, or None."""
    from cli.evidence.capsule import exit_of_report, show_report, trust_of, verified

    if more is not None:
        raise ConfigurationError(more.name, "is for an answer: a capsule is verified by its proofs, and nothing is re-executed")
    book = network if network.exists() else None
    report = verified(file, trust_of(book, None, None, None, 1))
    show_report(report, output)
    raise typer.Exit(int(exit_of_report(report)))


class Asked(NamedTuple):
    """The request of the user to verify one receipt, or all receipts of a saved answer."""

    receipt: str
    """The receipt's id or its first digits. Empty if all receipts of the saved answer are verified."""
    saved: "SavedAnswer | None"
    """The saved answer that the user gave, or None."""


def _asked(subject: str, opening: Path | None, artifact: Path | None) -> Asked:
    from bytewise_client.saved_answer import read_answer

    if artifact is not None and not artifact.is_dir():
        raise ConfigurationError("--artifact", f"{artifact} is no folder: name the one that `bytewise model convert` wrote")
    file = Path(subject)
    if _IDENTIFIER.fullmatch(subject) or not file.is_file():
        if not _BEGINNING.fullmatch(subject):
            why = "must be 0x and 64 hex digits or the first of them, or the file of a saved answer; there is no such file"
            raise ConfigurationError("RECEIPT_ID|FILE", why)
        saved = None if opening is None else read_answer(opening)
        _verify_opened(subject, saved)
        return Asked(subject, saved)
    if opening is not None:
        raise ConfigurationError(
            "--opening", f"is for a receipt that is named by its id; {file.name} is read for its own opening"
        )
    saved = read_answer(file)
    if any(each.receipt_id is None for each in saved.choices):
        raise ConfigurationError(
            file.name, "names no receipt (receipt.receipt_id): give RECEIPT_ID and `--opening` with this file"
        )
    return Asked("", saved)


_IDENTIFIER = re.compile("0x[0-9a-fA-F]{64}")
_BEGINNING = re.compile("0x[0-9a-fA-F]{1,64}")
"""The whole id of a receipt, and an id or its first digits."""


def _verify_opened(receipt: str, saved: "SavedAnswer | None") -> None:
    """Raises `ConfigurationError` if the saved answer of `--opening` has no opening of the receipt."""
    if saved is None:
        return
    whole = _IDENTIFIER.fullmatch(receipt) is not None
    choice = saved.of_receipt(receipt_argument(receipt)) if whole else saved.choices[0]
    if choice.payload is None:
        raise ConfigurationError("--opening", "the file has no opening; `bytewise verify FILE` checks what it shows")


class LocalModel(NamedTuple):
    """The model of a receipt, opened on this machine to compute the answer again. Implements
    `bytewise_client.verification.Model`."""

    engine: "AnyEngine"
    tokenizer: "Tokenizer"

    def rerun(self, receipt: "Receipt", payload: "Payload") -> "Rerun":
        """Verifies the claimed answer by one forward pass of the model, and returns the first divergence and the receipt's fields
        that differ. Raises `CannotExecute` if this machine cannot run the model."""
        from bytewise.protocol.records.trace import differing_fields
        from bytewise_client.checks import Rerun

        engine, words = self
        verification = engine.confirm(payload.request, engine.verify(payload.request, payload.output, receipt.out_hash))
        truth, divergence = verification.truth, verification.divergence
        fields = differing_fields(receipt, truth.output.tokens_hash, truth.trace_root)
        if divergence is None:
            return Rerun(None, "", "", fields)
        pair = (divergence.expected, divergence.claimed)
        expected, claimed = (words.text([token]) if token is not None else "" for token in pair)
        return Rerun(divergence, expected, claimed, fields)


def _open_model(found: "Found", artifact: Path | None, bars: "Progress") -> LocalModel:
    """Opens the receipt's model from an artifact. Raises `CannotExecute` if there is no artifact, if it is another model, or if
    this machine cannot run it."""
    from bytewise.inference.profiles import model_id_of, open_engine
    from bytewise.inference.tokenizer import Tokenizer

    receipt = found.checked.signed.receipt
    if artifact is None:
        raise CannotExecute(f"model_missing: give the artifact of model {hex0x(receipt.model_id)} with --artifact")
    if model_id_of(artifact) != receipt.model_id:
        raise CannotExecute(f"model_missing: {artifact.name} is another model than {hex0x(receipt.model_id)}")
    task = bars.add_task("loading the model", total=None)

    def tell(_name: str, done: int, total: int) -> None:
        bars.update(task, completed=done, total=total)

    try:
        engine = open_engine(artifact, found.environment, progress=tell)
    finally:
        bars.remove_task(task)
    return LocalModel(engine, Tokenizer(engine.artifact))


# Output of a verification for people.

_COLOURS = {Exit.OK: "bold green", Exit.MISMATCH: "bold red"}


def show_report(console: Console, seen: Sequence["Seen"]) -> None:
    """Prints the result for each receipt: the checks, the state on the chain, the decoded texts and the conclusion."""
    for each in seen:
        _show(console, each)


def _show(console: Console, seen: "Seen") -> None:
    from rich.padding import Padding

    console.print(Text(f"receipt {hex0x(seen.identifier)}", style="italic"))
    print_checks(((check.name, check.result, check.detail) for check in seen.checks), console)
    if seen.standing is not None:
        print_checks(((name, "", told) for name, told in _standing_rows(seen.standing)), console)
    if seen.texts is not None:
        for name, text in (("prompt", seen.texts.prompt), ("answer", seen.texts.answer)):
            console.print(Text(f"{name}, as the signed tokens decode:", style="bold"))
            # Every line is indented, so that no text of an answer can look like a line of this report.
            console.print(Padding(Text(escaped(text)), (0, 0, 0, 4)))
    for each in () if seen.shown is None else seen.shown.differences:
        console.print(plain(f"differs: {each.member}", "red"), soft_wrap=True)
        console.print(plain(f"  the file shows: {each.shown}"), soft_wrap=True)
        console.print(plain(f"  signed was:     {each.expected}"), soft_wrap=True)
    for line in () if seen.outcome is None else _outcome_lines(seen.outcome):
        console.print(plain(line), soft_wrap=True)
    if seen.completeness is not None:
        show_completeness(console, seen.completeness)
    end = plain(f"{seen.end.word}: {seen.end.reason}", _COLOURS.get(seen.end.exit, "bold yellow"))
    console.print(end, soft_wrap=True)
    if seen.standing is not None:
        print_warning(console, seen.standing.assurance)


def show_completeness(console: Console, checklist: "Preflight") -> None:
    """Prints the points of the preflight checklist that do not pass, and the claim that the record still supports."""
    for point, mark in checklist.marks:
        if mark.value != "pass":
            console.print(plain(f"not shown to be complete ({mark.value}): {point.value}"), soft_wrap=True)
    console.print(plain(f"the record supports: {checklist.claim}"), soft_wrap=True)


def _standing_rows(standing: "Standing") -> list[tuple[str, str]]:
    from bytewise.protocol.records.statements import Verdict

    dispute = "none"
    if standing.dispute is not None:
        stated = standing.dispute.verdict
        dispute = "running" if stated is Verdict.NONE else stated.name.lower()
        if stated is not standing.verdict:
            dispute += ", not final yet"
    return [
        ("audits posted", ", ".join(f"{count} {name}" for name, count in standing.audits.items())),
        ("dispute", dispute),
        ("accepted for good", "yes" if standing.final else standing.open_reason),
    ]


def _outcome_lines(outcome: "Rerun") -> list[str]:
    from bytewise_client.checks import MEANING

    lines = [f"{name} of the receipt is not what the re-execution gives" for name in outcome.fields]
    where = outcome.divergence
    if where is None:
        return lines
    if where.expected is None and where.claimed is None:
        # All tokens are equal, so there is no divergence to show.
        return [*lines, f"all {where.position} tokens are equal ({where.kind.value}): {MEANING[where.kind]}"]
    lines.append(f"first divergence: token {where.position} ({where.kind.value}): {MEANING[where.kind]}")
    lines.append(f"  re-execution: {_token(where.expected, outcome.expected_text)}")
    lines.append(f"  receipt:      {_token(where.claimed, outcome.claimed_text)}")
    if where.gap is not None:
        lines.append(f"  the model's best logit is {float(where.gap):.6g} above its second")
    return lines


def _token(token: int | None, text: str) -> str:
    return "no token: the answer has ended" if token is None else f"{token} {text!a}"
