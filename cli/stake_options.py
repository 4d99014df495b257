"""Options of `bytewise chain deploy` that say who holds the stake."""

from typing import Annotated

import typer

from bytewise.protocol.address_book import StakeSource
from bytewise.protocol.court.params import ParamSet
from bytewise.protocol.errors import ConfigurationError
from bytewise.protocol.units import Address
from chain.deployment.eigenlayer import MANAGER, MAX_AGE, SET, STRATEGY
from chain.deployment.plan import Restaked, Shape, default_max_age, longest_for
from cli.privileged_call import account_option

_PANEL = "Stake"

StakeOption = Annotated[
    StakeSource, typer.Option("--stake", help="Who holds the stake, for good: a vault of the network's own, or EigenLayer.",
                              rich_help_panel=_PANEL)
]  # fmt: skip
ManagerOption = Annotated[
    str | None, typer.Option(MANAGER, help="EigenLayer's AllocationManager on this chain, 0x-hex.", rich_help_panel=_PANEL)
]
StrategyOption = Annotated[
    str | None, typer.Option(STRATEGY, help="EigenLayer's strategy of wrapped ether, 0x-hex.", rich_help_panel=_PANEL)
]
SetOption = Annotated[
    str | None,
    typer.Option(
        SET, metavar="AVS:ID", rich_help_panel=_PANEL,
        help="Operator set: its slasher and recipient must be the stake source, whose address --plan prints.",
    ),
]  # fmt: skip
MaxAgeOption = Annotated[
    int | None,
    typer.Option(
        MAX_AGE, min=1, max=2**32 - 1, rich_help_panel=_PANEL, show_default="three stake epochs",
        help="Blocks for which a record of stake counts. Processes renew theirs at half of it: less makes more transactions, "
        "more leaves less of EigenLayer's 14 days for a dispute.",
    ),
]  # fmt: skip


def restaked(
    stake: StakeSource, manager: str | None, strategy: str | None, operator_set: str | None, max_age: int | None,
    params: ParamSet, shape: Shape,
) -> Restaked | None:  # fmt: skip
    """Where the stake is, None for a vault of the network's own; `ConfigurationError` names an option too many or too few."""
    given = {MANAGER: manager, STRATEGY: strategy, SET: operator_set, MAX_AGE: max_age}
    if stake is StakeSource.NATIVE:
        extra = [option for option, value in given.items() if value is not None]
        if extra:
            raise ConfigurationError(
                "--stake", f"is native, which has no {', '.join(extra)}: give --stake eigenlayer, or leave them out"
            )
        return None
    if manager is None or strategy is None or operator_set is None:
        missing = [option for option, value in given.items() if value is None and option != MAX_AGE]
        raise ConfigurationError("--stake", f"is eigenlayer, which needs {', '.join(missing)} too")
    avs, set_id = _operator_set(operator_set)
    at, of = account_option(MANAGER, manager), account_option(STRATEGY, strategy)
    return Restaked(at, of, avs, set_id, max_age or default_max_age(shape), longest_for(params, shape))


def _operator_set(text: str) -> tuple[Address, int]:
    avs, _, number = text.partition(":")
    if not (number.isascii() and number.isdecimal() and int(number) < 2**32):
        raise ConfigurationError(SET, f"{text[:80]} is none: the service's account, a colon, and the set's number (0x…:0)")
    return account_option(SET, avs), int(number)
