"""Fork packs of a real chain: the stake table of a fork is rebuilt from the pack alone, and altered packs are refused."""

import dataclasses
import functools
import io
import json
import struct
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bytewise.protocol.address_book import Network
from bytewise.protocol.digests import sha256
from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.units import hex0x
from chain.client.access import Chain
from chain.client.artifacts import interface
from chain.client.rpc import at_number
from chain.deployment.calls import CALL_GAS
from chain.fork_pack.maker import make_pack
from chain.fork_pack.pack import (
    DISPUTES,
    MANIFEST,
    NETWORK,
    PAGE,
    PARAMETERS,
    STAKE,
    PackManifest,
    PackRejected,
    StakeTable,
    capsule_name,
    read_pack,
    sums_of_node,
    write_pack,
)
from chain.reads.reader import SnapshotReader
from chain.sending.transactions import TransactionCall, send_all
from cli.__main__ import main
from tests.fixtures.capsule.good_capsules import upheld
from tests.fixtures.chain.anvil import CHAIN_ID, Anvil, running_anvil
from tests.fixtures.chain.devnet import STAKE_WEI, VERIFIERS, mine, next_stake_epoch, signer
from tests.fixtures.court.session import DisputeFixture


class Packed(NamedTuple):
    """A pack of a chain that is gone."""

    data: bytes
    network: Network

    @property
    def files(self) -> dict[str, bytes]:
        """Its files but the manifest."""
        return dict(read_pack(self.data).files)

    def changed(self, name: str, value: bytes | None) -> bytes:
        """A pack with another file and a manifest that fits."""
        manifest, files = read_pack(self.data).manifest, {**self.files, name: value}
        kept = {each: raw for each, raw in files.items() if raw is not None}
        return write_pack(int(manifest.chain_id), int(manifest.block), manifest.block_hash, kept)


@functools.cache
def packed() -> Packed:
    """The pack of a network with one upheld dispute; what follows from the chain itself is asserted on the way."""
    with running_anvil() as anvil, tempfile.TemporaryDirectory() as folder:
        court = DisputeFixture(anvil, Path(folder), window=600, commit_time=300, reveal_time=300, rerun_time=900)
        upheld(court)
        network, block = court.network, anvil.client.head().number
        made = make_pack(SnapshotReader(anvil.client, network), network, block)
        assert made.without_capsule == () and capsule_name(court.dispute) in read_pack(made.data).files
        mine(anvil, 3)
        again = make_pack(SnapshotReader(anvil.client, network), network, block)
        assert again.data == made.data, "the same block gives the same bytes"
        with running_anvil("--fork-url", anvil.url, "--fork-block-number", str(block)) as fork:
            assert_rebuilt(fork.client, made.data)
            moved_on(fork, network, made.data)
        return Packed(made.data, network)


def assert_rebuilt(chain: Chain, data: bytes) -> None:
    """The contracts of a chain have the stake that follows from the pack alone."""
    pack = read_pack(data)
    block = at_number(chain.head().number)
    (table,) = pack.stake.pools
    for epoch in (int(table.epoch), int(table.epoch) + 1):
        for weight, units in zip(table.weights, table.units(epoch), strict=True):
            assert chain.call("StakeTree", table.tree, "unitsAt", weight.account, epoch, block=block) == units
        assert chain.call("StakeTree", table.tree, "totalAt", epoch, block=block) == sum(table.units(epoch)) > 0
    # The root is node 0: slot 1 has its newest sums (`chain/abi/layout/StakeTree.json`).
    root = int.from_bytes(chain.slot_proof(table.tree, 1, block).word, "big")
    assert sums_of_node(root) == table.root(max(int(each.since) for each in table.weights))
    for place, weight in enumerate(table.weights):
        assert chain.call("StakeTree", table.tree, "accountAt", place, block=block).lower() == weight.account
    for account in pack.stake.accounts:
        vault = pack.network.addresses.stake_vault
        assert chain.call("StakeVault", vault, "stakeOf", account.account, block=block) == account.stake


def moved_on(fork: Anvil, network: Network, data: bytes) -> None:
    """After a deposit on the fork a new pack has its stake, and the old one does not."""
    call = TransactionCall(
        VERIFIERS[0], network.addresses.stake_vault, interface("StakeVault").call("deposit"), STAKE_WEI, CALL_GAS
    )
    send_all(fork.client, [call], 60)
    next_stake_epoch(fork, network)
    made = make_pack(SnapshotReader(fork.client, network), network, fork.client.head().number)
    assert_rebuilt(fork.client, made.data)
    (before,), (after,) = read_pack(data).stake.pools, read_pack(made.data).stake.pools
    assert sum(after.units(int(after.epoch))) > sum(before.units(int(before.epoch)))


def rejected(data: bytes, network: Network | None = None) -> tuple[bool, str]:
    with pytest.raises(PackRejected) as caught:
        read_pack(data, network)
    is_pack, why = caught.value.args
    return is_pack, why


def test_pack_rebuilds_the_stake_of_a_forked_chain() -> None:
    pack = read_pack(packed().data, packed().network)
    assert {MANIFEST, *pack.files} == {MANIFEST, NETWORK, STAKE, PARAMETERS, DISPUTES, PAGE, *capsules()}
    disputes, parameters = json.loads(pack.files[DISPUTES]), json.loads(pack.files[PARAMETERS])
    assert len(disputes["opened"]) == len(disputes["ended"]) == 1 and disputes["ended"][0]["verdict"] == "upheld"
    assert len(disputes["votes"]) > 2 and [each["version"] for each in parameters] == list(range(1, len(parameters) + 1))
    assert hex0x(pack.manifest.block_hash) in pack.files[PAGE].decode()
    assert len(pack.stake.accounts) == 7 and signer(3).address.lower() in {each.account.lower() for each in pack.stake.accounts}


def capsules() -> list[str]:
    return [name for name in packed().files if name.startswith("capsules/")]


def stake(change: Callable[[dict[str, object]], object]) -> bytes:
    value = json.loads(packed().files[STAKE])
    change(value)
    return packed().changed(STAKE, encode(value))


def disputes(change: Callable[[Any], object]) -> bytes:
    value = json.loads(packed().files[DISPUTES])
    change(value)
    return packed().changed(DISPUTES, encode(value))


def parameters(change: Callable[[Any], object]) -> bytes:
    value = json.loads(packed().files[PARAMETERS])
    change(value)
    return packed().changed(PARAMETERS, encode(value))


def accounts(value: Any) -> list[dict[str, str]]:
    return value["accounts"]  # type: ignore[no-any-return]


def holder(value: Any) -> int:
    """Index of the first account with a place."""
    having = {each["account"] for each in value["pools"][0]["weights"]}
    return next(i for i, each in enumerate(accounts(value)) if each["account"] in having)


def bystander(value: Any) -> int:
    """Index of the first account without a place: an operator."""
    having = {each["account"] for each in value["pools"][0]["weights"]}
    return next(i for i, each in enumerate(accounts(value)) if each["account"] not in having)


def table(value: dict[str, object]) -> list[dict[str, object]]:
    return value["pools"][0]["weights"]  # type: ignore[index, no-any-return]


LIES: dict[str, tuple[Callable[[], bytes], bool, str]] = {
    "truncated": (lambda: packed().data[:-100], False, "no whole ZIP file"),
    "empty": (lambda: b"", False, "no whole ZIP file"),
    "text": (lambda: b"hello", False, "no whole ZIP file"),
    "100 MB": (lambda: packed().data + bytes(100 * 10**6), False, "larger than"),
    "bytes before": (lambda: b"x" + packed().data, False, "bytes beside its files"),
    "doubled file": (lambda: zipped(double=True), False, "twice"),
    "compressed": (lambda: zipped(zipfile.ZIP_DEFLATED), False, "compressed"),
    "other times": (lambda: zipped(), False, "bytes beside its files"),
    "page missing": (lambda: packed().changed(PAGE, None), True, "not those of its manifest"),
    "stake missing": (lambda: packed().changed(STAKE, None), True, "not those of its manifest"),
    "no manifest": (lambda: zipped(without=MANIFEST), False, "manifest"),
    "stake is no JSON": (lambda: packed().changed(STAKE, b"{"), False, "malformed"),
    "disputes are no JSON": (lambda: packed().changed(DISPUTES, b"[1.5]"), False, "malformed"),
    "place doubled": (lambda: stake(lambda v: table(v).append(table(v)[0])), True, "places of pool"),
    "place left out": (lambda: stake(lambda v: table(v).pop(0)), True, "places of pool"),
    "account in two places": (
        lambda: stake(lambda v: table(v)[1].update(account=table(v)[0]["account"])), True, "places of pool"),
    "weight of the future": (lambda: stake(lambda v: table(v)[0].update(since="999999")), True, "impossible epoch"),
    "account doubled": (lambda: stake(lambda v: v["accounts"].append(v["accounts"][-1])), True, "there twice"),  # type: ignore[attr-defined, index]
    "pool left out": (lambda: stake(lambda v: v.update(pools=[])), True, "pools of the address book"),
    "capsule of another dispute": (
        lambda: packed().changed("capsules/0x00.capsule.json", packed().files[capsules()[0]]), True, "of another dispute"),
    "capsule altered": (
        lambda: packed().changed(capsules()[0], packed().files[capsules()[0]].replace(b'"upheld"', b'"overturned"')), True,
        "does not verify"),
    "capsule of another block": (lambda: other_block(), True, "is of block"),
    "holder left out of the accounts": (lambda: stake(lambda v: accounts(v).pop(holder(v))), True, "not among the accounts"),
    "holder with less stake": (lambda: stake(lambda v: accounts(v)[holder(v)].update(stake="1")), True, "its stake gives 0"),
    "holder with more stake": (
        lambda: stake(lambda v: accounts(v)[holder(v)].update(stake="99000000000000000000")), True, "units, and its stake gives"),
    "account of no holder altered": (
        lambda: stake(lambda v: accounts(v)[bystander(v)].update(stake="1")), True, "not the page of this pack"),
    "unit of another size": (lambda: stake(lambda v: v["pools"][0].update(unit="7")), True, "its stake gives"),  # type: ignore[index]
    "page altered": (lambda: packed().changed(PAGE, packed().files[PAGE] + b"Send ether to us."), True, "not the page"),
    "dispute with another member": (lambda: disputes(lambda v: v["opened"][0].update(more="1")), True, "entry of opened"),
    "dispute without a member": (lambda: disputes(lambda v: v["drawn"][0].pop("seed")), True, "entry of drawn"),
    "money that is no number": (lambda: disputes(lambda v: v["ended"][0].update(burned="much")), True, "entry of ended"),
    "vote that is no vote": (lambda: disputes(lambda v: v["votes"][0].update(vote={})), True, "entry of votes"),
    "list left out": (lambda: disputes(lambda v: v.pop("rounds")), True, "does not have the lists"),
    "disputes are a list": (lambda: packed().changed(DISPUTES, b"[]"), True, "does not have the lists"),
    "another verdict": (lambda: disputes(lambda v: v["ended"][0].update(verdict="overturned")), True, "says otherwise"),
    "verdict of no court": (lambda: disputes(lambda v: v["ended"][0].update(verdict="guilty")), True, "entry of ended"),
    "ending left out": (lambda: disputes(lambda v: v.update(ended=[])), True, "says otherwise"),
    "capsule left out": (lambda: packed().changed(capsules()[0], None), True, "not the page of this pack"),
    "parameter left out": (lambda: parameters(lambda v: v[0]["params"]["times"].pop("window")), True, "version has another form"),
    "version left out": (lambda: parameters(lambda v: v[0].update(version=2)), True, "not 1, 2"),
    "parameters are an object": (lambda: packed().changed(PARAMETERS, b"{}"), True, "a version has another form"),
    "offset of 2^64": (lambda: endless(), False, "no whole ZIP file"),
    "no code hashes": (lambda: of_book(code=()), True, f"{NETWORK} has no code hash of Disputes"),
    "other file": (lambda: packed().changed("virus.exe", b"MZ"), True, "does not verify"),
}  # fmt: skip


def of_book(**changes: object) -> bytes:
    """The pack with other fields in its address book."""
    return packed().changed(NETWORK, encode(dataclasses.replace(packed().network, **changes)))  # type: ignore[arg-type]


def other_block() -> bytes:
    """The same files, said to be of another block of the same hash."""
    files = {name: data for name, data in packed().files.items() if name != MANIFEST}
    with zipfile.ZipFile(io.BytesIO(packed().data)) as archive:
        manifest = decode(PackManifest, archive.read(MANIFEST))
    return write_pack(manifest.chain_id, manifest.block + 1, manifest.block_hash, files)


def endless() -> bytes:
    """A ZIP64 file whose first entry is said to begin at byte 2^64 - 1."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("a", b"")
    raw = bytearray(made.getvalue())
    central = raw.index(b"PK\x01\x02")
    extra = struct.pack("<HHQ", 1, 8, 2**64 - 1)
    raw[central + 30 : central + 32] = struct.pack("<H", len(extra))
    raw[central + 42 : central + 46] = b"\xff" * 4
    raw[central + 47 : central + 47] = extra
    end = raw.index(b"PK\x05\x06")
    raw[end + 12 : end + 16] = struct.pack("<I", 47 + len(extra))
    return bytes(raw)


def zipped(how: int = zipfile.ZIP_STORED, double: bool = False, without: str = "") -> bytes:
    """The pack's files written by another program."""
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(packed().data)) as source, zipfile.ZipFile(made, "w", how) as target:
        for name in source.namelist():
            entry = zipfile.ZipInfo(name) if without else zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))
            entry.create_system, entry.external_attr, entry.compress_type = 3, 0o644 << 16, how
            if name != without:
                target.writestr(entry, source.read(name))
        if double:
            with pytest.warns(UserWarning):
                target.writestr(PAGE, b"again")
    return made.getvalue()


@pytest.mark.parametrize("name", LIES)
def test_altered_pack_is_refused(name: str) -> None:
    lie, is_pack, why = LIES[name]
    found = rejected(lie())
    assert found[0] is is_pack and why in found[1]


def test_altered_file_under_the_old_manifest_is_refused() -> None:
    place = packed().data.index(b"# Fork pack")
    data = bytearray(packed().data)
    data[place] ^= 1
    assert not rejected(bytes(data))[0], "the ZIP file's own check sum"


def test_pack_of_another_network_is_refused() -> None:
    network = packed().network
    other = decode(Network, encode(network).replace(network.addresses.disputes.encode(), signer(0).address.lower().encode()))
    told = (True, f"it is of another network than the address book, which is of chain {CHAIN_ID}")
    assert rejected(packed().data, other) == told
    for changed in ({"deploy_block": 0}, {"pools": ()}, {"code": network.code[1:]}):
        assert rejected(packed().data, dataclasses.replace(network, **changed)) == told, changed


@given(st.data())
def test_any_changed_byte_is_refused(data: st.DataObject) -> None:
    raw = bytearray(packed().data)
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    rejected(bytes(raw), packed().network)


def test_documents_come_back_from_their_bytes() -> None:
    files = packed().files
    assert encode(decode(StakeTable, files[STAKE])) == files[STAKE]
    with zipfile.ZipFile(io.BytesIO(packed().data)) as archive:
        assert encode(decode(PackManifest, archive.read(MANIFEST))) == archive.read(MANIFEST)


def test_command_writes_a_pack_and_verifies_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    book, pack, other = tmp_path / "network.json", tmp_path / "pack.zip", tmp_path / "other.json"
    book.write_bytes(encode(packed().network))
    pack.write_bytes(packed().data)
    assert main(["evidence", "fork-pack", "--verify", str(pack), "--network", str(book), "--output", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["chain_id"], told["accounts"], told["capsules"]) == (str(CHAIN_ID), 7, 1)
    network = packed().network
    other.write_bytes(encode(network).replace(network.addresses.disputes.encode(), signer(0).address.lower().encode()))
    assert main(["evidence", "fork-pack", "--verify", str(pack), "--network", str(other)]) == 2
    pack.write_bytes(of_book(code=()))
    capsys.readouterr()
    assert main(["evidence", "fork-pack", "--verify", str(pack)]) == 2
    assert "has no code hash of Disputes" in (said := capsys.readouterr().err) and "fetch" not in said
    pack.write_bytes(packed().data[:-1])
    for arguments in (
        ["--verify", str(pack)], ["--verify", str(tmp_path / "missing.zip")], [], ["--out", "a.zip", "--verify", "b.zip"],
        ["--out", str(pack), "--network", str(book)], ["--out", "new.zip", "--network", str(tmp_path / "missing")],
    ):  # fmt: skip
        capsys.readouterr()
        assert main(["evidence", "fork-pack", *arguments]) == 64
        assert "Traceback" not in capsys.readouterr().err


def test_command_makes_a_pack_of_a_node(tmp_path: Path, capsys: pytest.CaptureFixture[str], anvil: Anvil) -> None:
    court = DisputeFixture(anvil, tmp_path, window=600, commit_time=300, reveal_time=300, rerun_time=900)
    book, out = tmp_path / "network.json", tmp_path / "pack.zip"
    book.write_bytes(encode(court.network))
    head = anvil.client.head().number
    options = ["--network", str(book), "--rpc", anvil.url, "--out"]
    assert main(["evidence", "fork-pack", *options, str(out), "--block", str(head)]) == 0
    assert read_pack(out.read_bytes()).manifest.block == head and "SHA-256" in capsys.readouterr().out
    again = tmp_path / "again.zip"
    assert main(["evidence", "fork-pack", *options, str(again), "--block", str(head), "--output", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["sha256"] == hex0x(sha256(out.read_bytes()))
    assert main(["evidence", "fork-pack", *options, str(tmp_path / "b.zip"), "--block", str(head + 1000)]) == 64
    assert "--block" in capsys.readouterr().err
    assert (
        main(["evidence", "fork-pack", "--network", str(book), "--rpc", "http://127.0.0.1:1", "--out", str(tmp_path / "c")]) == 5
    )
    assert not (tmp_path / "c").exists()
