"""Writes the phase table and diagram of `docs/reference/contracts.md`, between their marks, from
`bytewise.protocol.court.phases`.

python chain/contracts/tools/phase_page.py           # write
python chain/contracts/tools/phase_page.py --check   # compare; exit 1 on drift
"""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from bytewise.protocol.court.phases import DERIVED, TRANSITIONS, Phase, EventActor

PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "contracts.md"


def main() -> int:
    """Writes or checks the page. Returns 0, or 1 if a checked page differs from the generated one."""
    page = PAGE.read_text()
    made = written(page)
    if "--check" not in sys.argv:
        PAGE.write_text(made)
        return 0
    if made != page:
        print(f"{PAGE.name} is not what {Path(__file__).name} writes", file=sys.stderr)
    return int(made != page)


def written(page: str) -> str:
    """Returns the page, with each part between `<!-- NAME -->` and `<!-- /NAME -->` generated again. Raises `ValueError` if a
    part has no marks."""
    for name, make in PARTS.items():
        head, mark, rest = page.partition(f"<!-- {name} -->\n")
        _, end, tail = rest.partition(f"<!-- /{name} -->")
        if not mark or not end:
            raise ValueError(f"{PAGE.name}: no part {name}")
        page = f"{head}{mark}{make()}\n{end}{tail}"
    return page


def table() -> str:
    """Returns every transition as a row of a Markdown table."""
    rows = [f"| {row.start.name} | {row.event} | {row.end.name} | {row.who} | {row.guard} |" for row in TRANSITIONS]
    return "\n".join(["| from | event | to | who | when |", "|---|---|---|---|---|", *rows])


def diagram() -> str:
    """Returns the transitions between phases as a Mermaid state diagram. Events of one transition share one label."""
    ways: dict[tuple[Phase, Phase], list[str]] = {}
    for row in TRANSITIONS:
        ways.setdefault((row.start, row.end), []).append(f"({row.event})" if row.who is EventActor.TIME else str(row.event))
    lines = [f"    {_node(start)} --> {_node(end)}: {' / '.join(events)}" for (start, end), events in ways.items()]
    notes = [f"    note right of {phase.name}: time alone leads here" for phase in sorted(DERIVED)]
    return "\n".join(["```mermaid", "stateDiagram-v2", *lines, *notes, "    FINAL --> [*]", "```"])


def _node(phase: Phase) -> str:
    return "[*]" if phase is Phase.NONE else phase.name


PARTS: Mapping[str, Callable[[], str]] = {"phases": table, "diagram": diagram}
"""Parts of the page by the name of their marks."""


if __name__ == "__main__":
    sys.exit(main())
