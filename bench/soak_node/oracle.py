"""Checks the rules that must hold at the end of a run. It uses the chain's events, signed transactions and planted frauds.

The functions are pure: each takes facts and returns a sentence for each violation. For each check
`tests/unit/bench/test_soak_node.py` has a negative control: it breaks the rule, and the check must find that.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from bench.soak_node.faults import Incident
from bench.soak_node.history import Event, History, Transaction
from bench.soak_node.schedule import ALL
from bytewise.protocol.court.settlement import SeatOutcome
from bytewise.protocol.records.statements import AuditOutcome, Verdict
from bytewise.service.exit_codes import Exit

COMMIT_S = 25.0
"""Undisturbed seconds of the commit phase in which a seat must manage to fetch the envelope, execute once and commit."""
REVEAL_S = 10.0
"""Undisturbed seconds of the reveal phase in which a seat must manage to reveal its vote."""
CHALLENGE_S = 12.0
"""Undisturbed seconds from the second mismatch to the end of the window in which a watchtower must manage to challenge."""
OVERLOAD = 3.0
"""Load of each core above which seats may miss their deadlines. Times of such load excuse a missed vote like a fault, and are
reported."""
OVERLOADED = "overload"
"""Kind of the incidents that stand for times of overload. Nobody injected them."""
START_S = 60.0
"""Seconds after a kill in which the process is started again and reads the chain for the first time."""
MISSED = (SeatOutcome.ABSENT, SeatOutcome.NOT_REVEALED)
DEPENDENCIES = ("da", "chain")
"""Actors that every seat needs. It also needs two of the three shards."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """An anchored receipt, as the public list of its batch has it."""

    id: bytes
    operator: str
    batch: int
    tokens: bytes
    """The receipt's `tokensHash`."""
    out: bytes
    """The receipt's `outHash`."""
    window_end: int
    """Chain time after which nobody can dispute the receipt."""


@dataclass(frozen=True, slots=True)
class Disturbances:
    """Times at which faults kept actors from their work, in seconds since the start of the run."""

    incidents: Sequence[Incident]
    when: Callable[[int], float]
    """Function that returns the second of the run at which the chain first had a time."""
    seen: Callable[[int], float]
    """Function that returns the second of the run at which a block first existed."""

    def longest_calm(self, names: Iterable[str], start: float, end: float) -> float:
        """Returns the longest time between `start` and `end`, in seconds, in which no fault touched these actors or their
        dependencies."""
        needed = {*names, *DEPENDENCIES}
        touching = sorted((each.start, each.end) for each in self.incidents if each.touches(needed))
        touching += self._without_shards()
        best, at = 0.0, start
        for begin, over in sorted(touching):
            if begin >= end:
                break
            best, at = max(best, begin - at), max(at, over)
        return max(best, end - at, 0.0)

    def is_redrawn(self, block: int) -> bool:
        """Returns whether a reorganisation replaced a block after it was first seen."""
        return any(each.kind == "reorganisation" and each.block - each.value < block <= each.block + 1 for each in self.incidents)

    def _without_shards(self) -> list[tuple[float, float]]:
        """Returns the times in which fewer than two shards answered."""
        down = [each for each in self.incidents if each.target.startswith("shard")]
        return [
            (max(one.start, other.start), min(one.end, other.end))
            for place, one in enumerate(down)
            for other in down[place + 1 :]
            if one.target != other.target and max(one.start, other.start) < min(one.end, other.end)
        ]


class ProcessEnd(NamedTuple):
    """A process that ended although nobody killed it."""

    name: str
    code: int | None
    at: float
    """Second of the run at which the process ended."""


def unexpected_ends(ends: Iterable[ProcessEnd], incidents: Sequence[Incident]) -> list[str]:
    """Returns a sentence for each end of a process that no fault explains.

    A process that starts while the chain does not answer it ends with `Exit.UNAVAILABLE`, and is started again. This is no
    violation.
    """
    wrong = []
    for each in ends:
        near = [
            one for one in incidents if one.start < each.at and one.end > each.at - START_S and one.touches({each.name, "chain"})
        ]
        began = any(one.kind.startswith("kill-") for one in near)
        lonely = any(one.kind.startswith(("rpc-", "chain-")) or one.kind == "database-cut" for one in near)
        if not (each.code == Exit.UNAVAILABLE and began and lonely):
            wrong.append(f"{each.name} ended by itself with {each.code} after {each.at:.0f} s")
    return wrong


def double_votes(signed: Iterable[Transaction], history: History) -> list[str]:
    """Returns a sentence for each account that signed two different votes in one round, or more different commitments in one
    dispute than the dispute had rounds. Also returns one for each account with two commitments in one round on the chain.

    The transaction of a commitment does not name its round, so the number of rounds is the limit.
    """
    rounds: dict[bytes, int] = {}
    for each in history.of("Disputes.CommitOpened"):
        rounds[each.values["id"]] = max(rounds.get(each.values["id"], 1), each.values["round"])
    commitments: dict[tuple[str, bytes], set[bytes]] = {}
    votes: dict[tuple[str, bytes, int], set[str]] = {}
    for sent in (*signed, *history.transactions):
        if sent.name == "Rounds.commit":
            commitments.setdefault((sent.sender, sent.values["id"]), set()).add(sent.values["commitment"])
        if sent.name == "Rounds.reveal":
            vote = sent.values["vote"]
            votes.setdefault((sent.sender, vote["dispute"], vote["round"]), set()).add(repr(vote))
    found = [
        f"{who} signed {len(each)} commitments in dispute {dispute.hex()[:8]} of {rounds.get(dispute, 1)} rounds"
        for (who, dispute), each in commitments.items()
        if len(each) > rounds.get(dispute, 1)
    ]
    found += [f"{who} opened {len(each)} votes in round {number} of {dispute.hex()[:8]}"
              for (who, dispute, number), each in votes.items() if len(each) > 1]  # fmt: skip
    seats: dict[tuple[bytes, int, str], int] = {}
    for event in history.of("Rounds.Committed"):
        key = event.values["id"], event.values["round"], event.values["voter"]
        seats[key] = seats.get(key, 0) + 1
    return found + [f"the chain has {count} commitments of {key[2]}" for key, count in seats.items() if count > 1]


def false_challenges(history: History, receipts: Mapping[bytes, Receipt], planted: set[bytes], watchers: set[str]) -> list[str]:
    """Returns a sentence for each dispute that an honest watchtower opened about a receipt that nobody falsified."""
    found = []
    for each in history.of("Disputes.DisputeOpened"):
        receipt = receipts.get(each.values["receiptId"])
        if each.values["challenger"] in watchers and (receipt is None or receipt.id not in planted):
            found.append(f"{each.values['challenger']} disputed the honest receipt {each.values['receiptId'].hex()[:8]}")
    return found


@dataclass(frozen=True, slots=True)
class FraudFates:
    """Outcomes of the planted frauds."""

    overturned: int = 0
    unnoticed: int = 0
    """Frauds without a dispute because fewer than two verifiers were drawn and posted a mismatch in time, or because faults left
    the watchtower no time."""
    undecided: int = 0
    """Frauds with a dispute in which a third of the seats or more did not vote, because of faults."""
    violations: tuple[str, ...] = ()


def fates_of_frauds(
    history: History, receipts: Mapping[bytes, Receipt], planted: set[bytes], disturbed: Disturbances
) -> FraudFates:
    """Returns the outcomes of the planted frauds. Every fraud that was audited in time must end OVERTURNED, unless too
    many seats did not vote."""
    disputes = {each.values["receiptId"]: each.values["id"] for each in history.of("Disputes.DisputeOpened")}
    verdicts = {each.values["id"]: each.values["verdict"] for each in history.of("Disputes.Finalized")}
    missed = _missed_seats(history)
    counts, wrong = {"overturned": 0, "unnoticed": 0, "undecided": 0}, []
    for receipt in planted:
        dispute = disputes.get(receipt)
        if dispute is None:
            second = _second_mismatch(history, receipts[receipt])
            end = disturbed.when(receipts[receipt].window_end)
            start = end if second is None else disturbed.when(second)
            if disturbed.longest_calm(["watchtower"], start, end) >= CHALLENGE_S:
                wrong.append(f"the fraud {receipt.hex()[:8]} was audited in time, and nobody disputed it")
            else:
                counts["unnoticed"] += 1
        elif verdicts.get(dispute) == Verdict.OVERTURNED:
            counts["overturned"] += 1
        elif 3 * missed.get(dispute, 0) >= 1:
            counts["undecided"] += 1
        else:
            verdict = Verdict(verdicts.get(dispute, 0)).name
            wrong.append(f"the fraud {receipt.hex()[:8]} was disputed with every seat there, and ended {verdict}")
    return FraudFates(**counts, violations=tuple(wrong))


def _second_mismatch(history: History, receipt: Receipt) -> int | None:
    """Returns the chain time of the second mismatch that was posted. Returns None if there was none, or if mismatches are not the
    majority of the posted results."""
    posted: dict[str, tuple[int, int]] = {}
    for each in history.of("Audits.AuditPosted"):
        if each.values["receiptId"] == receipt.id:
            posted.setdefault(each.values["verifier"], (each.values["result"], each.time))
    against = sorted(time for result, time in posted.values() if result == AuditOutcome.MISMATCH)
    return against[1] if len(against) > 1 and 2 * len(against) > len(posted) else None


Attendance = dict[tuple[bytes, int], dict[str, tuple[int, SeatOutcome]]]
"""Attendance by dispute and round: for each holder the number of its seats, and RIGHT, ABSENT or NOT_REVEALED."""


def attendance(history: History) -> Attendance:
    """Returns which seats voted. It reads votes and not payments, because a round without a verdict charges nobody."""

    def voters(name: str) -> set[tuple[bytes, int, str]]:
        return {(each.values["id"], each.values["round"], each.values["voter"]) for each in history.of(name)}

    committed, revealed, found = voters("Rounds.Committed"), voters("Rounds.Revealed"), Attendance()
    signed = {(each.values["id"], each.values["round"]): each.values["signers"] for each in history.of("Rounds.Certified")}
    for each in history.of("Settlement.SeatsSettled"):
        key = each.values["id"], each.values["round"]
        for place, holder in enumerate(each.values["holders"], each.values["from"]):
            if int(holder, 16) == 0:
                continue
            seats, _ = found.setdefault(key, {}).get(holder, (0, SeatOutcome.NONE))
            absent = SeatOutcome.NOT_REVEALED if (*key, holder) in committed else SeatOutcome.ABSENT
            voted = (*key, holder) in revealed or signed.get(key, 0) >> place & 1
            found[key][holder] = seats + 1, SeatOutcome.RIGHT if voted else absent
    return found


def _missed_seats(history: History) -> dict[bytes, float]:
    """Returns for each dispute the largest share of the seats of a round that did not vote."""
    shares: dict[bytes, float] = {}
    for (dispute, _), members in attendance(history).items():
        missed = sum(seats for seats, outcome in members.values() if outcome in MISSED)
        shares[dispute] = max(shares.get(dispute, 0.0), missed / sum(seats for seats, _ in members.values()))
    return shares


@dataclass(frozen=True, slots=True)
class Duties:
    """Numbers of seats and members that had to vote, and of those that did not."""

    seats: int = 0
    """Number of seats in all rounds."""
    members: int = 0
    """Number of accounts with seats in a round, summed over all rounds."""
    missed: int = 0
    """Number of accounts that did not vote in a round, summed over all rounds."""
    excused: int = 0
    """Missed votes that a fault explains, or a machine with more load than `OVERLOAD` for each core."""
    redrawn: int = 0
    """Rounds whose draw a reorganisation replaced. Their votes may name the earlier draw (ADR-014)."""
    violations: tuple[str, ...] = ()


def duties(history: History, names: Mapping[str, str], disturbed: Disturbances) -> Duties:
    """Returns the numbers of votes and missed votes. A missed vote is a violation if the seat's process and its dependencies had
    enough undisturbed time."""
    opened = {(each.values["id"], each.values["round"]): each for each in history.of("Disputes.CommitOpened")}
    rounds, wrong, redrawn = attendance(history), [], set[tuple[bytes, int]]()
    missed = [(key, who, outcome) for key, each in rounds.items() for who, (_, outcome) in each.items() if outcome in MISSED]
    for key, holder, outcome in missed:
        name = names.get(holder, holder)
        if disturbed.is_redrawn(opened[key].block):
            redrawn.add(key)
        elif _possible(opened[key], name, outcome, disturbed):
            wrong.append(f"{name} was {outcome.name} in round {key[1]} of {key[0].hex()[:8]} without a fault")
    seats = sum(count for each in rounds.values() for count, _ in each.values())
    members = sum(map(len, rounds.values()))
    return Duties(seats, members, len(missed), len(missed) - len(wrong), len(redrawn), tuple(wrong))


def _possible(opened: Event, name: str, outcome: SeatOutcome, disturbed: Disturbances) -> bool:
    names, commit_end, reveal_end = [name, f"{name}-enclave"], opened.values["commitEnd"], opened.values["revealEnd"]
    if outcome == SeatOutcome.ABSENT:
        return disturbed.longest_calm(names, disturbed.seen(opened.block), disturbed.when(commit_end)) >= COMMIT_S
    return disturbed.longest_calm([name], disturbed.when(commit_end), disturbed.when(reveal_end)) >= REVEAL_S


def money(history: History) -> list[str]:
    """Returns a sentence for each wrong sum in a dispute, in the ledger or in the vault. Every wei that came in must still be
    there, have gone out, or be burned."""
    wrong = []
    for each in history.of("Settlement.Ended"):
        a = each.values["account"]
        put_in = a["bond"] + a["appealBond"] + a["advanced"] + a["slashed"]
        out = a["toChallenger"] + a["toAppellant"] + a["toOperator"] + a["toVerifiers"] + a["repaid"] + a["burned"]
        if put_in != out:
            wrong.append(f"dispute {each.values['id'].hex()[:8]} took {put_in} wei and gave {out}")

    def total(name: str, field: str = "amount") -> int:
        return sum(each.values[field] for each in history.of(name))

    credited_each = sum(each.values["amount"] * len(each.values["accounts"]) for each in history.of("Ledger.CreditedEach"))
    held = total("Ledger.Taken") + total("Ledger.Funded") - total("Ledger.Withdrawn")
    pots = total("Ledger.Taken") + total("Ledger.Advanced") - total("Ledger.Credited") - credited_each
    pots -= total("Ledger.Burned") + total("Ledger.Repaid")
    staked = total("StakeVault.Deposited") - total("StakeVault.Unbonded") - total("StakeVault.Slashed", "taken")
    for what, expected, found in (
        ("the ledger's balance", held, history.balances["Ledger"]),
        ("the ledger's pots", pots, history.pots),
        ("the vault's balance", staked, history.balances["StakeVault"]),
    ):
        if expected != found:
            wrong.append(f"{what} is {found} wei, and the events sum to {expected}")
    return wrong


def emptiness(receipts: int, frauds: int, faults: int) -> list[str]:
    """Returns a sentence if no receipt was anchored, no fraud planted or no fault injected. Then the other checks prove
    nothing."""
    counts = {"receipt was anchored": receipts, "fraud was planted": frauds, "fault was injected": faults}
    return [f"no {what}" for what, count in counts.items() if not count]


def overloads(loads: Sequence[tuple[float, float]], cores: int, step_s: float) -> list[Incident]:
    """Returns the times in which the machine had too much work, as incidents. `loads` are (second, load of the last minute)."""
    return [Incident(OVERLOADED, ALL, max(0.0, t - step_s), t + step_s) for t, load in loads if load > OVERLOAD * cores]
