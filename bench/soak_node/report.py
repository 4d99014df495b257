"""Applies all checks to a finished run, and computes its figures."""

import json
import os
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import httpx2

from bench.soak_node import flatness, oracle
from bench.soak_node.campaign import LONGEST_DRAIN_S, SAMPLE_S, Campaign
from bench.soak_node.history import History, Transaction, handed_in
from bench.soak_node.network import PARAMS
from bench.soak_node.oracle import Receipt
from bench.soak_node.schedule import KINDS
from bytewise.protocol.address_book import Network
from bytewise.protocol.encoding import decode
from bytewise.protocol.records.receipt import ReceiptList, SignedReceipt, receipt_id
from bytewise.protocol.records.statements import Verdict
from cli.demo.build import Built

DA_TIMEOUT_S = 20.0
LINES_KEPT = 20
"""Most violations of one check that the report names."""


def known(signed: list[Transaction], history: History) -> list[Transaction]:
    """Returns the transactions that can be judged. If the chain lost blocks, the history may not contain a dispute. Then votes in
    this dispute are left out."""
    opened = {each.values["id"] for each in history.of("Disputes.DisputeOpened")}
    return signed if history.is_whole else [each for each in signed if _dispute_of(each) in {*opened, None}]


def _dispute_of(sent: Transaction) -> Any:
    if sent.name not in ("Rounds.commit", "Rounds.reveal"):
        return None
    return sent.values["id"] if sent.name == "Rounds.commit" else sent.values["vote"]["dispute"]


class Judgement:
    """All checks of one run."""

    def __init__(self, campaign: Campaign, built: Built, history: History) -> None:
        self._campaign = campaign
        self._history = history
        self._accounts = {name: account.lower() for name, account in built.accounts.items()}
        network = campaign.network
        self.receipts = anchored(network.site.da_url, built.network, history)
        self.planted = planted(network.planted, self.receipts)
        self.signed = known(handed_in(network.record, built.network), history)
        record = campaign.record
        self.overloads = oracle.overloads(record.loads, len(os.sched_getaffinity(0)), SAMPLE_S)
        disturbed = oracle.Disturbances([*campaign.injector.incidents, *self.overloads], record.when, record.seen)
        self.frauds = oracle.fates_of_frauds(history, self.receipts, self.planted, disturbed)
        self.duties = oracle.duties(history, {account: name for name, account in self._accounts.items()}, disturbed)
        self.lives = flatness.lives(record.samples)
        self.growth = flatness.growth(record.sizes)

    def violations(self) -> dict[str, list[str]]:
        """Returns the violations, by check."""
        campaign, history = self._campaign, self._history
        ended = [each.end for each in campaign.injector.incidents if each.kind in KINDS and KINDS[each.kind].ends_process]
        ends = oracle.unexpected_ends(campaign.record.ends, campaign.injector.incidents)
        paid = {each.values["id"] for each in history.of("Settlement.Paid")}
        waiting = {each.values["id"] for each in history.of("Disputes.DisputeOpened")} - paid
        found = {
            "double votes": oracle.double_votes(self.signed, history),
            "false challenges": self._false_challenges("watchtower"),
            "frauds that got away": list(self.frauds.violations),
            "missed duties that were possible": list(self.duties.violations),
            "money": oracle.money(history),
            "processes": [*campaign.injector.violations, *ends],
            "memory and descriptors": [
                *(wrong for life in self.lives for wrong in life.wrong()),
                *flatness.unwatched(campaign.record.samples, max(ended, default=0.0)),
            ],
            "databases": [f"{name} grows {ratio} times as fast per receipt" for name, ratio in self.growth.items()
                          if ratio > flatness.GROWTH],
            "emptiness": oracle.emptiness(
                len(self.receipts), lines_of(campaign.network.planted), sum(campaign.injector.injected.values())
            ),
            "end": [f"dispute {each.hex()[:8]} did not end in {LONGEST_DRAIN_S:.0f} s" for each in waiting],
        }  # fmt: skip
        return {name: lines[:LINES_KEPT] for name, lines in found.items()}

    def figures(self) -> dict[str, Any]:
        """Returns what happened in the run, in numbers."""
        history, traffic = self._history, self._campaign.traffic
        verdicts = Counter(Verdict(each.values["verdict"]).name for each in history.of("Disputes.Finalized"))
        return {
            "receipts": len(self.receipts),
            "batches": len(history.of("ReceiptAnchor.BatchAnchored")),
            "blocks": len(history.times),
            "answers": dict(traffic.answers),
            "requests_refused_or_lost": dict(traffic.failures),
            "frauds": {"planted": lines_of(self._campaign.network.planted), **_counts(self.frauds)},
            "audits_posted": len(history.of("Audits.AuditPosted")),
            "disputes": {"opened": len(history.of("Disputes.DisputeOpened")), "ended": dict(verdicts)},
            "votes": {"committed": len(history.of("Rounds.Committed")), "revealed": len(history.of("Rounds.Revealed"))},
            "rounds": self._rounds(),
            "seats": _counts(self.duties),
            "transactions_handed_in": len(self.signed),
            "control": {"disputes_of_honest_receipts_by_the_frivolous_challenger": len(self._false_challenges("challenger"))},
            **self._machine(),
        }

    def _rounds(self) -> dict[str, int]:
        """Returns the numbers of rounds with a certificate, with single votes only, and with a commit root."""

        def named(name: str) -> set[tuple[bytes, int]]:
            return {(each.values["id"], each.values["round"]) for each in self._history.of(f"Rounds.{name}")}

        certified = named("Certified")
        return {
            "by certificate": len(certified), "by single votes": len(named("Revealed") - certified),
            "with one root of commitments": len(named("CommitRootPosted")),
        }  # fmt: skip

    def _machine(self) -> dict[str, Any]:
        """Returns the figures of faults and processes."""
        injected, record = self._campaign.injector.injected, self._campaign.record
        return {
            "kills": sum(count for kind, count in injected.items() if kind.startswith("kill-")),
            "faults": dict(sorted(injected.items())),
            "not_injected": sorted(set(KINDS) - set(injected)),
            "requests_that_met_a_fault": self._campaign.network.met(),
            "ends_of_processes": dict(Counter(f"{each.name}: {each.code}" for each in record.ends)),
            "lives_judged": flatness.as_rows(self.lives),
            "database_growth": self.growth,
            "load_mean": round(sum(load for _, load in record.loads) / max(len(record.loads), 1), 1),
            "overloaded_share": round(len(self.overloads) / max(len(record.loads), 1), 2),
        }

    def _false_challenges(self, opener: str) -> list[str]:
        return oracle.false_challenges(self._history, self.receipts, self.planted, {self._accounts[opener]})


def anchored(da_url: str, network: Network, history: History) -> dict[bytes, Receipt]:
    """Returns all anchored receipts, from the public lists of the batches. The lists are read from the store itself, not through
    the proxy."""
    found = {}
    with httpx2.Client(timeout=DA_TIMEOUT_S) as http:
        for each in history.of("ReceiptAnchor.BatchAnchored"):
            certificate = bytes(each.values["header"]["locator"]).decode().rpartition(":")[2]
            answer = http.get(f"{da_url}/get/{certificate}", params={"commitment_mode": "standard"})
            for entry in decode(ReceiptList, answer.raise_for_status().content).entries:
                if isinstance(entry, SignedReceipt):
                    receipt = entry.receipt
                    name, end = bytes(receipt_id(network.anchor_domain, receipt)), each.time + PARAMS.times.window
                    batch = each.values["batchId"]
                    found[name] = Receipt(name, receipt.operator, batch, receipt.tokens_hash, receipt.out_hash, end)
    return found


def planted(path: Path, receipts: Mapping[bytes, Receipt]) -> set[bytes]:
    """Returns the ids of anchored receipts that are frauds. A fraud is recognised by both hashes that its operator signed."""
    if not path.exists():
        return set()
    made = {
        (bytes.fromhex(line["tokens"]), bytes.fromhex(line["out"])) for line in map(json.loads, path.read_text().splitlines())
    }
    return {name for name, receipt in receipts.items() if (receipt.tokens, receipt.out) in made}


def lines_of(path: Path) -> int:
    """Returns the number of lines of a file; 0 if there is no such file."""
    return len(path.read_text().splitlines()) if path.exists() else 0


def _counts(found: oracle.FraudFates | oracle.Duties) -> dict[str, int]:
    return {name: value for name, value in asdict(found).items() if name != "violations"}


ROWS: Mapping[str, Callable[[Mapping[str, Any]], object]] = {
    "date, seed, seconds of traffic and faults": lambda r: f"{r['machine']['date']}, {r['seed']}, {r['seconds']}",
    "mean load of two cores; share of the time above the bound": lambda r: f"{r['load_mean']}; {r['overloaded_share']}",
    "receipts; audits posted": lambda r: f"{r['receipts']}; {r['audits_posted']}",
    "frauds planted": lambda r: r["frauds"]["planted"],
    "of these OVERTURNED; not audited in time; undecided by faults": lambda r: "; ".join(
        str(r["frauds"][name]) for name in ("overturned", "unnoticed", "undecided")
    ),
    "disputes ended": lambda r: ", ".join(f"{count} {name}" for name, count in sorted(r["disputes"]["ended"].items())),
    "members of rounds; without a vote; of these excused": lambda r: "; ".join(
        str(r["seats"][name]) for name in ("members", "missed", "excused")
    ),
    "commitments; reveals; transactions handed in": lambda r: "; ".join(
        map(str, (r["votes"]["committed"], r["votes"]["revealed"], r["transactions_handed_in"]))
    ),
    "rounds by certificate; by single votes": lambda r: f"{r['rounds']['by certificate']}; {r['rounds']['by single votes']}",
    "faults; of these SIGKILL": lambda r: f"{sum(r['faults'].values())}; {r['kills']}",
    "kinds of faults that were not injected": lambda r: ", ".join(r["not_injected"]) or "none",
    "requests that met a fault of the proxy": lambda r: sum(r["requests_that_met_a_fault"].values()),
    "lives judged; largest slope of memory, MiB an hour": lambda r: "; ".join(
        map(str, (len(r["lives_judged"]), max((each["rss_mib_per_hour"] or 0.0 for each in r["lives_judged"]), default="none")))
    ),
    "violations": lambda r: sum(map(len, r["violations"].values())),
}
"""Rows of the table in `docs/evidence/soak.md`, each with the function that makes its cells."""


def table(found: Mapping[str, Mapping[str, Any]]) -> str:
    """Returns the committed figures as a table with one column for each database."""
    lines = [f"| figure | {' | '.join(found)} |", "|---|" + "---|" * len(found)]
    lines += [f"| {name} | {' | '.join(str(cell(each)) for each in found.values())} |" for name, cell in ROWS.items()]
    return "\n".join(lines) + "\n"
