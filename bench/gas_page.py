"""Writes the section of `docs/reference/contracts.md` about gas from the committed figures, so that the page stays right."""

from pathlib import Path

PAGE = Path("docs/reference/contracts.md")
BEGIN, END = "<!-- gas -->", "<!-- /gas -->"

NOTES = {
    "dispute_certificate_31": "a whole dispute of 31 seats that ends with a certificate: the sum of its steps below",
    "dispute_direct_31": "the same, but each member commits by itself and one transaction opens all votes",
    "dispute_relayed_31": "the same, but one transaction brings all commitments",
    "anchor": "a batch of any size: four words of storage, the fee into the audit pool, the collateral",
    "open": "six new words of storage: three for the dispute, its claim, its pot with the bond, its settlement; one signature",
    "draw_31_of_1000": "a block header of 612 bytes; fifty tree nodes at 2,100 gas each; four new words",
    "post_commit_root": "one new word",
    "certificate_31": "31 keys of 128 bytes, with a read of each; a pairing and two maps to the curve, 152,000 gas; one new word",
    "last_votes_and_settle_certificate": "the certificate and the count, in one transaction",
    "last_votes_and_settle_direct": "31 votes as calldata and events, and the count",
    "finalize_and_settle_seats_31_certificate": "split of the money: stake, pot, credits; one event; one word for each member",
    "finalize_and_settle_seats_31_direct": "the same, and a read of each member's vote",
    "finalize_and_settle_seats_31_first_payments": "the same, when no member was paid before: one new word each, once",
    "commits_31": "31 transactions at 21,000 gas, one new word each, first reads of round, clock and tree",
    "commit": "the most expensive of the 31, which writes the first word of the round; the mean is the sum above divided by 31",
    "reveal": "the most expensive of the 31, which writes the first vote for its answer; the mean is the sum divided by 31",
    "commit_relayed": "the figure below divided by 31: a signature as calldata, its recovery, and the commitment itself",
    "commits_31_relayed": "one transaction for all 31",
    "withdraw": "a step in the queue of credits, a transfer of ether, an event",
    "member_of_188": "a receipt of the largest batch: receipt, signature, eight siblings as calldata; reads from two contracts",
    "equivocation": "two receipts with signatures as calldata; a slash in the vault; its shares in the ledger",
    "deposit": "vault, registry and tree in one call; the tree alone takes 43,000 gas (`StakeTreeGas`)",
    "deposit_first_of_an_epoch": "the same, and the first version of the tree's nodes in an epoch",
    "eigenlayer_adapter": "a slash beyond EigenLayer's own calls: locks, the stake record for draws, a transfer to a pot",
    "finalize_10_rounds": "a slash, credits for the challenger and for who appealed, and a look at each round",
    "refund_10_rounds": "the guardian refunds that dispute: bonds back, and the treasury advances what members still get",
    "pay_out": "payments of a verdict whose slash EigenLayer executed later",
    "open_alt": "the challenger opens its commitment to the answer that it expected",
    "reveal_under_root_255": "255 seats: eight hashes, a search for the member's first seat; the first vote for its answer",
    "reveal_under_root_255_quote_124_kib": "the same with the longest quote that nodes pass on: 40 gas for each byte of calldata",
    "open_member_of_188": "the opening of a dispute, and eight siblings as calldata",
    "audit_post": "the draw, a signature, two new words",
    "audit_open": "three new words",
    "audit_claim": "a receipt of the largest batch, the dispute that convicted it, a first credit",
    "anchor_after_the_longest_silence": "the price falls from its maximum to one wei: about 310 steps, computed twice",
}
"""What each figure pays for, in the order of the page. Figures without a note come after them."""


def rendered(gas: dict[str, int], targets: dict[str, int]) -> str:
    """Returns the table as Markdown: first the figures with a note, in the order of the notes, then all others."""
    named = [name for name in NOTES if name in gas]
    lines = ["| what | gas | target | what it pays for |", "|---|---|---|---|"]
    for name in named + [name for name in gas if name not in NOTES]:
        target = f"{targets[name]:,}" if name in targets else ""
        lines.append(f"| `{name}` | {gas[name]:,} | {target} | {NOTES.get(name, '')} |")
    return "\n".join(lines)


def placed(page: str, table: str) -> str:
    """Returns the page with this table between its marks. Raises `ValueError` if the page has no marks."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"{PAGE} has no {BEGIN} ... {END}")
    return f"{before}{BEGIN}\n{table}\n{END}{after}"
