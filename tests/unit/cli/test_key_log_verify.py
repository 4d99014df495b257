"""`bytewise key log verify` where something fails: what is found at one shard is told, whatever happens to the others."""

import contextlib
import json
from dataclasses import replace

import pytest
from sqlalchemy import delete, update

from bytewise.protocol.address_book import CodeHash
from bytewise.protocol.decisions.snapshot import Dispute
from bytewise.protocol.errors.actors import TryAgain
from bytewise.protocol.units import ZERO_DIGEST, Digest, hex0x
from bytewise.service.exit_codes import Exit
from bytewise.storage.tables import ReleaseRow
from chain.client.address_book import contracts, write_network
from cli.key import log_audit
from cli.key.log_audit import ReleaseJudge, worst_exit
from kms.release_log import copies
from kms.release_log.copies import ReleaseLogCopy
from kms.release_log.entitlement import AuditBlock, judge_log
from tests.fixtures.cli.log_site import LogSite, site
from tests.fixtures.kms.log_court import Court
from tests.fixtures.kms.memory_chain import NOW
from tests.fixtures.kms.trickling_shard import trickling
from tests.fixtures.verifier.verifier_fixture import NETWORK

__all__ = ["site"]

NO_NODE = "http://127.0.0.1:9"


def with_code(site: LogSite) -> None:
    """The book says which code each contract has, so that a node is asked."""
    code = tuple(CodeHash(each, ZERO_DIGEST) for each in contracts(NETWORK).values())
    write_network(site.folder / "network.json", replace(NETWORK, epochs=(site.world.document,), code=code))


def asked(monkeypatch: pytest.MonkeyPatch, court: Court, seen: int = NOW) -> None:
    """From now on this chain answers whom `--rpc` names."""
    answers = ReleaseJudge(lambda entries: judge_log(entries, court, AuditBlock(100, seen, seen)))
    monkeypatch.setattr(log_audit, "judge_of", lambda *_: answers)


def cut(site: LogSite) -> None:
    """Two receipts are opened and copied; then shard 1 cuts its log off."""
    for _ in range(2):
        site.opened()
    assert site.log("verify") == Exit.OK
    site.change(1, delete(ReleaseRow).where(ReleaseRow.number == 1))
    site.said()


@pytest.mark.e2e
def test_truncated_log_is_reported_without_a_node(site: LogSite) -> None:
    with site.world.serving(*site.shards.items()):
        cut(site)
        assert site.log("verify", "--rpc", NO_NODE) == Exit.MISMATCH
        said = site.said()
        assert "ends before record 1" in said and "no right was judged: [R-55] network.json: has no code hash" in said
        assert "shard 2 has 2 releases that were not judged: the chain could not be asked" in said
        with_code(site)
        assert site.log("verify", "--rpc", NO_NODE) == Exit.MISMATCH
        said = site.said()
        assert "ends before record 1" in said and "no right was judged: [R-52] chain" in said
        assert "shard 2 has 2 releases that were not judged: the node did not answer" in said
        site.change(1, delete(ReleaseRow))
        (site.folder / "logs" / f"releases-1-{site.shards[1].info().shard}.jsonl").unlink()
        assert site.log("verify", "--rpc", NO_NODE, "--output", "json") == Exit.UNAVAILABLE
    rows = json.loads(site.said().partition("\n]")[0] + "]")
    assert [(each["records"], each["unjudged"]) for each in rows] == [(0, {}), (2, {"the node did not answer": 2}), (0, {})]


@pytest.mark.e2e
def test_truncated_log_is_reported_when_the_node_becomes_unavailable(site: LogSite, monkeypatch: pytest.MonkeyPatch) -> None:
    class Away(Court):
        def dispute(self, dispute: Digest, block: int, receipt_id: Digest) -> Dispute | None:
            raise TryAgain("chain", "gone")

    with site.world.serving(*site.shards.items()):
        cut(site)
        assert site.log("verify", "--rpc", NO_NODE, "--rpc", NO_NODE) == Exit.USAGE
        assert "ends before" not in site.said(), "one node that is named twice: nothing is fetched"
        asked(monkeypatch, Away(site.world.chain))
        assert site.log("verify", "--rpc", NO_NODE) == Exit.MISMATCH
    said = site.said()
    assert "ends before record 1" in said and "shard 2 was not judged to the end: [R-52] chain is unavailable: gone" in said


@pytest.mark.e2e
def test_altered_copy_does_not_stop_other_shards(site: LogSite) -> None:
    with site.world.serving(*site.shards.items()):
        cut(site)
        copy = site.folder / "logs" / f"releases-1-{site.shards[2].info().shard}.jsonl"
        kept = copy.read_bytes()
        copy.write_bytes(b"{}\n")
        assert site.log("verify") == Exit.MISMATCH
        said = site.said()
        assert "ends before record 1" in said and f"shard 2 could not be looked at: [R-55] {copy.name}: was altered" in said
        assert copy.read_bytes() == b"{}\n"
        site.change(1, delete(ReleaseRow))
        (site.folder / "logs" / f"releases-1-{site.shards[1].info().shard}.jsonl").unlink()
        assert site.log("verify") == Exit.USAGE
        copy.unlink()
        copy.mkdir()
        assert site.log("verify") == Exit.USAGE and "shard 2 could not be looked at: " in site.said()
        copy.rmdir()
        copy.write_bytes(kept)
        assert site.log("verify") == Exit.OK


@pytest.mark.e2e
def test_altered_mark_hides_no_wrong_release(site: LogSite, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a shard that is away: with its next answer the mark is written again."""
    with site.world.serving(*site.shards.items()):
        site.opened()
        assert site.log("verify") == Exit.OK
    (mark,) = (site.folder / "logs").glob(f"*{site.shards[1].info().shard}.seen")
    mark.write_text("x")
    assert site.log("verify") == Exit.USAGE
    assert f"shard 1 could not be looked at: [R-55] {mark.name}" in site.said()
    site.world.chain.disputes.clear()
    asked(monkeypatch, Court(site.world.chain))
    assert site.log("verify", "--rpc", NO_NODE) == Exit.MISMATCH
    assert "shard 1: record 0 released without entitlement: there is no dispute" in site.said()


@pytest.mark.e2e
def test_log_with_unjudged_releases_is_not_called_complete(site: LogSite, monkeypatch: pytest.MonkeyPatch) -> None:
    """Control: with a ticket each of them is a right, and nothing is counted."""
    with site.world.serving(*site.shards.items()):
        site.opened()
        asked(monkeypatch, Court(site.world.chain))
        assert site.log("verify", "--rpc", NO_NODE) == Exit.OK
        assert "not judged" not in site.said()
        asked(monkeypatch, Court(site.world.chain), NOW - 1)
        assert site.log("verify", "--rpc", NO_NODE) == Exit.UNAVAILABLE
        assert "shard 1 has 1 releases that were not judged: the node does not have their block yet" in site.said()
        for copy in (site.folder / "logs").glob("*.jsonl"):
            copy.unlink()
        asked(monkeypatch, Court(site.world.chain))
        site.change(1, update(ReleaseRow).values(signed_ticket=None, release_evidence=None))
        assert site.log("verify", "--rpc", NO_NODE) == Exit.INCONCLUSIVE
        assert "shard 1 has 1 releases that were not judged: the shard stored no ticket" in site.said()
        monkeypatch.undo()
        assert site.log("verify") == Exit.OK, "nobody asked the chain"


def test_worst_of_several_exit_codes_is_returned() -> None:
    order = (Exit.MISMATCH, Exit.USAGE, Exit.UNAVAILABLE, Exit.INCONCLUSIVE, Exit.OK)
    for place, code in enumerate(order):
        assert worst_exit(reversed(order[place:])) is code
    assert worst_exit(()) is Exit.OK


@pytest.mark.e2e
def test_endless_answer_of_one_shard_hides_nothing_of_another(site: LogSite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_audit, "TIMEOUT_S", 1.0)
    with site.world.serving(*site.shards.items()):
        cut(site)
    slow = site.world.settings.shards[1].folder, site.world.ports[1]
    with site.world.serving((1, site.shards[1])), trickling(*slow):
        assert site.log("verify") == Exit.MISMATCH
    said = site.said()
    assert "ends before record 1" in said and "shard 2 shows no log: [R-52]" in said and "looked at shard 1, 0x" in said


@pytest.mark.e2e
def test_log_not_read_to_its_end_reports_no_receipt_as_not_opened(site: LogSite, monkeypatch: pytest.MonkeyPatch) -> None:
    """Control: the next run reads the rest, and the receipt on it was opened."""
    monkeypatch.setattr(copies, "MAX_PAGES", 1)
    with site.world.serving(*site.shards.items()):
        cases = [site.opened() for _ in range(2)]
    book = replace(NETWORK, epochs=(site.world.document,))
    for shard in site.shards.values():
        copy = ReleaseLogCopy(site.folder / "logs", 1, shard.info().shard)
        with contextlib.suppress(TryAgain):
            copy.extend(lambda first, shard=shard: shard.log(0).entries[first : first + 1], book.epochs_domain)  # type: ignore[misc]
    assert site.log("show", hex0x(cases[1].id)) == Exit.INCONCLUSIVE
    assert "cannot be told" in site.said()
    monkeypatch.undo()
    with site.world.serving(*site.shards.items()):
        assert site.log("verify") == Exit.OK
    assert site.log("show", hex0x(cases[1].id)) == Exit.OK
