"""Facts from events: which handler computes what, in chain order. Pure but for the facts that it changes.

An event about a dispute, batch or account that the index does not know changes nothing; the self-check then finds the difference.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from bytewise.protocol.units import ZERO_ADDRESS, ZERO_DIGEST, hex0x
from bytewise.storage.index.store import FactWriter
from dashboard.index.source import ChainEvent

RULES = 6
"""Version of these rules and of the tables. An index of another version is refused, because its facts may differ.

Raise this number with every change of either."""


class Moment(NamedTuple):
    """What a handler sees beside the event's arguments."""

    facts: FactWriter
    event: ChainEvent
    timestamp: int
    """Of the block, Unix seconds."""

    @property
    def block(self) -> int:
        """Number of the block."""
        return self.event.block


Handler = Callable[[Moment, Mapping[str, Any]], None]
"""Changes facts by the arguments of one event."""


class EventHandlers:
    """Handlers by contract and event."""

    def __init__(self) -> None:
        self._handlers: dict[tuple[str, str], Handler] = {}

    def on(self, contract: str, *events: str) -> Callable[[Handler], Handler]:
        """Decorator: the function handles these events of a contract."""

        def register(handler: Handler) -> Handler:
            for event in events:
                self._handlers[contract, event] = handler
            return handler

        return register

    def apply(self, moment: Moment) -> None:
        """Changes the facts by one event. An event without a handler is kept in the index and changes no fact."""
        handler = self._handlers.get((moment.event.contract, moment.event.name))
        if handler is not None:
            handler(moment, moment.event.values)


HANDLERS = EventHandlers()
"""All handlers. Modules of this package register theirs when they are imported."""


def some(value: bytes | None) -> bytes | None:
    """The digest, or None for zero."""
    return None if value is None or value == ZERO_DIGEST else bytes(value)


def somebody(account: str) -> str | None:
    """The account, or None for zero."""
    return None if account == ZERO_ADDRESS else account


def plain(value: Any) -> Any:
    """A value as JSON carries it exactly: bytes as 0x-hex, integers from 2^53 on as text."""
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
    """The first argument in text, at most 80 characters."""
    first = next(iter(event.values.values()), "")
    return str(plain(first) if not isinstance(first, Mapping | list | tuple) else "")[:80]
