"""The root of all errors and its three branches. The branch decides behaviour.

`Fault`: the other side is provably wrong and may be challenged. `Unavailable`: we cannot tell, so we retry and never accuse
anybody of wrong bytes. `Bug`: we are wrong, so we stop. To choose a branch, ask whether an honest counterpart behind a bad
network could cause the error. If so, it is `Unavailable`.
"""

import enum
from typing import ClassVar


class BytewiseError(Exception):
    """Root of all errors. `rule` is the number in `docs/reference/errors.md`; `values` are the offending values.

    A rule with several causes has `reasons`; the last value is then one of them (`bytewise.protocol.errors.reasons`).
    """

    rule: ClassVar[str] = ""
    template: ClassVar[str] = "{0}"
    reasons: ClassVar[tuple[enum.StrEnum, ...]] = ()

    def __init__(self, *values: object) -> None:
        self.values = values
        super().__init__(f"[{self.rule}] " + self.template.format(*values, *[""] * 4))

    @property
    def reason(self) -> str:
        """The fixed word for the cause; empty for a rule with one cause."""
        return str(self.values[-1]) if self.values and self.values[-1] in self.reasons else ""


class Fault(BytewiseError):
    """The other side is provably wrong."""


class Unavailable(BytewiseError):
    """We cannot tell: retry within a bound and accuse nobody."""


class Bug(BytewiseError):
    """We are wrong: stop."""
