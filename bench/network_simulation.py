"""A network of 1,000 verifiers and a million receipts a day, computed from parts that are measured: what breaks first.

The draw is the real function, on a sample of receipts. Bytes of the database and calls of the chain are counted at a real node's
parts with an in-memory chain. Everything else is arithmetic over these figures.
"""

import os
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from bytewise.protocol.court.sortition import audit_is_drawn
from bytewise.protocol.units import U64, Address
from bytewise.storage.archive import LightAudits
from tests.fixtures.builders import word
from tests.fixtures.verifier.verifier_fixture import ME, NETWORK, VerifierFixture
from verifier.audits.auditor import Auditor
from verifier.jobs.enclave_pool import EnclavePool

VERIFIERS, RECEIPTS_A_DAY = 1_000, 1_000_000
DAY_S = 86_400
SAMPLE = 300
"""Receipts that are drawn for all verifiers."""
MEASURED = 188
"""Receipts of the batch at which a node is measured: the most that parameters allow."""
PRESET_RATE_BPS = 9_000
"""Chance of a seat in the preset of `chain deploy`, meant for a few verifiers."""
AUDITORS_WANTED = 3
"""Auditors of a receipt in a network that sets its rate for its size: two must agree for a bounty."""
JOB_S = 2.0
"""Seconds of one re-execution, as an assumption: an answer of the demo's model takes about as long on one core."""


def simulate() -> dict[str, Any]:
    """All figures, and what breaks first with each rate."""
    node, draw_s = measure_node(), time_of_draw()
    rates = {"preset": PRESET_RATE_BPS, "for_three_auditors": round(10_000 * AUDITORS_WANTED / VERIFIERS)}
    found: dict[str, Any] = {
        "verifiers": VERIFIERS, "receipts_a_day": RECEIPTS_A_DAY, "job_s_assumed": JOB_S, "node": node,
        "draw_microseconds": round(draw_s * 1e6, 2),
        "own_draws_core_s_a_day": round(draw_s * RECEIPTS_A_DAY),
        "all_draws_core_s_a_day": round(draw_s * RECEIPTS_A_DAY * VERIFIERS),
        "chain_reads_a_second": round(node["chain_reads_a_receipt"] * RECEIPTS_A_DAY / DAY_S, 2),
        "database_gib_a_day": round(node["database_bytes_a_receipt"] * RECEIPTS_A_DAY / 2**30, 2),
    }  # fmt: skip
    found["rates"] = {name: duties(rate) for name, rate in rates.items()}
    found["breaks_first"] = {name: first_limit(found, each) for name, each in found["rates"].items()}
    return found


def duties(rate_bps: int) -> dict[str, Any]:
    """Audits of each verifier with this rate, one seat each, from the real draw over a sample."""
    names = [Address(f"0x{word('verifier', number).hex()[:40]}") for number in range(VERIFIERS)]
    audits: Counter[Address] = Counter()
    auditors: list[int] = []
    for number in range(SAMPLE):
        beacon, receipt = word("beacon", number), word("receipt", number)
        drawn = [who for who in names if audit_is_drawn(beacon, receipt, who, rate_bps, 1)]
        audits.update(drawn)
        auditors.append(len(drawn))
    mean = sum(audits.values()) / VERIFIERS / SAMPLE * RECEIPTS_A_DAY
    return {
        "rate_bps": rate_bps, "auditors_of_a_receipt": round(sum(auditors) / SAMPLE, 2),
        "receipts_without_auditor_share": round(sum(each == 0 for each in auditors) / SAMPLE, 4),
        "audits_a_verifier_and_day": round(mean), "enclaves_a_verifier": round(mean * JOB_S / DAY_S, 2),
        "audit_posts_a_second": round(mean * VERIFIERS / DAY_S, 1),
    }  # fmt: skip


def first_limit(found: dict[str, Any], rate: dict[str, Any]) -> str:
    """The limit that is exceeded most, in words. Each ratio is a need over what one ordinary node or chain has."""
    needs = {
        "transactions: audit results on the chain, against 15 a second": rate["audit_posts_a_second"] / 15,
        "re-execution: enclaves of one verifier, against 8": rate["enclaves_a_verifier"] / 8,
        "chain reads of one verifier, against 25 a second of a paid endpoint": found["chain_reads_a_second"] / 25,
        "database growth of one verifier, against 10 GiB a day": found["database_gib_a_day"] / 10,
        "draws of one core": found["own_draws_core_s_a_day"] / DAY_S,
    }
    name, ratio = max(needs.items(), key=lambda each: each[1])
    return f"{name}: {ratio:.2f} of the limit"


def time_of_draw() -> float:
    """Processor seconds of one draw."""
    beacon, receipt, who = word("beacon"), word("receipt"), Address("0x" + "11" * 20)
    start = time.thread_time()
    for _ in range(5_000):
        audit_is_drawn(beacon, receipt, who, 30, 1)
    return (time.thread_time() - start) / 5_000


def measure_node() -> dict[str, Any]:
    """What one receipt costs a node that is drawn for none: bytes in its database, and calls of the chain."""
    with tempfile.TemporaryDirectory() as name:
        setup = VerifierFixture(Path(name))
        entries = [setup.signed(seq) for seq in range(1, MEASURED + 1)]
        before = _bytes(setup)
        setup.anchor(*entries, first_seq=U64(1))
        counting = Counting(setup.chain)
        auditor = Auditor(
            counting, NETWORK, setup.records, LightAudits(setup.database, setup.clock), setup.journal, ME,
            EnclavePool([]), os.urandom, 5,
        )  # fmt: skip
        setup.records.step(setup.chain.pass_time(3, blocks=3))
        auditor.step(setup.chain.now())
        assert len(setup.archive.receipts()) == MEASURED
        grown = _bytes(setup) - before
        reads = {name: round(count / MEASURED, 3) for name, count in sorted(counting.calls.items())}
        return {
            "receipts": MEASURED, "database_bytes_a_receipt": round(grown / MEASURED),
            "port_calls_a_receipt": reads,
            # `params` and `pool_of` come from documents that the reader keeps; these two go to the chain node each time.
            "chain_reads_a_receipt": round(sum(reads.get(each, 0.0) for each in ("stake_at", "block_hash")), 3),
        }  # fmt: skip


class Counting:
    """A chain that counts the calls of its views."""

    def __init__(self, chain: object) -> None:
        self._chain = chain
        self.calls: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._chain, name)
        if callable(found):
            self.calls[name] += 1
        return found


def _bytes(setup: VerifierFixture) -> int:
    with setup.database.connect() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
        return int(pages * connection.exec_driver_sql("PRAGMA page_size").scalar_one())
