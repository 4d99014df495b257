"""Events of the chain, and the handlers that compute facts from them. Each kind of event has one handler. The handlers run in
chain order, and a handler changes nothing but facts.

An event about a dispute, batch or account that the index does not know changes nothing. The self-check then finds the
difference.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from bytewise.protocol.units import ZERO_ADDRESS, ZERO_DIGEST, Address, Digest, hex0x
from bytewise.storage.index.store import FactWriter

RULES = 6
"""Version of these rules and of the tables. An index of another version is refused, because its facts may differ.

Raise this number with every change of the rules or the tables.
"""


class ChainEvent(NamedTuple):
    """One decoded event. Its texts contain only characters that a database accepts."""

    contract: str
    """Name of the contract, as in the contract artifacts. The stake contract at EigenLayer is `EigenLayerStake`."""
    address: Address
    name: str
    values: Mapping[str, Any]
    """Arguments by name: integers, bools, bytes, text, and lists and mappings of these."""
    block: int
    block_hash: Digest
    place: int
    """Position of the event in its block."""
    transaction: Digest


class Moment(NamedTuple):
    """Context of one event for its handler: the facts that the handler may change, the event, and the time of its block."""

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
        """Runs the handler of one event. An event without a handler stays in the index and changes no fact."""
        handler = self._handlers.get((moment.event.contract, moment.event.name))
        if handler is not None:
            handler(moment, moment.event.values)


HANDLERS = EventHandlers()
"""All handlers. Each module of this package registers its handlers when it is imported."""


def some(value: bytes | None) -> bytes | None:
    """Returns the digest, or None if it is zero, because contracts write zero for a missing digest."""
    return None if value is None or value == ZERO_DIGEST else bytes(value)


def somebody(account: str) -> str | None:
    """Returns the account, or None if it is the zero address."""
    return None if account == ZERO_ADDRESS else account


def plain(value: Any) -> Any:
    """Returns a value in a form that JSON carries exactly: bytes as 0x-hex, integers of 2^53 and more as decimal text."""
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
    """Returns the text by which an event can be found, usually the id of a dispute, batch or account. It is the event's first
    argument, cut to 80 characters. Returns empty text if that argument is a struct or a list."""
    first = next(iter(event.values.values()), "")
    return str(plain(first) if not isinstance(first, Mapping | list | tuple) else "")[:80]
