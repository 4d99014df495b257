"""Section of `docs/contracts.md` that says what steps cost: made of the committed figures, so the page cannot lag behind them."""

from pathlib import Path

PAGE = Path("docs/contracts.md")
BEGIN, END = "<!-- gas -->", "<!-- /gas -->"

STEPS = {
    "anchor": "the operator's batch of any size: four words of it, the fee to the audits' pot, collateral",
    "open": "eleven new words: the case (five), round, list of cases, bond, two of the settlement, seed block; a signature",
    "prove": "a header of 612 bytes",
    "draw_31_of_1000": "some fifty nodes of the tree at 2,100 each; two new words for the seats",
    "form_committee_31": "31 keys of 128 bytes as calldata; owner and holder of each at 2,100; one new word",
    "post_commit_root": "one new word",
    "certificate_31": "pairing and two maps to the curve, 152,000; three new words",
    "commits_31": "31 transactions: 21,000 and one new word each, and cold words of round, clock and tree",
    "reveals_31": "31 transactions: 21,000, the whole vote as calldata and event, four words changed each",
    "settle_certificate": "three words changed; parameters",
    "finalize_certificate": "the split, a new word of it; stake, pot, credit and anchor in three other contracts",
    "settle_seats_31_certificate": "31 payments to members that were paid before: holder, credit, two events each",
    "settle_seats_31_direct": "the same, and the word of each member's vote",
    "settle_seats_31_first_payments": "the same to members that never were paid: a new word each, once in their life",
}
"""What each figure pays for, in the order of the page; figures that are not named here come behind them."""


def rendered(gas: dict[str, int], targets: dict[str, int]) -> str:
    """The table: sums with their targets first, then steps."""
    lines = ["| what | gas | target or what it pays for |", "|---|---|---|"]
    lines += [_row(name, gas[name], f"target {most:,}") for name, most in targets.items() if name in gas]
    lines += [_row(name, gas[name], note) for name, note in STEPS.items() if name in gas]
    named = targets.keys() | STEPS.keys()
    lines += [_row(name, figure, "") for name, figure in gas.items() if name not in named]
    return "\n".join(lines)


def placed(page: str, table: str) -> str:
    """The page with this table between its marks. ValueError if it has no marks."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"{PAGE} has no {BEGIN} ... {END}")
    return f"{before}{BEGIN}\n{table}\n{END}{after}"


def _row(name: str, gas: int, note: str) -> str:
    return f"| `{name}` | {gas:,} | {note} |"
