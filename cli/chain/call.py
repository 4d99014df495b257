"""`bytewise chain call`: calls any function of the contracts by its name. The guardian, the curator and every other account use
it for calls that need no vote."""

from typing import TYPE_CHECKING, Annotated

import typer

from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.units import Address
from cli.chain.privileged_call import (
    CallContext,
    account_option,
    call_context,
    deliver,
)
from cli.options import CallOptions, with_call_options
from cli.output import emit

if TYPE_CHECKING:
    from chain.client.artifacts import Interface
    from chain.deployment.calls import ContractCall


ContractArgument = Annotated[
    str, typer.Argument(metavar="CONTRACT", help="As in docs/reference/contracts.md: Guardian, Registry, …")
]
FunctionArgument = Annotated[
    str | None, typer.Argument(metavar="FUNCTION", help="Without one: the functions of the contract are listed.")
]
ArgumentsArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="ARGUMENTS", help="Whole numbers, 0x-hex, true or false, text; JSON for lists; @FILE for what is long."
    ),
]

AtOption = Annotated[str | None, typer.Option("--at", help="Where a BondPool is, 0x-hex: no address book has it.")]


@with_call_options
def call(
    asked: CallOptions,
    contract: ContractArgument,
    function: FunctionArgument = None,
    arguments: ArgumentsArgument = None,
    at: AtOption = None,
    value: Annotated[int, typer.Option("--value", min=0, max=2**256 - 1, help="Wei that go with it.")] = 0,
) -> None:
    """Try a call as the account that may make it; with --key and --send, send it.

    The command prints target and calldata, so that they can be signed elsewhere.

    For example, a guardian pauses the network for an hour by `bytewise chain call Guardian pause 3600`. Without --from or --key
    the command tries the call as the account with the role that the function requires. If only a timelock has this role, the call
    needs a vote (`bytewise chain proposal create`). No address book has the address of a bond pool: give --at, or use `bytewise
    pool`. The command first checks the pool's code, court and ledger.

    Exit codes: 0 the contract accepts the call (or accepted it), 5 the node does not answer, the contract takes the call only
    later, or what was sent is in no block yet (look before you repeat the command), 6 a running node uses the key, 64 wrong
    input, or refused by the contract.
    """
    from chain.client.arguments import signature
    from chain.client.artifacts import BESIDE
    from chain.deployment.bond_pool import verify_bond_pool

    interface = interface_of(contract, BESIDE)
    if function is None:
        functions = [signature(entry) for _, entry in sorted(interface.writing().items())]
        emit(asked.output, functions, lambda: print("\n".join(functions)))
        return
    planned = contract_call(contract, function, arguments or [], value, BESIDE)._replace(at=_place(contract, at))
    context = call_context(asked)
    if planned.at:
        verify_bond_pool(context.client, context.network, planned.at)
    deliver(context if context.account else context._replace(account=_holder(context, planned)), planned)


def _place(contract: str, at: str | None) -> Address | None:
    """Returns the address that the user gave with --at for a contract that address books do not list, or None for any other
    contract. Raises `ConfigurationError` if --at is missing for such a contract, or given for another contract."""
    from chain.client.artifacts import BESIDE

    if (contract in BESIDE) != (at is not None):
        is_missing = "no address book has it: name its address" if contract in BESIDE else "the address book says where that is"
        raise ConfigurationError("--at", f"{contract}: {is_missing}")
    return None if at is None else account_option("--at", at)


def contract_call(
    contract: str, function: str | None, arguments: list[str], value_wei: int = 0, beside: tuple[str, ...] = ()
) -> "ContractCall":
    """Returns the contract call that a user typed. Raises `ConfigurationError` if the contract or function is unknown, or if an
    argument is invalid. `beside` has the names of further known contracts, which address books do not list."""
    from chain.client.arguments import read_arguments
    from chain.deployment.calls import ContractCall

    known = interface_of(contract, beside).writing()
    if function is None or function not in known:
        listed, given = ", ".join(sorted(known)) or "none", "" if function is None else f"; {function} is none that writes"
        raise ConfigurationError("FUNCTION", f"name one function of {contract}: {listed}{given}")
    return ContractCall(contract, function, read_arguments(known[function], arguments), value_wei)


def interface_of(contract: str, beside: tuple[str, ...] = ()) -> "Interface":
    """Returns the interface of a contract by its name. Raises `ConfigurationError` if the name is unknown. `beside` has the names
    of further known contracts, which address books do not list."""
    from chain.client.artifacts import ADAPTERS
    from chain.deployment.plan import code, names

    known = (*names(()), *ADAPTERS, *beside)
    if contract not in known:
        raise ConfigurationError("CONTRACT", f"{contract} is none of {', '.join(known)}")
    return code(contract)


def _holder(context: CallContext, planned: "ContractCall") -> Address:
    """Returns the first account with the role that the contract requires for a call.

    Raises `ConfigurationError` if the function has no role of its own, or if no account has the role. Also raises it if a
    timelock has the role, because then the call needs a vote.
    """
    from chain.reads.roles import ROLES, holders

    manager, asked = context.network.addresses.access_manager, (planned.target(context.network), planned.calldata[:4])
    role: int = context.client.call("AccessManager", manager, "getTargetFunctionRole", *asked, block="latest")
    name = ROLES.get(role, str(role))
    # For a function without a role of its own, the access manager returns role 0.
    found = holders(context.reader, context.reader.head()).get(name, ()) if role else ()
    timelocks = (context.network.addresses.short_timelock, context.network.addresses.long_timelock)
    if any(each in timelocks for each in found):
        raise ConfigurationError(
            str(planned), f"is for {name}, which is a vote's: `bytewise chain proposal create {planned.contract} …`"
        )
    if not found:
        raise ConfigurationError("account", f"{planned} has no role of its own: say who makes it, with --from or --key")
    return found[0]
