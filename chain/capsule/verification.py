"""Verifies a capsule offline, in groups of checks. No function here reads a file, a chain or a clock.

Each group stops at its first failure. A group that needs other groups is checked only if none of these failed.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import ceil, log2
from pathlib import Path
from typing import TypeAlias

from bytewise.crypto.checkpoint import NoteKey
from bytewise.protocol import merkle
from bytewise.protocol.court.commitments import claim_of, dispute_id
from bytewise.protocol.court.phases import Phase
from bytewise.protocol.digests import keccak256, sha256
from bytewise.protocol.errors.records import BadSignature, MalformedValue, MerkleProofMismatch
from bytewise.protocol.records.receipt import Receipt, receipt_id, verify_modes
from bytewise.protocol.records.statements import Verdict
from bytewise.protocol.signing import recover, typed_digest, verify_signature
from bytewise.protocol.units import U64, ZERO_DIGEST, Address, Digest, hex0x
from chain.capsule.attachments import ProvenVote, journals_text, opening_text, proven_votes, quotes_stating, releases_text
from chain.capsule.beacon import NETWORKS, BeaconNetwork, header_root, verify_finality
from chain.capsule.facts import Facts, ReadWord, Storage, domain_of, is_complete, layout_digest, read_facts
from chain.capsule.header import HISTORY, HISTORY_BLOCKS, HISTORY_CODE, ProvenHeader, header_of, is_hash_stored
from chain.capsule.report import CapsuleReport, Failure, Group, GroupResult, Result, Stop
from chain.capsule.schema import (
    BlockWitness,
    Capsule,
    CapsuleDeployment,
    Claim,
    Kind,
    Rejected,
    StateProof,
    read_capsule,
)
from chain.capsule.trie import BrokenProof, ProofNodes, decode_list, decode_rlp, to_integer
from chain.capsule.votes import SeatsVote, verdict_by_rule, votes_of

PAGE = Path(__file__).parent / "capsule.html"
"""The page that verifies capsules in a browser, with the same results (`docs/tools/capsule_page.py` builds it)."""


@dataclass(frozen=True, slots=True)
class Trust:
    """Facts that the reader of a capsule already trusts. Without them, a capsule can only be consistent, and the conclusion
    names the conditions under which it holds."""

    deployments: frozenset[Digest] = frozenset()
    """Digests of deployments that the reader accepts."""
    block_hash: Digest | None = None
    """Hash of the capsule's block, if the reader knows it."""
    witnesses: frozenset[Address] = frozenset()
    """Accounts that the reader trusts to confirm blocks."""
    threshold: int = 1
    """Number of `witnesses` that must have signed."""
    checkpoint: Digest | None = None
    """Root of a finalized beacon block that the reader trusts (a weak subjectivity checkpoint)."""
    beacon: BeaconNetwork | None = None
    """The beacon chain; None to choose it from `chain.capsule.beacon.NETWORKS` by chain id."""
    journals: frozenset[Digest] = frozenset()
    """Fingerprints of the journal keys that the reader knows."""
    journal_witnesses: frozenset[NoteKey] = frozenset()
    """Keys of witnesses of journal checkpoints. If there are any, one of them must have signed each checkpoint."""


def verify_capsule(data: bytes, trust: Trust | None = None) -> CapsuleReport:
    """Runs all checks on the bytes of a capsule file, and returns their results."""
    report = CapsuleReport(sha256(data))
    try:
        report.capsule = read_capsule(data)
    except Rejected as error:
        name, why = error.args
        report.checks.append(GroupResult(Group.CAPSULE, Result.FAIL, Failure(name), why))
        return report
    report.checks.append(GroupResult(Group.CAPSULE, Result.PASS, None, f"{len(data)} bytes, {report.capsule.kind.value}"))
    _CapsuleVerifier(report.capsule, trust or Trust(), report).run()
    return report


class _CapsuleVerifier:
    """One verification. Checks store in its attributes the values that later groups need."""

    def __init__(self, capsule: Capsule, trust: Trust, report: CapsuleReport) -> None:
        self.capsule, self.trust, self.report = capsule, trust, report
        self.header: ProvenHeader | None = None
        self.facts: Facts | None = None
        self.said: list[SeatsVote] = []
        self.kept: dict[int, Digest] = {}
        """Hashes of the earlier blocks with proven logs, by block number, as the state stores them."""
        self.proven: list[ProvenVote] = []

    def run(self) -> None:
        """Checks every group whose needed groups passed."""
        for group, (needs, check) in _GROUPS.items():
            if not self.report.passes(*needs):
                missing = ", ".join(each.value for each in needs if not self.report.passes(each))
                self.report.checks.append(GroupResult(group, Result.UNVERIFIABLE, Failure.NOT_REACHED, f"rests on {missing}"))
                continue
            try:
                self.report.checks.append(GroupResult(group, Result.PASS, None, check(self)))
            except Stop as stop:
                self.report.checks.append(GroupResult(group, stop.result, stop.failure, stop.detail))
        self.report.facts = self.facts if self.report.passes(Group.STATE) else None

    @property
    def beacon(self) -> BeaconNetwork | None:
        """The beacon chain of the capsule's chain, if it is known."""
        return self.trust.beacon or NETWORKS.get(int(self.capsule.claim.chain_id))

    @property
    def known(self) -> tuple[ProvenHeader, Facts]:
        """Header and facts, for groups that run after HEADER and STATE."""
        assert self.header is not None and self.facts is not None, "groups that need them run after them"
        return self.header, self.facts


def _deployment(v: _CapsuleVerifier) -> str:
    """Checks that the capsule's deployment is complete, has this program's storage layouts, and is one that the reader
    accepts."""
    deployment = v.capsule.deployment
    if not is_complete(deployment):
        raise Stop(Failure.DEPLOYMENT_INCOMPLETE, "contracts are missing, doubled or in another order")
    if deployment.layout != layout_digest():
        raise Stop(Failure.DEPLOYMENT_LAYOUT, "this program has other storage layouts: use the version that made the capsule")
    if deployment.digest not in v.trust.deployments:
        accepted = "accepts " + ", ".join(sorted(map(hex0x, v.trust.deployments))) if v.trust.deployments else "named none"
        told = f"{hex0x(deployment.digest)} on chain {deployment.chain_id}; the reader {accepted}"
        raise Stop(Failure.DEPLOYMENT_UNKNOWN, told, unverifiable=True)
    return f"{hex0x(deployment.digest)} on chain {deployment.chain_id} is one that the reader accepts"


def _header(v: _CapsuleVerifier) -> str:
    """Checks that the header is that of the claim's block, and that deployment, receipt and claim are of one chain."""
    claim = v.capsule.claim
    header = v.header = header_of(v.capsule.header)
    if header is None:
        raise Stop(Failure.HEADER_MALFORMED, "the bytes are no block header")
    if (header.hash, header.number) != (claim.block_hash, claim.block):
        raise Stop(Failure.HEADER_HASH, f"the header is block {header.number}, {hex0x(header.hash)}, not the claim's")
    if not v.capsule.deployment.chain_id == v.capsule.receipt.chain_id == claim.chain_id:
        raise Stop(Failure.HEADER_CHAIN, "deployment, receipt and claim name different chains")
    return f"block {header.number}, {hex0x(header.hash)}"


def _authenticity(v: _CapsuleVerifier) -> str:
    """Checks all signatures over the block, and that the reader's trust covers the block: by its hash, by witnesses, or by a
    checkpoint of the beacon chain."""
    (header, trust), capsule = (v.header, v.trust), v.capsule
    assert header is not None, "the group needs the header"
    signed = typed_digest(domain_of(capsule.deployment, "Disputes"), BlockWitness(capsule.claim.block, header.hash))
    found = [recover(signed, each) for each in capsule.witnesses]
    if None in found or len(set(found)) < len(found):
        raise Stop(Failure.WITNESS_SIGNATURE, "a witness's signature is broken or doubled")
    finalized = _finalized(v)
    if trust.block_hash is not None:
        if trust.block_hash != header.hash:
            told = f"the reader knows {hex0x(trust.block_hash)}, the capsule has {hex0x(header.hash)}"
            raise Stop(Failure.DECLARED_OTHER, told)
        return "DECLARED: the reader knows this block hash"
    known = sorted(each for each in found if each in trust.witnesses)
    if trust.witnesses and len(known) >= trust.threshold:
        return f"WITNESSED: {len(known)} of the reader's {len(trust.witnesses)} witnesses signed: {', '.join(known)}"
    if trust.checkpoint is not None:
        return _of_checkpoint(v, trust.checkpoint, finalized)
    if trust.witnesses:
        raise Stop(Failure.WITNESS_TOO_FEW, f"{len(known)} of {trust.threshold} witnesses signed the block", unverifiable=True)
    told = f"everything rests on the block hash {hex0x(header.hash)}: compare it with a source that you trust"
    raise Stop(Failure.UNDECLARED, told, unverifiable=True)


def _finalized(v: _CapsuleVerifier) -> str:
    """Checks the signatures of sync committees, and returns what they show of the block. Returns an empty text if there are
    none, or if the beacon chain is unknown."""
    proof, network = v.capsule.finality, v.beacon
    if proof is None or network is None or v.header is None:
        return ""
    return verify_finality(proof, network, v.header.hash)


def _of_checkpoint(v: _CapsuleVerifier, checkpoint: Digest, finalized: str) -> str:
    """Returns a sentence about the block's finality. Raises `Stop` unless the capsule's finality proof begins at the reader's
    checkpoint."""
    proof = v.capsule.finality
    if v.beacon is None:
        told = f"this program knows no beacon chain of chain {v.capsule.claim.chain_id}"
        raise Stop(Failure.FINALITY_NETWORK, told, unverifiable=True)
    if proof is None:
        raise Stop(Failure.FINALITY_ABSENT, "the capsule has no signatures of sync committees", unverifiable=True)
    if header_root(proof.checkpoint) != checkpoint:
        told = (
            f"the reader trusts beacon block {hex0x(checkpoint)}, the signatures begin at {hex0x(header_root(proof.checkpoint))}"
        )
        raise Stop(Failure.FINALITY_CHECKPOINT, told, unverifiable=True)
    return f"SYNC COMMITTEE: from the checkpoint that the reader trusts, {finalized}"


def _state(v: _CapsuleVerifier) -> str:
    """Reads all facts from the proven state. Raises `Stop` if a word is not proven, or if the proof has nodes that no read
    needs."""
    assert v.header is not None, "the group needs the header"
    capsule = v.capsule
    code = {each.address: each.code for each in capsule.deployment.contracts}
    words = ProvenWords(v.header.state_root, capsule.state, code | {HISTORY: HISTORY_CODE})
    storage = Storage(capsule.deployment, v.header.timestamp, words.word)
    identifier = receipt_id(domain_of(capsule.deployment, "ReceiptAnchor"), capsule.receipt)
    dispute = dispute_id(domain_of(capsule.deployment, "Disputes"), identifier)
    try:
        v.facts = read_facts(storage, dispute, identifier, capsule.membership.batch_id)
        v.kept = stored_hashes(map(header_of, capsule.log_headers), v.header.number, words.word)
    except (MalformedValue, ValueError) as error:
        raise Stop(Failure.STATE_VALUE, str(error)) from None
    if words.surplus:
        raise Stop(Failure.STATE_SURPLUS, f"{words.surplus} nodes that no read needs")
    return f"{words.count} words of {len(words.contracts)} contracts are proven against the state root"


def stored_hashes(headers: Iterable[ProvenHeader | None], head: int, read_word: ReadWord) -> dict[int, Digest]:
    """Reads the hashes of these earlier blocks from the state of block `head`, and returns them by block number. A block is
    left out if that state does not store its hash any more."""
    numbers = [each.number for each in headers if each is not None and is_hash_stored(each.number, head)]
    return {number: Digest(read_word(HISTORY, number % HISTORY_BLOCKS)) for number in numbers}


class ProvenWords:
    """Storage words of contracts, each read through its proof. A read raises `Stop` if the word is not proven."""

    def __init__(self, root: Digest, state: StateProof, code: Mapping[Address, Digest]) -> None:
        self._root, self._code = root, code
        self._accounts = ProofNodes(state.accounts)
        self._storage = {each.contract: ProofNodes(each.nodes) for each in state.storage}
        self._doubled = len(state.storage) - len(self._storage)
        self.contracts: dict[Address, Digest] = {}
        """Storage root of each contract from which a word was read."""
        self._known: dict[tuple[Address, int], bytes] = {}

    @property
    def count(self) -> int:
        """Number of words that were read."""
        return len(self._known)

    @property
    def surplus(self) -> int:
        """Number of nodes and contracts in the proof that no read has needed."""
        unread = sum(each not in self.contracts for each in self._storage)
        return self._doubled + unread + self._accounts.surplus + sum(each.surplus for each in self._storage.values())

    def word(self, contract: Address, slot: int) -> bytes:
        """Returns the word in a slot: 32 zero bytes if the proof shows that the slot is empty."""
        if (contract, slot) in self._known:
            return self._known[contract, slot]
        root = self._storage_root(contract)
        nodes = self._storage.get(contract, ProofNodes(()))
        try:
            value = nodes.value(root, keccak256(slot.to_bytes(32)).hex())
            number = 0 if value is None else to_integer(decode_rlp(value))
        except BrokenProof as error:
            raise Stop(Failure.STATE_SLOT, f"slot {slot:#x} of {contract}: {error}") from None
        if number >> 256:
            raise Stop(Failure.STATE_SLOT, f"slot {slot:#x} of {contract}: more than 32 bytes")
        return self._known.setdefault((contract, slot), number.to_bytes(32))

    def _storage_root(self, contract: Address) -> Digest:
        """Returns the storage root of a contract from its proven account. Raises `Stop` if the contract has other code than the
        deployment says."""
        if contract in self.contracts:
            return self.contracts[contract]
        try:
            value = self._accounts.value(self._root, keccak256(bytes.fromhex(contract[2:])).hex())
            if value is None:
                raise Stop(Failure.STATE_ACCOUNT, f"the state has no account {contract}")
            _, _, root, code = decode_list(value, 4)
        except (BrokenProof, ValueError) as error:
            raise Stop(Failure.STATE_ACCOUNT, f"{contract}: {error}") from None
        if code != self._code.get(contract):
            raise Stop(Failure.STATE_CODE_HASH, f"{contract} has other code than the deployment")
        self.contracts[contract] = Digest(root)
        return Digest(root)


def _receipt(v: _CapsuleVerifier) -> str:
    """Checks that the receipt is that of the claim, that its operator signed it, and that the chain can accept its modes."""
    capsule, receipt = v.capsule, v.capsule.receipt
    identifier = receipt_id(domain_of(capsule.deployment, "ReceiptAnchor"), receipt)
    if (identifier, receipt.out_hash) != (capsule.claim.receipt_id, capsule.claim.out_hash):
        raise Stop(Failure.RECEIPT_DIGEST, f"the receipt is {hex0x(identifier)}, not the claim's")
    try:
        verify_signature("receipt", identifier, capsule.signature, receipt.operator)
    except BadSignature as error:
        raise Stop(Failure.RECEIPT_SIGNATURE, str(error)) from None
    try:
        verify_modes(receipt)
    except MalformedValue as error:
        # `ReceiptAnchor.isFinal` refuses such a receipt. The state does not show that, because a batch is posted without
        # receipts.
        raise Stop(Failure.RECEIPT_MODE, f"the chain never accepts it for good: {error}") from None
    if capsule.environment is not None and capsule.environment.digest != receipt.environment:
        raise Stop(Failure.RECEIPT_ENVIRONMENT, "the environment is not the one that the receipt names")
    return f"signed by operator {receipt.operator}"


def _batch(v: _CapsuleVerifier) -> str:
    """Checks that the receipt is a leaf of its batch, and that batch and dispute are those of the receipt."""
    capsule, receipt = v.capsule, v.capsule.receipt
    header, facts = v.known
    batch, where = facts.batch, f"batch {capsule.membership.batch_id}"
    if not batch.size:
        raise Stop(Failure.BATCH_UNKNOWN, f"the chain has no {where}")
    if not batch.first_seq <= receipt.seq < batch.first_seq + batch.size:
        told = f"number {receipt.seq} is not among the {batch.size} of {where} from {batch.first_seq} on"
        raise Stop(Failure.BATCH_SEQUENCE, told)
    named = (receipt.operator, receipt.environment, receipt.model_id, receipt.key_epoch)
    if named != (batch.operator, batch.environment, batch.model_id, batch.key_epoch):
        raise Stop(Failure.BATCH_HEADER, f"{where} is of another operator, environment, model or key epoch")
    if facts.case.phase is not Phase.NONE and facts.case.batch_id != capsule.membership.batch_id:
        raise Stop(Failure.BATCH_HEADER, f"the dispute is about a receipt of batch {facts.case.batch_id}")
    leaf = merkle.batch_leaf(capsule.claim.receipt_id, receipt.seq)
    try:
        if len(capsule.membership.proof) > ceil(log2(batch.size)):
            raise MerkleProofMismatch(leaf.hex(), batch.root.hex())
        merkle.verify_batch_proof(batch.root, leaf, capsule.membership.proof)
    except MerkleProofMismatch as error:
        raise Stop(Failure.BATCH_MEMBERSHIP, str(error)) from None
    if batch.anchored_at > header.timestamp or batch.block > header.number:
        raise Stop(Failure.HEADER_TIME, f"{where} was anchored after the capsule's block")
    return f"number {receipt.seq} of {where}, anchored in block {batch.block}"


def _votes(v: _CapsuleVerifier) -> str:
    """Checks that the votes of the capsule are those of the state, about the claim of the receipt."""
    _, facts = v.known
    receipt, is_disputed = v.capsule.receipt, facts.case.phase is not Phase.NONE
    if facts.case.claim != (claim_of(receipt.tokens_hash, receipt.out_hash) if is_disputed else ZERO_DIGEST):
        raise Stop(Failure.VOTES_CLAIM, "the dispute is about another claim than the receipt's")
    v.said = votes_of(facts, v.capsule.claim.dispute, v.capsule.rounds)
    seats = sum(each.mask.bit_count() for each in v.said)
    return f"{len(v.said)} votes for {seats} seats are those of the state"


def _verdict(v: _CapsuleVerifier) -> str:
    """Checks that the dispute is final, and that its verdict follows from the votes."""
    _, facts = v.known
    if facts.case.phase is Phase.NONE:
        return "the receipt was never disputed"
    if facts.case.phase is not Phase.FINAL:
        raise Stop(Failure.VERDICT_NOT_FINAL, f"the dispute is in phase {facts.case.phase.name}")
    found = verdict_by_rule(facts, v.said, v.capsule.receipt)
    if facts.verdict is Verdict.OVERTURNED and found.replacement != facts.replacement:
        raise Stop(Failure.VERDICT_REPLACED, "the votes give another replacement than the state")
    if v.capsule.claim.replaced_by != facts.replacement:
        raise Stop(Failure.VERDICT_REPLACED, "the claim names another replacement than the state")
    if facts.verdict is Verdict.REFUNDED:
        return "REFUNDED: the guardian ended the dispute; no votes give that"
    return f"{facts.verdict.name}, by the rule from the votes of round {facts.case.decided_in}" if facts.decided_in else "DRAW"


def _claim(v: _CapsuleVerifier) -> str:
    """Checks that every field of the claim follows from the proofs."""
    header, facts = v.known
    if (v.capsule.kind is Kind.FINALITY) != (facts.case.phase is Phase.NONE):
        raise Stop(Failure.CLAIM_KIND, f"a capsule of kind {v.capsule.kind.value}, and the dispute is {facts.case.phase.name}")
    derived = claim_of_facts(v.capsule.deployment, v.capsule.receipt, header, facts)
    wrong = [name for name in Claim.__dataclass_fields__ if getattr(derived, name) != getattr(v.capsule.claim, name)]
    if wrong:
        raise Stop(Failure.CLAIM_DIFFERS, f"the proofs give another {', '.join(wrong)}")
    return f"{len(Claim.__dataclass_fields__)} fields are what the proofs give"


def claim_of_facts(deployment: CapsuleDeployment, receipt: Receipt, header: ProvenHeader, facts: Facts) -> Claim:
    """Returns the claim that follows from receipt, header and state."""
    identifier = receipt_id(domain_of(deployment, "ReceiptAnchor"), receipt)
    return Claim(
        receipt_id=identifier, out_hash=receipt.out_hash, dispute=dispute_id(domain_of(deployment, "Disputes"), identifier),
        verdict=facts.verdict.name.lower(), decided_in=facts.decided_in, replaced_by=facts.replacement,
        accepted=not facts.open_reason, assurance=facts.assurance, chain_id=receipt.chain_id, block=U64(header.number),
        block_hash=header.hash,
    )  # fmt: skip


def _opening(v: _CapsuleVerifier) -> str:
    return opening_text(v.capsule, v.known[1])


def _logs(v: _CapsuleVerifier) -> str:
    assert v.header is not None, "the group needs the header"
    v.proven = proven_votes(v.capsule, v.header, v.kept)
    return f"{len(v.proven)} events of votes are proven, in {len(v.capsule.log_headers)} earlier blocks"


def _quotes(v: _CapsuleVerifier) -> str:
    if not v.proven:
        raise Stop(Failure.QUOTE_NO_LOG, "no event with a quote is included", unverifiable=True)
    stating = quotes_stating(v.capsule, v.said, v.proven)
    v.report.attested = stating > 0
    # An appraisal needs the policy and the collateral that were valid at the time of the quote. A capsule has neither.
    told = f"{stating} of {len(v.proven)} quotes state what their votes say; their platforms' signatures are not checked here"
    raise Stop(Failure.QUOTE_NOT_APPRAISED, told, unverifiable=True)


def _releases(v: _CapsuleVerifier) -> str:
    return releases_text(v.capsule, v.known[1])


def _journals(v: _CapsuleVerifier) -> str:
    return journals_text(v.capsule, v.trust.journals, v.trust.journal_witnesses)


CheckGroup: TypeAlias = Callable[[_CapsuleVerifier], str]

_GROUPS: Mapping[Group, tuple[tuple[Group, ...], CheckGroup]] = {
    Group.DEPLOYMENT: ((), _deployment),
    Group.HEADER: ((Group.DEPLOYMENT,), _header),
    Group.AUTHENTICITY: ((Group.HEADER,), _authenticity),
    Group.RECEIPT: ((Group.HEADER,), _receipt),
    Group.STATE: ((Group.RECEIPT,), _state),
    Group.BATCH: ((Group.STATE,), _batch),
    Group.VOTES: ((Group.BATCH,), _votes),
    Group.VERDICT: ((Group.VOTES,), _verdict),
    Group.CLAIM: ((Group.VERDICT,), _claim),
    Group.OPENING: ((Group.BATCH,), _opening),
    Group.LOGS: ((Group.STATE,), _logs),
    Group.QUOTES: ((Group.LOGS, Group.VOTES), _quotes),
    Group.RELEASES: ((Group.BATCH,), _releases),
    Group.JOURNALS: ((Group.BATCH,), _journals),
}
"""For each group: the groups that it needs, and its check."""
