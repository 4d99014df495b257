"""The process that rebuilds a key, seen from its job's: what it is asked, what comes back, and that it is never left behind."""

import os
import signal
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from bytewise.crypto.curve import GENERATOR, decode_scalar, encode_point
from bytewise.protocol.errors.actors import ConfigurationError, NoKey, ShardRefused, TryAgain
from bytewise.protocol.errors.branches import BytewiseError
from bytewise.protocol.errors.records import EnvelopeDoesNotOpen, EnvelopeProofBad
from bytewise.protocol.evidence.appraisal_policy import EvidenceType
from bytewise.protocol.jobs import RunJob
from bytewise.protocol.records.seal import unpad
from bytewise.protocol.suites import rebuilt_epoch
from bytewise.protocol.units import U64, Blob
from enclave.job_socket import ShardDialer
from enclave.key_rebuilder import KeyRebuilder, RebuildRequest, RebuildResult, TransportSecret, _answer, _error
from enclave.release_client import ShardKeySource
from enclave.settings import EnclaveSettings
from enclave.wiring import _ProcessFactory
from tests.fixtures.kms.release_network import World

SECRET = bytes(range(32))


class Source:
    """A key source that does one thing, and tells with which transport key."""

    def __init__(self, act: Callable[[RunJob], bytes]) -> None:
        self._act = act

    def open(self, job: RunJob, transport_secret: bytes) -> bytes:
        return self._act(job) + encode_point(GENERATOR * decode_scalar(transport_secret))


def fails(error: BaseException) -> Callable[[RunJob], bytes]:
    """An act that ends so."""

    def act(_job: RunJob) -> bytes:
        raise error

    return act


NEVER = Source(fails(AssertionError()))
"""One that must not be asked."""


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> RunJob:
    world = World(tmp_path_factory.mktemp("job"), epoch=rebuilt_epoch(1))
    return world.job(world.case())


def asked(job: RunJob, otherwise: Source, rebuilding: Callable[[ShardDialer], Source]) -> bytes:
    """What a rebuilder gives, whose process is gone then."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        board = ShardDialer()
        board.peer = ours
        rebuilder = KeyRebuilder(otherwise, board, rebuilding, lambda: ("no_swap",))
        assert rebuilder.ready().unfenced == ("no_swap",)
        child = rebuilder._process.pid
        secret, public = rebuilder.transport()
        assert secret == b"", "it is born in the child, and stays there"
        try:
            return rebuilder.open(job, secret).removesuffix(public)
        finally:
            with pytest.raises(ChildProcessError):
                os.waitpid(child, 0)


def test_child_opens_with_its_job_and_its_stream(job: RunJob) -> None:
    def rebuilding(board: ShardDialer) -> Source:
        def act(got: RunJob) -> bytes:
            assert got == job and board.peer is not None and board.peer.family is socket.AF_UNIX
            return str(os.getpid()).encode()

        return Source(act)

    assert int(asked(job, NEVER, rebuilding)) != os.getpid()


def test_epoch_of_partials_is_opened_without_the_child(job: RunJob, tmp_path: Path) -> None:
    plain = replace(job, ticket=replace(job.ticket, key_epoch=U64(1)))
    mark = tmp_path / "asked"

    def rebuilding(_board: ShardDialer) -> Source:
        return Source(lambda _job: str(mark.write_bytes(b"x")).encode())

    assert asked(plain, Source(lambda _job: b"by partials"), rebuilding) == b"by partials"
    assert not mark.exists()
    asked(job, NEVER, rebuilding)
    assert mark.exists(), "the mark would show it (positive control)"


@pytest.mark.parametrize(
    "error", [EnvelopeProofBad("ab", "why"), EnvelopeDoesNotOpen("ab"), NoKey(1, 2, "shard 2 TryAgain"), ShardRefused("a", "b")]
)
def test_vote_inputs_are_the_same_on_both_sides(job: RunJob, error: BytewiseError) -> None:
    with pytest.raises(type(error)) as caught:
        asked(job, NEVER, lambda _board: Source(fails(error)))
    assert str(caught.value) == str(error)


def test_signing_secret_is_passed_for_partials_only(job: RunJob) -> None:
    plain = replace(job, ticket=replace(job.ticket, key_epoch=U64(1)))
    nothing = Source(fails(NoKey(0, 2, "none")))
    assert _answer(nothing, RebuildRequest(plain), SECRET) == TransportSecret(Blob(SECRET))
    other = replace(job, receipt=replace(job.receipt, key_epoch=U64(1)))
    assert {type(_answer(nothing, RebuildRequest(each), SECRET)) for each in (job, other)} == {RebuildResult}, (
        "the ticket is what shards go by"
    )


def test_shares_released_again_open_nothing_after_the_child_ended(tmp_path: Path) -> None:
    world = World(tmp_path, epoch=rebuilt_epoch(1))
    case = world.case()
    world.chain.open(case)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        board = ShardDialer()
        board.peer = ours
        asks = ShardKeySource(world.quoter, rebuilds=True)
        rebuilder = KeyRebuilder(NEVER, board, lambda _board: asks, tuple)
        rebuilder.ready()
        held = world.secret, world.public
        world.secret, world.public = rebuilder.transport()
        shards = {i: world.shard(i, release_shares=True) for i in (1, 2)}
        with world.listening(*shards.items()):
            assert unpad(rebuilder.open(world.job(case), world.secret)) == case.payload
            # Ticket, quoter, streams and the public half are still here, and shards keep to the ticket.
            assert world.release(shards[1], case).record.index == 1
            with pytest.raises(BytewiseError):
                asks.open(world.job(case), world.secret)
            world.secret, world.public = held
            assert unpad(asks.open(world.job(case), world.secret)) == case.payload, "with a secret it is enough (control)"


def kill(_job: RunJob) -> bytes:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


@pytest.mark.parametrize("act", [kill, fails(ConfigurationError("a", "b")), fails(MemoryError())])
def test_abnormal_end_of_the_child_gives_no_vote(job: RunJob, act: Callable[[RunJob], bytes]) -> None:
    with pytest.raises(TryAgain):
        asked(job, NEVER, lambda _board: Source(act))


@pytest.mark.parametrize("name", ["", "NoSuch", "ConfigurationError", "Fault" * 9, "errors", "annotations"])
def test_unknown_verdict_word_is_refused(name: str) -> None:
    assert type(_error(RebuildResult(None, name, ("x",)))) is TryAgain


def test_own_errors_are_passed_on_and_others_are_raised(job: RunJob) -> None:
    wanted = RebuildRequest(job)
    assert _answer(Source(fails(NoKey(0, 2, "x" * 999))), wanted, SECRET) == RebuildResult(None, "NoKey", ("0", "2", "x" * 200))
    with pytest.raises(ZeroDivisionError):
        _answer(Source(fails(ZeroDivisionError())), wanted, SECRET)


def test_opening_without_a_served_job_asks_for_a_retry(job: RunJob) -> None:
    rebuilder = KeyRebuilder(NEVER, ShardDialer(), lambda _board: NEVER, tuple)
    with pytest.raises(TryAgain, match="no job is being served"):
        rebuilder.open(job, SECRET)


def test_enclave_without_opt_in_has_no_such_process(job: RunJob) -> None:
    settings = EnclaveSettings(Path("model"), Path("s"), 1, EvidenceType.TDX, endorsements=Path("e"))
    parts = _ProcessFactory(settings, None, None, None, ())  # type: ignore[arg-type]
    ours, theirs = socket.socketpair()
    with ours, theirs:
        keys, unfenced = parts._keys(ours, ShardDialer())
        assert (type(keys), unfenced) == (ShardKeySource, ())
        with pytest.raises(NoKey, match="this enclave rebuilds no keys"):
            keys.open(job, SECRET)


def test_unused_child_ends_without_an_error() -> None:
    """Its job's process is gone, which is no bug of anybody."""
    rebuilder = KeyRebuilder(NEVER, ShardDialer(), lambda _board: NEVER, tuple)
    rebuilder.ready()
    rebuilder._line.close()
    assert rebuilder._process.reap() == 0
