"""Past events of the court and the ledger, for auditors that have only an RPC address and the address book.

`ChainClaimHistory` has the values that were in force during a round, to compare them with the host claims in the round's quotes
(`bytewise.protocol.evidence.claims`).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from bytewise.crypto.bls import PublicKey, key_hash
from bytewise.protocol.court.settlement import PAID, SeatOutcome, SeatSettledEvent
from bytewise.protocol.decisions.snapshot import Dispute
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.evidence.claims import ChainClaims, keys_digest
from bytewise.protocol.records.statements import Finding, Verdict, Vote
from bytewise.protocol.signing import camel
from bytewise.protocol.suites import SUITE_HYBRID, suite_of
from bytewise.protocol.units import ZERO_ADDRESS, ZERO_DIGEST, Address, Blob, Digest
from chain.client.artifacts import Log
from chain.client.rpc import at_number, reading_answer
from chain.reads.reader import SnapshotReader


class CommitEvent(NamedTuple):
    """Event: a committee member committed to a vote."""

    dispute: Digest
    round: int
    voter: Address
    commitment: Digest
    block: int


class RevealEvent(NamedTuple):
    """Event: a committee member revealed its vote with its quote."""

    vote: Vote
    quote: Blob
    block: int


class RoundSettledEvent(NamedTuple):
    """Event: a round was counted. The verdict is NONE if it was inconclusive. `seats` has the number of seats for each result,
    by the contract's names."""

    dispute: Digest
    round: int
    verdict: Verdict
    seats: dict[str, int]
    block: int


class DisputeOpenedEvent(NamedTuple):
    """Event: a dispute was opened."""

    dispute: Digest
    receipt_id: Digest
    operator: Address
    challenger: Address
    batch_id: int
    alt_commit: Digest
    block: int


class SeatsDrawnEvent(NamedTuple):
    """Event: the last seat of a round was drawn. Times are of the protocol clock."""

    dispute: Digest
    round: int
    seed: Digest
    """Seed from which the seats were drawn."""
    round_seed: Digest
    """Seed from which each vote's round digest is computed."""
    commit_end: int
    """End of the commit phase."""
    reveal_end: int
    """End of the reveal phase."""
    block: int


class CertificateEvent(NamedTuple):
    """Event: the contract accepted a verdict certificate, with its finding and the mask of its seats."""

    finding: Finding
    """The finding that the members signed."""
    signers: int
    """Bit mask of the seats for which the certificate counts: those that signed and had not revealed their votes directly."""
    block: int
    """Number of the event's block."""


class DisputeEndedEvent(NamedTuple):
    """Event: a dispute ended and its money was split, in wei. Seats are paid and charged afterwards (`SeatSettledEvent`)."""

    dispute: Digest
    """Id of the dispute."""
    verdict: Verdict
    """The final verdict."""
    bond: int
    """The challenger's bond."""
    appeal_bond: int
    """The appellant's bond."""
    advanced: int
    """Amount that the treasury advanced for rounds after the first, and for the seats of a refunded dispute."""
    slashed: int
    """Amount that was taken from the operator's stake."""
    to_challenger: int
    """Share of the challenger."""
    to_appellant: int
    """Share of the appellant."""
    to_operator: int
    """Share of the operator."""
    to_verifiers: int
    """Amount that is set aside for seats."""
    repaid: int
    """Amount that the treasury got back."""
    burned: int
    """Amount that was burned, without penalties of seats."""
    block: int
    """Number of the event's block."""

    @property
    def sums(self) -> bool:
        """Whether incoming and outgoing amounts are equal. Penalties are not included, because all of them are burned."""
        put_in = self.bond + self.appeal_bond + self.advanced + self.slashed
        shares = self.to_challenger + self.to_appellant + self.to_operator + self.to_verifiers
        return put_in == shares + self.repaid + self.burned


class LedgerEvent(NamedTuple):
    """Event: one movement of money in the ledger. `values` has the names of the contract."""

    event: str
    values: dict[str, Any]
    block: int


LEDGER_EVENTS = ("Taken", "Credited", "CreditedEach", "Burned", "Advanced", "Repaid", "Funded", "Withdrawn")
"""Events of the ledger. Every movement of money that is not stake is one of them."""


class CertificateKey(NamedTuple):
    """A BLS key that an account registered for certificates."""

    account: Address
    key: PublicKey
    block: int


class KeyRegister:
    """The state of the contract `BlsKeys`, rebuilt from events: all certificate keys, their accounts and their stake trees.

    A key is not usable when the account registers it. It becomes usable when the contract notes, for this key, the account's
    place in a stake tree (`PlaceNoted`). From then on the key belongs to this account and this tree forever. An account that is
    in the pool of its old key's tree and registers a new key keeps its place at once; otherwise the place must be noted again.
    The register applies events of `Registry` too, because they say which pool an account is in.
    """

    def __init__(self) -> None:
        self._keys: dict[Digest, CertificateKey] = {}
        self._newest: dict[Address, Digest] = {}
        self._noted: dict[Digest, Address] = {}
        self._trees: dict[Digest, Address] = {}
        self._joined: dict[Address, Address] = {}

    def apply(self, log: Log) -> None:
        """Applies the next event in chain order."""
        v = log.values
        match log.event:
            case "PoolAdded":
                self._trees[Digest(v["pool"])] = Address(v["tree"])
            case "VerifierJoined":
                self._joined[Address(v["verifier"])] = self._trees[Digest(v["pool"])]
            case "VerifierLeft":
                self._joined.pop(Address(v["verifier"]), None)
            case "PlaceNoted":
                self._noted[Digest(v["keyHash"])] = Address(v["tree"])
            case "KeyRegistered":
                key = CertificateKey(Address(v["account"]), PublicKey(b"".join(v["key"].values())), log.block)
                self._register(Digest(v["keyHash"]), key)

    def keys_at(self, tree: Address, block: int) -> dict[Address, PublicKey]:
        """Returns the newest key that each account had at the end of a block. An account is left out if the contract has noted no
        place in this tree with that key."""
        last = {each.account: name for name, each in self._keys.items() if each.block <= block}
        return {account: self._keys[name].key for account, name in last.items() if self._noted.get(name) == tree}

    def is_usable(self, account: Address, key: PublicKey, tree: Address) -> bool:
        """Returns whether an account may use a key in this tree's pool, now or after registering it and noting its place.

        Returns False if another account or tree has the key, or if the account has replaced it.
        """
        name = key_hash(key)
        return name not in self._keys or (self._newest.get(account) == name and self._noted.get(name, tree) == tree)

    def _register(self, name: Digest, key: CertificateKey) -> None:
        before = self._noted.get(self._newest.get(key.account, ZERO_DIGEST))
        if before is not None and before == self._joined.get(key.account):
            self._noted[name] = before
        self._newest[key.account] = name
        self._keys[name] = key


class CourtHistory:
    """Readers of one network's events in a closed range of blocks, oldest first."""

    def __init__(self, reader: SnapshotReader) -> None:
        self._reader = reader
        self._at = reader.network.addresses

    def opened(self, from_block: int, to_block: int) -> tuple[DisputeOpenedEvent, ...]:
        """Reads the disputes that were opened."""
        found = self._disputes("DisputeOpened", from_block, to_block)
        with reading_answer("DisputeOpened"):
            return tuple(
                DisputeOpenedEvent(
                    v["id"], v["receiptId"], v["operator"], v["challenger"], v["batchId"], v["altCommit"], log.block
                )
                for log in found
                for v in [log.values]
            )

    def drawn(self, from_block: int, to_block: int) -> tuple[SeatsDrawnEvent, ...]:
        """Reads the draws that were completed. `SnapshotReader.members` reads their members."""
        found = self._disputes("CommitOpened", from_block, to_block)
        with reading_answer("CommitOpened"):
            return tuple(
                SeatsDrawnEvent(v["id"], v["round"], v["seed"], v["roundSeed"], v["commitEnd"], v["revealEnd"], log.block)
                for log in found
                for v in [log.values]
            )

    def commitments(self, from_block: int, to_block: int) -> tuple[CommitEvent, ...]:
        """Reads the commitments that members made on the chain."""
        found = self._rounds("Committed", from_block, to_block)
        with reading_answer("Committed"):
            return tuple(
                CommitEvent(v["id"], v["round"], v["voter"], v["commitment"], log.block) for log in found for v in [log.values]
            )

    def openings(self, from_block: int, to_block: int) -> tuple[RevealEvent, ...]:
        """Reads the votes that members revealed directly."""
        found = self._rounds("Revealed", from_block, to_block)
        with reading_answer("Revealed"):
            return tuple(RevealEvent(_signed(Vote, log.values["vote"]), Blob(log.values["quote"]), log.block) for log in found)

    def certificates(self, from_block: int, to_block: int) -> tuple[CertificateEvent, ...]:
        """Reads the verdict certificates that the contract accepted."""
        found = self._rounds("Certified", from_block, to_block)
        with reading_answer("Certified"):
            return tuple(
                CertificateEvent(_signed(Finding, log.values["finding"]), log.values["signers"], log.block) for log in found
            )

    def first_root(self, dispute: Digest, round_number: int, from_block: int, to_block: int) -> Digest | None:
        """Returns the first commit root that was posted for a round in these blocks. Returns None if there is none."""
        found = self._rounds("CommitRootPosted", from_block, to_block)
        with reading_answer("CommitRootPosted"):
            key = dispute, round_number
            return next((Digest(v["root"]) for log in found for v in [log.values] if (v["id"], v["round"]) == key), None)

    def rounds(self, from_block: int, to_block: int) -> tuple[RoundSettledEvent, ...]:
        """Reads the rounds that were counted. The verdict is NONE if a round was inconclusive."""
        found = self._disputes("Settled", from_block, to_block)
        with reading_answer("Settled"):
            return tuple(_round_end(log) for log in found)

    def endings(self, from_block: int, to_block: int) -> tuple[DisputeEndedEvent, ...]:
        """Reads the disputes that ended, with their money."""
        found = self._settlement("Ended", from_block, to_block)
        with reading_answer("Ended"):
            return tuple(_ending(log) for log in found)

    def seats(self, from_block: int, to_block: int) -> tuple[SeatSettledEvent, ...]:
        """Reads the seats that were paid or charged."""
        found = self._settlement("SeatsSettled", from_block, to_block)
        with reading_answer("SeatsSettled"):
            return tuple(end for log in found for end in _seat_ends(log))

    def movements(self, from_block: int, to_block: int) -> tuple[LedgerEvent, ...]:
        """Reads all movements of money that is not stake."""
        logs = self._logs("Ledger", self._at.ledger, LEDGER_EVENTS, from_block, to_block)
        return tuple(LedgerEvent(log.event, dict(log.values), log.block) for log in logs)

    def batch_operators(self, from_block: int, to_block: int) -> tuple[Address, ...]:
        """Reads the operator of each batch that was anchored in these blocks, oldest first.

        The n-th payment of the fee market to the ledger is the fee of the n-th batch, because one call makes both.
        """
        logs = self._logs("ReceiptAnchor", self._at.receipt_anchor, ("BatchAnchored",), from_block, to_block)
        with reading_answer("BatchAnchored"):
            return tuple(Address(log.values["operator"]) for log in logs)

    @property
    def fee_market(self) -> Address:
        """Address that the ledger names as the payer of batch fees."""
        return self._at.fee_market

    def tree_of(self, dispute: Digest, block: int) -> Address:
        """Reads the stake tree of the pool that judges a dispute."""
        raw = self._reader.client.call("Disputes", self._at.disputes, "standpointOf", dispute, block=at_number(block))
        with reading_answer("standpointOf"):
            return Address(raw["tree"])

    def keys_at(self, tree: Address, block: int, to_block: int) -> dict[Address, PublicKey]:
        """Returns the certificate key of each account that can be in certificates of this stake tree's pool.

        It is the newest key that the account had registered by the end of `block`. The account is left out unless, by the end
        of `to_block`, the contract had stored the account's place in this tree with that key (event `PlaceNoted`).
        """
        return self.key_register(to_block).keys_at(tree, block)

    def key_register(self, to_block: int) -> KeyRegister:
        """Returns the certificate keys of all accounts, as `BlsKeys` has them at the end of a block."""
        first, register = self._reader.network.deploy_block, KeyRegister()
        pools = self._logs("Registry", self._at.registry, ("PoolAdded", "VerifierJoined", "VerifierLeft"), first, to_block)
        keys = self._logs("BlsKeys", self._at.bls_keys, ("KeyRegistered", "PlaceNoted"), first, to_block)
        with reading_answer("KeyRegistered"):
            for log in sorted((*pools, *keys), key=lambda each: (each.block, each.place)):
                register.apply(log)
        return register

    def _rounds(self, event: str, from_block: int, to_block: int) -> list[Log]:
        return self._logs("Rounds", self._at.rounds, (event,), from_block, to_block)

    def _disputes(self, event: str, from_block: int, to_block: int) -> list[Log]:
        return self._logs("Disputes", self._at.disputes, (event,), from_block, to_block)

    def _settlement(self, event: str, from_block: int, to_block: int) -> list[Log]:
        return self._logs("Settlement", self._at.settlement, (event,), from_block, to_block)

    def _logs(self, contract: str, at: Address, events: Sequence[str], from_block: int, to_block: int) -> list[Log]:
        return self._reader.client.logs(contract, at, events, from_block, to_block)


def _signed(cls: type[Any], raw: dict[str, Any]) -> Any:
    return cls(**{name: raw[camel(name)] for name in cls.__dataclass_fields__})


def _round_end(log: Log) -> RoundSettledEvent:
    v = log.values
    seats = {name: value for name, value in v["tally"].items() if isinstance(value, int)}
    return RoundSettledEvent(v["id"], v["round"], Verdict(v["verdict"]), seats, log.block)


def _seat_ends(log: Log) -> list[SeatSettledEvent]:
    """Returns one event for each holder and outcome, in the order of their first seats. Seats without holder have none."""
    v = log.values
    charged = {Address(each["voter"]): int(each["amount"]) for each in v["charges"]}
    masks: dict[tuple[Address, SeatOutcome], int] = {}
    for seat, (holder, code) in enumerate(zip(v["holders"], v["standings"], strict=True), v["from"]):
        key = Address(holder), SeatOutcome(code)
        masks[key] = masks.get(key, 0) | 1 << seat
    ends = []
    for (voter, standing), mask in masks.items():
        if voter == ZERO_ADDRESS:
            continue
        pay = v["perSeat"] * mask.bit_count() if standing in PAID else 0
        penalty = charged.pop(voter, 0) if standing > SeatOutcome.NEUTRAL else 0
        ends.append(SeatSettledEvent(v["id"], v["round"], voter, mask, standing, pay, penalty, log.block))
    if charged:
        raise MalformedValue("SeatsSettled.charges", f"{min(charged)} holds no seat that is charged")
    return ends


def _ending(log: Log) -> DisputeEndedEvent:
    v, account = log.values, log.values["account"]
    amounts = {name: account[camel(name)] for name in DisputeEndedEvent._fields if camel(name) in account}
    return DisputeEndedEvent(dispute=v["id"], verdict=Verdict(v["verdict"]), block=log.block, **amounts)


# The state of the chain during a round, for comparison with the host claims in its quotes
# (`bytewise.protocol.evidence.claims`).


class Dated(NamedTuple):
    """A digest, and the block from which it was in force."""

    block: int
    digest: Digest


class ChainClaimHistory:
    """The values that quotes of one network may claim about the chain, from its deployment to a block. Each value is read
    once."""

    def __init__(self, reader: SnapshotReader, block: int) -> None:
        self._reader, self._block = reader, block
        first = reader.network.deploy_block
        self._anchored = {each.batch_id: int(each.anchored_at) for each in reader.batches(first, block)}
        self._drawn = {(each.dispute, each.round): each.block for each in CourtHistory(reader).drawn(first, block)}
        logs = self._logs("Registry", reader.network.addresses.registry, ("PolicySet",))
        with reading_answer("PolicySet"):
            self._policies = [Dated(log.block, log.values["digest"]) for log in logs]
        logs = self._logs("KeyEpochs", reader.network.addresses.key_epochs, ("EpochOpened", "SharesConfirmed", "SharesDealt"))
        with reading_answer("key epochs"):
            self._keys = _keys_of(logs)

    def of(self, case: Dispute, opened: int) -> ChainClaims:
        """Returns the claims about the chain that are right for votes of the dispute's round that were revealed in block
        `opened`.

        Values that were in force at any time since the round's draw are right, because no enclave job of a round is older than
        its draw.
        """
        drawn = self._drawn.get((case.id, case.round), opened)
        keys = in_force(self._keys.get(case.key_epoch, ()), drawn, opened)
        policies = in_force(self._policies, drawn, opened)
        return ChainClaims(self._anchored[case.batch_id], keys, policies, case.round_seed)

    def _logs(self, contract: str, at: Any, events: Sequence[str]) -> list[Log]:
        return self._reader.client.logs(contract, at, events, self._reader.network.deploy_block, self._block)


def in_force(history: Iterable[Dated], first: int, last: int) -> frozenset[Digest]:
    """Returns the digests that were in force at any time between two blocks, both included. `history` is in chain order."""
    until = [each for each in history if each.block <= last]
    before = [each for each in until if each.block <= first][-1:]
    return frozenset(each.digest for each in (*before, *(each for each in until if each.block > first)))


def _keys_of(logs: Iterable[Log]) -> Mapping[int, list[Dated]]:
    found: dict[int, list[Dated]] = {}
    stands: dict[int, dict[str, Any]] = {}
    for log in logs:
        epoch = int(log.values["epoch"])
        values = stands[epoch] = {"transcript": ZERO_DIGEST, **stands.get(epoch, {}), **log.values}
        found.setdefault(epoch, []).append(Dated(log.block, _digest(epoch, values)))
    return found


def _digest(epoch: int, values: Mapping[str, Any]) -> Digest:
    hybrid = Digest(values["transcript"]) if suite_of(epoch) == SUITE_HYBRID else ZERO_DIGEST
    return keys_digest(epoch, bytes(values["publicKey"]), values["threshold"], list(enumerate(values["shards"], 1)), hybrid)
