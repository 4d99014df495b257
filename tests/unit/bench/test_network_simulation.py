"""The simulation of a network counts what nodes read of the chain, and what breaks first follows from its figures."""

from bench.network_simulation import first_limit, measure_reads, needs, reads_of_roles

RATE = {"rate_bps": 30, "audits_a_verifier_and_day": 2900, "audit_posts_a_second": 30.0, "enclaves_a_verifier": 0.1}
READS = {
    "verifier": {"a_block": 6.0, "a_batch": 2.0, "an_own_audit": 4.0},
    "watchtower": {"a_block": 9.0, "a_batch": 1.0, "a_poster": 1.0},
}  # fmt: skip


def test_reads_of_whole_nodes_are_counted_by_cause() -> None:
    found = measure_reads(receipts=2, posters=3)
    assert found["verifier"]["a_block"] >= 4, "snapshot, openings of disputes, demands, new batches"
    assert found["watchtower"]["a_block"] > found["verifier"]["a_block"]
    assert 2 <= found["verifier"]["a_batch"] <= 8, "its key epoch, the beacon, and the own stake"
    assert found["watchtower"]["a_poster"] == 1, "the stake of each verifier that posts about a batch"
    assert found["verifier"]["an_own_audit"] >= 3


def test_first_limit_follows_from_reads_and_posts() -> None:
    found = {"reads": READS, "poll_s": 1.0, "database_gib_a_day": 1.0, "own_draws_core_s_a_day": 2}
    ratios = needs(found, RATE | reads_of_roles(found, RATE))
    assert first_limit(ratios).startswith("transactions") and next(iter(ratios)).startswith("transactions")
    many = {**READS, "watchtower": {**READS["watchtower"], "a_poster": 100.0}}
    ratios = needs({**found, "reads": many}, RATE | reads_of_roles({**found, "reads": many}, RATE))
    assert "one watchtower" in first_limit(ratios)
