"""Computes which limit a network of 1,000 verifiers and a million receipts a day meets first, from parts that are measured.

The draw is the real function, on a sample of receipts. Bytes of the database and reads of the chain are counted at real nodes
with all their parts, over an in-memory chain. Reads are counted while nothing happens, for a batch, for each verifier that posts
about the batch, and for an audit by the node itself. Reads of the transaction sender are counted in its code. Everything else is
arithmetic over these figures.
"""

import math
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, cast

from bytewise.protocol.court.sortition import audit_is_drawn
from bytewise.protocol.decisions.demands import DemandPolicy
from bytewise.protocol.decisions.disputes import MovePolicy
from bytewise.protocol.decisions.strategies import WatchPolicy
from bytewise.protocol.records.statements import AuditOutcome, AuditResult
from bytewise.protocol.units import U8, U64, Address, Digest
from bytewise.service.sections import ChainSettings
from chain.deployment.params import with_changes
from chain.reads.reader import BATCHES_PER_PAGE
from tests.fixtures.builders import word
from tests.fixtures.verifier.audit_node import auditor_of, run_until
from tests.fixtures.verifier.verifier_fixture import ME, NETWORK, PARAMS, WINDOW_S, MemoryChain, VerifierFixture
from verifier.audits.bounties import AGREEMENT, OPENED, STAGE_LIMITS
from verifier.demander import Demander, DemandOptions
from verifier.disputes.equivocation_reporter import EquivocationReporter
from verifier.disputes.watchtower import Watchtower
from verifier.executor import ActionExecutor
from verifier.jobs.enclave_pool import EnclavePool
from verifier.node import Node, NodePart
from verifier.stake import DeferredPayments, RefusedSlashes, StakeRecorder, StaleWeights
from verifier.watch.chain_events import SETTLED_BLOCKS
from verifier.watch.open_windows import DemandIndex, SnapshotPages

VERIFIERS, RECEIPTS_A_DAY = 1_000, 1_000_000
DAY_S, BLOCK_S = 86_400, 12
SAMPLE = 300
"""Number of receipts in the sample, for which the draw of all verifiers is computed."""
MEASURED = 188
"""Receipts of the batch with which a node is measured: the most that the parameters allow."""
PRESET_RATE_BPS = 9_000
"""Audit rate of the preset of `chain deploy`, as chance of a seat in 1/10,000. It is meant for a few verifiers."""
AUDITORS_WANTED = 3
"""Auditors of a receipt in a network whose audit rate fits its size. Two of them must agree for a bounty."""
JOB_S = 2.0
"""Assumed seconds of one re-execution. One core needs about as long for an answer of the demo's model."""
WINDOW_ASSUMED_S = DAY_S
"""Assumed length of a challenge window in seconds. All batches of that time are open at once, and each block's snapshot has them
all."""
POSTERS = 10
"""Verifiers that post about the measured batch."""
OWN_AUDITS = 4
"""Audits by the measured node itself that are followed from the draw to the bounty."""
REQUESTS = {
    # The reader keeps parameters, pools and documents after the first read.
    "params": 0, "pool_of": 0, "environment": 0, "policy_document": 0,
    # One request for a block, and one for a view of a contract.
    "snapshot": 2,
    # The pages of open batches are counted elsewhere (`reads_of_roles`), because their number depends on the length of windows.
    "anchored": 0,
    # Methods of the in-memory chain that read nothing.
    "pass_time": 0, "now": 0,
}  # fmt: skip
"""Requests to a chain node behind one call of a reader method (`chain.reads`). A method that is not listed makes one request."""
PUMP_READS, PUMPS_A_BLOCK = 3, 2
"""Requests of the transaction sender for one look at its outbox, and looks in each block. A look reads the account's nonce, the
head, and the block of the last look. The sender looks before and after the decisions."""
TRANSACTION_READS = 8
"""Requests of the sender for one transaction: state, gas, submission, its receipt and block twice, and its block once when it is
final."""
TRANSACTIONS_OF_AN_AUDIT = 3
"""Transactions of one audit: a post, an opening and a claim."""


def simulate() -> dict[str, Any]:
    """Returns all figures, and the limit that is exceeded most at each audit rate."""
    node, reads, draw_s = measure_node(), measure_reads(), time_of_draw()
    rates = {"preset": PRESET_RATE_BPS, "for_three_auditors": round(10_000 * AUDITORS_WANTED / VERIFIERS)}
    found: dict[str, Any] = {
        "verifiers": VERIFIERS, "receipts_a_day": RECEIPTS_A_DAY, "job_s_assumed": JOB_S,
        "window_s_assumed": WINDOW_ASSUMED_S, "poll_s": ChainSettings.__dataclass_fields__["poll_s"].default, "node": node,
        "reads": reads,
        "draw_microseconds": round(draw_s * 1e6, 2),
        "own_draws_core_s_a_day": round(draw_s * RECEIPTS_A_DAY),
        "all_draws_core_s_a_day": round(draw_s * RECEIPTS_A_DAY * VERIFIERS),
        "database_gib_a_day": round(node["database_bytes_a_receipt"] * RECEIPTS_A_DAY / 2**30, 2),
    }  # fmt: skip
    found["rates"] = {name: duties(rate) for name, rate in rates.items()}
    for each in found["rates"].values():
        each |= reads_of_roles(found, each)
        each["of_the_limit"] = needs(found, each)
    found["breaks_first"] = {name: first_limit(each["of_the_limit"]) for name, each in found["rates"].items()}
    return found


def duties(rate_bps: int) -> dict[str, Any]:
    """Returns the audits of each verifier at this audit rate, from the real draw over a sample. Each verifier has one seat."""
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


def reads_of_roles(found: dict[str, Any], rate: dict[str, Any]) -> dict[str, Any]:
    """Returns the chain reads per second of a verifier that audits and of a watchtower, by cause."""
    reads, batches, audits = found["reads"], RECEIPTS_A_DAY / MEASURED, rate["audits_a_verifier_and_day"]
    drawn = rate["rate_bps"] / 10_000
    pages = math.ceil(batches * WINDOW_ASSUMED_S / DAY_S / BATCHES_PER_PAGE)
    posters = VERIFIERS * (1 - (1 - drawn) ** MEASURED)
    # If nobody else was drawn for a receipt, its auditor looks for another auditor until the time limit of the audit's state.
    waits = (1 - drawn) ** (VERIFIERS - 1) * STAGE_LIMITS[OPENED].seconds / BLOCK_S
    causes = {
        role: {"head": 1 / found["poll_s"], "blocks": (each["a_block"] + pages) / BLOCK_S,
               "batches": batches * each["a_batch"] / DAY_S}
        for role, each in reads.items()
    }  # fmt: skip
    causes["watchtower"]["posts"] = batches * posters * reads["watchtower"]["a_poster"] / DAY_S
    causes["verifier"]["own_audits"] = audits * (reads["verifier"]["an_own_audit"] + waits) / DAY_S
    sent = TRANSACTIONS_OF_AN_AUDIT * audits
    looks = min(1.0, sent * BLOCK_S / DAY_S) * PUMPS_A_BLOCK * PUMP_READS / BLOCK_S
    causes["verifier"]["sender"] = sent * TRANSACTION_READS / DAY_S + looks
    return {
        f"{role}_reads_a_second": {name: round(value, 2) for name, value in {**each, "all": sum(each.values())}.items()}
        for role, each in causes.items()
    }


def needs(found: dict[str, Any], rate: dict[str, Any]) -> dict[str, float]:
    """Returns for each resource the ratio of the need to the limit of an ordinary node or chain, the largest ratio first."""
    ratios = {
        "transactions: audit results on the chain, against 15 a second": rate["audit_posts_a_second"] / 15,
        "re-execution: enclaves of one verifier, against 8": rate["enclaves_a_verifier"] / 8,
        "chain reads of one verifier, against 25 a second of a paid endpoint": rate["verifier_reads_a_second"]["all"] / 25,
        "chain reads of one watchtower, against 25 a second of a paid endpoint": rate["watchtower_reads_a_second"]["all"] / 25,
        "database growth of one verifier, against 10 GiB a day": found["database_gib_a_day"] / 10,
        "draws of one core": found["own_draws_core_s_a_day"] / DAY_S,
    }
    return {name: round(ratio, 2) for name, ratio in sorted(ratios.items(), key=lambda each: -each[1])}


def first_limit(ratios: dict[str, float]) -> str:
    """Returns a sentence about the limit that is exceeded most."""
    name = max(ratios, key=lambda each: ratios[each])
    return f"{name}: {ratios[name]:.2f} of the limit"


def time_of_draw() -> float:
    """Returns the processor seconds of one draw."""
    beacon, receipt, who = word("beacon"), word("receipt"), Address("0x" + "11" * 20)
    start = time.thread_time()
    for _ in range(5_000):
        audit_is_drawn(beacon, receipt, who, 30, 1)
    return (time.thread_time() - start) / 5_000


def measure_node() -> dict[str, Any]:
    """Returns the bytes that one receipt adds to the database of a node that is not drawn to audit it."""
    with tempfile.TemporaryDirectory() as name:
        setup = VerifierFixture(Path(name))
        entries = [setup.signed(seq) for seq in range(1, MEASURED + 1)]
        before = _bytes(setup)
        setup.anchor(*entries, first_seq=U64(1))
        auditor, _ = auditor_of(setup, pool=EnclavePool([]))
        setup.records.step(setup.chain.pass_time(3, blocks=3))
        auditor.step(setup.chain.now())
        assert len(setup.archive.receipts()) == MEASURED
        return {"receipts": MEASURED, "database_bytes_a_receipt": round((_bytes(setup) - before) / MEASURED)}


def measure_reads(receipts: int = MEASURED, posters: int = POSTERS) -> dict[str, dict[str, float]]:
    """Counts chain requests of a verifier's node and of a watchtower's. Returns those of a block in which nothing happens, and
    those that a batch adds over its window. A watchtower also gets a figure for each verifier that posts about the batch, a
    verifier for each audit of its own."""
    found: dict[str, dict[str, float]] = {}
    for role, build in (("verifier", _verifier), ("watchtower", _watchtower)):
        with tempfile.TemporaryDirectory() as name:
            watched = build(Path(name))
            a_block = watched.of_blocks(2 * SETTLED_BLOCKS) / (2 * SETTLED_BLOCKS)
            a_batch = watched.of_batch(receipts, int(role == "watchtower")) - a_block * WATCHED_BLOCKS
            found[role] = {"a_block": round(a_block, 3), "a_batch": round(a_batch, 2)}
            if role == "watchtower":
                posted = watched.of_batch(receipts, posters + 1) - a_block * WATCHED_BLOCKS
                found[role]["a_poster"] = round((posted - a_batch) / posters, 2)
    with tempfile.TemporaryDirectory() as name:
        found["verifier"]["an_own_audit"] = round(_of_own_audits(Path(name), found["verifier"]["a_block"]), 2)
    return found


WATCHED_BLOCKS = SETTLED_BLOCKS
"""Blocks from a batch to some time after its window. They are as many as lie between two reads of values that rarely change."""
assert WATCHED_BLOCKS * BLOCK_S > WINDOW_S


class Watched(NamedTuple):
    """A node with all its parts, and the counter of its chain reads."""

    setup: VerifierFixture
    counting: "Counting"
    node: Node
    pool: EnclavePool

    def of_blocks(self, count: int) -> int:
        """Returns the requests for `count` blocks, with one look at the chain for each. The looks themselves are not included,
        because their number depends on time and not on blocks."""
        self.node.tick()
        before = self.counting.requests()
        for _ in range(count):
            self.setup.chain.pass_time(BLOCK_S)
            self.node.tick()
        return self.counting.requests() - before - count

    def of_batch(self, receipts: int, posters: int) -> int:
        """Anchors a batch and returns the requests from then to the end of its window. `posters` verifiers post about each of its
        receipts."""
        chain, first = self.setup.chain, len(self.setup.archive.receipts()) + 1
        entries = [self.setup.signed(seq) for seq in range(first, first + receipts)]
        self.setup.anchor(*entries, first_seq=U64(first), anchored_at=U64(chain.timestamp), block=U64(chain.number + 1))
        known = {each.receipt_id for each in self.setup.archive.receipts()}
        read = blocks = 0
        new: list[Digest] = []
        while len(new) < receipts:
            # A tick ends after some seconds of fetching and checking, so a large batch needs several ticks.
            read, blocks = read + self.of_blocks(1), blocks + 1
            new = [each.receipt_id for each in self.setup.archive.receipts() if each.receipt_id not in known]
        for number in range(posters):
            who = Address(f"0x{word('poster', number).hex()[:40]}")
            chain.posted += [
                (chain.number + 1, AuditResult(each, who, U8(AuditOutcome.MATCH), word("answer"), U64(chain.timestamp)))
                for each in new
            ]
        return read + self.of_blocks(WATCHED_BLOCKS - blocks)


def _verifier(folder: Path, has_enclave: bool = False) -> Watched:
    """Returns a node of a verifier. With an enclave it audits every receipt. Without an enclave it only draws, at an audit rate
    of 0."""
    setup, counting = _counted(folder)
    counting.inner.parameters = with_changes(PARAMS, {"shares": {"audit_rate_bps": 10_000 * has_enclave}})
    pool = EnclavePool([setup.enclave] if has_enclave else [], monotonic=lambda: setup.chain.timestamp)
    auditor, _ = auditor_of(setup, pool=pool)
    executor = ActionExecutor(setup.sender, setup.journal, auditor, None, None)
    return Watched(setup, counting, _node(setup, executor, [auditor], 0, pool, auditor), pool)


def _watchtower(folder: Path) -> Watched:
    """Returns a node of a watchtower, which checks every receipt and opens disputes and demands."""
    setup, counting = _counted(folder)
    tower = Watchtower(setup.chain, NETWORK, setup.records, ME, WatchPolicy())
    reporter = EquivocationReporter(setup.chain, 1, ME.address, setup.leaves, setup.archive)
    executor = ActionExecutor(setup.sender, setup.journal, None, tower, None, None, reporter)
    pool = EnclavePool([])
    return Watched(setup, counting, _node(setup, executor, [tower, reporter], DemandPolicy().budget_wei, pool, None), pool)


def _counted(folder: Path) -> tuple[VerifierFixture, "Counting"]:
    setup = VerifierFixture(folder)
    counting = Counting(setup.chain)
    setup.chain = cast(MemoryChain, counting)
    setup.reopen()  # from now on the parts of `setup` read through the counter
    return setup, counting


def _node(
    setup: VerifierFixture, executor: ActionExecutor, parts: list[NodePart], demand_budget_wei: int, pool: EnclavePool,
    auditor: Any,
) -> Node:  # fmt: skip
    """Returns the node with these parts and with those that every node has, in the order of `verifier.wiring`."""
    chain, me, moves = setup.chain, ME.address, MovePolicy()
    policy = DemandPolicy(budget_wei=demand_budget_wei)
    book = DemandIndex(chain, 1, policy.budget_s)
    means = DemandOptions(me, policy, moves, disputes=demand_budget_wei > 0)
    common: list[NodePart] = [
        Demander(chain, NETWORK, setup.records, setup.store, means, book),
        StakeRecorder(chain, 1, me),
        StaleWeights(chain, me, moves),
        RefusedSlashes(chain, 1, moves),
        DeferredPayments(chain, 1, me, moves),
    ]
    pages = SnapshotPages(chain, me, 1, book)
    return Node(chain, setup.sender, pages, setup.records, executor, moves, [*parts, *common], pool, auditor)


def _of_own_audits(folder: Path, a_block: float) -> float:
    """Returns the requests for one audit by the node itself, from the draw to the bounty. Each transaction is in the next block,
    and another verifier finds the same."""
    watched = _verifier(folder, has_enclave=True)
    setup, sent, sender = watched.setup, OWN_AUDITS, watched.setup.sender
    watched.of_blocks(1)  # a node reads more in its first tick
    place = {"anchored_at": U64(setup.chain.timestamp), "block": U64(setup.chain.number + 1)}
    setup.anchor(*(setup.signed(seq) for seq in range(1, sent + 1)), first_seq=U64(1), **place)
    setup.chain.pass_time(BLOCK_S, blocks=3)
    first, before = setup.chain.number, watched.counting.calls.copy()
    for verb in ("audit", "opening", "bounty"):
        run_until(setup, watched.node, _are_sent(sender.of, verb, sent), watched.pool)
        if verb == "audit":
            setup.chain.pass_time(WINDOW_S)
            watched.counting.inner.agreed = AGREEMENT
    watched.pool.stop()
    calls = watched.counting.calls - before
    blocks = setup.chain.number - first
    return (_requests(calls - Counter(head=calls["head"])) - a_block * blocks) / sent


def _are_sent(of: Callable[[str], Any], verb: str, count: int) -> Callable[[], bool]:
    return lambda: len(of(verb)) >= count


class Counting:
    """Wrapper of a chain that counts the calls of its methods."""

    def __init__(self, chain: MemoryChain) -> None:
        self.inner = chain
        self.calls: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.inner, name)
        if not callable(found):
            return found

        def counted(*arguments: Any, **named: Any) -> Any:
            self.calls[name] += 1
            return found(*arguments, **named)

        return counted

    def requests(self) -> int:
        """Returns the requests to a chain node behind all calls so far."""
        return _requests(self.calls)


def _requests(calls: Counter[str]) -> int:
    return sum(count * REQUESTS.get(name, 1) for name, count in calls.items())


def _bytes(setup: VerifierFixture) -> int:
    with setup.database.connect() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
        return int(pages * connection.exec_driver_sql("PRAGMA page_size").scalar_one())
