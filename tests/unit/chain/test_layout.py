"""Values of contracts found in their storage by the committed layouts, and proven by the state root of a block."""

from pathlib import Path
from typing import Any

import pytest
import rlp

from bytewise.protocol.court.commitments import claim_of
from bytewise.protocol.court.phases import Phase
from bytewise.protocol.court.tally import vote_content
from bytewise.protocol.digests import keccak256
from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.records.statements import Outcome, Verdict
from bytewise.protocol.units import Address
from chain.client.address_book import address_of
from chain.client.artifacts import ADAPTERS, CONTRACTS
from chain.client.layout import layout
from chain.deployment.params import DEVNET
from tests.fixtures.chain.anvil import Anvil
from tests.fixtures.chain.devnet import founded, mine, word
from tests.fixtures.court.claimed_receipts import claimed
from tests.fixtures.court.session import DisputeFixture


def proven(anvil: Anvil, at: Address, slot: int) -> bytes:
    """The word of a slot, shown to be in the state of the newest block by the Merkle-Patricia proofs of the node."""
    header = anvil.rpc("eth_getBlockByNumber", "latest", False)
    proof = anvil.rpc("eth_getProof", at, [f"0x{slot:064x}"], header["number"])
    account = rlp.decode(in_trie(header["stateRoot"], bytes.fromhex(at[2:]), proof["accountProof"]))
    assert account[2].hex() == proof["storageHash"][2:] and account[3].hex() == proof["codeHash"][2:]
    found = in_trie(proof["storageHash"], slot.to_bytes(32, "big"), proof["storageProof"][0]["proof"])
    return bytes(rlp.decode(found) if found else b"").rjust(32, b"\0")


def in_trie(root: str, key: bytes, nodes: list[str]) -> bytes:
    """The value under a key, or nothing if the proof shows that there is none; the yellow paper's appendix D."""
    wanted, path = bytes.fromhex(root[2:]), keccak256(key).hex()
    for node in (bytes.fromhex(each[2:]) for each in nodes):
        assert keccak256(node) == wanted, "a node of another tree"
        items = rlp.decode(node)
        if len(items) == 17:
            wanted, path = items[int(path[0], 16)], path[1:]
        else:
            flag, nibbles = items[0].hex()[0], items[0].hex()[1 if items[0][0] & 0x10 else 2 :]
            if not path.startswith(nibbles):
                return b""
            wanted, path = items[1], path[len(nibbles) :]
            if flag in "23":
                return bytes(wanted) if not path else b""
        if not wanted:
            return b""
    raise AssertionError("a proof without its end")


def test_a_verdict_can_be_read_by_proof(anvil: Anvil, tmp_path: Path) -> None:
    court = DisputeFixture(anvil, tmp_path)
    court.open(0, word("wrong guess"))
    case = court.until(Phase.COMMIT)
    votes = [court.vote(case, each.voter, claimed(court, 0)) for each in case.members]
    court.commit(votes)
    mine(anvil, 2)
    court.reveal(votes)
    case = court.until(Phase.FINAL)
    signed = court.batch.entries[0].receipt
    contract_of = {"_cases": "Disputes", "_rounds": "Rounds", "claimOf": "Rounds"}

    def read(variable: str, *steps: Any) -> Any:
        found, at = layout(contract_of[variable]), address_of(court.network, contract_of[variable])
        place = found.place(variable, *steps)
        return found.decode(place, proven(anvil, at, place.slot))

    assert read("_cases", case.id, "verdict") == Verdict.UPHELD == case.verdict
    assert read("_cases", case.id, "round") == case.round and read("_cases", case.id, "tree") == court.network.pools[0].tree
    assert read("claimOf", case.id) == claim_of(signed.tokens_hash, signed.out_hash)
    group = vote_content(votes[0]).group
    assert read("_rounds", case.id, case.round, "groups", group, "seats") == 15
    assert read("_rounds", case.id, case.round, "groups", group, "outcome") == Outcome.EXECUTED
    assert read("_rounds", case.id, case.round, "groups", word("nobody said it"), "seats") == 0
    tally = {name: read("_rounds", case.id, case.round, name) for name in ("seats", "equal", "lead", "unavailable", "noKey")}
    assert tally == {"seats": 15, "equal": 15, "lead": 0, "unavailable": 0, "noKey": 0}
    places = read("_rounds", case.id, case.round, "places", 0)
    for seat in range(15):
        holder = next(each.voter for each in case.members if each.seat_mask >> seat & 1)
        tree = anvil.client.call("StakeTree", court.network.pools[0].tree, "placeOf", holder, block="latest")
        assert tree == {"has": True, "place": places >> 16 * seat & 0xFFFF}


def test_parameters_can_be_read_by_proof(anvil: Anvil) -> None:
    params, where = layout("Params"), address_of(founded(anvil), "Params")
    for part, name, wanted in (
        ("_times", "window", DEVNET.times.window),
        ("_money", "slashAmount", DEVNET.money.slash_amount),
        ("_shares", "maxBatch", DEVNET.shares.max_batch),
    ):
        place = params.place(part, 1, name)
        assert params.decode(place, proven(anvil, where, place.slot)) == wanted, name
    for level, seats in enumerate(DEVNET.committee.seats):
        place = params.place("_committee", 1, "seats", level)
        assert params.decode(place, proven(anvil, where, place.slot)) == seats


@pytest.mark.parametrize("name", [*CONTRACTS, *ADAPTERS])
def test_every_contract_has_a_layout_without_overlap(name: str) -> None:
    found = layout(name)
    places = [found.place(variable) for variable in found.variables]
    assert len({(each.slot, each.offset) for each in places}) == len(places)


@pytest.mark.parametrize(
    ("variable", "steps"),
    [
        ("_nothing", ()), ("_committee", (1, "benches")), ("_committee", (1, "seats", 3)), ("_committee", (1, "seats", -1)),
        ("_committee", (1, "seats", True)), ("_committee", ("one",)), ("_committee", (2**32,)), ("_committee", (1, ["rounds"])),
        ("version", (0,)),
    ],
)  # fmt: skip
def test_missing_storage_slot_is_refused(variable: str, steps: tuple[Any, ...]) -> None:
    with pytest.raises(MalformedValue, match=r"Params\."):
        layout("Params").place(variable, *steps)


def test_storage_word_that_is_no_such_value_is_refused() -> None:
    params, breaker = layout("Params"), layout("Breaker")
    with pytest.raises(MalformedValue, match="not in one word"):
        params.decode(params.place("_committee", 1), bytes(32))
    with pytest.raises(MalformedValue, match="a bool of 2"):
        breaker.decode(breaker.place("isHeld", word("environment")), bytes(31) + b"\2")
    with pytest.raises(MalformedValue, match="31 bytes"):
        params.decode(params.place("version"), bytes(31))
    with pytest.raises(ConfigurationError):
        layout("Nothing")
