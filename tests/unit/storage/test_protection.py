"""Never two different votes for one (dispute, round)."""

import itertools
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine

from bytewise.protocol import encoding
from bytewise.protocol.errors.actors import ProtectionMissing, SecondVote
from bytewise.protocol.errors.records import WrongFields
from bytewise.protocol.units import Blob
from bytewise.storage.engine import open_database
from bytewise.storage.protection import Protection, ReliedRoots, StoredVote
from tests.fixtures.storage.children import Child, race
from tests.fixtures.storage.hand_clock import HandClock
from tests.fixtures.storage.stored_records import ACCOUNT, OTHER, name, vote


@pytest.fixture
def table(engine: Engine, clock: HandClock) -> Protection:
    return Protection(engine, clock)


def test_equal_vote_gets_the_stored_salt_and_quote(table: Protection) -> None:
    first = table.sign_once(vote(salt=1), Blob(b"first quote"))
    again = table.sign_once(vote(salt=2), Blob(b"another quote"))
    assert again == first == StoredVote(vote(salt=1), Blob(b"first quote"))


def test_another_vote_for_the_round_is_refused(table: Protection) -> None:
    table.sign_once(vote(says=7), Blob(b""))
    with pytest.raises(SecondVote, match=f"already signed 0x[0-9a-f]{{64}} for dispute 0x{name(1).hex()} round 1"):
        table.sign_once(vote(says=8), Blob(b""))
    assert table.require(name(1), 1, ACCOUNT).vote.tokens_hash == name(7)


def test_rounds_disputes_and_voters_are_separate(table: Protection) -> None:
    votes = [vote(), vote(round_number=2, says=8), vote(dispute=2, says=9), vote(voter=OTHER, says=10)]
    for each in votes:
        assert table.sign_once(each, Blob(b"")).vote == each
    assert {each.vote for each in table.rows()} == set(votes)


def test_vote_on_chain_missing_in_the_table_stops_us(table: Protection) -> None:
    assert table.known(name(1), 1, ACCOUNT) is None
    with pytest.raises(ProtectionMissing):
        table.require(name(1), 1, ACCOUNT)


def test_a_vote_survives_closing_the_database(url: str, table: Protection, clock: HandClock) -> None:
    stored = table.sign_once(vote(), Blob(b"quote"))
    assert Protection(open_database(url), clock).known(name(1), 1, ACCOUNT) == stored


def test_exactly_one_of_two_opposite_votes_wins_each_round(url: str) -> None:
    left, right = race(Child("vote", url, 7), Child("vote", url, 8))
    assert sorted(left + right) == list(range(60))


def test_an_export_moves_votes_and_contradictions_add_nothing(table: Protection) -> None:
    table.sign_once(vote(says=7), Blob(b"quote"))
    table.sign_once(vote(dispute=2), Blob(b""))
    document = table.export()
    assert table.import_votes(document) == 2, "importing what is known changes nothing"
    contradiction = document.replace(encoding.encode(vote(says=7)), encoding.encode(vote(says=8)))
    assert contradiction != document
    before = table.rows()
    with pytest.raises(SecondVote):
        table.import_votes(contradiction)
    assert table.rows() == before


def test_a_document_that_contradicts_itself_adds_nothing(table: Protection) -> None:
    table.sign_once(vote(says=7), Blob(b""))
    document = encoding.parse(table.export())
    both = [{"quote": "0x", "vote": encoding.to_json(vote(dispute=2, says=says))} for says in (7, 8)]
    with pytest.raises(SecondVote):
        table.import_votes(encoding.encode(document | {"votes": both}))
    assert [stored.vote for stored in table.rows()] == [vote(says=7)]


def test_an_export_restores_an_empty_table(table: Protection, fresh: Callable[[], str]) -> None:
    table.sign_once(vote(), Blob(b"quote"))
    restored = Protection(open_database(fresh()), HandClock())
    assert restored.import_votes(table.export()) == 1
    assert restored.rows() == table.rows()


@pytest.mark.parametrize("document", [b"{}", b"[]", b'{"format":"bytewise-protection-1","votes":[{}]}'])
def test_foreign_document_is_not_imported(table: Protection, document: bytes) -> None:
    with pytest.raises(WrongFields):
        table.import_votes(document)


CALLS = st.lists(st.tuples(st.integers(1, 2), st.integers(1, 3), st.integers(1, 9)), max_size=12)
DISPUTES = itertools.count(100)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(calls=CALLS)
def test_one_commitment_exists_per_round_in_any_order_of_calls(table: Protection, calls: list[tuple[int, int, int]]) -> None:
    seen: dict[int, StoredVote] = {}
    dispute = next(DISPUTES)  # the table outlives the examples
    for round_number, says, salt in calls:
        asked = vote(dispute=dispute, round_number=round_number, says=says, salt=salt)
        try:
            stored = table.sign_once(asked, Blob(bytes([salt])))
        except SecondVote:
            assert seen[round_number].vote.tokens_hash != asked.tokens_hash
            continue
        assert seen.setdefault(round_number, stored) == stored
    assert all(table.known(v.vote.dispute, v.vote.round, ACCOUNT) == v for v in seen.values())


def test_first_root_of_a_round_is_kept(engine: Engine) -> None:
    roots = ReliedRoots(engine)
    assert roots.known(name(1), 1) is None
    roots.keep(name(1), 1, name(2), {0: name(3), 7: name(4)})
    roots.keep(name(1), 1, name(5), {})
    assert ReliedRoots(engine).known(name(1), 1) == (name(2), {0: name(3), 7: name(4)})
    assert roots.known(name(1), 2) is None
