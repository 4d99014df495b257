"""`bytewise chain proposal`: lists and shows proposals, proposes calls that only a vote may make, votes on proposals, and queues,
executes and cancels proposals."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.errors.branches import Fault
from bytewise.protocol.errors.records import NotCanonical
from bytewise.protocol.units import ZERO_ADDRESS
from cli.chain.call import ArgumentsArgument, contract_call
from cli.chain.params import BlockOption, change_of
from cli.chain.privileged_call import CallContext, call_context, deliver
from cli.options import NETWORK_FILE, RPC_URLS, CallOptions, NetworkOption, RpcOption, with_call_options
from cli.output import (
    LIMIT,
    LimitOption,
    OutputFormat,
    OutputOption,
    by_prefix,
    emit,
    limited,
    moment,
    one_by_prefix,
    print_entries,
)

if TYPE_CHECKING:
    from chain.acts.proposals import Proposal, ProposalState
    from chain.deployment.calls import ContractCall


# A JSON file with the calls of one proposal. If any entry is malformed, the command refuses the whole file, so that a proposal
# has exactly the calls of its file.

_NEEDED = {"contract": str, "function": str, "arguments": list}
_TYPES: dict[str, type] = {**_NEEDED, "value": int}


def read_calls(file: Path) -> "list[ContractCall]":
    """Reads contract calls from a JSON file: a list of objects with `contract`, `function`, `arguments` and, if the call sends
    wei, `value`.

    Raises `ConfigurationError` with the place of the first entry that has another form, or that calls no function of the
    contracts.
    """
    from bytewise.protocol.encoding import parse_typed

    try:
        listed = parse_typed(file.read_bytes())
    except OSError as error:
        raise ConfigurationError(file.name, str(error.strerror)) from None
    except NotCanonical as error:
        raise ConfigurationError(file.name, f"is no JSON: {error}") from None
    if not isinstance(listed, list):
        raise ConfigurationError(file.name, "is no JSON list of calls")
    return [_read_call(f"{file.name}[{place}]", asked) for place, asked in enumerate(listed)]


def _read_call(where: str, asked: Any) -> "ContractCall":
    """Checks one entry of the file, and returns the entry's contract call. `where` is the place of the entry, for errors."""
    if not isinstance(asked, dict) or not _NEEDED.keys() <= asked.keys() <= _TYPES.keys():
        raise ConfigurationError(where, 'is no {"contract", "function", "arguments": […]}, nor that with "value"')
    for name, given in asked.items():
        # `isinstance` would accept JSON's true as an int, so the exact type is compared.
        if type(given) is not _TYPES[name]:
            raise ConfigurationError(f"{where}.{name}", f"is no {_NAMES[_TYPES[name]]}")
    value = asked.get("value", 0)
    if not 0 <= value < 2**256:
        raise ConfigurationError(f"{where}.value", "is no number of wei")
    return contract_call(asked["contract"], asked["function"], [_text(each) for each in asked["arguments"]], value)


_NAMES = {str: "text", list: "list", int: "whole number"}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


ProposalArgument = Annotated[
    str, typer.Argument(metavar="PROPOSAL", help="Its number, or its first digits, as `bytewise chain proposal list` shows it.")
]

ListedFunction = Annotated[str | None, typer.Argument(metavar="FUNCTION", help="`bytewise chain call CONTRACT` lists them.")]
_CALLS = 'Or: JSON list of {"contract", "function", "arguments"}, and "value" in wei if any go along; done together.'
CallsOption = Annotated[Path | None, typer.Option("--calls", help=_CALLS)]

_COURT = "Or: address book of a new court that is deployed and wired; its roles, movers and place, done together."
CourtOption = Annotated[Path | None, typer.Option("--court", help=_COURT)]


@with_call_options
def propose(
    asked: CallOptions,
    contract: Annotated[str | None, typer.Argument(metavar="CONTRACT", help="As for `bytewise chain call`.")] = None,
    function: ListedFunction = None,
    arguments: ArgumentsArgument = None,
    params: Annotated[Path | None, typer.Option("--params", help="Or: TOML file of changes of the parameters.")] = None,
    calls: CallsOption = None,
    court: CourtOption = None,
    description: Annotated[str, typer.Option("--description", help="What it is for; it tells two proposals apart.")] = "",
    block_s: BlockOption = None,
) -> None:
    """Propose calls to the vote.

    The calls are first tried as the timelock that may make them: the short timelock, or else the long timelock.

    The proposer needs votes (`bytewise chain call GovernanceToken delegate ACCOUNT`).

    Exit codes: 0 can be proposed (or was), 5 the node does not answer, or what was sent is in no block yet (look before you
    repeat the command), 6 a running node uses the key, 64 wrong input, or refused by a contract.
    """
    from chain.acts import proposals as voting

    if [contract, params, calls, court].count(None) != 3:
        raise ConfigurationError("proposal", "give CONTRACT FUNCTION ARGUMENTS, --params, --calls or --court, one of them")
    context = call_context(asked)
    if params is not None:
        planned = [change_of(context.reader, params, block_s=block_s)]
    elif contract is not None:
        planned = [contract_call(contract, function, arguments or [])]
    else:
        planned = read_calls(calls) if calls is not None else _calls_of_court(context, cast(Path, court))
    try:
        contents = voting.contents_of(context.client, context.network, planned, description)
    except Fault as error:
        raise ConfigurationError("proposal", f"neither timelock may do this: {error}") from None
    number = voting.id_of(context.client, context.network, contents)
    does = "; ".join(voting.call_texts(context.network, contents))
    deliver(context, voting.propose(contents), {"proposal": str(number), "does": does})


def _calls_of_court(context: CallContext, court: Path) -> "list[ContractCall]":
    from chain.acts.proposals import calls_for_court
    from chain.client.address_book import read_network, verify_code

    return calls_for_court(context.network, verify_code(context.client, read_network(court)))


StateOption = Annotated[str | None, typer.Option("--state", help="Only proposals in this state: active, queued, …")]


def proposals(
    network: NetworkOption = NETWORK_FILE,
    rpc: RpcOption = RPC_URLS,
    state: StateOption = None,
    limit: LimitOption = LIMIT,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """List all proposals: calls, votes so far and the next step of each.

    Exit codes: 0 listed, 5 the node does not answer, 64 wrong input.

    Example: bytewise chain proposal list --state active
    """
    from chain.acts import proposals as voting
    from chain.acts.proposals import ProposalState

    if state is not None and state.upper() not in ProposalState.__members__:
        raise ConfigurationError("--state", f"{state} is none of {', '.join(ProposalState.__members__).lower()}")
    context = call_context(CallOptions(network, rpc))
    head = context.reader.head()
    rows = [_row(context, each, head) for each in reversed(voting.proposals(context.client, context.network, head))]
    rows = limited([each for each in rows if state is None or each["state"] == state.upper()], limit)
    emit(output, rows, lambda: print_entries(map(_entry, rows), f"proposals up to block {head}"))


def show(
    proposal: ProposalArgument,
    network: NetworkOption = NETWORK_FILE,
    rpc: RpcOption = RPC_URLS,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Show one proposal: its calls, the votes so far and the next step.

    Exit codes: 0 shown, 4 there is no such proposal, 5 the node does not answer, 64 wrong input.

    Example: bytewise chain proposal show 7311
    """
    from chain.acts import proposals as voting

    context = call_context(CallOptions(network, rpc))
    head = context.reader.head()
    listed = {str(each.id): each for each in voting.proposals(context.client, context.network, head)}
    row = _row(context, listed[one_by_prefix("PROPOSAL", proposal, listed)], head)
    emit(output, row, lambda: print_entries([_entry(row)], "proposal"))


def _row(context: CallContext, proposal: "Proposal", head: int) -> dict[str, Any]:
    """Returns a proposal as plain data, as the chain has it at block `head`."""
    from chain.acts import proposals as voting
    from chain.acts.proposals import GOVERNOR
    from chain.client.artifacts import legible
    from chain.client.rpc import at_number

    where = (GOVERNOR, context.network.addresses.bytewise_governor)
    votes: Mapping[str, int] = context.client.call(*where, "proposalVotes", proposal.id, block=at_number(head))
    state = voting.state_of(context.client, context.network, proposal.id, head)
    return {
        "proposal": str(proposal.id),
        "state": state.name,
        "by": proposal.proposer,
        "description": legible(proposal.contents.description),
        "does": voting.call_texts(context.network, proposal.contents),
        "votes": {name: str(votes[f"{name}Votes"]) for name in ("for", "against", "abstain")},
        "next": _next(context, proposal, state, head),
    }


def _entry(row: dict[str, Any]) -> tuple[str, dict[str, str]]:
    votes = ", ".join(f"{count} {name}" for name, count in row["votes"].items())
    return row["proposal"], {**{k: v for k, v in row.items() if k != "proposal"}, "does": "; ".join(row["does"]), "votes": votes}


@with_call_options
def vote(
    asked: CallOptions,
    proposal: ProposalArgument,
    support: Annotated[str, typer.Argument(metavar="SUPPORT", help="for, against or abstain.")],
) -> None:
    """Vote on a proposal; an account votes once.

    Exit codes: 0 the vote counts (or was sent), 5 the node does not answer, or what was sent is in no block yet (look before you
    repeat the command), 6 a running node uses the key, 64 wrong input, or too early or late.
    """
    from chain.acts import proposals as voting
    from chain.acts.proposals import GOVERNOR, ProposalState, Support

    if support.upper() not in Support.__members__:
        raise ConfigurationError("SUPPORT", f"{support} is none of for, against, abstain")
    context = call_context(asked)
    found, _ = _proposal_in_state(context, proposal, ProposalState.ACTIVE)
    weight: int = context.client.call(
        GOVERNOR, context.network.addresses.bytewise_governor, "getVotes", context.named(), found.vote_start, block="latest"
    )
    if not weight:
        raise ConfigurationError("votes", f"{context.named()} had none at block {found.vote_start}, when this vote was weighed")
    deliver(context, voting.cast_vote(found.id, Support[support.upper()]), {"votes": str(weight)})


@with_call_options
def queue(
    asked: CallOptions,
    proposal: ProposalArgument,
) -> None:
    """Start the short timelock of an accepted proposal. Anybody may.

    Exit codes: 0 can be queued (or was), 5 the node does not answer, or what was sent is in no block yet (look before you repeat
    the command), 6 a running node uses the key, 64 wrong input, or too early or late.
    """
    from chain.acts import proposals as voting
    from chain.acts.proposals import ProposalState

    context = _with_any_account(call_context(asked))
    found, _ = _proposal_in_state(context, proposal, ProposalState.SUCCEEDED)
    deliver(context, voting.queue(found.contents))


@with_call_options
def execute(
    asked: CallOptions,
    proposal: ProposalArgument,
) -> None:
    """Execute the calls of a proposal after its timelock. Anybody may.

    Calls of the long timelock need this command twice: the first run starts that timelock.

    Exit codes: 0 can be executed (or was), 5 the node does not answer, or what was sent is in no block yet (look before you
    repeat the command), 6 a running node uses the key, 64 wrong input, or too early or late.
    """
    from chain.acts import proposals as voting
    from chain.acts.proposals import GOVERNOR, ProposalState

    context = _with_any_account(call_context(asked))
    found, state = _proposal_in_state(context, proposal, ProposalState.QUEUED, ProposalState.EXECUTED)
    if state is ProposalState.EXECUTED:
        deliver(context, _long_timelock_call(context, found))
        return
    governor = context.network.addresses.bytewise_governor
    _wait_for("the short timelock", context, context.client.call(GOVERNOR, governor, "proposalEta", found.id, block="latest"))
    deliver(context, voting.execute(found.contents))


@with_call_options
def cancel(
    asked: CallOptions,
    proposal: ProposalArgument,
) -> None:
    """Cancel your own proposal before its vote begins.

    Exit codes: 0 can be cancelled (or was), 5 the node does not answer, or what was sent is in no block yet (look before you
    repeat the command), 6 a running node uses the key, 64 wrong input, too late, or not yours.
    """
    from chain.acts import proposals as voting
    from chain.acts.proposals import ProposalState

    context = call_context(asked)
    found, _ = _proposal_in_state(context, proposal, ProposalState.PENDING)
    deliver(context, voting.cancel(found.contents))


def _proposal_in_state(context: CallContext, text: str, *wanted: "ProposalState") -> "tuple[Proposal, ProposalState]":
    """Returns the proposal that a user named, and its state. Raises `ConfigurationError` if the state is none of `wanted`."""
    from chain.acts import proposals as voting

    head = context.reader.head()
    listed = {str(each.id): each for each in voting.proposals(context.client, context.network, head)}
    number = by_prefix("PROPOSAL", text, listed)
    if number is None:
        raise ConfigurationError("PROPOSAL", f"{text[:80]} is not on this network: `bytewise chain proposal list` lists all")
    found = listed[number]
    state = voting.state_of(context.client, context.network, found.id, head)
    if state not in wanted:
        raise ConfigurationError("PROPOSAL", f"is {state.name}: {_next(context, found, state, head)}")
    return found, state


def _next(context: CallContext, proposal: "Proposal", state: "ProposalState", head: int) -> str:
    """Returns the next step of a proposal as text for people. `head` is the block at which the function reads the chain."""
    from chain.acts import proposals as voting
    from chain.acts.proposals import GOVERNOR, ProposalState
    from chain.client.rpc import at_number

    if state is ProposalState.PENDING:
        return f"its vote begins after block {proposal.vote_start}; this is block {head}"
    if state is ProposalState.ACTIVE:
        return f"its vote lasts until block {proposal.vote_end}; this is block {head}"
    if state is ProposalState.QUEUED:
        governor = context.network.addresses.bytewise_governor
        eta: int = context.client.call(GOVERNOR, governor, "proposalEta", proposal.id, block=at_number(head))
        return f"can be executed from {moment(eta)} on"
    if state is ProposalState.EXECUTED and (operation := voting.slow_operation(context.network, proposal.contents)):
        ready = voting.slow_ready_at(context.client, context.network, operation, head)
        return f"can be executed by the long timelock from {moment(ready)} on" if ready > 1 else "nothing"
    return "to be queued" if state is ProposalState.SUCCEEDED else "nothing"


def _long_timelock_call(context: CallContext, proposal: "Proposal") -> "ContractCall":
    """Returns the call that executes a proposal's calls in the long timelock. Raises `ConfigurationError` if no call waits there,
    or if it is too early."""
    from chain.acts import proposals as voting

    operation, head = voting.slow_operation(context.network, proposal.contents), context.reader.head()
    ready = 0 if operation is None else voting.slow_ready_at(context.client, context.network, operation, head)
    if operation is None or ready <= 1:
        raise ConfigurationError("PROPOSAL", "is EXECUTED: nothing of it waits in the long timelock")
    _wait_for("the long timelock", context, ready)
    return voting.execute_slow(operation)


def _wait_for(what: str, context: CallContext, ready_at: int) -> None:
    now = context.client.head().timestamp
    if now < ready_at:
        raise ConfigurationError("PROPOSAL", f"{what} holds it until {moment(ready_at)}; the chain's time is {moment(now)}")


def _with_any_account(context: CallContext) -> CallContext:
    """Returns the context with the zero address as the account if the user named no account, because any account may make the
    call."""
    return context if context.account else context._replace(account=ZERO_ADDRESS)
