"""Key ceremonies in memory: real keys, real messages, one log; dishonest parties say something else than the rules give them."""

import itertools
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from bytewise.crypto.curve import GENERATOR, decode_point, encode_point
from bytewise.crypto.shares import combine_values, verification_key
from bytewise.protocol.errors.actors import CeremonyRefused
from bytewise.protocol.keys.ceremony import CeremonySeat, Plan, Purpose, SharesSource
from bytewise.protocol.keys.ceremony_log import Body, Close, Message, say
from bytewise.protocol.signing import LocalSigner
from bytewise.protocol.units import U64, U256, Address, Blob, Digest
from bytewise.service.secret import Secret
from kms.ceremony import canary
from kms.ceremony.responses import Member, due, new_share
from kms.ceremony.state import Ceremony, Phase
from kms.ceremony.state_machine import apply, begin, is_complete

SCRIBE = LocalSigner(b"\x77" * 32)
KEY_EPOCHS = Address("0x" + "e1" * 20)
RUNNING = tuple(phase for phase in Phase if phase < Phase.DONE)

Meddling = Callable[["Town", "Party", Body], Iterable[Body]]
"""What a dishonest party says in place of a body that it owes."""


@dataclass
class Party:
    """One shard: its account, its seed, and its share of the plan's source, if any."""

    signer: LocalSigner
    seed: Secret
    share: int | None = None
    meddle: Meddling | None = None
    absent: set[Phase] = field(default_factory=set)

    @property
    def member(self) -> Member:
        """As the core sees it."""
        old = None if self.share is None else Secret(self.share.to_bytes(32, "big"))
        return Member(self.signer, self.seed, old)


def party(number: int, share: int | None = None) -> Party:
    """A party with an account of its own and a fresh seed."""
    return Party(LocalSigner(bytes([number]) * 32), Secret(os.urandom(32)), share)


def seat(index: int, who: Party) -> CeremonySeat:
    """The seat of a party."""
    return CeremonySeat(
        index, who.signer.address, f"https://127.0.0.1:{7000 + index}", f"127.0.0.1:{8000 + index}", "certificate"
    )


def plan_for(
    receivers: list[Party],
    threshold: int,
    quorum: int,
    *,
    dealers: Mapping[int, Party] | None = None,
    source: SharesSource | None = None,
    heir: CeremonySeat | None = None,
    budget: int = 1,
    epoch: int = 3,
) -> Plan:
    """A plan for these parties: a new key, new shares of `source`, or the heir's share of it."""
    seats = tuple(seat(i, each) for i, each in enumerate(receivers, start=1))
    dealing = seats if dealers is None else tuple(seat(i, each) for i, each in sorted(dealers.items()))
    purpose = Purpose.GENERATE if source is None else Purpose.REPAIR if heir else Purpose.RESHARE
    return Plan(
        purpose=purpose, chain_id=U256(31337), key_epochs=KEY_EPOCHS, epoch=U64(epoch), attempt=Digest(os.urandom(32)),
        scribe=SCRIBE.address, dealers=dealing, receivers=seats, heir=heir, threshold=threshold, quorum=quorum,
        reveal_budget=budget, source=source, assurance="simulated",
    )  # fmt: skip


class Town:
    """Everybody in one place, and the log that they share."""

    def __init__(self, plan: Plan, parties: Iterable[Party]) -> None:
        self.plan = plan
        self.parties = list({each.signer.address: each for each in parties}.values())
        self.state: Ceremony = begin(plan)
        self.log: list[Message] = []
        self.refused: list[Address] = []

    def post(self, message: Message) -> None:
        """One message into the log; raises what the rules raise."""
        self.state = apply(self.state, message)
        self.log.append(message)

    def speak(self, who: Party) -> None:
        """A party says what it owes, or what it makes of that."""
        if self.state.phase in who.absent:
            return
        for body in due(self.state, who.member):
            said = [body] if who.meddle is None else who.meddle(self, who, body)
            for each in said:
                if who.signer.address not in self.state.lies:
                    self._hear(who, say(who.signer, self.state.id, each))

    def _hear(self, who: Party, message: Message) -> None:
        # As the scribe: what the rules refuse of a dishonest party is not in the log.
        try:
            self.post(message)
        except CeremonyRefused:
            if who.meddle is None or self.state.phase not in RUNNING:
                raise
            self.refused.append(message.sender)

    def close(self) -> None:
        """The scribe ends the phase."""
        self.post(say(SCRIBE, self.state.id, Close(self.state.phase, self.state.head)))

    def run(self) -> Ceremony:
        """All phases, each closed when everybody had a turn."""
        for _ in RUNNING:
            if self.state.phase in RUNNING:
                for who in self.parties:
                    self.speak(who)
                if all(not each.absent and each.meddle is None for each in self.parties):
                    assert is_complete(self.state)
                self.close()
        return self.state

    def shares(self) -> dict[int, int]:
        """New shares of the parties that proved theirs, by index."""
        receivers = self.plan.receivers if self.plan.heir is None else (self.plan.heir,)
        by_address = {each.signer.address: each for each in self.parties}
        return {
            each.index: int.from_bytes(new_share(self.state, by_address[each.address].member).reveal())
            for each in receivers
            if each.index in self.state.partials
        }


def generated(threshold: int, count: int) -> tuple[list[Party], SharesSource]:
    """Parties that made a key together, each with its share."""
    parties = [party(n) for n in range(1, count + 1)]
    town = Town(plan_for(parties, threshold, count), parties)
    state = town.run()
    assert state.phase is Phase.DONE and state.result is not None
    held = [replace(each, share=town.shares()[n], seed=Secret(os.urandom(32))) for n, each in enumerate(parties, start=1)]
    return held, SharesSource(0, state.result.commitments)


def opens(town: Town) -> Blob:
    """The public key, if every set of t new shares opens what is sealed to it and every share is on the commitments."""
    result, threshold, shares = town.state.result, town.plan.threshold, town.shares()
    assert result is not None and len(shares) >= town.plan.quorum
    commitments = [decode_point(each) for each in result.commitments]
    partials = {index: canary.base(result.transcript) * share for index, share in shares.items()}
    for index, share in shares.items():
        assert GENERATOR * share == verification_key(index, commitments)
    for subset in itertools.combinations(shares, threshold):
        canary.verify_canary(result.transcript, result.public_key, threshold, {i: partials[i] for i in subset})
    return result.public_key


def in_force(shares: Mapping[int, int], threshold: int, public_key: Blob) -> None:
    """Asserts that old shares still make their key."""
    chosen = dict(sorted(shares.items())[:threshold])
    assert encode_point(GENERATOR * combine_values(chosen)) == public_key
