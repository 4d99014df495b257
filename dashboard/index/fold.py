"""Events of the chain, and the handlers that compute facts from them. Each kind of event has one handler. The handlers run in
chain order, and a handler changes nothing but facts.

If the index does not know the dispute, batch or key epoch that an event is about, most handlers change nothing. The self-check
then finds the difference.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from bytewise.protocol.units import ZERO_ADDRESS, ZERO_DIGEST, Address, Digest, hex0x
from bytewise.storage.index.store import FactWriter

RULES = 6
"""Version of these rules and of the tables. The program refuses an index of another version, because its facts may differ.

Raise this number with every change of the rules or the tables.
"""


class ChainEvent(NamedTuple):
    """One decoded event. Its texts contain only characters that a database accepts."""

    contract: str
    """Name of the contract, as in the contract artifacts. The stake contract at EigenLayer is `EigenLayerStake`."""
    address: Address
    name: str
    values: Mapping[str, Any]
    """Arguments by name. A value is an integer, a bool, bytes or text, or a list or mapping of such values."""
    block: int
    block_hash: Digest
    place: int
    """Position of the event in its block."""
    transaction: Digest


class Moment(NamedTuple):
    """What the handler of one event needs: the facts that the handler may change, the event, and the time of the event's
    block."""

    facts: FactWriter
    event: ChainEvent
    timestamp: int
    """Time of the event's block, in Unix seconds."""

    @property
    def block(self) -> int:
        """Number of the event's block."""
        return self.event.block


Handler = Callable[[Moment, Mapping[str, Any]], None]
"""A function that changes facts by the arguments of one event."""


class EventHandlers:
    """The handlers, by contract name and event name."""

    def __init__(self) -> None:
        self._handlers: dict[tuple[str, str], Handler] = {}

    def on(self, contract: str, *events: str) -> Callable[[Handler], Handler]:
        """Returns a decorator that registers a function as the handler of these events of a contract."""

        def register(handler: Handler) -> Handler:
            for event in events:
                self._handlers[contract, event] = handler
            return handler

        return register

    def apply(self, moment: Moment) -> None:
        """Runs the handler of one event. If an event has no handler, the index keeps the event, and no fact changes."""
        handler = self._handlers.get((moment.event.contract, moment.event.name))
        if handler is not None:
            handler(moment, moment.event.values)


HANDLERS = EventHandlers()
"""All handlers. A module of this package registers its handlers when it is imported."""


def some(value: bytes | None) -> bytes | None:
    """Returns the digest, or None if it is zero, because contracts write zero for a missing digest."""
    return None if value is None or value == ZERO_DIGEST else bytes(value)


def somebody(account: str) -> str | None:
    """Returns the account, or None if it is the zero address."""
    return None if account == ZERO_ADDRESS else account


def plain(value: Any) -> Any:
    """Converts a value to a form that JSON carries exactly. Bytes become 0x-hex. Integers of 2^53 and more become decimal
    text."""
    if isinstance(value, bytes):
        return hex0x(value)
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 2**53:
        return str(value)
    return value


def subject_of(event: ChainEvent) -> str:
    """Returns the text under which a search finds an event: the event's first argument, cut to 80 characters. Usually it is the
    id of a dispute, batch or account. Returns empty text if the first argument is a struct or a list."""
    first = next(iter(event.values.values()), "")
    return str(plain(first) if not isinstance(first, Mapping | list | tuple) else "")[:80]
