"""Writes the section of `docs/reference/contracts.md` about gas from the committed figures, so that the page stays right."""

from pathlib import Path

PAGE = Path("docs/reference/contracts.md")
BEGIN, END = "<!-- gas -->", "<!-- /gas -->"

NOTES = {
    "dispute_certificate_31": "all steps below of one with a certificate",
    "dispute_direct_31": "the same where everybody commits itself and one transaction shows all votes",
    "dispute_relayed_31": "the same where one transaction brings all commitments",
    "anchor": "the operator's batch of any size: four words of it, the fee to the audits' pot, collateral",
    "open": "six new words: three of the case, its claim, the pot with its bond, one of the settlement; a signature",
    "draw_31_of_1000": "a header of 612 bytes; fifty nodes of the tree at 2,100 each; four new words",
    "post_commit_root": "one new word",
    "certificate_31": "31 keys of 128 bytes, a word of each; pairing and two maps to the curve, 152,000; one new word",
    "last_votes_and_settle_certificate": "the certificate and the count in one transaction",
    "last_votes_and_settle_direct": "31 votes as calldata and events, and the count",
    "finalize_and_settle_seats_31_certificate": "the split; stake, pot, credits; one event, and a word for each member",
    "finalize_and_settle_seats_31_direct": "the same, and the word of each member's vote",
    "finalize_and_settle_seats_31_first_payments": "the same to who never was paid: a new word each, once in their life",
    "commits_31": "31 transactions: 21,000 and one new word each, and cold words of round, clock and tree",
    "commit": "the dearest of 31, which brings the first word of the round's commitments; the mean is a 31st of the sum above",
    "reveal": "the dearest of 31, which brings the group of its answer; the mean is a 31st of the sum above",
    "commit_relayed": "a 31st of what follows: a signature to recover and as calldata, and what a commitment costs anyhow",
    "commits_31_relayed": "one transaction for all of them",
    "withdraw": "the queue of credits that wait, an ether sent, an event",
    "member_of_188": "the largest batch: receipt, signature and eight siblings as calldata; two contracts asked",
    "equivocation": "two receipts and signatures as calldata; a slash in the vault, its shares in the ledger",
    "deposit": "vault, registry and tree in one call; the tree's part alone is 43,000 (`StakeTreeGas`)",
    "deposit_first_of_an_epoch": "the same, and the first version of the tree's nodes in an epoch",
    "eigenlayer_adapter": "beyond the two calls of EigenLayer: what is bound, the record for draws, money into a pot",
    "finalize_10_rounds": "a slash, credits to the challenger and who appealed, each round looked through",
    "refund_10_rounds": "the same dispute: both bonds back, and a second advance for all who worked",
    "pay_out": "what of it waits for a slash at EigenLayer",
    "open_alt": "the word of the challenger that it knew",
    "reveal_under_root_255": "places of 255 seats, eight hashes, a walk to the member's first seat; the first of its answer",
    "reveal_under_root_255_quote_124_kib": "with the longest quote that nodes pass on: 40 for each byte of calldata",
    "open_member_of_188": "opening, and eight siblings as calldata",
    "audit_post": "the draw, a signature, two new words",
    "audit_open": "three new words",
    "audit_claim": "a member of the largest batch, a dispute that convicted it, a first credit",
    "anchor_after_the_longest_silence": "the price falls from the dearest there is to a wei: some 310 steps, reckoned twice",
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
