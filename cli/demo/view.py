"""What the audience sees: a story in sentences, and below it a live table of the disputes."""

import time
from types import TracebackType

from rich.console import Console, Group
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from bytewise.protocol.court.phases import Phase
from bytewise.protocol.decisions.snapshot import Docket
from bytewise.protocol.records.statements import Verdict
from bytewise.protocol.units import Address

_PHASES = {
    Phase.SEED: "waits for a block that nobody could choose",
    Phase.DRAWING: "seats are drawn",
    Phase.COMMIT: "the committee re-executes and commits",
    Phase.REVEAL: "votes are opened",
    Phase.APPEAL: "may be appealed",
    Phase.AIRGAP: "may be refunded",
    Phase.FINAL: "final",
}


class Story:
    """Prints what happens with the time since the start; keeps a live table where the output is a terminal."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._started = time.monotonic()
        self._live = Live(Text("starting"), console=console, refresh_per_second=4, transient=True)

    def __enter__(self) -> "Story":
        if self.console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._live.stop()

    @property
    def elapsed_s(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._started

    def say(self, sentence: str) -> None:
        """One sentence of the story."""
        self.console.print(Text(f"{self.elapsed_s:6.1f} s  ", style="dim") + Text(sentence))

    def waiting(self, what: str) -> None:
        """What the story waits for, below the sentences, where the output is a terminal."""
        if self.console.is_terminal:
            self._live.update(Spinner("dots", text=f"waiting for {what}"))

    def show(self, docket: Docket, names: dict[Address, str], last_window_s: int) -> None:
        """The disputes as this block shows them; `last_window_s` is how long the last window stays open."""
        left = f"; receipts can be disputed for {last_window_s} s more" if last_window_s > 0 else ""
        table = Table(title=f"block {docket.number}: disputes on-chain{left}", title_justify="left", expand=False)
        for heading in ("dispute", "operator", "challenger", "round", "phase", "committed", "opened"):
            table.add_column(heading)
        for dispute in docket.cases:
            committed = sum(m.seat_mask.bit_count() for m in dispute.members if m.committed)
            opened = sum(m.seat_mask.bit_count() for m in dispute.members if any(m.group))
            opener = dispute.challenger.account
            says = "" if dispute.verdict is Verdict.NONE else f"{dispute.verdict.name}, "
            phase = says + _PHASES[dispute.phase]
            table.add_row(
                dispute.id.hex()[:8], names.get(dispute.operator, dispute.operator[:8]),
                names.get(opener, opener[:8]), str(dispute.round), phase,
                f"{committed}/{dispute.seats}", f"{opened}/{dispute.seats}",
            )  # fmt: skip
        if self.console.is_terminal:
            self._live.update(Group(table))
