"""Attacks on keys (`docs/evidence/attacks.md` names all 29), each beside its control: the same attack wins once its defence is
removed."""

import contextlib
import os
import tracemalloc
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bytewise.crypto.curve import ORDER
from bytewise.crypto.shares import combine_values, lagrange, split, verify_share
from bytewise.protocol import encoding
from bytewise.protocol.encoding import parse, parse_typed
from bytewise.protocol.errors.actors import BudgetSpent, ConfigurationError, EpochClosed, StaleBackup
from bytewise.protocol.errors.records import NotCanonical, RequestHashMismatch
from bytewise.protocol.keys.epochs import MAX_RELEASE_MARKS, Decision, EpochState
from bytewise.protocol.records import seal
from bytewise.protocol.records.seal import pad, verify_opening
from bytewise.protocol.units import Digest
from bytewise.service.secret import Secret
from kms import backup
from kms.shard import release_policy
from kms.storage import keyring
from tests.fixtures.kms.backup_station import Station
from tests.fixtures.kms.memory_chain import NOW
from tests.fixtures.kms.release_network import ENVIRONMENT, World, refused
from tests.fixtures.memory_search import in_files, scalar_forms

# --- 16: t - 1 shards together ---


@given(st.integers(1, ORDER - 1), st.integers(1, ORDER - 1), st.integers(2, 5))
@settings(deadline=None, max_examples=10)
def test_attack_16_fewer_than_t_shares_fit_every_key_and_t_fit_one(secret: int, other: int, threshold: int) -> None:
    """Control: one share more, and no other key fits."""
    shares, commitments = split(secret, threshold, threshold + 1, os.urandom)
    few = {index: shares[index] for index in range(1, threshold)}
    # The polynomial through the few and through any other key at 0 gives the next shard a share that nobody can call wrong.
    completed = {**few, threshold: through({0: other, **few}, threshold)}
    assert combine_values(completed) == other
    assert combine_values({**few, threshold: shares[threshold]}) == secret
    if other != secret:
        with pytest.raises(ConfigurationError):
            verify_share(threshold, completed[threshold], commitments)


def through(values: dict[int, int], at: int) -> int:
    """The value at a place of the polynomial through these values."""
    return sum(value * lagrange(index, tuple(values), at) for index, value in values.items()) % ORDER


# --- 17, 18, 21: what a shard remembers ---


def test_attack_17_instances_are_counted_across_restarts(fresh: World) -> None:
    case = fresh.disputed(seat_mask=1)

    def ask() -> Decision:
        shard, ticket = fresh.shard(1), fresh.ticket(case, instance=Digest(os.urandom(32)))
        return Decision(fresh.release(shard, case, ticket=ticket).record.decision)

    assert [ask(), ask()] == [Decision.RELEASED] * 2
    with pytest.raises(BudgetSpent):
        ask()
    # Control: a count that a restart empties is an oracle, two answers at a time.
    for path in (fresh.folder / "shard-1").glob("kms.sqlite*"):
        path.unlink()
    assert ask() is Decision.RELEASED


def test_attack_18_retired_key_opens_only_where_epoch_state_is_not_checked(fresh: World, monkeypatch: pytest.MonkeyPatch) -> None:
    case, shard = fresh.disputed(), fresh.shard(1)
    fresh.chain.facts = replace(fresh.chain.facts, epoch_state=EpochState.RETIRED)
    refused(EpochClosed, fresh, shard, fresh.request(case))
    monkeypatch.setattr(release_policy, "verify_epoch", lambda ticket, state: state)
    assert fresh.release(shard, case).record.decision == Decision.RELEASED


@pytest.fixture
def station(fresh: World) -> Station:
    """Shard 1 with a log and a backup."""
    return Station(fresh)


def test_attack_21_old_backup_restores_share_only_where_chain_is_not_asked(
    station: Station, monkeypatch: pytest.MonkeyPatch
) -> None:
    station.deal_again()
    station.lose()
    with pytest.raises(StaleBackup):
        station.restore()
    assert station.content() == {}
    # Control: two such shards, and the key is what it was before the resharing that was to make old shares worthless.
    monkeypatch.setattr(backup, "drop_stale_shares", lambda draft, shard, view, sealing: iter(()))
    station.restore()
    assert keyring.find_share(station.folder, 1, station.world.document.commitments).index == 1


# --- 19: an operator that seals something else than its receipt says ---


def test_attack_19_receipt_over_other_content_is_invalid_where_rehashed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    honest, sealed = world.case(1), world.case(2, canary=70).payload
    with pytest.raises(RequestHashMismatch):
        verify_opening(honest.receipt, honest.id, pad(sealed), ENVIRONMENT, NOW)
    # Control: an enclave that compares no hashes takes the same receipt, and judges a question that it does not say.
    monkeypatch.setattr(seal, "verify_hashes", lambda payload, receipt: None)
    assert verify_opening(honest.receipt, honest.id, pad(sealed), ENVIRONMENT, NOW) == sealed


# --- 24: what lies on the disk ---


class PlainSealer:
    """A sealer that seals nothing: what it is given, behind the nonce."""

    def seal(self, plain: bytes, _context: Digest) -> bytes:
        return bytes(12) + plain

    def open(self, sealed: bytes, _context: Digest) -> Secret:
        return Secret(sealed[12:])


def test_attack_24_sealed_share_is_in_no_file_and_an_unsealed_one_is_found(fresh: World) -> None:
    folder = fresh.folder / "shard-1"
    held = keyring.open_share(folder, fresh.document)
    forms = scalar_forms(held.scalar())
    assert in_files(fresh.folder, forms) == {}
    # Control: the same shard writes the same share with a sealer that does not seal, and the same scan finds it.
    keyring.seal_share(folder, 1, held.index, held.scalar(), "-unsealed", PlainSealer())
    assert list(in_files(fresh.folder, forms)) == [folder / "share-1-unsealed.json"]
    # And in any of the forms that a program writes.
    for name, form in forms.items():
        (folder / "share.bin").write_bytes(b"before" + form + b"after")
        assert len(in_files(fresh.folder, forms)) == 2, name


# --- 23: a small body that is a large object ---


def peak_bytes(read: Callable[[], object]) -> int:
    """Most memory that a reader held until it refused."""
    tracemalloc.start()
    try:
        with contextlib.suppress(NotCanonical):
            read()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_attack_23_elements_are_counted_before_they_are_built(monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = b"[" + b"{}," * 2**16 + b"0]"
    assert peak_bytes(lambda: parse(bomb, MAX_RELEASE_MARKS)) < len(bomb) // 10
    # Control: our parser, which counts no mark.
    monkeypatch.setattr(encoding, "MARKS", ())
    assert peak_bytes(lambda: parse(bomb, MAX_RELEASE_MARKS)) > 10 * len(bomb)


def test_attack_23_duplicate_key_is_refused_and_hides_a_value_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two readers, of which one takes the first value and one the last, would read two requests."""
    said = b'{"address":"0x01","address":"0x02"}'
    for read in (parse, parse_typed):
        with pytest.raises(NotCanonical, match="repeated key"):
            read(said)
    # Control: what a person wrote has no other check; a record's bytes must also be those that it is written in.
    monkeypatch.setattr(encoding, "distinct_members", dict)
    assert parse_typed(said) == {"address": "0x02"}
    with pytest.raises(NotCanonical, match="other bytes"):
        parse(said)
