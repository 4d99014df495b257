"""`bytewise drill slash`: plays a slash or a penalty of an account on a fork of the chain, and prints the report."""

import enum
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from bytewise.protocol.errors.actors import ChainReverted, ConfigurationError
from cli.options import SETTINGS, NodeConfigOption
from cli.output import OutputFormat, OutputOption, emit, ether, plain, printable, progress_of

if TYPE_CHECKING:
    from bytewise.protocol.units import Address
    from cli.drill.fork import ForkedChain
    from cli.drill.penalty import SeatFault
    from cli.drill.session import DrillReport, ShowProgress


class FaultOption(enum.StrEnum):
    """Way in which a verifier fails in its seats. The values repeat `cli.drill.penalty.SeatFault`, because a help page must not
    import a drill."""

    ABSENT = "absent"
    NOT_REVEALED = "not-revealed"
    WRONG = "wrong"


FaultChoice = Annotated[FaultOption, typer.Option("--fault", help="How a verifier or member fails in its seats.")]
ReceiptsOption = Annotated[
    int, typer.Option("--receipts", min=1, max=10_000, help="Receipts in the withheld batch; the penalty may grow with them.")
]


def slash(
    config: NodeConfigOption = Path(SETTINGS), receipts: ReceiptsOption = 1,
    fault: FaultChoice = FaultOption.ABSENT,
    output: OutputOption = OutputFormat.TABLE,
) -> None:  # fmt: skip
    """Play a slash of your own account on a fork of the chain, and show who would lose and get what.

    The command starts anvil on this machine as a fork of your chain node's newest block. If you are an operator, you anchor a
    batch there whose list nobody can fetch. A watchtower demands the list, and the demand expires. If you are a verifier or
    member, you are drawn for a dispute against an operator that exists on the fork only, and fail in your seats. Your key signs
    nothing, because the fork needs no signatures. Nothing is sent to the chain. Gas costs nothing on the fork, so only the
    contracts change amounts.

    Exit codes: 0 played, 5 the node or the fork does not answer, 64 wrong settings, no anvil, an account with nothing to lose, or
    a network that is paused or has closed the environment.

    Example: bytewise drill slash --config bytewise-operator/bytewise.toml
    """
    from chain.client.rpc import ChainClient
    from cli.demo.actors import anvil
    from cli.drill.fork import running_fork
    from cli.drill.penalty import SeatFault
    from cli.node.roles import JUDGES, NodeRole
    from cli.node.view import NodeView

    view = NodeView(config)
    if view.role not in (*JUDGES, NodeRole.OPERATOR):
        raise ConfigurationError("role", f"{view.role}: has no stake to slash; operators, verifiers and members have")
    program, account, head = anvil(Path.cwd()), view.account, view.head
    node = next(iter(view.endpoints.urls))
    ChainClient(node, view.network.chain_id).head()
    with progress_of("drill:") as show_progress, running_fork(program, node, view.reader.network, head) as fork:
        seat = None if view.role is NodeRole.OPERATOR else SeatFault(fault)
        report = _report_of(fork, account, receipts, seat, show_progress)
    emit(output, document(report), lambda: _print(Console(), report))


def _report_of(
    fork: "ForkedChain", account: "Address", receipts: int, fault: "SeatFault | None", show_progress: "ShowProgress"
) -> "DrillReport":
    """Plays the penalty of a verifier or member that fails by `fault`, or the slash of an operator if `fault` is None. Raises
    `ConfigurationError` if a contract refuses a step."""
    from cli.drill.penalty import PenaltyDrill
    from cli.drill.slash import SlashDrill

    try:
        if fault is None:
            return SlashDrill(fork, account, receipts, show_progress).run()
        return PenaltyDrill(fork, account, fault, show_progress).run()
    except ChainReverted as error:
        why = "the network is paused, or the environment of the newest batch was closed"
        raise ConfigurationError("network", f"the drill cannot be played now, for example because {why}: {error}") from None


def document(report: "DrillReport") -> dict[str, Any]:
    """Returns a drill's report as plain JSON data. An amount in wei that may exceed 2^53 is text, because many JSON readers would
    round the number."""
    return {
        "account": report.account, "forked_block": report.block, "sent_to_the_chain": 0, "slashed_wei": str(report.slashed_wei),
        "steps": [each._asdict() for each in report.steps],
        "changes": [
            {"owner": each.owner, "what": each.what, "before_wei": str(each.before), "after_wei": str(each.after),
             "change_wei": str(each.after - each.before)}
            for each in report.changes
        ],
        "flows": [each._asdict() | {"wei": str(each.wei)} for each in report.flows],
        "afterwards": [each._asdict() | {"allowed": not each.refusal} for each in report.choices],
    }  # fmt: skip


def _print(console: Console, report: "DrillReport") -> None:
    for line in _lines(report):
        console.print(plain(line), soft_wrap=True)


def _lines(report: "DrillReport") -> Iterator[str]:
    yield f"Drill on a fork of block {report.block}. Nothing was sent to the chain."
    yield f"{report.account} would lose {ether(report.slashed_wei)} of stake."
    yield ""
    yield "Steps"
    for number, step in enumerate(report.steps, 1):
        yield f"  {number}. +{step.after_s} s  {step.title}: {step.effect}"
        if step.call:
            yield f"     {step.actor} calls {step.call}"
    yield ""
    yield "Amounts before and after, in wei"
    for each in report.changes:
        change = each.after - each.before
        yield f"  {each.owner} {each.what}: {each.before} -> {each.after}{f' ({change:+})' if change else ''}"
    yield ""
    yield "Money that moved, in wei"
    for flow in report.flows:
        yield f"  {flow.event} {flow.wei} {flow.reason} {flow.account}".rstrip()
    yield ""
    yield "What you could do afterwards"
    for choice in report.choices:
        allowed = f"refused ({printable(choice.refusal)})" if choice.refusal else "allowed"
        yield f"  {choice.title}: {allowed}; {choice.note}"
