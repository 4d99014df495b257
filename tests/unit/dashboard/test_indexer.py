"""The indexer on a chain in memory that forks: its index equals a fresh one, whatever happened on the way."""

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import event as sqlalchemy_event

from bytewise.protocol.errors.actors import ConfigurationError, TryAgain
from bytewise.storage.index.tables import FACTS
from bytewise.storage.migrations.migrate import migrate
from dashboard.index.fold import RULES, ChainEvent
from tests.fixtures.dashboard.indexed import MEMORY, Indexed
from tests.fixtures.dashboard.memory_chain import FINAL_DEPTH, MemoryChain
from tests.fixtures.metric_values import value_of

NewDatabase = Callable[[], str]
OWN = settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def _lost(events: list[ChainEvent]) -> list[ChainEvent]:
    return events[1:]


def _doubled(events: list[ChainEvent]) -> list[ChainEvent]:
    return [*events, *(each._replace(place=each.place + 100) for each in events[-1:])]


def _of_another_fork(events: list[ChainEvent]) -> list[ChainEvent]:
    return [each._replace(block_hash=each.transaction) for each in events]


def _silence(_events: list[ChainEvent]) -> list[ChainEvent]:
    raise TryAgain("chain", "no answer")


FAULTS = (_lost, _doubled, _of_another_fork, _silence)
STEPS = st.one_of(
    st.tuples(st.just("extend"), st.integers(1, 12), st.integers(0, 1)),
    st.tuples(st.just("extend"), st.integers(90, 120), st.integers(0, 1)),
    st.tuples(st.just("fork"), st.integers(1, FINAL_DEPTH), st.integers(0, FINAL_DEPTH + 2)),
    st.tuples(st.just("step"), st.just(0), st.integers(0, 1)),
    st.tuples(st.just("fault"), st.integers(0, len(FAULTS) - 1), st.just(0)),
)


@OWN
@given(seed=st.integers(0, 2**32), steps=st.lists(STEPS, min_size=3, max_size=14))
def test_index_after_forks_equals_a_fresh_index(new_database: NewDatabase, seed: int, steps: list[tuple[str, int, int]]) -> None:
    """Two processes take turns: a running monitor, and `bytewise monitor check`."""
    chain, url, checks_history = MemoryChain(seed), new_database(), any(what == "fault" for what, _, _ in steps)
    made, other = (Indexed(url, chain, checks_history=checks_history) for _ in range(2))
    for what, first, second in steps:
        if what == "extend":
            chain.extend(first)
        elif what == "fork":
            chain.fork(first, second)
        elif what == "fault":
            chain.fault = FAULTS[first]
        try:
            (other if second % 2 else made).indexer.step()
        except TryAgain:
            chain.fault = None
    chain.fault = None
    chain.extend(1)
    made.follow()
    fresh = Indexed(new_database(), chain)
    fresh.follow()
    assert made.writer.dump() == fresh.writer.dump()
    for each in (made, other, fresh):
        each.engine.dispose()


@OWN
@given(seed=st.integers(0, 2**32), depth=st.integers(1, 30))
def test_facts_at_an_earlier_block_are_those_of_that_block(new_database: NewDatabase, seed: int, depth: int) -> None:
    chain = MemoryChain(seed)
    chain.extend(40)
    made = Indexed(new_database(), chain)
    made.follow()
    with made.reader.snapshot() as now:
        number, then = now.state().number, _content(now)
    chain.extend(depth)
    made.follow()
    with made.reader.snapshot(number) as earlier:
        assert _content(earlier) == then
        assert earlier.state().number == number
    made.engine.dispose()


def _content(snapshot: Any) -> list[Any]:
    return [[{**row, "valid_to": None} for row in snapshot.all(table)] for table in FACTS]


def test_index_is_the_same_whatever_statement_fails(new_database: NewDatabase) -> None:
    chain = MemoryChain(7)
    chain.extend(30)
    made, countdown = Indexed(new_database(), chain), [0]

    def fail(_connection: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        countdown[0] -= not statement.startswith("BEGIN")
        if countdown[0] == 0:
            raise ArithmeticError

    sqlalchemy_event.listen(made.engine, "after_cursor_execute", fail)
    for statement in range(1, 60):
        countdown[0] = statement
        try:
            made.indexer.step()
        except ArithmeticError:
            pass
        if statement % 7 == 0:
            countdown[0] = 0
            chain.fork(5, 6)
    sqlalchemy_event.remove(made.engine, "after_cursor_execute", fail)
    made.follow()
    fresh = Indexed(new_database(), chain)
    fresh.follow()
    assert made.writer.dump() == fresh.writer.dump()


def test_verdicts_and_slashed_stake_are_counted(new_database: NewDatabase) -> None:
    chain = MemoryChain(11)
    chain.extend(200)
    verdicts, slashed = value_of("bytewise_verdicts_total", verdict="overturned"), value_of("bytewise_slashed_wei_total")
    made = Indexed(new_database(), chain)
    made.follow()
    found = chain.events(0, 10_000, frozenset())
    final = [each for each in found if each.name == "Finalized"]
    taken = [int(each.values["taken"]) for each in found if each.name == "Slashed"]
    assert final and taken
    assert value_of("bytewise_verdicts_total", verdict="overturned") == verdicts + len(final)
    counted = value_of("bytewise_slashed_wei_total")
    assert counted == pytest.approx(slashed + sum(taken)), "a gauge is a float, and other tests counted before"
    made.follow()
    assert value_of("bytewise_slashed_wei_total") == counted, "a block counts once"
    made.engine.dispose()


def test_restarted_indexer_goes_on(new_database: NewDatabase) -> None:
    chain, url = MemoryChain(3), new_database()
    chain.extend(20)
    first = Indexed(url, chain)
    first.follow()
    first.engine.dispose()
    chain.fork(8, 20)
    second = Indexed(url, chain)
    assert second.follow() == 8
    fresh = Indexed(new_database(), chain)
    fresh.follow()
    assert second.writer.dump() == fresh.writer.dump()


@pytest.mark.parametrize("failures", [0, 2])
def test_replaced_final_block_stops_the_indexer(new_database: NewDatabase, failures: int) -> None:
    """Also if the node did not answer meanwhile when it was asked for its finalized block, or named an earlier one."""
    chain = MemoryChain(5)
    chain.extend(FINAL_DEPTH + 20)
    made = Indexed(new_database(), chain)
    made.follow()
    known, chain.has_finality = made.writer.finality(), not failures
    assert known.finalized == 20
    for _ in range(failures):
        made.indexer.step()
        assert made.writer.finality().finalized == known.finalized
    if failures:
        chain.has_finality, chain.finalized = True, 3
        made.indexer.step()
        assert made.writer.finality().finalized == known.finalized
    before = made.writer.dump()
    other = MemoryChain(6)
    other.extend(FINAL_DEPTH + 40)
    chain.blocks = other.blocks
    with pytest.raises(ConfigurationError, match="was final and is replaced"):
        made.indexer.step()
    assert made.writer.dump() == before


@pytest.mark.parametrize("fault", FAULTS)
def test_wrong_logs_of_new_blocks_are_not_indexed(new_database: NewDatabase, fault: Any) -> None:
    chain = MemoryChain(11)
    chain.extend(12)
    made = Indexed(new_database(), chain)
    chain.fault = fault
    with pytest.raises(TryAgain):
        made.follow()
    with made.reader.snapshot() as snapshot:
        assert snapshot.events() == []
    chain.fault = None
    made.follow()
    fresh = Indexed(new_database(), chain)
    fresh.follow()
    assert made.writer.dump() == fresh.writer.dump()


def test_index_of_another_network_is_refused(new_database: NewDatabase) -> None:
    made = Indexed(new_database(), MemoryChain(1))
    made.writer.claim(MEMORY)
    with pytest.raises(ConfigurationError, match="is of chain 31337"):
        made.writer.claim(MEMORY._replace(chain_id=1))
    with pytest.raises(ConfigurationError, match="contracts 0xcdcdcdcd"):
        made.writer.claim(MEMORY._replace(book="0x" + "cd" * 32))
    with pytest.raises(ConfigurationError, match=f"rules {RULES} of this program, which has rules {RULES + 1}"):
        made.writer.claim(MEMORY._replace(rules=RULES + 1))


def test_database_of_an_actor_is_refused(new_database: NewDatabase) -> None:
    url = new_database()
    migrate(url)
    with pytest.raises(ConfigurationError, match="has tables of something else"):
        Indexed(url, MemoryChain(1))


def test_rows_of_one_seed_are_many(new_database: NewDatabase) -> None:
    """The other tests compare something: all kinds of facts come up."""
    chain = MemoryChain(random.Random(2).randrange(99))
    chain.extend(300)
    made = Indexed(new_database(), chain)
    made.follow()
    with made.reader.snapshot() as snapshot:
        empty = {table.__tablename__ for table in FACTS if not snapshot.count(table)}
    assert empty == {"operator", "verifier", "key_epoch", "proposal", "report"}
