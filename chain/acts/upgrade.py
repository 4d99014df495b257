"""A new court beside the old one (docs/contracts.md, section 5): what one vote must say to put it in force.

The new court's contracts ask the network's `AccessManager`, which knows no role for what `Charter` never saw: until a vote says
which, nobody but the administrator could reset a breaker or change prices there.
"""

from collections.abc import Sequence

from bytewise.protocol.address_book import Network
from bytewise.protocol.errors import ConfigurationError
from chain.acts import governed
from chain.client.address_book import address_of, field_of
from chain.deployment.calls import Act
from chain.deployment.plan import code

COURT = ("FeeMarket", "ReceiptAnchor", "Demands", "Settlement", "Rounds", "Breaker", "Disputes", "Audits", "Lens")
"""What a new court consists of, in the order of creation; everything else stays."""

ROLES = (
    ("Breaker", ("resetBreaker",), 5),
    ("FeeMarket", ("setLimits",), 3),
)
"""Contract, functions and role (`chain.reads.roles.ROLES`), as `Charter` has them for the first court."""


def acts_for(old: Network, new: Network) -> list[Act]:
    """What one proposal does to put the court of the new book in force beside that of the old one.

    Roles come first: the court is never without curator. Clock and guardian are those of the old court.
    `ConfigurationError` names what the books do not share.
    """
    _verify_beside(old, new)
    ruled = [
        governed.set_function_role(address_of(new, name), [code(name).selector(each) for each in functions], role)
        for name, functions, role in ROLES
    ]
    movers = [governed.set_money_mover(address_of(new, name), allowed=True) for name in ("Settlement", "Demands", "Audits")]
    movers += [
        governed.set_stake_mover(address_of(new, name), allowed=True) for name in ("Settlement", "ReceiptAnchor", "Demands")
    ]
    movers.append(governed.set_money_source(address_of(new, "Disputes"), allowed=True))
    return [*ruled, *movers, governed.set_court(address_of(new, "Breaker"))]


def _verify_beside(old: Network, new: Network) -> None:
    fields = [field_of(name) for name in COURT]
    shared: Sequence[str] = [name for name in type(old.addresses).__dataclass_fields__ if name not in fields]
    differ = [name for name in shared if getattr(old.addresses, name) != getattr(new.addresses, name)]
    if old.chain_id != new.chain_id or differ:
        raise ConfigurationError("--court", f"is no court of this network: its {', '.join(differ) or 'chain'} is another")
    same = [name for name in fields if getattr(old.addresses, name) == getattr(new.addresses, name)]
    if same:
        raise ConfigurationError("--court", f"has the old {', '.join(same)}: a court is a new set of {len(COURT)} contracts")
