"""Simulated transactions, and the errors of the catalogue for a contract's refusal.

An account simulates a transaction on its node to learn about a refusal before it commits money. `as_rule` converts the refusal
for people, and for callers that act on its cause.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from bytewise.protocol.address_book import Network
from bytewise.protocol.court.phases import Phase
from bytewise.protocol.errors.actors import (
    BondMismatch,
    BreakerHolds,
    ChainReverted,
    CommitmentMismatch,
    ConfigurationError,
    NoProgress,
    NotAMember,
    TooEarly,
    WindowClosed,
    WrongPhase,
)
from bytewise.protocol.errors.branches import BytewiseError
from bytewise.protocol.errors.records import BadSignature, MalformedValue, MerkleProofMismatch, SequenceBroken, UnknownKeyEpoch
from bytewise.protocol.records.receipt import Receipt, SignedReceipt
from bytewise.protocol.signing import struct_values
from bytewise.protocol.units import Address, Blob, Digest, hex0x
from chain.client.access import Chain
from chain.client.address_book import address_of
from chain.client.artifacts import Reason, interface
from chain.client.blocks import BlockReader
from chain.client.rpc import at_hash


class Simulation(BlockReader):
    """Simulates transactions on one network, so that an account learns about a refusal before it commits money."""

    def __init__(self, client: Chain, network: Network, tag: str = "latest") -> None:
        if network.chain_id != client.chain_id:
            raise ConfigurationError(
                "network.json", f"is for chain {network.chain_id}, the node is on chain {client.chain_id}: change one of them"
            )
        super().__init__(client, tag)
        self.network = network

    def anchor_demand_refused(self, who: Address, signed: SignedReceipt, bond_wei: int, block: int) -> str | None:
        """Returns why the chain would refuse a demand by `who` that a receipt be anchored. Returns None if the chain would
        accept it."""
        arguments = (struct_values(signed.receipt), signed.signature)
        return self._refused(who, "demandAnchor", arguments, bond_wei, block)

    def expiry_refused(self, who: Address, subject: Digest, block: int) -> str | None:
        """Returns why the chain would refuse a call by `who` that ends a demand, for the first time or again. Returns None if
        the chain would accept it."""
        return self._refused(who, "expire", (subject,), 0, block)

    def report_refused(
        self, who: Address, first: Receipt, first_signature: Blob, second: Receipt, signature: Blob, block: int
    ) -> str | None:
        """Returns why the chain would refuse a report by `who` that two signed receipts have one number. Returns None if the
        chain would accept it."""
        arguments = (struct_values(first), first_signature, struct_values(second), signature)
        return self._refused(who, "equivocation", arguments, 0, block)

    def skip_refused(
        self, who: Address, receipt: Receipt, signature: Blob, batch_id: int, proof: tuple[Digest, ...], block: int
    ) -> str | None:
        """Returns why the chain would refuse a report by `who` that a receipt's operator skipped its number. Returns None if the
        chain would accept it."""
        arguments = (struct_values(receipt), signature, batch_id, proof)
        return self._refused(who, "reportSkipped", arguments, 0, block)

    def sharing_refused(self, who: Address, ref: Digest, block: int) -> str | None:
        """Returns why the chain would refuse a call by `who` that distributes the stake which a report slashed. Returns None if
        the chain would accept it."""
        return self._refused(who, "collect", (ref,), 0, block)

    def _refused(
        self, who: Address, function: str, arguments: tuple[Any, ...], value_wei: int, block: int,
        contract: str = "Demands",
    ) -> str | None:  # fmt: skip
        """Simulates a call after a block. Returns the contract's reason if it refuses the call, else None."""
        data = interface(contract).call(function, *arguments)
        to = address_of(self.network, contract)
        request: Mapping[str, str] = {"from": who, "to": to, "data": "0x" + data.hex(), "value": hex(value_wei)}
        try:
            self.client.replay(request, at_hash(self.client.block(block).hash))
        except ChainReverted as error:
            return str(as_rule(error))
        return None


def as_rule(error: ChainReverted) -> BytewiseError:
    """Returns the error of the catalogue for a contract's refusal. Returns the refusal itself if the catalogue has none, since
    most custom errors are clear by name and values."""
    reason = error.values[2] if len(error.values) > 2 else None
    if not isinstance(reason, Reason) or reason.name not in _RULES:
        return error
    named = {name: hex0x(value) if isinstance(value, bytes) else value for name, value in reason.arguments.items()}
    try:
        return _RULES[reason.name](named)
    except (KeyError, ValueError):
        # Another contract has an error of this name with other arguments. Its own text says more than a guess.
        return error


_RULES: Mapping[str, Callable[[Mapping[str, Any]], BytewiseError]] = {
    "WrongPhase": lambda v: WrongPhase(v["id"], Phase(v["have"]).name, Phase(v["want"]).name),
    "TooEarly": lambda v: TooEarly("this step", v["notBefore"], v["now_"]),
    "TooLate": lambda v: WindowClosed("this step", v["end"], v["now_"]),
    "WindowClosed": lambda v: WindowClosed("the window", v["end"], v["now_"]),
    "NoProgress": lambda v: NoProgress(v["id"], "nothing is left to do"),
    "BondMismatch": lambda v: BondMismatch("bond", v["have"], v["want"]),
    "Held": lambda v: BreakerHolds(v["environment"]),
    "NotMember": lambda v: NotAMember(v["who"], v["id"], v["round"]),
    "BadReveal": lambda v: CommitmentMismatch("the voter", v["want"]),
    "BadSignature": lambda v: BadSignature("signature", v.get("voter") or v.get("operator") or v["verifier"], v["recovered"]),
    "BadProof": lambda v: MerkleProofMismatch("the receipt", v["root"]),
    "SequenceGap": lambda v: SequenceBroken("the caller", v["have"], v["want"]),
    "RetentionNotOver": lambda v: TooEarly(f"the end of key epoch {v['epoch']}", _moment(v["until"]), "earlier"),
    "EpochNotOpen": lambda v: UnknownKeyEpoch(v["keyEpoch"]),
    "ParamOutOfBounds": lambda v: MalformedValue("parameter", _out_of_bounds(_text(v["key"]))),
    "StaticLawBroken": lambda v: MalformedValue(
        "parameter", f"{_text(v['limit'])} of {v['have']} s is below the longest dispute, {v['longest']} s"
    ),
}


_WHY = {
    "noRevealPenalty": "it may not be below absentPenalty",
    "wrongPenalty": "it may not be below noRevealPenalty",
    "unanchoredPenalty": "it may not be below slashAmount",
    "demandBond": "that of a list of maxBatch leaves may not be above a tenth of slashAmount",
}
"""Explanations for bounds of an amount that depend on another amount of the same version (`ParamLaw`)."""


def _out_of_bounds(key: str) -> str:
    why = f": {_WHY[key]}" if key in _WHY else ""
    return f"{key} is outside its bounds{why}"


def _moment(unix_s: int) -> str:
    """Returns a time of the chain as a date, because people may have to wait days for it."""
    try:
        return datetime.fromtimestamp(unix_s, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):
        return f"second {unix_s}"


def _text(word: str) -> str:
    """Decodes a name that a contract stores in 32 bytes."""
    return bytes.fromhex(word[2:]).rstrip(b"\0").decode("ascii")
