"""The end of shares: erased when the chain means others or none, with a word about it, and not made again from any log."""

import contextlib
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.errors.actors import ConfigurationError, TryAgain
from bytewise.protocol.jobs import key_domain
from bytewise.protocol.keys.ceremony import Erasure, SharesSource, SignedErasure, erasure_digest, sign_plan, verify_erasure
from bytewise.protocol.keys.epochs import EpochDocument, EpochState
from bytewise.protocol.units import U64, U256, ZERO_DIGEST
from bytewise.service.clock import SystemClock
from bytewise.storage.engine import open_database
from bytewise.storage.releases import ReleaseRecords
from kms.backup import back_up, restore
from kms.ceremony import erasure, participant
from kms.ceremony.coordinator import epoch_document
from kms.ceremony.erasure import erase_shares
from kms.storage import keyring
from kms.storage.files import wipe_draft, write_whole
from tests.fixtures.kms.ceremonies import COORDINATOR
from tests.fixtures.kms.ceremony_runs import (
    made_key,
    missed_its_end,
    numbered,
    on_chain,
    run,
    shares_make_the_key,
    take_into_force,
)
from tests.fixtures.kms.dkg_fixture import CeremonyShard, OneEpoch, coordinator_of, plan
from tests.fixtures.kms.memory_chain import CONTRACTS


def erased(who: CeremonyShard, document: EpochDocument) -> SignedErasure:
    """What `bytewise shard erase` does at a shard."""
    return erase_shares(who.folder, document, CONTRACTS, who.ceremonies(), who.chain, SystemClock())


def test_old_shares_are_erased_only_when_the_new_ones_are_in_force(tmp_path: Path) -> None:
    shards, chain, made, source = key = made_key(tmp_path)
    again = run(coordinator_of(tmp_path, key.renewal(), shards))
    document, folder = epoch_document(again), shards[0].folder
    with pytest.raises(ConfigurationError):
        erased(shards[0], document)
    shares_make_the_key(made, numbered(shards))
    take_into_force(chain, again)
    said = erased(shards[0], document)
    assert said.statement.erased == 1 and len(list(folder.glob("share-3*.json"))) == 1
    assert said.shard == shards[0].signer.address and verify_erasure(said) == said.statement
    shares_make_the_key(again, numbered(shards))
    with pytest.raises(ConfigurationError):
        shards[0].share(3, source.commitments)
    assert erased(shards[0], document) == said, "what was said stands"
    with pytest.raises(ConfigurationError):
        keyring.erase_others(shards[1].folder, 3, tuple(reversed(document.commitments)))
    shares_make_the_key(again, numbered(shards))


@pytest.mark.parametrize("seeds_end", [True, False])
@pytest.mark.parametrize("chain_is_asked", [True, False])
def test_erased_share_returns_from_the_log_only_where_seeds_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seeds_end: bool, chain_is_asked: bool
) -> None:
    """Each of the two stops it alone; with neither it is there again, after the shard signed that it has none."""
    shards, state, bring = missed_its_end(tmp_path)
    shards[0].chain.epoch = replace(shards[0].chain.epoch, state=EpochState.RETIRED)
    if not seeds_end:
        monkeypatch.setattr(erasure, "end_ceremonies", lambda records, epoch, kept: None)
    if not chain_is_asked:
        monkeypatch.setattr(participant, "is_wanted", lambda plan, commitments, epoch: True)
    assert erased(shards[0], epoch_document(state)).statement.kept == ZERO_DIGEST
    bring()
    assert bool(list(shards[0].folder.glob("share-3*"))) == (not seeds_end and not chain_is_asked)


def test_share_from_before_a_resharing_is_not_rebuilt_from_the_log(tmp_path: Path) -> None:
    shards, state, bring = missed_its_end(tmp_path)
    source, chain = on_chain(shards[0].chain, state), shards[0].chain
    renewed = run(coordinator_of(tmp_path, plan(shards, 2, 2, dealers=numbered(shards), source=source), shards))
    document = take_into_force(chain, renewed)
    bring()
    assert [path.name for path in shards[0].folder.glob("share-3*")] == [f"share-3-{renewed.id.hex()[:16]}.json"]
    unfinished = plan(shards, 2, 2, dealers=numbered(shards), source=SharesSource(1, document.commitments))
    stale = plan(shards, 2, 2, dealers=numbered(shards), source=source)
    for each in (unfinished, stale):
        shards[1].ceremonies().open(sign_plan(COORDINATOR, each), b"sealed seed")
    assert erased(shards[1], document).statement.erased == 1
    assert shards[1].ceremonies().running() == (unfinished,), "what goes on from the shares in force goes on"


class Killed(BaseException):
    """The process is gone."""


def killed_before(monkeypatch: pytest.MonkeyPatch, call: Callable[[], object]) -> None:
    """A call that dies when its file has all its bytes and not yet its name."""

    def die(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(os, "link", die)
        # Who was killed removes nothing more.
        patch.setattr(Path, "unlink", lambda *_, **__: None)
        with pytest.raises(Killed):
            call()


def test_complete_share_without_a_name_is_erased_with_its_epoch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shards, state, bring = missed_its_end(tmp_path)
    first, commitments = shards[0], state.result.commitments if state.result else ()
    killed_before(monkeypatch, bring)
    (draft,) = first.folder.glob("*.draft")
    copy = first.folder / f"share-3-{state.id.hex()[:16]}.json"
    copy.write_bytes(draft.read_bytes())
    assert first.share(3, commitments), "the control: with its name it opens"
    copy.unlink()
    first.restart()
    first.chain.epoch = replace(first.chain.epoch, state=EpochState.RETIRED)
    said = erased(first, epoch_document(state)).statement
    assert (said.kept, said.erased) == (ZERO_DIGEST, 1) and not list(first.folder.glob("[ks]*3-*"))


def test_shares_left_by_a_crash_are_erased_and_the_one_in_force_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shards, _, made, _ = made_key(tmp_path)
    folder, before = shards[0].folder, {path.name for path in shards[0].folder.iterdir()}
    killed_before(monkeypatch, lambda: keyring.seal_share(folder, 3, 1, 5, "-0a1b"))
    killed_before(monkeypatch, lambda: keyring.seal_kem(folder, 3, 1, bytes(64), "-0a1b"))
    killed_before(monkeypatch, lambda: keyring.seal_share(folder, 30, 1, 5))
    (folder / ".restoring").mkdir()
    for path in list(folder.glob("share-3-*.json")):
        (folder / ".restoring" / path.name).write_bytes(path.read_bytes())
    keyring.seal_kem(folder, 3, 1, bytes(64), "-0c2d")
    # A restore that died, a draft, and an ML-KEM key whose share was never written.
    assert erased(shards[0], epoch_document(made)).statement.erased == 2
    assert not list((folder / ".restoring").iterdir())
    after = {path.name for path in folder.iterdir()} - {".restoring", "erasure-3-v0.json", "serving.lock", "changing.lock"}
    assert after == before | {"share-30.draft"}, "another epoch's is not touched"
    shares_make_the_key(made, numbered(shards))


@pytest.mark.parametrize("linked", [True, False])
def test_erasing_a_draft_never_touches_the_named_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, linked: bool) -> None:
    """While another process writes: it has its file whole, or hears that it has none."""
    path, link = tmp_path / "share-3.json", os.link

    def meanwhile(draft: Path, name: Path) -> None:
        if linked:
            link(draft, name)
        assert wipe_draft(draft)
        if not linked:
            link(draft, name)

    monkeypatch.setattr(os, "link", meanwhile)
    with contextlib.nullcontext() if linked else pytest.raises(TryAgain, match="erased meanwhile"):
        write_whole(path, b"a share")
    assert [each.read_bytes() for each in tmp_path.iterdir()] == [b"a share"] * linked
    assert not wipe_draft(path.with_suffix(".draft"))


def refreshed(folder: Path) -> tuple[list[CeremonyShard], OneEpoch, EpochDocument, EpochDocument]:
    """2 of 2 shards with two versions of their shares, of which the chain means the second; the documents of both."""
    key = made_key(folder)
    document = take_into_force(key.chain, run(coordinator_of(folder, key.renewal(), key.shards)))
    return key.shards, key.chain, epoch_document(key.state), document


def statements(who: CeremonyShard) -> dict[str, Erasure]:
    """All that it ever said."""
    return {path.name: verify_erasure(decode(SignedErasure, path.read_bytes())) for path in who.folder.glob("erasure-*")}


def test_refresh_and_final_erasure_statements_coexist_and_name_the_network(tmp_path: Path) -> None:
    shards, chain, _, document = refreshed(tmp_path)
    erased(shards[0], document)
    chain.epoch = replace(chain.epoch, state=EpochState.RETIRED)
    erased(shards[0], document)
    said = statements(shards[0])
    assert sorted(said) == ["erasure-3-v1-none.json", "erasure-3-v1.json"]
    assert [(each.kept == ZERO_DIGEST, each.erased) for _, each in sorted(said.items())] == [(True, 1), (False, 1)]
    for each in said.values():
        named = each.chain_id, each.key_epochs, each.epoch, each.version
        assert named == (CONTRACTS.chain_id, CONTRACTS.key_epochs, 3, 1)
        for other in (replace(each, chain_id=U256(1)), replace(each, key_epochs=CONTRACTS.anchor), replace(each, version=2)):
            assert erasure_digest(other) != erasure_digest(each)


def test_later_erasure_under_the_same_statement_is_added_to_it(tmp_path: Path) -> None:
    shards, _, before, document = refreshed(tmp_path)
    files = {path: path.read_bytes() for path in shards[0].folder.glob("share-3*")}
    first = erased(shards[0], document)
    for path, data in files.items():  # out of a copy of the folder, for example
        path.write_bytes(data)
    again = erased(shards[0], document)
    assert (first.statement.erased, again.statement.erased) == (1, 2)
    assert list(statements(shards[0]).values()) == [again.statement]
    with pytest.raises(ConfigurationError):
        shards[0].share(3, before.commitments)


def test_nothing_is_erased_beside_an_unreadable_statement(tmp_path: Path) -> None:
    shards, _, before, document = refreshed(tmp_path)
    path, signed = shards[0].folder / "erasure-3-v1.json", erased(shards[1], document)
    of_another = encode(replace(signed, statement=replace(signed.statement, epoch=U64(2))))
    for data in (b"", b"{}", of_another):
        path.write_bytes(data)
        with pytest.raises(ConfigurationError, match=r"erasure-3-v1\.json.*move it away, nothing was erased"):
            erased(shards[0], document)
        assert shards[0].share(3, before.commitments) and path.read_bytes() == data


def test_compromised_epoch_is_erased_once_no_dispute_can_need_its_shares(tmp_path: Path) -> None:
    """And no share of it is restored then."""
    shards, chain, _, document = refreshed(tmp_path)
    chain.epoch = replace(chain.epoch, state=EpochState.COMPROMISED)
    folder, file, key = shards[0].folder, tmp_path / "backup", bytes(32)
    records = ReleaseRecords(open_database(f"sqlite:///{folder / 'kms.sqlite'}"), key_domain(CONTRACTS))
    back_up(folder, file, key, records, SystemClock(), os.urandom)
    for open_, back in ((True, 1), (False, 0)):
        keyring.erase_all(folder, 3)
        chain.open_for_disputes = open_
        restore(file, key, folder, records, chain)
        assert len(list(folder.glob("share-3*"))) == back
    chain.open_for_disputes = True
    restore(file, key, folder, records, chain)
    assert erased(shards[0], document).statement.kept != ZERO_DIGEST
    assert shards[0].share(3, document.commitments), "disputes that are open still need it"
    chain.open_for_disputes = False
    assert erased(shards[0], document).statement.kept == ZERO_DIGEST
    assert list(folder.glob("share-3*")) == []


def test_former_holder_erases_all_its_shares(tmp_path: Path) -> None:
    shards, chain, before, document = refreshed(tmp_path)
    chain.epoch = replace(chain.epoch, shards=(shards[1].signer.address, COORDINATOR.address), version=2)
    said = erased(shards[0], before).statement
    assert (said.kept, said.version, said.erased) == (ZERO_DIGEST, 2, 2)
    other = replace(document, record=replace(document.record, public_key=document.commitments[1]))
    with pytest.raises(ConfigurationError, match="another key than the epoch file"):
        erased(shards[1], other)
