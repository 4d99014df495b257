"""A small network in memory for key release: real keys, real evidence, real shards; the chain is one settable block."""

import contextlib
import dataclasses
import functools
import os
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import uvicorn

from bytewise.crypto.envelope import seal
from bytewise.crypto.hpke import transport_keypair
from bytewise.crypto.hybrid import recipients
from bytewise.protocol.court import sortition
from bytewise.protocol.encoding import encode
from bytewise.protocol.errors.branches import BytewiseError
from bytewise.protocol.evidence.appraisal_policy import AppraisalPolicy
from bytewise.protocol.evidence.policy_updates import first_standing
from bytewise.protocol.jobs import Contracts, RunJob, anchor_domain, key_domain
from bytewise.protocol.keys.epochs import Decision, ReleaseAnswer, ReleaseRequest
from bytewise.protocol.records.environment import Environment, Limits
from bytewise.protocol.records.receipt import Receipt, plain_enclave_key, receipt_id
from bytewise.protocol.records.request import REQUEST_VERSION, DecodePolicy, Request, output_for
from bytewise.protocol.records.seal import Payload, client_digest, envelope_hash, seal_context
from bytewise.protocol.records.statements import Ticket, TicketKind, transport_key_hash
from bytewise.protocol.signing import LocalSigner, typed_digest
from bytewise.protocol.units import U8, U16, U64, U256, ZERO_DIGEST, Blob, Decimal, Digest
from bytewise.service.clock import SystemClock
from bytewise.storage.ceremonies import Ceremonies
from bytewise.storage.engine import open_database
from bytewise.storage.migrate import migrate
from bytewise.storage.releases import ReleaseRecords
from bytewise.tee.binding import Attested, Terms
from bytewise.tee.channel import End
from bytewise.tee.measurement import SHARD_ENTRY, measure
from bytewise.tee_simulated.__main__ import policy_for
from bytewise.tee_simulated.quoter import SimulatedQuoter, source_root
from bytewise.tee_simulated.root import Platform, issue, make_root
from cli.demo.site import free_ports
from kms.shard.api import build_app
from kms.shard.listener import ChannelServer
from kms.shard.release import Shard
from kms.storage import accounts, keyring
from tests.attested import attested
from tests.dealer import DealSettings, DealShard, deal
from tests.unit.kms.memory_chain import (
    AUDIT_RATE_BPS,
    CHAIN_ID,
    CLIENT,
    CONTRACTS,
    NOW,
    OPERATOR,
    VOTER,
    Case,
    MachineClock,
    MemoryChain,
)

ENTRY = "enclave.release_client"
"""The measured program of these tests: small, and without a model."""

ENVIRONMENT = Environment(ZERO_DIGEST, "exact-1", "cpu", "none", (), (), Limits(512, 128, 65536, 259))


FALSE_OUT_HASH = Digest(b"\x22" * 32)
"""What a receipt of these tests claims, which no answer has."""


class World:
    """Root, policy, dealt epoch of `count` shards with threshold `threshold`, chain, one enclave's quoter."""

    def __init__(
        self, folder: Path, threshold: int = 2, count: int = 3, contracts: Contracts = CONTRACTS, epoch: int = 1
    ) -> None:
        self.folder = folder
        self.contracts = contracts
        self.environment = ENVIRONMENT
        make_root(folder / "root")
        issue(folder / "root", folder / "platform.key")
        self.policy: AppraisalPolicy = policy_for(program(ENTRY), program(SHARD_ENTRY), folder / "root", CHAIN_ID, 1)
        platform = Platform(folder / "platform.key")
        self.quoter, self.shard_quoter = (
            SimulatedQuoter(platform, program(entry), SystemClock()) for entry in (ENTRY, SHARD_ENTRY)
        )
        self.ports, self.channel_ports = free_ports(count), free_ports(count)
        shards = tuple(
            DealShard(folder / f"shard-{n}", f"https://127.0.0.1:{port}", f"127.0.0.1:{channel}")
            for n, port, channel in zip(range(1, count + 1), self.ports, self.channel_ports, strict=True)
        )
        self.settings = DealSettings(U64(epoch), threshold, "simulated", folder / "epoch.json", shards)
        self.document = deal(self.settings, os.urandom)
        self.chain, self.clock = MemoryChain(self.document, self.policy.digest), MachineClock()
        self.instance = Digest(os.urandom(32))
        self.secret, self.public = transport_keypair(os.urandom)

    def context(self, case: Case) -> Digest:
        """Seal context of the case."""
        return seal_context(anchor_domain(self.contracts), case.receipt)

    def records(self, index: int) -> ReleaseRecords:
        """Own database of a shard, migrated."""
        path = self.folder / f"shard-{index}" / "kms.sqlite"
        if not path.exists():
            path.write_bytes(empty_database())
        return ReleaseRecords(open_database(f"sqlite:///{path}"), key_domain(self.contracts))

    def ceremonies(self, index: int) -> Ceremonies:
        """In the same database."""
        self.records(index)
        return Ceremonies(open_database(f"sqlite:///{self.folder / f'shard-{index}' / 'kms.sqlite'}"))

    def signers(self) -> list[LocalSigner]:
        """The keys with which shards sign, by index."""
        return [accounts.signer(each.folder) for each in self.settings.shards]

    def shard(
        self, index: int, rng: Callable[[int], bytes] = os.urandom, audits: int = 100, policy: AppraisalPolicy | None = None,
        release_shares: bool = False,
    ) -> Shard:  # fmt: skip
        """A shard with its keys read from its folder."""
        folder = self.settings.shards[index - 1].folder
        return Shard(
            self.document, keyring.open_share(folder, self.document),
            functools.partial(keyring.find_share, folder, self.document.record.epoch), accounts.signer(folder), self.contracts,
            first_standing(policy or self.policy), self.chain, self.records(index), rng, self.clock, audits, release_shares,
        )  # fmt: skip

    def case(self, seq: int = 1, signer: LocalSigner = OPERATOR, epoch: int | None = None, canary: int = 65) -> Case:
        """A receipt of the operator with its sealed envelope."""
        request = Request(
            REQUEST_VERSION, Digest(b"\x11" * 32), "tiny", self.environment.digest,
            DecodePolicy(16, Decimal("0"), Decimal("1"), 0, (2,)), U64(seq), (canary, 66, 67), ZERO_DIGEST, ZERO_DIGEST,
            None, Digest(os.urandom(32)), U256(CHAIN_ID), U64(NOW + 1000), CLIENT.address, None,
        )  # fmt: skip
        output = output_for(request, (70, 71, 2), "stop")
        signature = CLIENT.sign(client_digest(request.req_hash, CHAIN_ID))
        return self.sealed(Payload(request, output, signature), seq, signer, epoch)

    def sealed(
        self, payload: Payload, seq: int, signer: LocalSigner = OPERATOR, epoch: int | None = None,
        out_hash: Digest = FALSE_OUT_HASH,
    ) -> Case:  # fmt: skip
        """A receipt for a payload, its envelope sealed to the epoch."""
        record = self.document.record
        epoch = record.epoch if epoch is None else epoch
        draft = Receipt(
            signer.address, U64(seq), payload.request.req_hash, payload.output.tokens_hash, out_hash,
            payload.request.model_id, payload.request.environment, self.environment.gpu_arch_id, U64(epoch), ZERO_DIGEST,
            U64(NOW - 200), U64(NOW + 100), U8(2), U8(2), plain_enclave_key(), U256(CHAIN_ID),
        )  # fmt: skip
        context = seal_context(anchor_domain(self.contracts), draft)
        envelope = seal(payload, record.public_key, context, epoch, os.urandom, recipients(record))
        return self.named(payload, replace(draft, envelope_hash=envelope_hash(envelope)), envelope, signer)

    def named(self, payload: Payload, receipt: Receipt, envelope: bytes, signer: LocalSigner = OPERATOR) -> Case:
        """A case of a receipt signed anew."""
        identifier = receipt_id(anchor_domain(self.contracts), receipt)
        return Case(payload, receipt, signer.sign(identifier), envelope, identifier)

    def ticket(self, case: Case, kind: TicketKind = TicketKind.DISPUTE, **changes: object) -> Ticket:
        """A ticket of VOTER for the case, with changed fields."""
        dispute = kind is TicketKind.DISPUTE
        subject = Digest(case.id[::-1]) if dispute else case.id
        plain = Ticket(
            U8(kind), subject, U16(1 if dispute else 0), case.id, VOTER.address, transport_key_hash(self.public),
            self.instance, case.receipt.key_epoch, U64(NOW + 60),
        )  # fmt: skip
        return dataclasses.replace(plain, **changes)  # type: ignore[arg-type]

    def request(
        self, case: Case, ticket: Ticket | None = None, proof: tuple[Digest, ...] = (), signer: LocalSigner = VOTER
    ) -> ReleaseRequest:
        """A release request with a signed ticket."""
        ticket = ticket or self.ticket(case)
        signature = signer.sign(typed_digest(key_domain(self.contracts), ticket))
        return ReleaseRequest(ticket, signature, case.receipt, case.receipt_signature, 0, proof, Blob(case.envelope))

    def end(self, index: int, shard: Shard) -> End:
        """The shard's end of its channels."""
        signer = accounts.signer(self.settings.shards[index - 1].folder)
        return End(shard.terms(), self.shard_quoter, signer, SystemClock(), os.urandom)

    def enclave(self, index: int) -> End:
        """An enclave's end of channels to a shard."""
        terms = self.shard(index).terms()
        asking = Terms(
            terms.peer, terms.own, terms.contracts, terms.key_epoch, first_standing(self.policy),
            self.document.record.shards[index - 1].address,
        )  # fmt: skip
        return End(asking, self.quoter, None, SystemClock(), os.urandom)

    def peer(self, shard: Shard, quoter: SimulatedQuoter | None = None, key: Blob | None = None) -> Attested:
        """The enclave as the shard knows it at the end of a handshake; an error of `verify_proof` if it would not let it in."""
        return attested(shard.terms(), quoter or self.quoter, self.public if key is None else key, self.policy.digest)

    def release(self, shard: Shard, case: Case, **changes: object) -> ReleaseAnswer:
        """The shard's answer to such a request."""
        return shard.release(encode(self.request(case, **changes)), self.peer(shard))  # type: ignore[arg-type]

    def job(self, case: Case, ticket: Ticket | None = None, signer: LocalSigner = VOTER) -> RunJob:
        """What a duty process would send its enclave."""
        ticket = ticket or self.ticket(case)
        return RunJob(
            ticket, signer.sign(typed_digest(key_domain(self.contracts), ticket)), case.receipt, case.receipt_signature, 0, (),
            U64(NOW - 100), Blob(case.envelope), self.environment, self.document.record, self.contracts, ZERO_DIGEST,
            Blob(encode(self.policy)),
        )  # fmt: skip

    @contextlib.contextmanager
    def listening(self, *shards: tuple[int, Shard]) -> Iterator[None]:
        """Attested channels of these shards, in threads of this process."""
        with contextlib.ExitStack() as stack:
            for index, shard in shards:
                listening = socket.create_server(("127.0.0.1", self.channel_ports[index - 1]))
                stack.callback(ChannelServer(shard, self.end(index, shard), listening, handshake_s=60.0).close)
            yield

    @contextlib.contextmanager
    def serving(self, *shards: tuple[int, Shard]) -> Iterator[None]:
        """Real HTTPS servers and attested channels of these shards, in threads of this process."""
        servers = []
        for index, shard in shards:
            folder = self.settings.shards[index - 1].folder
            config = uvicorn.Config(
                build_app(shard), host="127.0.0.1", port=self.ports[index - 1], log_config=None, lifespan="off",
                ssl_certfile=str(folder / "tls.pem"), ssl_keyfile=str(folder / "tls.key"),
            )  # fmt: skip
            server = uvicorn.Server(config)
            thread = threading.Thread(target=server.run)
            thread.start()
            servers.append((server, thread))
        try:
            wait_until(lambda: all(server.started for server, _ in servers))
            with self.listening(*shards):
                yield
        finally:
            for server, _ in servers:
                server.should_exit = True
            for _, thread in servers:
                thread.join(timeout=20)
                assert not thread.is_alive()


ATTACKER = LocalSigner(b"\x66" * 32)
"""Has a key and nothing else."""


@functools.cache
def program(entry: str = ENTRY) -> Digest:
    """Measurement of a program, taken once per test run."""
    return measure(source_root(), entry)


@functools.cache
def empty_database() -> bytes:
    """A migrated database file, made once per test run."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "empty.sqlite"
        migrate(f"sqlite:///{path}")
        return path.read_bytes()


def wait_until(condition: object, timeout_s: float = 60.0) -> None:
    """Polls a condition; fails after the timeout."""
    for _ in range(int(timeout_s / 0.02)):
        if condition():  # type: ignore[operator]
            return
        threading.Event().wait(0.02)
    raise AssertionError("condition did not come true in time")


def is_drawn(case: Case, beacon: Digest) -> bool:
    """Whether VOTER audits the case in this world."""
    return sortition.audit_is_drawn(beacon, case.id, VOTER.address, AUDIT_RATE_BPS, 100)


def refused(
    error: type[BytewiseError], world: World, shard: Shard, request: ReleaseRequest, peer: Attested | None = None
) -> BytewiseError:
    """The error of a refused request; nothing was released for it."""
    with pytest.raises(error) as caught:
        shard.release(encode(request), peer or world.peer(shard))
    assert all(r.record.decision == Decision.REFUSED for r in shard.log(0).entries)
    return caught.value
