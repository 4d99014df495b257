"""The root of every error of ours and its three branches; the branch decides behaviour.

`Fault`: the other side is provably wrong and may be challenged. `Unavailable`: cannot tell, so retry and never accuse of
wrong bytes. `Bug`: we are wrong, so stop. How to choose: could an honest counterpart behind a bad network cause it? Then
it is `Unavailable`.
"""

import enum
from typing import ClassVar


class BytewiseError(Exception):
    """Root of every error of ours. `rule` is the number in `docs/reference/errors.md`; `values` are the offending values.

    A rule with several causes has `reasons`, of which the last value is one (`bytewise.protocol.errors.reasons`).
    """

    rule: ClassVar[str] = ""
    template: ClassVar[str] = "{0}"
    reasons: ClassVar[tuple[enum.StrEnum, ...]] = ()

    def __init__(self, *values: object) -> None:
        self.values = values
        super().__init__(f"[{self.rule}] " + self.template.format(*values, *[""] * 4))

    @property
    def reason(self) -> str:
        """The fixed word for why; empty where the rule alone says it."""
        return str(self.values[-1]) if self.values and self.values[-1] in self.reasons else ""


class Fault(BytewiseError):
    """The other side is provably wrong."""


class Unavailable(BytewiseError):
    """Cannot tell: retry within a bound, never accuse."""


class Bug(BytewiseError):
    """We are wrong: stop."""
