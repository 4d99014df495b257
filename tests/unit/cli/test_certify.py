"""A verifier certifies what its own engine reproduced, and nothing else: a real model, a real registry, and wrong bytes."""

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from bytewise.protocol import encoding
from bytewise.protocol.address_book import Network
from bytewise.protocol.records.model_vectors import VectorAnswer, Vectors
from bytewise.protocol.units import ZERO_DIGEST, Digest, hex0x
from bytewise.service.clock import SystemClock
from bytewise.service.exit_codes import Exit
from bytewise.service.settings import child_environment
from bytewise.storage.duties import DONE, MISSED, Duties
from bytewise.storage.engine import open_database
from bytewise.storage.nonce_lease import NonceLease
from bytewise.storage.outbox import OutboxState
from chain.acts.actor import contract_sender
from chain.client.address_book import write_network
from chain.deployment.calls import ContractCall, call_of
from chain.deployment.deploy import Joiner, join, propose_item, set_measurement
from chain.sending.keys import save_signer
from chain.sending.sender import SenderPolicy
from chain.sending.transactions import send_all
from cli.__main__ import main
from tests.fixtures.chain.anvil import CHAIN_ID, Anvil, running_anvil
from tests.fixtures.chain.devnet import (
    ENVIRONMENT,
    MEASUREMENT,
    POOL,
    STAKE_WEI,
    VERIFIERS,
    deployed,
    mine,
    reader,
    signer,
    word,
)
from tests.fixtures.inference.models import small_artifact
from tests.fixtures.storage.databases import empty_database
from tests.fixtures.verifier.node_file import node_file
from tests.source import ROOT
from verifier.orders import CERTIFY, OrderedDuties, certification_subject
from verifier.watch.open_windows import SnapshotPages

MEMBER = VERIFIERS[0]


class Place(NamedTuple):
    """A network with verifiers, a model with its vectors, and one member's settings."""

    anvil: Anvil
    network: Network
    folder: Path
    model_id: Digest

    @property
    def vectors(self) -> Vectors:
        """As the proposer published them."""
        return encoding.decode(Vectors, (self.folder / "vectors.json").read_bytes())

    def propose(self, item: Digest, pool: Digest, vectors: Digest, document: bytes = b"{}") -> None:
        """Somebody proposes an item."""
        act = propose_item(item, pool, vectors, document)
        send_all(self.anvil.client, [call_of(signer(12), self.network, act)], 60)

    def certify(self, item: Digest, *options: str, wanted: Exit = Exit.OK) -> None:
        """The verb; its exit code must be the wanted one."""
        where = [str(self.folder / "model" / "artifact"), "--config", str(self.folder / "node.json")]
        assert main(["member", "certify", hex0x(item), *where, *options]) == wanted

    def ordered(self) -> int:
        """Words that the member is still to send."""
        return len(self.duties().pending())

    def duties(self) -> Duties:
        """The member's."""
        return Duties(self.lease().engine, SystemClock())

    def lease(self) -> NonceLease:
        """The member's."""
        return NonceLease(open_database(f"sqlite:///{self.folder / 'actor.db'}"), SystemClock(), CHAIN_ID, MEMBER.address)

    def runs(self) -> None:
        """The member's process sends what it was ordered."""
        policy = SenderPolicy(confirmations=1, replan_after_s=0)
        sender = contract_sender(self.anvil.client, self.network, self.lease(), MEMBER, "verifier", policy)
        orders, chain = OrderedDuties(self.duties(), sender), reader(self.anvil, self.network)
        for _ in range(4):
            orders.step(SnapshotPages(chain, MEMBER.address, 0).read(chain.head()))
            sender.pump()
            mine(self.anvil, 1)
        sender.transactions.outbox.lease.release()

    @contextmanager
    def process(self) -> Iterator[None]:
        """The member as its own process, which ends well."""
        ready, command = self.folder / "ready", [sys.executable, "-m", "committee", "--config", str(self.folder / "node.json")]
        with (self.folder / "member.log").open("wb") as log:
            running = subprocess.Popen(command, cwd=ROOT, env=child_environment(), stderr=log)
        try:
            self.wait(ready.exists)
            yield
        finally:
            running.terminate()
            assert running.wait(60) == 0, (self.folder / "member.log").read_text()[-2000:]

    def wait(self, done: Callable[[], bool]) -> None:
        """Blocks go on until something has happened."""
        for _ in range(600):
            if done():
                return
            mine(self.anvil, 1)
            threading.Event().wait(0.1)
        raise AssertionError((self.folder / "member.log").read_text()[-2000:])

    def certified(self, item: Digest) -> int:
        """Units that stand for it."""
        return reader(self.anvil, self.network).item(item, self.anvil.client.head().number).certified


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("member")
    with running_anvil() as anvil:
        network = deployed(anvil)
        write_network(folder / "network.json", network)
        save_signer(folder / "account.key", MEMBER)
        (folder / "actor.db").write_bytes(empty_database())
        node_file(folder, f"sqlite:///{folder / 'actor.db'}", anvil.url, ready_file="ready")
        made = small_artifact(folder / "model", 7)
        assert main(["model", "vectors", str(folder / "model" / "artifact"), str(folder / "vectors.json")]) == Exit.OK
        yield Place(anvil, network, folder, made.model_id)


def test_model_is_certified_by_members_that_computed_the_same(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    place.propose(place.model_id, ZERO_DIGEST, place.vectors.digest)
    before = place.ordered()
    place.certify(place.model_id, "--dry-run")
    assert place.ordered() == before and "all vectors are the same" in capsys.readouterr().out
    with place.process():
        place.certify(place.model_id)
        place.wait(lambda: place.ordered() == before)
    assert place.certified(place.model_id) > 0 and [each.state for each in place.duties().all()] == [DONE]
    place.certify(place.model_id, wanted=Exit.USAGE)
    assert "AlreadyCertified" in capsys.readouterr().err


def test_an_environment_is_certified_with_a_model_that_it_serves(place: Place) -> None:
    other = replace(ENVIRONMENT, driver="another")
    place.propose(other.digest, POOL, place.vectors.digest, encoding.encode(other))
    place.certify(other.digest, "--vectors", str(place.folder / "vectors.json"))
    place.runs()
    assert place.certified(other.digest) > 0


def test_order_is_kept_while_the_member_runs_and_after_a_failed_attempt(place: Place) -> None:
    item = replace(ENVIRONMENT, driver="tried before")
    place.propose(item.digest, POOL, place.vectors.digest, encoding.encode(item))
    proposed, lease = reader(place.anvil, place.network).item(item.digest, place.anvil.client.head().number), place.lease()
    sender = contract_sender(place.anvil.client, place.network, lease, MEMBER, "verifier")
    lease.acquire()
    sender.certify_item(item.digest, proposed.vectors, proposed.certify_until)
    row = sender.transactions.outbox.all()[-1]
    sender.transactions.outbox.mark(row.id, OutboxState.EXPIRED, detail="gave up")
    place.certify(item.digest)
    lease.release()
    place.runs()
    assert place.certified(item.digest) > 0 and place.ordered() == 0


def test_order_with_an_expired_proposal_is_missed(place: Place) -> None:
    chain = reader(place.anvil, place.network)
    snapshot, subject = (
        SnapshotPages(chain, MEMBER.address, 0).read(chain.head()),
        certification_subject(word("late"), word("vectors"), 1),
    )
    place.duties().order(CERTIFY, subject, 1)
    OrderedDuties(place.duties(), contract_sender(place.anvil.client, place.network, place.lease(), MEMBER, "verifier")).step(
        snapshot
    )
    found = place.duties().find(CERTIFY, subject)
    assert found is not None and found.state == MISSED


def test_artifact_with_one_other_byte_is_not_certified_and_named(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    """A proposer that published what no engine gives: the digest on the chain is its, and its file fits."""
    number = 2
    true = place.vectors.answers[number]
    wrong = VectorAnswer(true.tokens_hash, Digest(bytes([true.trace_root[0] ^ 1]) + true.trace_root[1:]))
    answers = tuple(wrong if i == number else each for i, each in enumerate(place.vectors.answers))
    forged, item, file = replace(place.vectors, answers=answers), replace(ENVIRONMENT, driver="forged"), "forged.json"
    (place.folder / file).write_bytes(encoding.encode(forged))
    place.propose(item.digest, POOL, forged.digest, encoding.encode(item))
    before = place.ordered()
    place.certify(item.digest, "--vectors", str(place.folder / file), wanted=Exit.MISMATCH)
    said = " ".join(capsys.readouterr().err.split())
    assert f"not certified: this engine gives {hex0x(place.vectors.digest)}" in said
    assert "or ARTIFACT is another model than the proposer's" in said
    assert f"vector {number + 1} (" in said and "another computation" in said and said.count("vector ") == 1
    place.certify(item.digest, wanted=Exit.MISMATCH)
    assert "--vectors FILE of the proposer shows which" in " ".join(capsys.readouterr().err.split())
    assert place.ordered() == before


def test_uncertifiable_order_is_named_before_any_computation(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    def refused(item: Digest, *options: str) -> str:
        place.certify(item, *options, wanted=Exit.USAGE)
        return " ".join(capsys.readouterr().err.split())

    assert "is NONE, not PROPOSED" in refused(word("nothing"))
    assert "is ACTIVE, not PROPOSED" in refused(ENVIRONMENT.digest)
    place.propose(word("another model"), ZERO_DIGEST, place.vectors.digest)
    assert f"is model {hex0x(place.model_id)}, not" in refused(word("another model"))
    place.propose(word("no document"), POOL, place.vectors.digest)
    assert "no document of it" in refused(word("no document"))
    none = place.folder / "none.json"
    none.write_text("{}")
    assert "are no vectors" in refused(word("another model"), "--vectors", str(none))
    changed = replace(place.vectors, profile_vectors=word("other"))
    none.write_bytes(encoding.encode(changed))
    assert f"are {hex0x(changed.digest)}, proposed is" in refused(word("another model"), "--vectors", str(none))
    assert main(["member", "certify", "0x12", "x", "--config", str(place.folder / "node.json")]) == Exit.USAGE
    assert "exists already" in message_of_vectors(place, "vectors.json", capsys)
    assert "no folder for it" in message_of_vectors(place, "nowhere/vectors.json", capsys)
    assert main(["model", "vectors", str(place.folder / "nowhere"), str(place.folder / "new.json")]) == Exit.USAGE
    assert "ARTIFACT: " in capsys.readouterr().err


def test_certifying_by_a_new_verifier_names_when_its_stake_counts(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    newcomer, folder = signer(15), place.folder / "newcomer"
    folder.mkdir()
    write_network(folder / "network.json", place.network)
    save_signer(folder / "account.key", newcomer)
    settings = node_file(folder, f"sqlite:///{folder / 'actor.db'}", place.anvil.url)
    item = word("proposed to a newcomer")
    place.propose(item, ZERO_DIGEST, place.vectors.digest)
    join(place.anvil.client, place.network, [Joiner(newcomer, STAKE_WEI, None, POOL, word("its machine"), MEASUREMENT)])
    verb = ["member", "certify", hex0x(item), str(place.folder / "model" / "artifact"), "--config", str(settings)]
    assert main(verb) == Exit.USAGE
    said = " ".join(capsys.readouterr().err.split())
    assert "NoUnit(" in said and "counts from the stake epoch after its registration on: wait for it" in said
    send_all(place.anvil.client, [call_of(signer(0), place.network, set_measurement(MEASUREMENT, False))], 60)
    send_all(place.anvil.client, [call_of(newcomer, place.network, ContractCall("Registry", "refresh", (newcomer.address,)))], 60)
    assert main(verb) == Exit.USAGE
    said = " ".join(capsys.readouterr().err.split())
    assert "NoUnit(" in said and "measurement that is not allowed any more, counts nothing" in said


def message_of_vectors(place: Place, out: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["model", "vectors", str(place.folder / "model" / "artifact"), str(place.folder / out)]) == Exit.USAGE
    return " ".join(capsys.readouterr().err.split())
