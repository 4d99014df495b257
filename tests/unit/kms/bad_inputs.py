"""Bad input to keys and enclaves, one row for each kind: what comes in, and its own error and reason.

`docs/evidence/bad-inputs.md`, "Keys and enclaves: each with its own error", has the same rows in words.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from bytewise.crypto.curve import FIELD, GENERATOR, ORDER, decode_point, encode_point, second_generator
from bytewise.crypto.envelope import MAX_ENVELOPE_BYTES, seal
from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.errors.actors import (
    ClockWrong,
    EpochClosed,
    TicketRefused,
    TryAgain,
)
from bytewise.protocol.errors.branches import BytewiseError
from bytewise.protocol.errors.evidence import (
    ChannelRefused,
    EvidenceExpired,
    EvidenceFromFuture,
    EvidenceMalformed,
    EvidenceReplayed,
    EvidenceTooLarge,
)
from bytewise.protocol.errors.reasons import ChannelFlaw, ClockFlaw, EnvelopeFlaw, PointFlaw, TicketFlaw
from bytewise.protocol.errors.records import (
    BadSignature,
    EnvelopeProofBad,
    ForeignChain,
    MalformedPoint,
    TooLarge,
)
from bytewise.protocol.evidence.appraisal_policy import entry_digest
from bytewise.protocol.evidence.policy_updates import Pending, Standing, Times, verify_times
from bytewise.protocol.keys.epochs import MAX_RELEASE_BODY_BYTES
from bytewise.protocol.records.receipt import Receipt
from bytewise.protocol.records.seal import Envelope, envelope_hash, seal_context
from bytewise.protocol.signing import Domain, typed_digest
from bytewise.protocol.units import U64, U256, Blob, Digest
from bytewise.service.clock import ForwardClock
from bytewise.tee.appraisal import CLOCK_SKEW_S
from bytewise.tee.binding import MAX_HELLO_BYTES, VERSION, Hello, verify_hello
from bytewise.tee_simulated.quoter import LIFETIME_S
from kms.shard.release_policy import verify_waited
from tests.unit.kms.memory_chain import CONTRACTS, NOW, Case
from tests.unit.kms.world import ATTACKER, World
from tests.unit.tee.bench import Bench, FixedClock

GOOD = encode_point(GENERATOR * 5)
X, Y = GOOD[1:33], GOOD[33:]
POINTS: dict[PointFlaw, bytes] = {
    PointFlaw.EMPTY: b"",
    PointFlaw.IDENTITY: b"\x04" + bytes(64),
    PointFlaw.COMPRESSED: b"\x02" + X,
    PointFlaw.OTHER_FORM: b"\x06" + X + Y,
    PointFlaw.SHORT: GOOD[:-1],
    PointFlaw.TRAILING: GOOD + b"\0",
    PointFlaw.ABOVE_FIELD: b"\x04" + FIELD.to_bytes(32) + Y,
    PointFlaw.OFF_CURVE: GOOD[:-1] + bytes([GOOD[-1] ^ 1]),
}


@dataclass
class Scene:
    """A network, the bench of evidence, and what a row put into it."""

    world: World
    bench: Bench
    made: list[Case]

    def case(self, **given: Any) -> Case:
        """A fresh receipt with its envelope."""
        self.made.append(self.world.case(**given))
        return self.made[-1]

    def release(self, case: Case, **changes: Any) -> object:
        """What a shard answers to a request about the case, in a dispute about it."""
        shard = self.world.shard(1)
        self.world.chain.open(case)
        return shard.release(encode(replace(self.world.request(case), **changes)), self.world.peer(shard))

    def named(self, data: bytes, of: Case, **changes: Any) -> Case:
        """A receipt of the attacker that names these bytes, truly."""
        receipt: Receipt = replace(of.receipt, envelope_hash=envelope_hash(data), **changes)
        return self.world.named(of.payload, receipt, data, ATTACKER)

    def altered(self, change: Callable[[Envelope], Envelope]) -> object:
        """The answer about a receipt that names its envelope after the change."""
        case = self.case()
        return self.release(self.named(encode(change(decode(Envelope, case.envelope))), case))

    def with_ticket(self, case: Case, **changes: Any) -> object:
        """The answer to a ticket with other fields, signed by its voter."""
        asked = self.world.request(case, self.world.ticket(case, **changes))
        return self.release(case, ticket=asked.ticket, ticket_signature=asked.ticket_signature)


Act = Callable[[Scene], object]


def at_point(data: bytes) -> Act:
    return lambda _: decode_point(data)


def in_envelope(data: bytes) -> Act:
    return lambda scene: scene.altered(lambda e: replace(e, enc=Blob(data)))


def shifted(envelope: Envelope) -> Envelope:
    """By a multiple of the generators, with a response that fits: what plain HPKE would let pass."""
    shift, e, f = 12345, int.from_bytes(envelope.e), int.from_bytes(envelope.f)
    return replace(
        envelope,
        enc=encode_point(decode_point(envelope.enc) + GENERATOR * shift),
        ubar=encode_point(decode_point(envelope.ubar) + second_generator() * shift),
        f=Blob(((f + shift * e) % ORDER).to_bytes(32, "big")),
    )


def copied(scene: Scene) -> object:
    victim = scene.case()
    return scene.release(scene.named(victim.envelope, victim, operator=ATTACKER.address, seq=U64(7)))


def sealed_for_another_chain(scene: Scene) -> object:
    case = scene.case()
    context = seal_context(Domain(1, CONTRACTS.anchor), case.receipt)
    data = seal(case.payload, scene.world.document.record.public_key, context, case.receipt.key_epoch, os.urandom)
    return scene.release(scene.named(data, case))


def of_another_dispute(scene: Scene) -> object:
    case, other = scene.case(), scene.case(seq=2)
    return scene.with_ticket(case, subject=scene.world.chain.open(other))


def ticket_of_another_receipt(scene: Scene) -> object:
    return scene.with_ticket(scene.case(), receipt_id=scene.case(seq=2).id)


def other_epoch_in_envelope(scene: Scene) -> object:
    return scene.altered(lambda e: replace(e, key_epoch=U64(2)))


def receipt_of_another_chain(scene: Scene) -> object:
    case = scene.case()
    return scene.release(scene.named(case.envelope, case, chain_id=U256(1)))


def ticket_of_another_chain(scene: Scene) -> object:
    case = scene.case()
    ticket = scene.world.ticket(case)
    digest = typed_digest(Domain(1, CONTRACTS.key_epochs), ticket)
    return scene.release(case, ticket=ticket, ticket_signature=ATTACKER.sign(digest))


def evidence(change: Callable[[Bench], bytes], later: int = 0) -> Act:
    return lambda scene: scene.bench.appraise(change(scene.bench), now=scene.bench.now + later)


def genuine(bench: Bench) -> bytes:
    return encode(bench.evidence)


def of_another_session(bench: Bench) -> bytes:
    return bench.signed(replace(bench.body, report_data=os.urandom(64)))


def half_a_quote(bench: Bench) -> bytes:
    return encode(replace(bench.evidence, quote=Blob(bench.evidence.quote[:600])))


def in_hello(data: bytes) -> Act:
    """Said by an enclave in its hello, of the right terms."""

    def act(scene: Scene) -> object:
        terms = scene.world.shard(1).terms()
        none = Digest(bytes(32))
        return verify_hello(terms, encode(Hello(VERSION, terms.peer, none, U64(1), terms.standing.policy.digest, Blob(data))))

    return act


def long_hello(scene: Scene) -> object:
    return verify_hello(scene.world.shard(1).terms(), bytes(MAX_HELLO_BYTES + 1))


def jump_ahead(scene: Scene) -> object:
    """Our clock says that the wait of an addition is over, the chain's does not."""
    found = scene.bench.appraise(genuine(scene.bench))
    waits = Pending(entry_digest(found.program), U64(NOW + 1))
    return verify_waited(Standing(scene.bench.policy, (waits,)), found, scene.world.chain.facts)


def set_back(scene: Scene) -> object:
    """Evidence expired by a clock that is then set back."""
    bench = scene.bench
    clocks = iter((FixedClock(bench.now + LIFETIME_S), FixedClock(bench.now)))

    class Hands:
        def now(self) -> int:
            return next(clocks).now()

    clock = ForwardClock(Hands())
    assert clock.now() == bench.now + LIFETIME_S
    return bench.appraise(genuine(bench), now=clock.now())


Row = tuple[type[BytewiseError], str, Act]
ROWS: dict[str, Row] = {
    **{f"a point: {flaw}": (MalformedPoint, flaw, at_point(data)) for flaw, data in POINTS.items()},
    **{f"in an envelope: {flaw}": (EnvelopeProofBad, flaw, in_envelope(data)) for flaw, data in POINTS.items()},
    **{
        f"a transport key: {flaw}": (ChannelRefused, flaw, in_hello(data))
        for flaw, data in POINTS.items()
        if flaw is not PointFlaw.EMPTY  # which says that there is none
    },
    "a shifted envelope": (EnvelopeProofBad, EnvelopeFlaw.PROOF, lambda scene: scene.altered(shifted)),
    "an envelope copied to another receipt": (EnvelopeProofBad, EnvelopeFlaw.PROOF, copied),
    "an envelope sealed for another chain": (EnvelopeProofBad, EnvelopeFlaw.PROOF, sealed_for_another_chain),
    "no canonical envelope": (
        EnvelopeProofBad, EnvelopeFlaw.NOT_CANONICAL,
        lambda scene: scene.release(scene.named(b" {}", scene.case())),
    ),
    "an envelope without members": (
        EnvelopeProofBad, EnvelopeFlaw.WRONG_FIELDS,
        lambda scene: scene.release(scene.named(b"{}", scene.case())),
    ),
    "a scalar above the order": (
        EnvelopeProofBad, EnvelopeFlaw.MALFORMED,
        lambda scene: scene.altered(lambda e: replace(e, f=Blob(b"\xff" * 32))),
    ),
    "a ciphertext of no bucket": (
        EnvelopeProofBad, EnvelopeFlaw.NO_BUCKET,
        lambda scene: scene.altered(lambda e: replace(e, ciphertext=Blob(e.ciphertext + b"\0"))),
    ),
    "an envelope of another suite": (
        EnvelopeProofBad, EnvelopeFlaw.OTHER_SUITE,
        lambda scene: scene.altered(lambda e: replace(e, suite=3)),
    ),
    "wrong receipt: its envelope": (
        EnvelopeProofBad, EnvelopeFlaw.OTHER_BYTES,
        lambda scene: scene.release(scene.case(), envelope=Blob(scene.case(seq=2).envelope)),
    ),
    "wrong receipt: its ticket": (TicketRefused, TicketFlaw.OTHER_RECEIPT, ticket_of_another_receipt),
    "wrong receipt: its dispute": (TicketRefused, TicketFlaw.OTHER_DISPUTE, of_another_dispute),
    "wrong epoch: in the envelope": (EnvelopeProofBad, EnvelopeFlaw.OTHER_EPOCH, other_epoch_in_envelope),
    "wrong epoch: in the receipt of a ticket": (
        TicketRefused, TicketFlaw.OTHER_EPOCH, lambda scene: scene.with_ticket(scene.case(epoch=2), key_epoch=U64(1)),
    ),
    "wrong epoch: not served": (
        EpochClosed, "", lambda scene: scene.with_ticket(scene.case(), key_epoch=U64(2)),
    ),
    "wrong chain: of the receipt": (ForeignChain, "", receipt_of_another_chain),
    "wrong chain: of the ticket": (BadSignature, "", ticket_of_another_chain),
    "an expired ticket": (
        TicketRefused, TicketFlaw.EXPIRED, lambda scene: scene.with_ticket(scene.case(), expires_at=U64(NOW)),
    ),
    "a ticket for another transport key": (
        TicketRefused, TicketFlaw.OTHER_KEY,
        lambda scene: scene.with_ticket(scene.case(), transport_key_hash=Digest(bytes(32))),
    ),
    "expired evidence": (EvidenceExpired, "", evidence(genuine, LIFETIME_S)),
    "future evidence": (EvidenceFromFuture, "", evidence(genuine, -CLOCK_SKEW_S - 1)),
    "replayed evidence": (EvidenceReplayed, "", evidence(of_another_session)),
    "malformed evidence": (EvidenceMalformed, "", evidence(half_a_quote)),
    "oversized: evidence": (EvidenceTooLarge, "", evidence(lambda bench: bytes(2**20))),
    "oversized: an envelope": (
        EnvelopeProofBad, EnvelopeFlaw.TOO_LARGE,
        lambda scene: scene.release(scene.named(bytes(MAX_ENVELOPE_BYTES + 1), scene.case())),
    ),
    "oversized: a request": (
        TooLarge, "",
        lambda scene: scene.world.shard(1).release(bytes(MAX_RELEASE_BODY_BYTES + 1), scene.world.peer(scene.world.shard(1))),
    ),
    "oversized: a hello": (ChannelRefused, ChannelFlaw.TOO_LARGE, long_hello),
    "a clock far from the chain's": (
        ClockWrong, ClockFlaw.APART, lambda _: verify_times(Times(own=NOW + 7200, chain=NOW), NOW),
    ),
    "clocks from before the last start": (
        ClockWrong, ClockFlaw.WENT_BACK, lambda _: verify_times(Times(own=NOW, chain=NOW), NOW + 7200),
    ),
    "a clock that jumps ahead under a running shard": (TryAgain, "", jump_ahead),
    "a clock that is set back under a running process": (EvidenceExpired, "", set_back),
}  # fmt: skip
ONE_CASE = [
    {"a shifted envelope", "an envelope copied to another receipt", "an envelope sealed for another chain"},
    {"expired evidence", "a clock that is set back under a running process"},
]
"""What has the same error: the challenge of a proof hashes points, ciphertext and context into one number, so that nobody can
say which of them is another; and a clock that is set back changes nothing, so that what had expired still has."""
