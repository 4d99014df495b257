"""The root of all errors and its three branches. The branch decides behaviour.

`Fault`: the other side is provably wrong and may be challenged. `Unavailable`: this program cannot tell which side is wrong, so
it retries and accuses nobody. `Bug`: this program is wrong, so it stops. To choose a branch, ask whether an honest counterpart
behind a bad network could cause the error. If so, the branch is `Unavailable`.
"""

import enum
from typing import ClassVar


class BytewiseError(Exception):
    """Root of all errors. `rule` is the number in `docs/reference/errors.md`; `values` are the offending values.

    A rule with several causes lists their fixed words in `reasons` (`bytewise.protocol.errors.reasons`). If an error has a
    reason, its last value is one of these words.
    """

    rule: ClassVar[str] = ""
    template: ClassVar[str] = "{0}"
    reasons: ClassVar[tuple[enum.StrEnum, ...]] = ()

    def __init__(self, *values: object) -> None:
        self.values = values
        super().__init__(f"[{self.rule}] " + self.template.format(*values, *[""] * 4))

    @property
    def reason(self) -> str:
        """The fixed word for the cause; empty if the error has none."""
        return str(self.values[-1]) if self.values and self.values[-1] in self.reasons else ""


class Fault(BytewiseError):
    """The other side is provably wrong and may be challenged."""


class Unavailable(BytewiseError):
    """This program cannot tell which side is wrong. It retries within a bound and accuses nobody."""


class Bug(BytewiseError):
    """This program is wrong and stops."""
