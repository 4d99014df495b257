"""`bytewise capsule` and `bytewise verify FILE`, from a real dispute to a file that is verified after its chain is gone."""

import dataclasses
import json
import tracemalloc
from pathlib import Path
from typing import NamedTuple

import pytest
from eth_account import Account

from bytewise.crypto.checkpoint import SignedNote
from bytewise.protocol.encoding import encode
from bytewise.protocol.units import hex0x
from bytewise.service.secret import write_secret
from chain.client.address_book import write_network
from cli.__main__ import main
from tests.fixtures.capsule.good_capsules import JOURNALS, SECRETS, SEER, exported, made_capsule, upheld
from tests.fixtures.capsule.liars import liars
from tests.fixtures.chain.anvil import running_anvil
from tests.fixtures.chain.devnet import signer, word
from tests.fixtures.chain.lying_endpoints import fronts, lies
from tests.fixtures.court.session import DisputeFixture

NOWHERE = "http://127.0.0.1:9"


class Site(NamedTuple):
    """What a user has after the network is gone."""

    capsule: Path
    book: Path
    block_hash: str
    witness: str


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """A capsule that the command made by the id of a dispute, without DA, and a witness signed. Nothing of the network runs."""
    folder = tmp_path_factory.mktemp("capsule")
    book, file, key = folder / "network.json", folder / "verdict.capsule.json", folder / "witness.key"
    with running_anvil() as anvil:
        court = DisputeFixture(anvil, folder, window=600, commit_time=300, reveal_time=300, rerun_time=900)
        write_network(book, court.network)
        where = ["--network", str(book), "--rpc", anvil.url]
        upheld(court)
        beginning = hex0x(court.dispute)[:14]
        assert main(["capsule", "make", beginning, *where, "--da", NOWHERE, "--out", str(file)]) == 5, "not finalized yet"
        anvil.mine(70)
        journal, point = _journal_files(folder, court)
        recorded = ["--journal", str(journal), "--checkpoint", str(point)]
        assert main(["capsule", "make", beginning, *where, "--da", NOWHERE, "--out", str(file), *recorded[2:]]) == 64
        assert main(["capsule", "make", beginning, *where, "--da", NOWHERE, "--out", str(file), *recorded]) == 0
        assert main(["capsule", "make", beginning, *where, "--da", NOWHERE, "--out", str(file)]) == 64, "never overwritten"
        with fronts(anvil, 1) as [front]:
            front.change = lies("eth_getTransactionByHash", lambda _: None)
            lacking = ["--network", str(book), "--rpc", front.url, "--da", NOWHERE, "--out", str(folder / "other.json")]
            assert main(["capsule", "make", beginning, *lacking]) == 5, "neither the node nor DA has the receipt"
        assert main(["capsule", "make", "0x" + "77" * 32, *where, "--da", NOWHERE]) in (4, 5)
        assert main(["capsule", "make", beginning, *where, "--da", NOWHERE, "--finality", "final"]) == 64
        write_secret(key, json.dumps(Account.encrypt(signer(15).secret, "open sesame", iterations=1024)).encode())
        write_secret(folder / "password", b"open sesame")
        signs = ["capsule", "witness", str(file), "--key", str(key), "--rpc", anvil.url]
        assert main(signs) == 64, "a keystore, and no terminal"
        assert main([*signs, "--password-file", str(folder / "password")]) == 0
        block_hash = json.loads(file.read_text())["claim"]["block_hash"]
    return Site(file, book, block_hash, signer(15).address)


def _journal_files(folder: Path, court: DisputeFixture) -> tuple[Path, Path]:
    """An export of a member's journal as the node writes it, and its checkpoint as a witness signed it."""
    found = exported(JOURNALS[1], SECRETS[1], [("tick", word("tick")), ("vote.protected", court.dispute)])
    note = found.checkpoint.note
    export, point = folder / "journal.json", folder / "witnessed.checkpoint"
    alone = SignedNote(note.text, note.signatures[:2]).encode()
    export.write_bytes(encode(dataclasses.replace(found.export, checkpoint=alone)))
    point.write_text(note.encode())
    return export, point


def test_journal_of_a_member_is_in_the_capsule(site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    named = ["capsule", "verify", str(site.capsule), "--network", str(site.book), "--block-hash", site.block_hash]
    keys = ["--journal-keys", hex0x(JOURNALS[1].public.fingerprint)]
    for more, result, told in (
        ([], "UNVERIFIABLE", "did not name the keys"), (keys, "PASS", "1 entries of 1 journals"),
        ([*keys, "--journal-witness", SEER.text], "PASS", "a witness signed each"),
    ):  # fmt: skip
        assert main([*named, *more, "--output", "json"]) == 0
        check = json.loads(capsys.readouterr().out)["checks"][-1]
        assert (check["group"], check["result"]) == ("journals", result) and told in check["detail"]
    assert main([*named, "--journal-witness", "example.org/w+00"]) == 64
    assert main([*named, "--journal-keys", "0x12"]) == 64
    page = tmp_path / "page.html"
    assert main(["capsule", "print", str(site.capsule), "--out", str(page), *keys]) == 0
    assert "vote.protected" in page.read_text() and "<h2>Journals</h2>" in page.read_text()


def test_capsule_is_valid_without_its_network(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    named = ["capsule", "verify", str(site.capsule), "--network", str(site.book)]
    for more in (["--block-hash", site.block_hash], ["--witness", site.witness]):
        assert main([*named, *more, "--output", "json"]) == 0
        told = json.loads(capsys.readouterr().out)
        assert told["result"] == "VALID" and told["claim"]["verdict"] == "upheld" and told["conditions"] == []
        assert len(told["preflight"]["points"]) == 11
        assert told["preflight"]["points"]["attested"] == "fail", "the quotes of this test state nothing"
        assert told["preflight"]["points"]["policy"] == "pass"
    assert main(named) == 3
    told_people = " ".join(capsys.readouterr().out.split())
    assert "UNVERIFIABLE" in told_people and f"has the hash {site.block_hash}" in told_people and "UPHELD" in told_people
    assert main([*named, "--block-hash", "0x" + "11" * 32]) == 2
    assert "header.declaredOther" in " ".join(capsys.readouterr().out.split())
    assert main([*named, "--witness", site.witness, "--witnesses", "2"]) == 64


def test_verify_takes_a_capsule_and_asks_nobody(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    where = ["--rpc", NOWHERE, "--da", NOWHERE]
    assert main(["verify", str(site.capsule), "--network", str(site.book), *where]) == 3
    assert "It holds if block" in " ".join(capsys.readouterr().out.split())
    assert main(["verify", str(site.capsule), "--network", "none.json", *where]) == 3
    assert "It holds if you mean the deployment" in " ".join(capsys.readouterr().out.split())
    assert main(["verify", str(site.capsule), "--opening", str(site.book), *where]) == 64


def test_answers_of_a_beacon_node_are_refused_for_a_development_chain(
    site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answer, text, deep = tmp_path / "answer.json", tmp_path / "answer.txt", tmp_path / "deep.json"
    answer.write_text("{}")
    text.write_text("<html>")
    deep.write_text('{"data":' * 200_000)
    command = ["capsule", "finality", str(site.capsule), "--bootstrap"]
    for files, told in (
        ([str(text), "--finality", str(answer)], "answer.txt: is no JSON"),
        ([str(deep), "--finality", str(answer)], "deep.json: is no JSON"),
        ([str(tmp_path / "none"), "--finality", str(answer)], "none: "),
        ([str(answer), "--finality", str(answer)], "KeyError: 'header'"),
        ([str(answer), "--finality", str(answer), "--updates", str(answer)], "--updates: is no list"),
        ([str(answer), "--finality", str(answer), "--out", str(text)], "exists"),
    ):
        assert main([*command, *files]) == 64
        printed = capsys.readouterr()
        assert told in printed.err and "Traceback" not in printed.err and printed.out == ""
    named = ["capsule", "verify", str(site.capsule), "--network", str(site.book), "--beacon-checkpoint"]
    assert main([*named, "0x" + "11" * 32]) == 3
    assert "No sync committee shows block" in " ".join(capsys.readouterr().out.split())
    assert main([*named, "0x11"]) == 64


def test_show_fits_on_one_screen(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["capsule", "show", str(site.capsule), "--network", str(site.book), "--block-hash", site.block_hash]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 24 and any(line == "VALID" for line in lines)
    assert any("UPHELD: a committee of 15 seats" in line for line in lines) and any("SIMULATED" in line for line in lines)


def test_printed_page_stands_alone(site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "verdict.html"
    named = ["capsule", "print", str(site.capsule), "--network", str(site.book), "--block-hash", site.block_hash]
    assert main([*named, "--out", str(page)]) == 0
    text = page.read_text()
    assert "default-src 'none'" in text and "<script" not in text and "http" not in text.replace("http-equiv", "")
    assert "VALID" in text and text.count("capsule SHA-256") >= 4 and "SIMULATED" in text and "<caption>Round 1" in text
    assert main([*named, "--out", str(page)]) == 64


BAD = ("file is cut", "doubled key", "nine megabytes", "nesting of 100,000 lists", "other version", "file is empty")


def test_each_bad_file_is_one_clear_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = {each.name: each for each in liars() if each.name in BAD}
    assert set(found) == set(BAD)
    for liar in found.values():
        file = tmp_path / "bad.capsule.json"
        file.write_bytes(liar.data)
        for verb in (["capsule", "verify"], ["capsule", "show"], ["verify"]):
            assert main([*verb, str(file)]) == 64, liar.name
            told = capsys.readouterr()
            assert f"bad.capsule.json: is no capsule: {liar.failure}" in told.err and "Traceback" not in told.err
            assert told.out == "" and len(told.err.splitlines()) <= 4
    assert main(["capsule", "verify", str(tmp_path / "none.capsule.json")]) == 64
    assert main(["capsule", "verify", str(tmp_path)]) == 64


def test_file_of_100_megabytes_is_read_up_to_the_limit_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "huge.capsule.json"
    with file.open("wb") as opened:
        opened.truncate(100_000_000)
    for verb in (["capsule", "verify"], ["capsule", "show"], ["verify"]):
        tracemalloc.start()
        assert main([*verb, str(file)]) == 64
        assert tracemalloc.get_traced_memory()[1] < 40_000_000
        tracemalloc.stop()
        told = capsys.readouterr()
        assert "capsule.tooLarge" in told.err and "Traceback" not in told.err and told.out == ""


def test_capsule_of_another_network_is_named(site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = made_capsule("opened")
    file = tmp_path / "other.capsule.json"
    document = json.loads(other.data)
    document["deployment"]["chain_id"] = "1"
    file.write_bytes(encode(document))
    assert main(["capsule", "verify", str(file), "--network", str(site.book), "--output", "json"]) == 2
    told = json.loads(capsys.readouterr().out)
    assert [each["failure"] for each in told["checks"][1:3]] == ["deployment.unknown", "header.chain"]
