"""The past as events tell it, for whoever audits from outside with an RPC address and the address book alone."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from bytewise.protocol.encoding import decode
from bytewise.protocol.environment import Environment
from bytewise.protocol.errors import UnknownEnvironment
from bytewise.protocol.ledger import Charge, Ending, Movement, MovementKind
from bytewise.protocol.messages import Verdict, Vote
from bytewise.protocol.signing import camel
from bytewise.protocol.units import Address, Blob, Digest
from chain.artifacts import Log
from chain.client import reading_answer
from chain.reader import ChainReader


class Opened(NamedTuple):
    """A dispute's opening."""

    dispute: Digest
    receipt_id: Digest
    operator: Address
    challenger: Address
    batch_id: int
    bond_wei: int
    block: int


class Drawn(NamedTuple):
    """The draw of a round; its members follow from the beacon (`protocol.sortition`) and are in `ChainReader.members`."""

    dispute: Digest
    round: int
    seed: Digest
    round_seed: Digest
    seats: int
    commit_end: int
    block: int


class Commitment(NamedTuple):
    """A member's commitment."""

    dispute: Digest
    round: int
    voter: Address
    commitment: Digest
    block: int


class Opening(NamedTuple):
    """A member's opened vote with its published quote."""

    vote: Vote
    quote: Blob
    block: int


class RoundEnd(NamedTuple):
    """A settled round; verdict NONE if it was inconclusive. `seats` counts by what the seats said, in the contract's names."""

    dispute: Digest
    round: int
    verdict: Verdict
    seats: dict[str, int]
    block: int


class ChainHistory:
    """Events of one network in a closed range of blocks, oldest first."""

    def __init__(self, reader: ChainReader) -> None:
        self._reader = reader
        self._at = reader.network.addresses

    def opened(self, from_block: int, to_block: int) -> tuple[Opened, ...]:
        """Disputes that were opened."""
        found = self._disputes("DisputeOpened", from_block, to_block)
        return tuple(
            Opened(v["id"], v["receiptId"], v["operator"], v["challenger"], v["batchId"], v["bond"], log.block)
            for log in found
            for v in [log.values]
        )

    def drawn(self, from_block: int, to_block: int) -> tuple[Drawn, ...]:
        """Committees that were drawn."""
        return tuple(_drawn(log) for log in self._disputes("SeatsDrawn", from_block, to_block))

    def commitments(self, from_block: int, to_block: int) -> tuple[Commitment, ...]:
        """Commitments that were made."""
        found = self._disputes("Committed", from_block, to_block)
        return tuple(
            Commitment(v["id"], v["round"], v["voter"], v["commitment"], log.block) for log in found for v in [log.values]
        )

    def openings(self, from_block: int, to_block: int) -> tuple[Opening, ...]:
        """Votes that were opened."""
        found = self._disputes("Revealed", from_block, to_block)
        return tuple(Opening(_vote(log.values["vote"]), Blob(log.values["quote"]), log.block) for log in found)

    def rounds(self, from_block: int, to_block: int) -> tuple[RoundEnd, ...]:
        """Rounds that were settled."""
        return tuple(_round_end(log) for log in self._disputes("Settled", from_block, to_block))

    def endings(self, from_block: int, to_block: int) -> tuple[Ending, ...]:
        """Disputes that ended, with their money."""
        return tuple(_ending(log) for log in self._disputes("Finalized", from_block, to_block))

    def charges(self, from_block: int, to_block: int) -> tuple[Charge, ...]:
        """Penalties of committee members."""
        found = self._disputes("MemberCharged", from_block, to_block)
        return tuple(
            Charge(v["id"], v["round"], Address(v["voter"]), v["reason"], v["seats"], v["amount"])
            for log in found
            for v in [log.values]
        )

    def movements(self, from_block: int, to_block: int) -> tuple[Movement, ...]:
        """Every movement of money into, out of and inside vault and ledger."""
        client = self._reader.client
        vault = client.logs("StakeVault", self._at.stake_vault, list(_VAULT), from_block, to_block)
        ledger = client.logs("Ledger", self._at.ledger, list(_LEDGER), from_block, to_block)
        logs = sorted(vault + ledger, key=lambda log: (log.block, log.place))
        return tuple(_movement(log) for log in logs)

    def operators(self, to_block: int) -> dict[Address, str]:
        """Registered operators with their endpoints."""
        logs = self._registry("OperatorRegistered", to_block)
        return {Address(log.values["operator"]): log.values["endpoint"] for log in logs}

    def environment(self, digest: Digest, to_block: int) -> Environment:
        """The registered environment; `UnknownEnvironment` if no registered document hashes to the digest."""
        for log in self._registry("EnvironmentSet", to_block):
            if log.values["digest"] == digest:
                found = decode(Environment, log.values["document"])
                if found.digest == digest:
                    return found
        raise UnknownEnvironment("environment", digest.hex(), "no document of it")

    def model_manifest(self, model_id: Digest, to_block: int) -> bytes:
        """The manifest last registered for a model; the caller checks its digest. `UnknownEnvironment` if there is none."""
        return self._document("ModelSet", "modelId", model_id, to_block)

    def policy_document(self, digest: Digest, to_block: int) -> bytes:
        """The appraisal policy's registered bytes; the caller checks their digest. `UnknownEnvironment` if there are none."""
        return self._document("PolicySet", "digest", digest, to_block)

    def _document(self, event: str, key: str, digest: Digest, to_block: int) -> bytes:
        found = [log.values["document"] for log in self._registry(event, to_block) if log.values[key] == digest]
        if not found:
            raise UnknownEnvironment(event, digest.hex(), "no document of it")
        return bytes(found[-1])

    def _registry(self, event: str, to_block: int) -> list[Log]:
        first = self._reader.network.deploy_block
        return self._reader.client.logs("Registry", self._at.registry, [event], first, to_block)

    def _disputes(self, event: str, from_block: int, to_block: int) -> Sequence[Log]:
        return self._reader.client.logs("Disputes", self._at.disputes, [event], from_block, to_block)


_VAULT = {"Deposited": MovementKind.DEPOSITED, "Unbonded": MovementKind.UNBONDED}
_LEDGER = {
    "BondTaken": MovementKind.BOND_TAKEN,
    "SlashTaken": MovementKind.SLASH_TAKEN,
    "Credited": MovementKind.CREDITED,
    "Burned": MovementKind.BURNED,
    "Withdrawn": MovementKind.WITHDRAWN,
}


def _movement(log: Log) -> Movement:
    v = log.values
    return Movement(
        block=log.block,
        kind=(_VAULT | _LEDGER)[log.event],
        account=v.get("account") or v.get("from"),
        amount_wei=v["amount"],
        reason=v.get("reason", 0),
        ref=v.get("ref"),
    )


@reading_answer("Finalized")
def _ending(log: Log) -> Ending:
    v, money = log.values, log.values["money"]
    return Ending(
        dispute=v["id"],
        receipt_id=v["receiptId"],
        verdict=Verdict(v["verdict"]),
        out_hash=v["outHash"],
        bond_wei=money["bond"],
        slashed_wei=money["slashed"],
        penalties_wei=money["penalties"],
        to_challenger_wei=money["toChallenger"],
        to_verifiers_wei=money["toVerifiers"],
        to_operator_wei=money["toOperator"],
        burned_wei=money["burned"],
        block=log.block,
    )


def _drawn(log: Log) -> Drawn:
    v = log.values
    return Drawn(v["id"], v["round"], v["seed"], v["roundSeed"], v["seats"], v["commitEnd"], log.block)


@reading_answer("end of a round")
def _round_end(log: Log) -> RoundEnd:
    v = log.values
    seats = {name: value for name, value in v["tally"].items() if isinstance(value, int)}
    return RoundEnd(v["id"], v["round"], Verdict(v["verdict"]), seats, log.block)


def _vote(raw: dict[str, Any]) -> Vote:
    names = {camel(name): name for name in Vote.__dataclass_fields__}
    return Vote(**{names[name]: value for name, value in raw.items()})
