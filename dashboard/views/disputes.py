"""Builds the records of disputes. A summary is one line of a list. The full record of one dispute has its steps, votes, reasons,
money and next actions."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from bytewise.protocol import digests
from bytewise.protocol.court.phases import Phase
from bytewise.protocol.court.settlement import CONVICTIONS, SeatOutcome
from bytewise.protocol.court.tally import WORKED, key_of
from bytewise.protocol.records.statements import Outcome, Verdict
from bytewise.protocol.units import ZERO_DIGEST, Digest, hex0x
from bytewise.storage.index.reader import Row
from bytewise.storage.index.tables import DisputeFact, RoundFact, SeatFact, VoteFact
from dashboard.views.next_acts import SHARED, next_acts
from dashboard.views.records import (
    Amount,
    DisputeDetail,
    DisputeStep,
    DisputeSummary,
    FinalityState,
    MemberVote,
    MoneyLine,
    Party,
    Record,
    RoundDetail,
    TallyLine,
)
from dashboard.views.scene import Scene, amount, hex_or_none, newest, time_of
from dashboard.views.words import PHASES, SEATS, VERDICTS, code_words


class MemberSeat(Record):
    """Seats of one member in one round of one dispute."""

    dispute: str
    round: int
    voter: Party
    seats: int
    outcome: str
    pay: Amount
    finality: FinalityState


def phase_of(scene: Scene, dispute: Row, round_: Row | None) -> Phase:
    """Returns the phase of a dispute by the protocol clock. The chain stores COMMIT or APPEAL until somebody sends the next
    transaction, so the stored phase may be over already."""
    phase, clock = Phase(dispute["phase"]), scene.clock
    if phase is Phase.COMMIT and round_ is not None and clock > round_["commit_end"]:
        return Phase.REVEAL
    return Phase.AIRGAP if phase is Phase.APPEAL and clock > dispute["appeal_end"] else phase


def summaries(scene: Scene, rows: Sequence[Row]) -> list[DisputeSummary]:
    """Returns the summaries of disputes for a list."""
    ids = tuple(row["id"] for row in rows)
    rounds = {(row["dispute"], row["round"]): row for row in scene.index.all(RoundFact, dispute=ids)} if ids else {}
    return [DisputeSummary(**_summary(scene, row, rounds.get((row["id"], row["round"])))) for row in rows]


def _summary(scene: Scene, row: Row, round_: Row | None) -> dict[str, Any]:
    phase = phase_of(scene, row, round_)
    verdict = Verdict(row["verdict"])
    return {
        "id": hex0x(row["id"]), "receipt_id": hex0x(row["receipt_id"]), "operator": scene.party(row["operator"]),
        "challenger": scene.party(row["challenger"]), "opened": time_of(row["opened_at"]), "opened_block": row["opened_block"],
        "phase": phase.name.lower(), "phase_words": PHASES[phase], "verdict": verdict.name.lower(),
        "verdict_words": VERDICTS[verdict], "round": row["round"], "seats": round_["seats"] if round_ else 0,
        "committed": round_["committed"] if round_ else 0,
        "revealed": min(round_["seats"], round_["revealed"] + round_["certified"]) if round_ else 0,
        "deadline": scene.deadline(_end_of(phase, row, round_)), "finality": scene.finality(newest(row, round_)),
    }  # fmt: skip


def _end_of(phase: Phase, row: Row, round_: Row | None) -> int:
    if round_ is not None and phase in (Phase.COMMIT, Phase.REVEAL):
        return int(round_["commit_end"] if phase is Phase.COMMIT else round_["reveal_end"])
    return int({Phase.APPEAL: row["appeal_end"], Phase.AIRGAP: row["airgap_end"]}.get(phase, 0))


def detail(scene: Scene, row: Row, addresses: Mapping[str, str]) -> DisputeDetail:
    """Returns the full record of one dispute. `addresses` maps the name of each contract to its address. The calls of the next
    actions contain these addresses."""
    rounds = scene.index.all(RoundFact, dispute=row["id"])
    current = next((each for each in rounds if each["round"] == row["round"]), None)
    assurance = scene.assurance(row["key_epoch"])
    told = [_round(scene, row, each, assurance) for each in rounds]
    money_in, money_out = _money(scene, row)
    phase = phase_of(scene, row, current)
    total_in, total_out = (sum(int(line.amount.wei) for line in lines) for lines in (money_in, money_out))
    return DisputeDetail(
        **_summary(scene, row, current), headline=_headline(phase, row), why=tuple(_why(row, told)), batch_id=row["batch_id"],
        environment=hex0x(row["environment"]), model_id=hex0x(row["model_id"]), key_epoch=row["key_epoch"],
        assurance=assurance, params_version=row["params_version"], appellant=scene.somebody(row["appellant"]),
        knew=row["knew"], replacement=hex_or_none(row["replacement"]), ended=row["ended"], paid=row["paid"],
        steps=tuple(_steps(scene, phase, row, current)), rounds=tuple(told), money_in=tuple(money_in),
        money_out=tuple(money_out), penalties=amount(row["penalties"]), sums=not row["ended"] or total_in == total_out,
        acts=tuple(next_acts(scene, row, rounds, phase, addresses)), capsule=None,
    )  # fmt: skip


def member_seats(scene: Scene, rows: Sequence[Row]) -> list[MemberSeat]:
    """Groups seats into records. Seats of one member in one round with one outcome become one record."""
    groups: dict[tuple[bytes, int, str, int], list[Row]] = {}
    for row in rows:
        if row["voter"]:
            groups.setdefault((row["dispute"], row["round"], row["voter"], row["outcome"]), []).append(row)
    return [
        MemberSeat(
            dispute=hex0x(dispute), round=number, voter=scene.party(voter), seats=len(seats),
            outcome=SEATS[SeatOutcome(outcome)], pay=amount(sum(seat["pay"] for seat in seats)),
            finality=scene.finality(newest(*seats)),
        )
        for (dispute, number, voter, outcome), seats in groups.items()
    ]  # fmt: skip


# --- rounds ---


def _round(scene: Scene, dispute: Row, row: Row, assurance: str) -> RoundDetail:
    params = scene.params(dispute["params_version"])
    tau = (params["committee"]["tauNum"], params["committee"]["tauDen"]) if params else (0, 1)
    quorum = -(-row["seats"] * tau[0] // tau[1])
    members, empty = _members(scene, row, quorum, assurance)
    return RoundDetail(
        number=row["round"], level=row["level"], seats=row["seats"], drawn=row["drawn"], quorum=quorum,
        tau=f"{tau[0]}/{tau[1]}", seed_block=row["seed_block"], rearms=row["rearms"], round_seed=hex_or_none(row["round_seed"]),
        commit_end=scene.deadline(row["commit_end"]), reveal_end=scene.deadline(row["reveal_end"]), settled=row["settled"],
        verdict=Verdict(row["verdict"]).name.lower(), tally=tuple(_tally(row, members, quorum)), members=tuple(members),
        empty_seats=empty,
    )  # fmt: skip


_CONFIRM, _OTHERS = "confirmed the receipt", ("found another answer, all the same one", "found the same defect")


def _tally(row: Row, members: Sequence[MemberVote], quorum: int) -> Iterator[TallyLine]:
    """Yields what the contract counted in a round. Before the count, it yields what was revealed so far."""
    if row["settled"]:
        lead = Verdict(row["lead_verdict"])
        other = _OTHERS[lead is Verdict.INVALID]
        counted = [
            (_CONFIRM, row["equal"]), (other, row["lead"]), (code_words(Outcome.UNAVAILABLE, 0), row["unavailable"]),
            (code_words(Outcome.NO_KEY, 0), row["no_key"]), (code_words(Outcome.CANNOT_EXECUTE, 0), row["cannot_execute"]),
            *_silent_seats(row),
        ]  # fmt: skip
        rest = row["seats"] - sum(seats for _, seats in counted)
        counted.append(("voted for something that fewer seats found", max(rest, 0)))
    else:
        said: dict[str, int] = {}
        for member in members:
            said[member.said or member.did] = said.get(member.said or member.did, 0) + member.seats
        counted = sorted(said.items(), key=lambda each: -each[1])
    deciding = (_CONFIRM, *_OTHERS, code_words(Outcome.UNAVAILABLE, 0))
    for label, seats in counted:
        if seats:
            enough = row["settled"] and label in deciding and seats >= quorum
            yield TallyLine(label=label, seats=seats, reaches_quorum=enough)


def _silent_seats(row: Row) -> tuple[tuple[str, int], ...]:
    """Returns the seats without a vote, in the classes in which they are charged. Under a commit root each counts as if it had
    committed."""
    if row["rooted"]:
        return (("did not reveal", row["not_revealed"] + row["absent"]),)
    return ("committed and did not reveal", row["not_revealed"]), ("did not commit", row["absent"])


def _members(scene: Scene, round_: Row, quorum: int, assurance: str) -> tuple[list[MemberVote], int]:
    seats: dict[str, list[Row]] = {}
    empty = 0
    for seat in scene.index.all(SeatFact, dispute=round_["dispute"], round=round_["round"]):
        if seat["voter"]:
            seats.setdefault(seat["voter"], []).append(seat)
        else:
            empty += 1
    votes = {row["voter"]: row for row in scene.index.all(VoteFact, dispute=round_["dispute"], round=round_["round"])}
    groups: dict[VoteGroup, int] = {}
    for voter, vote in votes.items():
        groups[_group(vote)] = groups.get(_group(vote), 0) + len(seats.get(voter, ()))
    right = _right_groups(round_, groups, quorum)
    found = [_member(scene, round_, voter, own, votes.get(voter), right, assurance) for voter, own in seats.items()]
    return sorted(found, key=lambda each: (-each.seats, each.voter.account)), empty


def _member(
    scene: Scene, round_: Row, voter: str, seats: Sequence[Row], vote: Row | None, right: Collection["VoteGroup"], assurance: str
) -> MemberVote:
    out = _out_hash(vote)
    said = vote["said"] if vote else 0
    with_round = _group(vote) in right if vote and right and said in WORKED else None
    quote = f"{assurance}, {vote['quote_bytes']} bytes of quote" if vote and vote["quote_bytes"] else f"{assurance}, no quote"
    return MemberVote(
        voter=scene.party(voter), seats=len(seats), seat_numbers=tuple(seat["seat"] for seat in seats),
        did=_did(scene, round_, vote), said=code_words(said, vote["code"] if vote else 0),
        agrees=_agrees(seats, with_round), agrees_with_round=with_round,
        tokens_hash=hex_or_none(vote["tokens_hash"] if vote else None),
        trace_root=hex_or_none(vote["trace_root"] if vote else None), out_hash=hex_or_none(out),
        quote_hash=hex_or_none(vote["quote_hash"] if vote else None), quote_bytes=vote["quote_bytes"] if vote else 0,
        evidence=quote if said else assurance,
        outcome=", ".join(sorted({SEATS[SeatOutcome(seat["outcome"])] for seat in seats})),
        pay=amount(sum(seat["pay"] for seat in seats)), penalty=amount(vote["penalty"] if vote else 0),
        committed_block=vote["committed_block"] if vote else None, revealed_block=vote["revealed_block"] if vote else None,
    )  # fmt: skip


def _out_hash(vote: Row | None) -> Digest | None:
    """Returns the `out_hash` that a vote states. Returns None if the member did not re-execute the request."""
    if vote is None or vote["said"] != Outcome.EXECUTED or not vote["tokens_hash"] or not vote["trace_root"]:
        return None
    return digests.out_hash(Digest(vote["tokens_hash"]), Digest(vote["trace_root"]))


def _did(scene: Scene, round_: Row, vote: Row | None) -> str:
    if vote and vote["said"]:
        return "certified" if vote["certified"] else "revealed"
    own = bool(vote and vote["commitment"])
    if own or round_["rooted"]:
        over = round_["settled"] or scene.clock > round_["reveal_end"]
        return "did not reveal" if over else "committed" if own else "pending"
    return "did not commit" if round_["settled"] or (round_["commit_end"] and scene.clock > round_["commit_end"]) else "pending"


VoteGroup = tuple[int, int, bytes | None, bytes | None, bytes | None]
"""Content of a vote. Seats count together only if their whole content is the same."""


def _group(vote: Row) -> VoteGroup:
    return vote["said"], vote["code"], vote["tokens_hash"], vote["trace_root"], vote["round_digest"]


def _right_groups(round_: Row, groups: Mapping[VoteGroup, int], quorum: int) -> set[VoteGroup]:
    """Returns the groups of votes that the verdict of a counted round makes right (`RoundStore`): the largest that agree with
    the verdict.

    No event contains the receipt's own answer. In an UPHELD round it is the answer of so many seats that no other group is as
    large.
    """
    verdict = Verdict(round_["verdict"]) if round_["settled"] else Verdict.NONE
    lead = {group for group, seats in groups.items() if seats == round_["lead"] and _key(group) == round_["lead_key"]}
    if verdict is Verdict.UPHELD:
        return {group for group, seats in groups.items() if group[0] == Outcome.EXECUTED and seats == round_["equal"]}
    if verdict is Verdict.UNAVAILABLE:
        # If fewer seats than the quorum found no data, these and the largest group of a fault reach the quorum together.
        # Then both are right.
        mixed = lead if round_["unavailable"] < quorum else set()
        return mixed | {group for group in groups if group[0] == Outcome.UNAVAILABLE}
    return lead if verdict in (Verdict.OVERTURNED, Verdict.INVALID) else set()


def _key(group: VoteGroup) -> Digest:
    said, code, tokens_hash, trace_root, _ = group
    if said == Outcome.EXECUTED and tokens_hash and trace_root:
        return key_of(said, code, digests.out_hash(Digest(tokens_hash), Digest(trace_root)))
    return key_of(said, code, ZERO_DIGEST)


def _agrees(seats: Sequence[Row], with_round: bool | None) -> bool | None:
    """Returns whether the court counts a vote as right, or None if it counts the vote neither as right nor as wrong. All seats
    of a member said the same, so one settled seat is enough."""
    outcomes = {SeatOutcome(seat["outcome"]) for seat in seats} - {SeatOutcome.NONE}
    if not outcomes:
        return with_round
    return True if SeatOutcome.RIGHT in outcomes else False if SeatOutcome.WRONG in outcomes else None


# --- words ---


def _headline(phase: Phase, row: Row) -> str:
    verdict = Verdict(row["verdict"])
    if phase is Phase.FINAL:
        return f"{verdict.name.capitalize()}: {VERDICTS[verdict]}."
    if verdict is not Verdict.NONE and phase in (Phase.APPEAL, Phase.AIRGAP):
        return f"{verdict.name.capitalize()} for now: {VERDICTS[verdict]}. It {PHASES[phase]}."
    earlier = f" The earlier verdict, {verdict.name.lower()}, stands until then." if verdict is not Verdict.NONE else ""
    return f"Open: this dispute {_PRESENT[phase]}.{earlier}"


_PRESENT = {
    Phase.NONE: "does not exist", Phase.SEED: "waits for a block that nobody could choose",
    Phase.DRAWING: "has its committee drawn", Phase.COMMIT: "waits for members to re-execute and commit",
    Phase.REVEAL: "waits for members to open their votes", Phase.APPEAL: "may be appealed",
    Phase.AIRGAP: "waits before money moves", Phase.FINAL: "is final",
}  # fmt: skip


def _why(row: Row, rounds: Sequence[RoundDetail]) -> Iterator[str]:
    for told in rounds:
        yield from _why_round(told)
    verdict = Verdict(row["verdict"])
    if verdict in CONVICTIONS and row["ended"]:
        yield f"The operator lost {amount(row['slashed']).eth} ETH of its stake."
    if verdict is Verdict.OVERTURNED and row["replacement"]:
        yield "The answer of the committee replaces that of the receipt."
    if row["knew"]:
        share = ", so it gets its share of the slash" if verdict in SHARED else ""
        condition = " if the verdict stays" if share and Phase(row["phase"]) is not Phase.FINAL else ""
        yield f"The challenger had committed to the winning answer before anybody voted{share}{condition}."
    if verdict is Verdict.DRAW:
        yield "The last round had no quorum. No seat is paid, and the operator is not charged: stalling earns nothing."
    if verdict is Verdict.REFUNDED:
        yield "The guardian may refund a dispute before money moves. It cannot pick a winner."
    if row["appellant"] is not None:
        appealed = Verdict(row["appealed_verdict"]).name.lower()
        anew = "decided" if row["airgap_end"] else "decides" if Phase(row["phase"]) is not Phase.FINAL else ""
        yield f"{row['appellant']} appealed the verdict {appealed}{f'; a larger committee {anew} anew' if anew else ''}."


def _why_round(told: RoundDetail) -> Iterator[str]:
    place = f"Round {told.number}"
    if not told.settled:
        done = sum(member.seats for member in told.members if member.said)
        yield f"{place} has {told.seats} seats; {told.quorum} that agree ({told.tau}) decide. So far {done} seats have voted."
        return
    lines = "; ".join(f"{line.seats} {line.label}" for line in told.tally)
    if told.verdict == "none":
        yield f"{place} decided nothing: {told.quorum} of {told.seats} seats must agree ({told.tau}), and none did. {lines}."
    else:
        yield f"{place}: {lines}. {told.quorum} of {told.seats} seats decide ({told.tau}), so the round says {told.verdict}."


_STEPS = (
    ("Opened", (Phase.NONE,)), ("Seed and draw", (Phase.SEED, Phase.DRAWING)), ("Commit", (Phase.COMMIT,)),
    ("Reveal", (Phase.REVEAL,)), ("Appeal", (Phase.APPEAL,)), ("Airgap", (Phase.AIRGAP,)), ("Final", (Phase.FINAL,)),
)  # fmt: skip
_STEP_WORDS = {
    "Opened": "Somebody paid a bond and disputes the receipt.",
    "Seed and draw": "A future block's randomness draws seats in proportion to stake.",
    "Commit": "Each member re-executes the request in its enclave and commits to what it found.",
    "Reveal": "Members open their commitments; then the seats are counted.",
    "Appeal": "The loser may ask once for a larger committee.",
    "Airgap": "Time for the guardian to refund, before money moves.",
    "Final": "Bonds, slash and fees are paid.",
}


def _steps(scene: Scene, phase: Phase, row: Row, round_: Row | None) -> Iterator[DisputeStep]:
    at = next((place for place, (_, phases) in enumerate(_STEPS) if phase in phases), 0)
    for place, (name, phases) in enumerate(_STEPS):
        state = "current" if place == at and phase is not Phase.FINAL else "done" if place <= at else "next"
        if name == "Appeal" and place < at and not row["appeal_end"]:
            state = "skipped"
        ends = [_end_of(each, row, round_) for each in phases]
        end = ends[-1] if state in ("current", "done") and phase is not Phase.NONE else 0
        yield DisputeStep(name=name, state=state, words=_STEP_WORDS[name], deadline=scene.deadline(end) if end else None)


# --- money ---


def _money(scene: Scene, row: Row) -> tuple[list[MoneyLine], list[MoneyLine]]:
    into = [
        ("Bond of the challenger", row["bond"], row["challenger"]), ("Bond of the appeal", row["appeal_bond"], row["appellant"]),
        ("Advanced by the treasury", row["advanced"], None), ("Slashed from the operator", row["slashed"], row["operator"]),
    ]  # fmt: skip
    out = [
        ("To the challenger: bond and share", row["to_challenger"], row["challenger"]),
        ("To the appellant", row["to_appellant"], row["appellant"]), ("To the operator", row["to_operator"], row["operator"]),
        ("To seats that were right", row["to_verifiers"], None), ("Back to the treasury", row["repaid"], None),
        ("Burned", row["burned"], None),
    ]  # fmt: skip
    lines_in = [_line(scene, "in", *each) for each in into if each[1]]
    return lines_in, [_line(scene, "out", *each) for each in out if each[1]] if row["ended"] else []


def _line(scene: Scene, direction: str, label: str, wei: int, account: str | None) -> MoneyLine:
    return MoneyLine(label=label, direction=direction, amount=amount(wei), to=scene.somebody(account))


def open_disputes(scene: Scene) -> list[Row]:
    """Returns the disputes that are not final."""
    return scene.index.all(DisputeFact, phase=tuple(int(each) for each in Phase if each not in (Phase.NONE, Phase.FINAL)))
