"""Finality by the beacon chain's sync committees, the third way to show that a capsule's block is real.

The reader trusts one beacon block. From there, each committee signs which committee is next. The last one signs a beacon block
whose state names a finalized block, and that block's body has the hash of the capsule's block.

Facts about forks are from github.com/ethereum/consensus-specs (`specs/*/light-client/sync-protocol.md`, `configs/`), facts about
networks from github.com/eth-clients.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from bytewise.crypto.bls import check_sync_signature
from bytewise.protocol.digests import sha256
from bytewise.protocol.errors.records import BadSignature, MalformedValue
from bytewise.protocol.units import U64, Blob, Digest, digest
from chain.capsule.report import Failure, Stop
from chain.capsule.schema import BeaconHeader, CommitteeStep, FinalityProof, SyncCommittee

COMMITTEE = 512
"""Members of a sync committee."""
SLOTS_PER_EPOCH, SLOTS_PER_PERIOD = 32, 8192
"""Slots of an epoch, and slots of the period for which one committee signs."""
KEY_BYTES = 48
"""Length of a public key, which is a compressed point of G1."""

DOMAIN = bytes.fromhex("07000000")
"""`DOMAIN_SYNC_COMMITTEE` of the consensus specs, which is part of every signed message."""


class ForkLayout(NamedTuple):
    """The places of four values in the states and blocks of a fork, as generalized indices (consensus-specs,
    `ssz/merkle-proofs.md`)."""

    finalized: int
    """In the state: root of the finalized block."""
    current: int
    """In the state: sync committee of the running period."""
    following: int
    """In the state: sync committee of the next period."""
    execution: int
    """In the body: hash of the execution block of this beacon block. From Gloas on it is the hash of that block's parent."""


DENEB, ELECTRA, GLOAS = ForkLayout(105, 54, 55, 812), ForkLayout(169, 86, 87, 812), ForkLayout(735, 2945, 2946, 2856)


class BeaconFork(NamedTuple):
    """A fork of one beacon chain."""

    epoch: int
    """The first epoch of the fork."""
    version: bytes
    """Version of the fork, 4 bytes, which its signatures cover."""
    layout: ForkLayout
    """Places of values in the fork's blocks and states."""


class BeaconNetwork(NamedTuple):
    """The beacon chain that belongs to one execution chain."""

    genesis_validators_root: Digest
    """Root that is part of every signed message, so that a signature is valid on one network only."""
    forks: tuple[BeaconFork, ...]
    """Forks that this program reads, ascending by epoch."""

    def fork_at(self, slot: int) -> BeaconFork:
        """Returns the fork to which a slot belongs. Raises `Stop` if the slot is before the first fork that this program
        reads."""
        found = [each for each in self.forks if each.epoch * SLOTS_PER_EPOCH <= slot]
        if not found:
            raise Stop(Failure.FINALITY_FORK, f"slot {slot} is before the forks that this program reads")
        return found[-1]


def _network(root: str, *forks: tuple[int, str, ForkLayout]) -> BeaconNetwork:
    named = tuple(BeaconFork(epoch, bytes.fromhex(version), layout) for epoch, version, layout in forks)
    return BeaconNetwork(Digest(bytes.fromhex(root)), named)


NETWORKS = {
    1: _network(
        "4b363db94e286120d76eb905340fdd4e54bfe9f06bf33ff6cf5ad27f511bfe95",
        (269568, "04000000", DENEB), (364032, "05000000", ELECTRA), (411392, "06000000", ELECTRA),
    ),
    11155111: _network(
        "d8ea171f3c94aea21ebc42a1ed61052acf3f9209c00e4efbaaddac09ed9b8078",
        (132608, "90000073", DENEB), (222464, "90000074", ELECTRA), (272640, "90000075", ELECTRA), (353024, "90000076", GLOAS),
    ),
    560048: _network(
        "212f13fc4df078b6cb7db228f1c8307566dcecf900867401a92023d7ba99cb5f",
        (0, "50000910", DENEB), (2048, "60000910", ELECTRA), (50688, "70000910", ELECTRA),
    ),
}  # fmt: skip
"""Mainnet, Sepolia and Hoodi by chain id. Signatures of a fork that is not listed here do not verify."""


def verify_finality(proof: FinalityProof, network: BeaconNetwork, block_hash: Digest) -> str:
    """Checks that sync committees, from the checkpoint of the proof on, finalized this execution block.

    Returns a sentence about the last signers. Raises `Stop` with the first condition that does not hold. The caller compares the
    checkpoint with the one that the reader trusts.
    """
    point, committee = proof.checkpoint, proof.committee
    gindex = network.fork_at(point.slot).layout.current
    _verify_committee(committee, proof.committee_branch, gindex, point, "the checkpoint")
    period = point.slot // SLOTS_PER_PERIOD
    if not proof.steps or [each.following is None for each in proof.steps] != [False] * (len(proof.steps) - 1) + [True]:
        raise Stop(Failure.FINALITY_FORM, "every step but the last names the next committee")
    for step in proof.steps:
        _verify_step(step, committee, network, period)
        if step.following is not None:
            committee, period = step.following, period + 1
    last = proof.steps[-1].finalized
    if not is_branch(block_hash, proof.execution_branch, network.fork_at(last.slot).layout.execution, last.body_root):
        raise Stop(Failure.FINALITY_EXECUTION, f"the finalized block of slot {last.slot} has another execution block")
    signers = sum(_bits(proof.steps[-1].bits))
    return f"{signers} of {COMMITTEE} members of a sync committee finalized slot {last.slot}, {len(proof.steps) - 1} periods on"


def _verify_step(step: CommitteeStep, committee: SyncCommittee, network: BeaconNetwork, period: int) -> None:
    """Checks one signed beacon block: the period, the number of signers, the branches and the aggregate signature. Raises `Stop`
    with the first condition that does not hold."""
    where, attested = f"slot {step.signature_slot}", step.attested
    if len(step.bits) * 8 != COMMITTEE:
        raise Stop(Failure.FINALITY_FORM, f"{where}: {len(step.bits)} bytes of bits")
    following = step.following is not None
    periods = {step.signature_slot // SLOTS_PER_PERIOD} | (
        {each.slot // SLOTS_PER_PERIOD for each in (attested, step.finalized)} if following else set()
    )
    if periods != {period} or not step.signature_slot > attested.slot >= step.finalized.slot:
        raise Stop(
            Failure.FINALITY_PERIOD, f"{where} is not signed by the committee of period {period}, or its blocks are out of order"
        )
    bits = _bits(step.bits)
    if 3 * sum(bits) < 2 * COMMITTEE:
        raise Stop(Failure.FINALITY_PARTICIPATION, f"{where}: {sum(bits)} of {COMMITTEE} signed, two thirds are needed")
    layout = network.fork_at(attested.slot).layout
    if not is_branch(header_root(step.finalized), step.finality_branch, layout.finalized, attested.state_root):
        raise Stop(Failure.FINALITY_BRANCH, f"{where}: the state that was signed has another finalized block")
    if step.following is not None:
        _verify_committee(step.following, step.following_branch, layout.following, attested, where)
    elif step.following_branch:
        raise Stop(Failure.FINALITY_FORM, f"{where} has a branch without a committee")
    version = network.fork_at(max(step.signature_slot, 1) - 1).version
    message = signing_root(attested, version, network.genesis_validators_root)
    try:
        check_sync_signature(list(_keys(committee)), committee.aggregate, bits, message, step.signature)
    except (BadSignature, MalformedValue) as error:
        raise Stop(Failure.FINALITY_SIGNATURE, f"{where}: {error}") from None


def _verify_committee(committee: SyncCommittee, branch: Sequence[Digest], gindex: int, header: BeaconHeader, where: str) -> None:
    """Raises `Stop` unless the committee has the right form and is in the state of a beacon block."""
    if len(committee.keys) != COMMITTEE * KEY_BYTES or len(committee.aggregate) != KEY_BYTES:
        raise Stop(Failure.FINALITY_FORM, f"{where}: a committee has {COMMITTEE} keys of {KEY_BYTES} bytes")
    if not is_branch(committee_root(committee), branch, gindex, header.state_root):
        raise Stop(Failure.FINALITY_COMMITTEE, f"{where}: its state has another committee")


def _keys(committee: SyncCommittee) -> Iterator[bytes]:
    return (committee.keys[i : i + KEY_BYTES] for i in range(0, len(committee.keys), KEY_BYTES))


def _bits(data: bytes) -> list[bool]:
    """Returns the bits of an SSZ bit vector, the lowest bit of each byte first."""
    return [bool(byte >> i & 1) for byte in data for i in range(8)]


# Building a proof from the answers of a beacon node (github.com/ethereum/beacon-APIs, `/eth/v1/beacon/light_client/`).


def finality_proof(bootstrap: Any, updates: Sequence[Any], finality: Any) -> FinalityProof:
    """Builds a finality proof from the answers of a beacon node, without verifying a signature or branch.

    The answers are a `bootstrap`, the `updates` from the bootstrap's period on, and a `finality_update`, each as JSON data.
    Raises `MalformedValue` for anything else.
    """
    try:
        start, last = _data(bootstrap), _data(finality)
        steps = [_step(_data(each), last=False) for each in updates]
        return FinalityProof(
            _header(start["header"]["beacon"]), _committee(start["current_sync_committee"]),
            _branch(start["current_sync_committee_branch"]), (*steps, _step(last, last=True)),
            _execution_branch(last["finalized_header"]),
        )  # fmt: skip
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError, MalformedValue) as error:
        raise MalformedValue("answer of a beacon node", f"{type(error).__name__}: {str(error)[:80]}") from None


def _data(answer: Any) -> Any:
    return answer.get("data", answer)


def _header(raw: Any) -> BeaconHeader:
    roots = (_digest(raw[name]) for name in ("parent_root", "state_root", "body_root"))
    return BeaconHeader(U64(_u64(raw["slot"])), U64(_u64(raw["proposer_index"])), *roots)


def _committee(raw: Any) -> SyncCommittee:
    return SyncCommittee(Blob(b"".join(map(_bytes, raw["pubkeys"]))), _bytes(raw["aggregate_pubkey"]))


def _step(raw: Any, *, last: bool) -> CommitteeStep:
    signed = raw["sync_aggregate"]
    return CommitteeStep(
        _header(raw["attested_header"]["beacon"]), U64(_u64(raw["signature_slot"])), _bytes(signed["sync_committee_bits"]),
        _bytes(signed["sync_committee_signature"]), _header(raw["finalized_header"]["beacon"]), _branch(raw["finality_branch"]),
        None if last else _committee(raw["next_sync_committee"]), () if last else _branch(raw["next_sync_committee_branch"]),
    )  # fmt: skip


def _execution_branch(raw: Any) -> tuple[Digest, ...]:
    """Returns the branch from the hash of the execution block to the beacon block's body. Answers before Gloas have the
    payload's header, from which the first part of the branch is computed."""
    branch = _branch(raw["execution_branch"])
    return branch if "execution" not in raw else (*_block_hash_branch(raw["execution"]), *branch)


def _block_hash_branch(raw: Any) -> tuple[Digest, ...]:
    """Returns the branch from the block's hash to the root of its `ExecutionPayloadHeader` (Deneb)."""
    level = [_chunk(name, raw[name]) for name in _PAYLOAD]
    level += [bytes(32)] * (32 - len(level))
    place, branch = list(_PAYLOAD).index("block_hash"), list[Digest]()
    while len(level) > 1:
        branch.append(Digest(level[place ^ 1]))
        level, place = [sha256(level[i] + level[i + 1]) for i in range(0, len(level), 2)], place // 2
    return tuple(branch)


_PAYLOAD = (
    "parent_hash", "fee_recipient", "state_root", "receipts_root", "logs_bloom", "prev_randao", "block_number", "gas_limit",
    "gas_used", "timestamp", "extra_data", "base_fee_per_gas", "block_hash", "transactions_root", "withdrawals_root",
    "blob_gas_used", "excess_blob_gas",
)  # fmt: skip
"""Fields of `ExecutionPayloadHeader` in order."""


def _chunk(name: str, value: str) -> bytes:
    """Returns the SSZ root of one field of `ExecutionPayloadHeader`."""
    if not value.startswith("0x"):
        return uint_chunk(_uint(value))
    data = _bytes(value)
    if name == "logs_bloom":
        return tree_root([data[i : i + 32] for i in range(0, 256, 32)])
    if name == "extra_data":
        return sha256(data.ljust(32, b"\0") + uint_chunk(len(data)))
    return data.ljust(32, b"\0")


def _branch(raw: Any) -> tuple[Digest, ...]:
    return tuple(map(_digest, raw))


def _digest(text: str) -> Digest:
    return digest(_bytes(text))


def _bytes(text: str) -> Blob:
    if not text.startswith("0x"):
        raise ValueError("bytes without 0x")
    return Blob(bytes.fromhex(text[2:]))


def _u64(text: str) -> int:
    number = _uint(text)
    if number >> 64:
        raise ValueError("a number above 64 bits")
    return number


def _uint(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise ValueError("no decimal number")
    return int(text)


# `hash_tree_root` of the few fixed containers that a proof needs (consensus-specs, `ssz/simple-serialize.md`).


def header_root(header: BeaconHeader) -> Digest:
    """Returns the SSZ root of a beacon header, which is also the root of its block."""
    return tree_root(
        [uint_chunk(header.slot), uint_chunk(header.proposer_index), header.parent_root, header.state_root, header.body_root]
    )


def committee_root(committee: SyncCommittee) -> Digest:
    """Returns the SSZ root of a sync committee."""
    return tree_root([tree_root([_key_root(each) for each in _keys(committee)]), _key_root(committee.aggregate)])


def signing_root(header: BeaconHeader, version: bytes, genesis_validators_root: Digest) -> Digest:
    """Returns the message that a sync committee signs for a beacon block, under the version of a fork."""
    fork = tree_root([version.ljust(32, b"\0"), genesis_validators_root])
    return tree_root([header_root(header), DOMAIN + fork[:28]])


def tree_root(chunks: Sequence[bytes]) -> Digest:
    """Returns the root of the binary tree over chunks of 32 bytes. Chunks of zeros fill the last level up to a power of two."""
    level = [bytes(each) for each in chunks]
    level += [bytes(32)] * ((1 << (len(level) - 1).bit_length()) - len(level))
    while len(level) > 1:
        level = [sha256(level[i] + level[i + 1]) for i in range(0, len(level), 2)]
    return Digest(level[0])


def uint_chunk(number: int) -> bytes:
    """Returns an unsigned integer as an SSZ chunk: 32 bytes, little-endian."""
    return number.to_bytes(32, "little")


def is_branch(leaf: Digest, branch: Sequence[Digest], gindex: int, root: Digest) -> bool:
    """Returns whether a branch leads from a leaf at a generalized index to the root."""
    if len(branch) != gindex.bit_length() - 1:
        return False
    node: bytes = leaf
    for sibling in branch:
        node = sha256(sibling + node if gindex & 1 else node + sibling)
        gindex >>= 1
    return node == root


def _key_root(key: bytes) -> Digest:
    return sha256(key.ljust(64, b"\0"))
