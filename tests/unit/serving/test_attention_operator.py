"""A fund's operator as real processes: commit, serve lies by schedule, reveal, and a score that runs what nobody disputed."""

import json
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from bytewise.da.client import DaClient
from bytewise.protocol.attention.schedule import AttentionTerms, FraudKind, FraudSchedule, false_answer
from bytewise.protocol.encoding import decode
from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.records.receipt import ReceiptList, SignedReceipt
from bytewise.protocol.units import U64, U256
from bytewise.service.exit_codes import Exit
from bytewise.service.node_files.attention_folder import AttentionFolder
from bytewise.service.settings import load_settings
from chain.deployment.params import DEVNET
from chain.reads.reader import SnapshotReader
from cli.__main__ import main
from serving.attention import ScheduledAnswers, verify_private
from serving.settings import OperatorSettings
from tests.fixtures.builders import CHAIN_ID, World, word
from tests.fixtures.chain.devnet import VERIFIERS, mine, signer
from tests.fixtures.serving.operator_site import PARAMS, Operator, body, process, running_operator_site, serving

FUND = "serving.attention"
COUNT = 6


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    """A network with one operator, which is not started."""
    with running_operator_site(tmp_path_factory.mktemp("fund")) as made:
        yield made


def command(site: Operator, capsys: pytest.CaptureFixture[str], *words: object, code: Exit = Exit.OK) -> Any:
    """JSON of a verb of `bytewise attention`, or its error as one line."""
    capsys.readouterr()
    shared = ["--network", str(site.folder / "network.json"), "--rpc", site.anvil.url, "--output", "json"]
    ended = main(["attention", *map(str, words), *shared])
    said = capsys.readouterr()
    assert ended == code, said
    return json.loads(said.out) if code is Exit.OK else " ".join(said.err.split())


def ask(site: Operator, count: int, **knobs: Any) -> list[dict[str, Any]]:
    """Whole answers to so many requests."""
    with site.http() as http:
        return [_asked(http, site.url, body(f"Question {i}", **knobs)) for i in range(count)]


def _asked(http: httpx2.Client, url: str, request: dict[str, Any]) -> dict[str, Any]:
    reply = http.post(f"{url}/v1/chat/completions", json=request)
    assert reply.status_code == 200, reply.text
    answer: dict[str, Any] = reply.json()
    return answer


def test_range_is_served_revealed_and_scored_by_running_it_again(
    site: Operator, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, out = tmp_path / "range", tmp_path / "range.reveal.json"
    certificate = site.folder / "tls.pem"
    first = PARAMS.shares.max_batch + 2
    terms = ("--operator", site.account.address, "--certificate", certificate, "--rate", 0.5, "--count", COUNT)
    with serving(site):
        made = command(site, capsys, "commit", site.url, *terms, "--folder", folder, "--first", first)
        assert (made["first"], made["last"], made["carrier_seq"]) == (first, first + COUNT - 1, 1)
        verify_commitment_is_the_only_one(site, capsys, folder, terms, made)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    schedule = AttentionFolder(folder).schedule()
    assert made["tests"] == len(list(schedule.frauds())) and schedule.key.hex() not in json.dumps(made)
    with serving(site, FUND, "--folder", str(folder)):
        # Answers before the range are true, and so are those of one request with several choices that reaches into it.
        ask(site, first - 2 - 3 - 1)
        ask(site, 2, n=3)
        ask(site, COUNT)
        last = first + COUNT - 1
        site.wait_anchored(last)
        early = command(site, capsys, "reveal", "--folder", folder, "--out", out, "--da", site.da_url, code=Exit.UNAVAILABLE)
        assert "the end of all windows" in early
    mine(site.anvil, DEVNET.times.window + 5)
    shown = command(site, capsys, "reveal", "--folder", folder, "--out", out, "--da", site.da_url)
    assert shown["tests"] == shown["openings"] == made["tests"]
    unproven = command(site, capsys, "score", out)
    assert unproven["ranges"][0]["unproven"] == made["tests"] and unproven["accounts"] == []
    found = command(site, capsys, "score", out, "--artifact", site.artifact)
    (row,) = found["ranges"]
    assert (row["tests"], row["proven"], row["answered_truly"], row["real_frauds"]) == (made["tests"], made["tests"], 0, [])
    # Nobody audits in this network: that shows nothing about those who were drawn, and no watchtower could know.
    assert {each["account"] for each in found["accounts"]} <= {each.address for each in VERIFIERS}
    assert all(each["caught_bps"] is None and each["audits"]["unavailable"] > 0 for each in found["accounts"])
    verify_hidden(site, schedule)
    log = (site.folder / f"{FUND}.log").read_text()
    assert schedule.key.hex() not in log and not any(str(kind.value) in log for kind in FraudKind if kind is not FraudKind.TOKEN)


def verify_commitment_is_the_only_one(
    site: Operator, capsys: pytest.CaptureFixture[str], folder: Path, terms: tuple[object, ...], made: dict[str, Any]
) -> None:
    """An interrupted command goes on with the same schedule; the account gets no second one."""

    def commit(place: Path, *more: object, code: Exit = Exit.USAGE) -> Any:
        return command(site, capsys, "commit", site.url, *terms, "--folder", place, *more, code=code)

    assert f"name {PARAMS.shares.max_batch + 1} or more" in commit(folder, "--first", 3)
    assert "has a commitment already" in commit(folder)
    AttentionFolder(folder).carrier.unlink()
    assert "other terms" in commit(folder, "--count", COUNT + 1)
    assert commit(folder, "--first", made["first"], code=Exit.OK) == made
    site.wait_anchored(1)
    assert "has anchored 1 receipts: a range wants a new account" in commit(folder.parent / "second")


def verify_hidden(site: Operator, schedule: FraudSchedule) -> None:
    """Nothing that others see has the commitment, and false receipts have every public field that tells true ones apart."""
    traces = (schedule.commitment, schedule.key, schedule.commitment.hex().encode(), b"attention")
    blobs = [path.read_bytes() for path in (site.folder / "blobs").rglob("*") if path.is_file()]
    assert len(blobs) > PARAMS.shares.max_batch and not any(trace in blob for blob in blobs for trace in traces)
    reader = SnapshotReader(site.anvil.client, site.network)
    with DaClient((site.da_url,), 10.0) as da:
        headers = reader.batches(site.network.deploy_block, reader.head())
        lists = [decode(ReceiptList, da.get(header.locator)) for header in headers]
    receipts = [entry.receipt for listed in lists for entry in listed.entries if isinstance(entry, SignedReceipt)]
    false = {int(receipt.seq): receipt for receipt in receipts if schedule.fraud_at(receipt.seq) is not None}
    fields = ("operator", "model_id", "environment", "gpu_arch", "key_epoch", "mode", "client_mode", "enclave_key", "chain_id")
    assert false and len({tuple(getattr(receipt, name) for name in fields) for receipt in receipts}) == 1


def test_fund_of_another_operator_does_not_start(site: Operator, tmp_path: Path) -> None:
    terms = AttentionTerms(U256(CHAIN_ID), signer(2).address, U64(9), U64(20), 1000)
    AttentionFolder(tmp_path / "range").create(FraudSchedule(terms, word("key")))
    arguments = ("--config", str(site.folder / "operator.toml"), "--folder", str(tmp_path / "range"))
    with process(site.folder, FUND, *arguments, exit_code=Exit.USAGE) as child:
        assert child.wait(60) == Exit.USAGE
    assert "its schedule is of" in site.log(FUND)


def test_fund_that_others_can_reach_is_refused(site: Operator) -> None:
    settings = load_settings(OperatorSettings, site.folder / "operator.toml")
    verify_private(settings)
    for host in ("0.0.0.0", "::", "192.0.2.7", "operator.example"):
        text = (site.folder / "operator.toml").read_text().replace("[listen]", f'[listen]\nhost = "{host}"')
        (site.folder / "open.toml").write_text(text)
        with pytest.raises(ConfigurationError, match="answers its own questions only"):
            verify_private(load_settings(OperatorSettings, site.folder / "open.toml"))


def test_answer_is_false_exactly_by_the_schedule_and_its_opening_is_kept(tmp_path: Path) -> None:
    world, folder = World(), AttentionFolder(tmp_path / "range")
    terms = AttentionTerms(U256(CHAIN_ID), world.operator.address, U64(5), U64(60), 300_000)
    folder.create(FraudSchedule(terms, word("key")))
    answers = ScheduledAnswers(folder.schedule(), folder)
    for seq in range(1, 70):
        request = world.request(seq)
        true, kind = world.engine.generate(request), answers.schedule.fraud_at(seq)
        given = answers.finish(seq, request, true)
        opening = folder.opening(seq)
        if kind is None:
            assert given is true and opening is None
        else:
            assert given == false_answer(kind, request, true) and opening is not None
            assert (opening.request, opening.output) == (request, given.output)


def test_folder_that_others_can_read_or_that_exists_is_refused(tmp_path: Path) -> None:
    folder = AttentionFolder(tmp_path / "range")
    terms = AttentionTerms(U256(CHAIN_ID), signer(1).address, U64(9), U64(20), 1000)
    folder.create(FraudSchedule(terms, word("key")))
    with pytest.raises(ConfigurationError, match="new folder"):
        folder.create(FraudSchedule(terms, word("key")))
    (folder.path / "schedule.json").chmod(0o644)
    with pytest.raises(ConfigurationError, match="only the owner"):
        folder.schedule()
    (folder.path / "schedule.json").chmod(0o600)
    (folder.path / "schedule.json").write_text("{}")
    with pytest.raises(ConfigurationError, match="is no schedule"):
        folder.schedule()
    with pytest.raises(ConfigurationError):
        AttentionFolder(tmp_path / "none").schedule()
