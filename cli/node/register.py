"""The verbs `register` and `leave` of `bytewise verifier` and `bytewise operator`. They print their contract calls, and then send
them."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.service.exit_codes import Exit
from cli.node.roles import JUDGES, NodeRole
from cli.options import SETTINGS, NodeConfigOption
from cli.output import OutputFormat, OutputOption, emit, ether, printable

if TYPE_CHECKING:
    from cli.node.registration import Later, Step
    from cli.node.view import NodeView

StakeOption = Annotated[int, typer.Option("--stake", min=0, help="Stake in wei that the account shall have afterwards.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only print each call, its value and its gas.")]
YesOption = Annotated[bool, typer.Option("--yes", help="Send without asking.")]


def register_verifier(
    stake: StakeOption,
    config: NodeConfigOption = Path(SETTINGS),
    pool: Annotated[str | None, typer.Option("--pool", help="Pool to join, 0x-hex; needed if there are several.")] = None,
    platform_id: Annotated[str | None, typer.Option("--platform-id", help="Id of this machine, 0x-hex (tdx, snp).")] = None,
    measurement: Annotated[str | None, typer.Option("--measurement", help="Of its enclave, 0x-hex (tdx, snp).")] = None,
    dry: DryRunOption = False, yes: YesOption = False, output: OutputOption = OutputFormat.TABLE,
) -> None:  # fmt: skip
    """Deposit stake, announce this machine, and join a pool as a verifier.

    Steps that are done already are left out, so the same command continues an interrupted registration. With simulated evidence
    the command computes --platform-id and --measurement. On hardware, give both. If you give another measurement than the
    registered one, the command quits the pool and joins it again on the same machine. Stop the node first, because two senders of
    one account use the same nonces. Stake counts from the next stake epoch on.

    Exit codes: 0 registered, or nothing was sent (`--dry-run`, or you answered no), 5 a node does not answer, 6 this account's
    node runs, 64 wrong input or refused, 130 nobody answered the question (give `--yes`). With `--output json`, standard output
    has the planned calls only.

    Example: bytewise verifier register --stake 10000000000000000000 --dry-run
    """
    from cli.node.registration import verifier_steps

    view = _view(config, JUDGES)
    _register(view, verifier_steps(view, stake, pool, platform_id, measurement), dry, yes, output)


def register_operator(
    stake: StakeOption, endpoint: Annotated[str, typer.Option("--endpoint", help="URL at which clients reach you, https://….")],
    config: NodeConfigOption = Path(SETTINGS), dry: DryRunOption = False, yes: YesOption = False,
    output: OutputOption = OutputFormat.TABLE,
) -> None:  # fmt: skip
    """Deposit stake and register as an operator, or announce another endpoint.

    Steps that are done already are left out. Stop the node first, because two senders of one account use the same nonces.

    Exit codes: 0 registered, or nothing was sent (`--dry-run`, or you answered no), 5 a node does not answer, 6 this account's
    node runs, 64 wrong input or refused, 130 nobody answered the question (give `--yes`). With `--output json`, standard output
    has the planned calls only.

    Example: bytewise operator register --stake 20000000000000000000 --endpoint https://operator.example:8443 --dry-run
    """
    from cli.node.registration import operator_steps

    view = _view(config, (NodeRole.OPERATOR,))
    _register(view, operator_steps(view, stake, endpoint), dry, yes, output)


def leave_verifier(
    config: NodeConfigOption = Path(SETTINGS), dry: DryRunOption = False, yes: YesOption = False,
    output: OutputOption = OutputFormat.TABLE,
) -> None:  # fmt: skip
    """Quit the pool, and withdraw stake and credit, as far as that is possible now.

    The command prints which amounts can be withdrawn only later, and when. Run it again then. Steps that are done already are
    left out. Stake can be slashed until it is paid out. Audits that are not finished are lost. Stop the node first, because two
    senders of one account use the same nonces. If the verifier was drawn for rounds that are still open, start the node again
    afterwards, because its seats must still vote.

    Exit codes: 0 done, or nothing was sent (`--dry-run`, or you answered no), 5 a node does not answer, 6 this account's node
    runs, 64 wrong input or refused, 130 nobody answered the question (give `--yes`). With `--output json`, standard output has
    the planned calls only.

    Example: bytewise verifier leave --dry-run
    """
    _leave(_view(config, JUDGES), dry, yes, output)


def leave_operator(
    config: NodeConfigOption = Path(SETTINGS), dry: DryRunOption = False, yes: YesOption = False,
    output: OutputOption = OutputFormat.TABLE,
) -> None:  # fmt: skip
    """Withdraw stake and credit, as far as that is possible now.

    The command prints which amounts can be withdrawn only later, and when. Run it again then. Steps that are done already are
    left out. The stake stays until every signed receipt is anchored, because the operator can post no batch without stake. Stake
    can be slashed until it is paid out. Stop the node first, because two senders of one account use the same nonces. Start the
    node again afterwards, because it must answer demands and disputes until its receipts can no longer be questioned.

    Exit codes: 0 done, or nothing was sent (`--dry-run`, or you answered no), 5 a node does not answer, 6 this account's node
    runs, 64 wrong input or refused, 130 nobody answered the question (give `--yes`). With `--output json`, standard output has
    the planned calls only.

    Example: bytewise operator leave --dry-run
    """
    _leave(_view(config, (NodeRole.OPERATOR,)), dry, yes, output)


def _view(config: Path, roles: tuple[NodeRole, ...]) -> "NodeView":
    from cli.node.view import NodeView  # imports web3, which takes longer than a help page

    view = NodeView(config)
    if view.role not in roles:
        raise ConfigurationError("role", f"{view.role} cannot register or leave here, only {' or '.join(roles)}")
    return view


def _register(view: "NodeView", steps: "list[Step]", dry: bool, yes: bool, output: OutputFormat) -> None:
    from cli.node import registration

    if not steps:
        emit(output, [], lambda: print(f"{view.account} is registered like that: nothing to do"))
        return
    listed, most = list(registration.quotes(view, steps)), registration.cost_wei(view, steps)
    emit(output, listed, lambda: _print(view, listed, most))
    _send(view, steps, most, dry, yes, output)


def _leave(view: "NodeView", dry: bool, yes: bool, output: OutputFormat) -> None:
    from cli.node import registration

    steps, later = registration.leaving(view)
    listed, most = list(registration.quotes(view, steps)), registration.cost_wei(view, steps)
    document = {"account": view.account, "steps": listed, "later": [each._asdict() for each in later]}
    emit(output, document, lambda: _print_leaving(view, listed, most, later))
    if steps:
        _send(view, steps, most, dry, yes, output)


def _send(view: "NodeView", steps: "list[Step]", most: int, dry: bool, yes: bool, output: OutputFormat) -> None:
    from cli.node import registration

    if dry:
        return
    balance = view.reader.holdings(view.account, view.head).balance_wei
    if balance < most:
        raise ConfigurationError("balance", f"{view.account} has {ether(balance)}; this may cost {ether(most)}: send it the rest")
    if not yes and not typer.confirm("Send these transactions?", err=True):
        raise typer.Exit(Exit.OK)
    stream = sys.stdout if output is OutputFormat.TABLE else sys.stderr
    registration.send(view, steps, lambda step, where: print(f"done: {step.purpose} ({where})", file=stream))


def _print(view: "NodeView", listed: list[dict[str, Any]], most: int) -> None:
    print(f"{view.account} on chain {view.network.chain_id} would send, in this order:")
    for number, each in enumerate(listed, 1):
        print(f"{number}. {each['purpose']}")
        print(printable(f"   call {each['call']}, value {ether(each['value_wei'])}"))
        print(f"   to {each['target']}, gas {each['gas'] or 'known after the step before'}")
        print(f"   calldata {each['calldata']}")
    print(f"all together at most {ether(most)}")


def _print_leaving(view: "NodeView", listed: list[dict[str, Any]], most: int, later: "list[Later]") -> None:
    if listed:
        _print(view, listed, most)
    elif later:
        print(f"{view.account}: nothing can be done now")
    else:
        print(f"{view.account} has left: it has no stake and no credit here")
    for each in later:
        print(f"later: {ether(each.amount_wei)} of {each.what}, {each.when}")
    if later:
        print("Then give this command again.")
