"""The facts that must be true at the end of the demo. The demo reads each fact back, and names the missing facts.

Most facts come from the chain, by the command `bytewise network show` in a new process. This process knows only the URL of the
chain's node and the address book. The facts that are not on the chain come from the clients' answers, exit statuses, the outbox
of the killed member, each verifier's list of receipts and the output of `bytewise gate`.
"""

import sys
from dataclasses import asdict, dataclass
from typing import Any

from bytewise.protocol.assurance import SIMULATED
from bytewise.protocol.court.commitments import claim_of
from bytewise.protocol.court.phases import Phase
from bytewise.protocol.decisions.snapshot import Dispute
from bytewise.protocol.records.receipt import ClientMode, Mode
from bytewise.protocol.records.statements import Verdict
from bytewise.protocol.units import Address, digest, hex0x, unhex
from cli.demo.client import Answer
from cli.demo.director import MOST_SEATS, MemberFailure, MemberFailures
from cli.demo.plan import GATE_RUNS, GATE_TOKENS, GATE_TRAFFIC, MAX_TOKENS, VERIFIERS
from cli.demo.site import Site
from cli.output import ether

FRAUDS = 4
QUESTIONS = 9
SAMPLED = 2
SEATS = 15
MIN_TOKENS = 64


@dataclass(frozen=True, slots=True)
class Report:
    """The result of a run of the demo."""

    facts: dict[str, bool]
    """Each fact as a sentence, and True if the fact was read back."""
    status: dict[str, Any]
    """State of the network on the chain, as `bytewise network show` prints it."""
    answers: list[dict[str, Any]]
    """Answers that the clients got, as `answers_document` writes them."""
    wall_s: float
    """Seconds from the start of the run to the last fact."""
    peak_pss_mb: float
    """Largest memory of all processes together (proportional set size), in MiB."""

    @property
    def missing(self) -> list[str]:
        """The facts that were not read back, as sentences."""
        return [fact for fact, true in self.facts.items() if not true]


def status_command(site: Site) -> list[str]:
    """Returns the command that reads the state of the network in a new process."""
    where = ["--network", str(site.network_file), "--rpc", site.rpc_url, "--output", "json"]
    return [sys.executable, "-m", "cli", "network", "show", *where]


def gate_command(site: Site) -> list[str]:
    """Returns the command that sends identical requests to the honest operator (`bytewise gate`)."""
    where = [f"{site.operator_url('honest')}/v1", "--certificate", str(site.certificate("honest")), "--output", "json"]
    how = ["--runs", str(GATE_RUNS), "--traffic", str(GATE_TRAFFIC), "--tokens", str(GATE_TOKENS)]
    return [sys.executable, "-m", "cli", "gate", *where, *how]


def gate_fact(found: dict[str, Any]) -> dict[str, bool]:
    """Returns the fact about identical requests, and whether it holds. `found` is the output of `bytewise gate`. If `found` is
    empty, the gate printed no result, and the fact does not hold."""
    compared = 2 * (2 * GATE_RUNS - 1)
    identical = found.get("identical") is True and found.get("compared") == compared
    return {f"identical seeded requests, alone and among traffic, got identical bytes ({compared} comparisons)": identical}


def dispute_sentences(dispute: Dispute, names: dict[Any, str]) -> list[str]:
    """Returns sentences for the screen about the present state of a dispute. `names` maps accounts to the names of actors."""
    who, what = names.get(dispute.challenger.account, "somebody"), dispute.id.hex()[:8]
    sentences = [f"{who} disputes a receipt of the {names.get(dispute.operator, '?')} operator (dispute {what})"]
    if dispute.phase in (Phase.COMMIT, Phase.REVEAL):
        seats = ", ".join(f"{names.get(m.voter, '?')} {m.seat_mask.bit_count()}" for m in dispute.members)
        sentences.append(f"dispute {what}: the block draws {dispute.seats} seats: {seats}")
    if dispute.phase in (Phase.APPEAL, Phase.AIRGAP):
        how = "one certificate" if any(dispute.certified_group) else "single votes"
        sentences.append(
            f"dispute {what}: the seats say {dispute.verdict.name}, by {how}; it may be appealed, and no money moves yet"
        )
    if dispute.phase is Phase.FINAL:
        sentences.append(f"dispute {what} is over: {Verdict(dispute.verdict).name}")
    return sentences


def judge(
    status: dict[str, Any], checked: dict[str, int], answers: list[Answer], failures: MemberFailures, accounts: dict[str, Address]
) -> dict[str, bool]:
    """Checks every fact that the demo shows, and returns the facts as sentences, each with True if it holds.

    `status` is the output of `bytewise network show`, and `checked` the number of receipts that each verifier checked.
    """
    disputes = status["disputes"]
    frauds = [d for d in disputes if d["operator"] == accounts["dishonest"]]
    frivolous = [d for d in disputes if d["challenger"] == accounts["challenger"]]
    return {
        **_answer_facts(answers),
        **_label_facts(status, answers),
        **_audit_facts(status, checked, answers),
        **_fraud_facts(frauds, status, answers, accounts),
        **_frivolous_facts(frivolous, status, accounts),
        **_kill_facts(disputes, failures, accounts),
        **_absence_facts(disputes, failures, accounts),
        "every vote rests on one forward pass, says its published quote, which appraises well": bool(disputes)
        and all(m["attested_passes"] == 1 for d in disputes for m in d["members"] if m["revealed"]),
        f"every committee has {SEATS} seats, drawn by stake": bool(disputes)
        and all(d["seats"] == SEATS == sum(m["seats"] for m in d["members"]) for d in disputes),
        "all money sums to the wei": bool(status["money_sums"]),
    }


def _answer_facts(answers: list[Answer]) -> dict[str, bool]:
    return {
        f"{QUESTIONS} answers of at least {MIN_TOKENS} tokens to prompts of at least {MIN_TOKENS}": len(answers) == QUESTIONS
        and all(a.prompt_tokens >= MIN_TOKENS and a.completion_tokens >= min(MIN_TOKENS, MAX_TOKENS) for a in answers),
        "every receipt says: mode plain, client delegated": bool(answers)
        and all((a.mode, a.client_mode) == (Mode.PLAIN, ClientMode.DELEGATED) for a in answers),
        f"{SAMPLED} of them are sampled": sum(a.temperature > 0 for a in answers) == SAMPLED,
        "a retried request got the same receipt": any(a.retried_same_receipt for a in answers),
    }


def _label_facts(status: dict[str, Any], answers: list[Answer]) -> dict[str, bool]:
    batches = {batch["assurance"] for batch in status["batches"]}
    return {
        "every answer says of its key epoch what the chain says: simulated": bool(answers)
        and {a.assurance for a in answers} == batches == {SIMULATED}
    }


def _audit_facts(status: dict[str, Any], checked: dict[str, int], answers: list[Answer]) -> dict[str, bool]:
    anchored = sum(batch["count"] for batch in status["batches"])
    posted = [sum(r["audits"].values()) for r in status["receipts"]]
    honest = {answer.receipt_id for answer in answers if answer.operator == "honest"}
    good = [r for r in status["receipts"] if r["receipt"] in honest]
    return {
        f"{QUESTIONS} receipts are anchored, without gap or repetition": anchored == QUESTIONS,
        "every verifier checked every receipt": set(checked) == set(VERIFIERS) and set(checked.values()) == {QUESTIONS},
        "light audits are posted on every receipt": len(posted) == QUESTIONS and min(posted, default=0) > 0,
        "no honest receipt has a mismatching audit": bool(good) and all(not r["audits"]["mismatch"] for r in good),
        "every window is over": bool(status["batches"]) and all(batch["window_over"] for batch in status["batches"]),
    }


def _kinds(frauds: list[dict[str, Any]], answers: list[Answer]) -> list[tuple[bool, bool]]:
    """Returns two booleans for each fraud, in the order of the answers. The first says whether the committee found the same
    tokens hash as the receipt, the second whether the committee found the same output hash."""
    signed = {answer.receipt_id: answer.tokens_hash for answer in answers}
    kinds = []
    for receipt in (answer.receipt_id for answer in answers if answer.operator == "dishonest"):
        mine = [d for d in frauds if d["receipt"] == receipt]
        tokens = {m["tokens_hash"] for d in mine for m in d["members"] if m["revealed"]}
        kinds.append((tokens == {signed[receipt]}, any(_keeps_output(d, signed[receipt]) for d in mine)))
    return kinds


def _keeps_output(dispute: dict[str, Any], tokens_hash: str) -> bool:
    """Tells whether the committee found the output hash that the disputed receipt claims. `tokens_hash` is that of the
    receipt."""
    if dispute["replacement"] is None:
        return False
    signed, found = (digest(unhex(each)) for each in (tokens_hash, dispute["replacement"]))
    return bool(dispute["claim"] == hex0x(claim_of(signed, found)))


def _fraud_facts(
    frauds: list[dict[str, Any]], status: dict[str, Any], answers: list[Answer], accounts: dict[str, Address]
) -> dict[str, bool]:
    books = {each["account"]: each for each in status["accounts"]}
    tower = books.get(accounts["watchtower"], {})
    paid = [d for d in frauds if d["money"] and int(d["money"]["slashed_wei"]) > 0]
    return {
        f"the watchtower disputed all {FRAUDS} frauds": len(frauds) == FRAUDS
        and all(d["challenger"] == accounts["watchtower"] for d in frauds),
        f"{FRAUDS} frauds are OVERTURNED and the committee's output replaces theirs": len(frauds) == FRAUDS
        and all(d["verdict"] == "OVERTURNED" and d["replacement"] is not None for d in frauds),
        "two are false tokens, one is true tokens under a wrong trace, one is other tokens under the true output hash": _kinds(
            frauds, answers
        )
        == [(False, False), (False, False), (True, False), (False, True)],
        "the dishonest operator is slashed for each": len(paid) == FRAUDS,
        "challenger and committee are paid": len(paid) == FRAUDS
        and int(tower.get("credit_wei", 0)) == sum(int(d["money"]["to_challenger_wei"]) for d in frauds)
        and all(int(d["money"]["to_verifiers_wei"]) > 0 for d in frauds),
        "the watchtower had committed to each verdict before anybody voted": len(frauds) == FRAUDS
        and all(d["challenger_knew"] for d in frauds),
        "every seat is paid or charged": bool(frauds) and all(d["paid_out"] for d in status["disputes"]),
        "at least a fifth of every slash is burned": len(paid) == FRAUDS
        and all(5 * int(d["money"]["burned_wei"]) >= int(d["money"]["slashed_wei"]) for d in frauds),
    }


def _frivolous_facts(frivolous: list[dict[str, Any]], status: dict[str, Any], accounts: dict[str, Address]) -> dict[str, bool]:
    upheld = [d for d in frivolous if d["verdict"] == "UPHELD" and d["operator"] == accounts["honest"]]
    books = {each["account"]: each for each in status["accounts"]}
    challenger = books.get(accounts["challenger"], {})
    return {
        "the frivolous dispute is UPHELD": len(frivolous) == len(upheld) == 1,
        "it costs its challenger the bond": len(upheld) == 1
        and int(upheld[0]["money"]["to_challenger_wei"]) == 0 == int(challenger.get("credit_wei", 1)),
    }


def _kill_facts(disputes: list[dict[str, Any]], failures: MemberFailures, accounts: dict[str, Address]) -> dict[str, bool]:
    seat, _ = _seat(disputes, failures.killed, accounts)
    return {
        "a member was killed (SIGKILL) after its commitment was broadcast": failures.kill_status == -9
        and bool(failures.withheld_answer),
        "it came back and finished with exactly one commitment": seat is not None
        and seat["commitments"] == 1
        and bool(seat["revealed"])
        and 1 <= seat["seats"] <= MOST_SEATS,
        "its journal had not marked that commitment when it was killed": failures.journal_unmarked is True,
        "what is on-chain are the bytes it had signed before it was killed": failures.same_bytes is True,
    }


def _absence_facts(disputes: list[dict[str, Any]], failures: MemberFailures, accounts: dict[str, Address]) -> dict[str, bool]:
    seat, dispute = _seat(disputes, failures.absent, accounts)
    return {
        "another member stayed away, is recorded absent and pays for it": seat is not None
        and seat["commitments"] == 0
        and int(seat["charged"].get("absent", 0)) > 0
        and 1 <= seat["seats"] <= MOST_SEATS,
        "the verdict stands without it": dispute is not None and dispute["verdict"] in ("UPHELD", "OVERTURNED"),
    }


def _seat(
    disputes: list[dict[str, Any]], failure: MemberFailure | None, accounts: dict[str, Address]
) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    if failure is None:
        return None, None
    for dispute in disputes:
        if dispute["dispute"] == hex0x(failure.dispute):
            members = [m for m in dispute["members"] if m["voter"] == accounts[failure.member]]
            return (members[0] if members else None), dispute
    return None, None


def as_document(report: Report, versions: dict[str, str], endpoints: dict[str, str]) -> dict[str, Any]:
    """Returns the content of `demo-report.json`."""
    status = report.status
    return {
        "assurance": status["assurance"],
        "facts": report.facts,
        "missing": report.missing,
        "receipts": [*status["receipts"]],
        "audits": {r["receipt"]: r["audits"] for r in status["receipts"]},
        "disputes": status["disputes"],
        "money": {**status["money"], "sums": status["money_sums"], "burned": ether(status["money"]["total_burned"])},
        "accounts": status["accounts"],
        "answers": report.answers,
        "wall_s": round(report.wall_s, 1),
        "peak_pss_mb": round(report.peak_pss_mb),
        "versions": versions,
        "endpoints": endpoints,
    }


def answers_document(answers: list[Answer]) -> list[dict[str, Any]]:
    """Returns the answers of the clients as plain data, without the text of the answers."""
    kept = [{**asdict(answer), "opening": answer.opening.name} for answer in answers]
    return [{name: value for name, value in answer.items() if name != "text"} for answer in kept]
