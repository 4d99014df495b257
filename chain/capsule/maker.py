"""Makes a capsule from a node: reads the facts at one block, and stores the proofs of every word that was read."""

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

from bytewise.crypto.tree_hash import leaf_hash, narrowed_proof
from bytewise.protocol.address_book import Network
from bytewise.protocol.court.commitments import dispute_id
from bytewise.protocol.court.phases import Phase
from bytewise.protocol.encoding import encode
from bytewise.protocol.errors.actors import ConfigurationError, RpcRefused, StoreCorrupt, TooEarly, TryAgain
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.keys.release_log import SignedRelease
from bytewise.protocol.records.environment import Environment
from bytewise.protocol.records.receipt import Receipt, receipt_id
from bytewise.protocol.records.seal import Payload
from bytewise.protocol.signing import Signer, typed_preimage
from bytewise.protocol.units import U8, U64, Address, Blob, Digest, hex0x
from bytewise.service import telemetry
from bytewise.storage.checkpoints import CheckpointKeeper
from bytewise.storage.journal import JournalEntry, VerifiedExport
from chain.capsule.beacon import NETWORKS, BeaconNetwork, finality_proof, verify_finality
from chain.capsule.facts import Facts, Storage, deployment_of, domain_of, is_complete, read_facts
from chain.capsule.header import HISTORY, ProvenHeader, header_of, is_hash_stored
from chain.capsule.report import Failure, Stop
from chain.capsule.schema import (
    FORMAT,
    BatchPlace,
    BlockWitness,
    Capsule,
    CertifiedVote,
    JournalPart,
    JournalRecord,
    Kind,
    LogProof,
    Rejected,
    RevealedVote,
    RoundVotes,
    StateProof,
    StorageNodes,
    read_capsule,
)
from chain.capsule.trie import EMPTY_TRIE, ProofNodes, index_path, trie_of_list
from chain.capsule.verification import Trust, claim_of_facts, stored_hashes, verify_capsule
from chain.client.access import Chain
from chain.client.artifacts import Log, from_struct, interface
from chain.client.blocks import encode_receipt, header_rlp
from chain.client.rpc import SlotProof, at_hash, quantity, reading_answer


class AnchoredReceipt(NamedTuple):
    """A signed receipt with its place in a batch, as the batch's list or the opening of a dispute shows it."""

    receipt: Receipt
    """The receipt."""
    signature: Blob
    """The operator's signature of the receipt."""
    batch_id: int
    """Number of the batch."""
    proof: tuple[Digest, ...]
    """Siblings from the receipt's leaf to the root of the batch."""


class Enclosed(NamedTuple):
    """Optional parts of a capsule beside its proofs."""

    environment: Environment | None = None
    """The environment that the receipt names."""
    opening: Payload | None = None
    """Request and answer. Anybody who gets the capsule can read them."""
    releases: tuple[SignedRelease, ...] = ()
    """Release records about the receipt."""
    journals: tuple[VerifiedExport, ...] = ()
    """Exports of journals. The capsule gets their entries about the receipt and its dispute."""
    own_journal: CheckpointKeeper | None = None
    """The journal of the node that makes the capsule. The capsule gets its entries about the receipt and its dispute."""
    with_logs: bool = True
    """Whether to prove the events of the votes, which contain the quotes. If one event is too old to be proven, all are left
    out."""


def disputed_member(chain: Chain, network: Network, dispute: Digest) -> AnchoredReceipt | None:
    """Reads the receipt of a dispute from the transaction that opened the dispute, so that nobody needs DA for it.

    Returns None if the dispute was opened through another contract. Raises `TryAgain` if the node lacks the event or the
    transaction, which another node may have.
    """
    at, head = network.addresses.disputes, chain.head().number
    opened = chain.logs("Disputes", at, ["DisputeOpened"], network.deploy_block, head)
    log = next((each for each in opened if each.values["id"] == dispute), None)
    if log is None:
        raise TryAgain("chain", f"the node lacks the event that opened dispute {hex0x(dispute)}")
    called = chain.calldata(log.transaction)
    if called is None:
        raise TryAgain("chain", f"the node lacks transaction {hex0x(log.transaction)}, which opened dispute {hex0x(dispute)}")
    code = interface("Disputes")
    if called.to != at or code.function_of(called.data) != "open":
        return None
    with reading_answer("open"):
        raw, signature, batch_id, proof, _ = code.arguments("open", called.data[4:])
        return AnchoredReceipt(from_struct(Receipt, raw), Blob(signature), batch_id, tuple(map(Digest, proof)))


def make_capsule(chain: Chain, network: Network, member: AnchoredReceipt, enclosed: Enclosed, tag: str = "finalized") -> bytes:
    """Makes a capsule about a receipt at the newest block with this tag, verifies it, and returns its bytes.

    Raises `TooEarly` if the block does not have the batch, or while a dispute about the receipt runs. Raises `TryAgain` if the
    node lacks the state or events, or gives proofs that do not hold.
    """
    capsule = gather(chain, network, member, enclosed, tag)
    data, trust = encode(capsule), Trust(frozenset({capsule.deployment.digest}), capsule.claim.block_hash)
    report = verify_capsule(data, trust)
    wrong = report.first_failure or next(iter(report.open_conditions), None)
    if wrong is not None and wrong.failure is Failure.VERDICT_NOT_FINAL:
        raise TooEarly("the end of the dispute", f"a block with the tag {tag} has it", f"block {capsule.claim.block}")
    if wrong is not None:
        # Here false proofs and missing events of the node are found at once, and not by a reader years later.
        raise TryAgain("chain", f"the capsule does not verify: {wrong.failure}: {wrong.detail}")
    return data


def gather(chain: Chain, network: Network, member: AnchoredReceipt, enclosed: Enclosed, tag: str) -> Capsule:
    """Builds a capsule from the node's answers, without verifying the capsule.

    Raises `TooEarly` if the newest block with this tag does not have the batch.
    """
    head, deployment = chain.head(tag), deployment_of(network)
    raw = header_rlp(chain, head.number)
    header = header_of(raw)
    if header is None or header.hash != head.hash:
        raise TryAgain("chain", f"the header of block {head.number} is not the one of its hash")
    words = _NodeWords(chain, header.hash)
    identifier = receipt_id(network.anchor_domain, member.receipt)
    dispute = dispute_id(network.disputes_domain, identifier)
    facts = read_facts(Storage(deployment, header.timestamp, words.word), dispute, identifier, member.batch_id)
    if not facts.batch.size:
        raise TooEarly(f"batch {member.batch_id}", f"a block with the tag {tag} has it", f"block {header.number}")
    revealed, certified = _votes(chain, network, dispute, facts, header)
    log_headers, logs = _proofs_of(chain, revealed, header) if enclosed.with_logs else ((), ())
    stored_hashes(map(header_of, log_headers), header.number, words.word)
    return Capsule(
        format=FORMAT, kind=Kind.FINALITY if facts.case.phase is Phase.NONE else Kind.VERDICT,
        claim=claim_of_facts(deployment, member.receipt, header, facts), deployment=deployment, header=raw, witnesses=(),
        finality=None,
        state=words.proof(), receipt=member.receipt, signature=member.signature,
        membership=BatchPlace(U64(member.batch_id), member.proof), environment=enclosed.environment,
        rounds=tuple(_round(each.number, revealed, certified) for each in facts.rounds), opening=enclosed.opening,
        log_headers=log_headers, logs=logs, releases=enclosed.releases,
        journals=_journals(enclosed, (identifier, dispute)),
    )  # fmt: skip


def _journals(enclosed: Enclosed, subjects: Collection[Digest]) -> tuple[JournalPart, ...]:
    """Returns the parts of the exported journals and of the node's own journal. The node's own journal is left out, with a log
    entry, if it was altered or its checkpoints cannot be read or written."""
    found = [journal_part(each, subjects) for each in enclosed.journals]
    if enclosed.own_journal is not None:
        try:
            found.append(_own_part(enclosed.own_journal, subjects))
        except (StoreCorrupt, ConfigurationError, OSError) as error:
            telemetry.log_error("capsule.journal_omitted", error)
    return tuple(each for each in found if each is not None)


def _own_part(journal: CheckpointKeeper, subjects: Collection[Digest]) -> JournalPart | None:
    found = journal.proven(subjects)
    if found is None:
        return None
    records = [_record(each, proof) for each, proof in zip(found.entries, found.proofs, strict=True)]
    return JournalPart(found.keys, found.checkpoint.note.encode(), tuple(records))


def journal_part(found: VerifiedExport, subjects: Collection[Digest]) -> JournalPart | None:
    """Returns the entries of an exported journal about these subjects, each with a proof. Returns None if there are none.

    Other entries of the export are left out, because they are about other people's receipts.
    """
    export, size = found.export, found.checkpoint.checkpoint.size
    leaves = [leaf_hash(each.digest) for each in found.entries]
    records = tuple(
        _record(each, narrowed_proof(leaves, export.first, size, export.proof, each.number))
        for each in found.entries
        if each.subject in subjects
    )
    return JournalPart(export.keys, export.checkpoint, records) if records else None


def _record(entry: JournalEntry, proof: tuple[Digest, ...]) -> JournalRecord:
    body, subject, signature = encode(entry.body).decode(), Blob(entry.subject), Blob(entry.signature)
    return JournalRecord(U64(entry.number), U64(entry.at), entry.kind, subject, body, entry.previous, signature, proof)


class _NodeWords:
    """Storage words as a node proves them. It collects the trie nodes of those proofs."""

    def __init__(self, chain: Chain, block_hash: Digest) -> None:
        self._chain, self._block = chain, at_hash(block_hash)
        self._accounts: dict[bytes, None] = {}
        self._storage: dict[Address, dict[bytes, None]] = {}
        self._known: dict[tuple[Address, int], bytes] = {}

    def word(self, contract: Address, slot: int) -> bytes:
        """Reads the word in a slot, once."""
        if (contract, slot) not in self._known:
            proof = self._asked(contract, slot)
            self._accounts |= dict.fromkeys(proof.account)
            # Some nodes give the root of an empty trie as a node of it, others nothing.
            nodes = () if proof.storage == (EMPTY_TRIE,) else proof.storage
            self._storage.setdefault(contract, {}).update(dict.fromkeys(nodes))
            self._known[contract, slot] = proof.word
        return self._known[contract, slot]

    def _asked(self, contract: Address, slot: int) -> SlotProof:
        try:
            return self._chain.slot_proof(contract, slot, self._block)
        except RpcRefused as error:
            told = f"the node gives no proof of the block's state, which it keeps for some minutes; others keep more ({error})"
            raise TryAgain("chain", told) from None

    def proof(self) -> StateProof:
        """Returns all trie nodes that were collected, each once."""
        storage = tuple(StorageNodes(at, tuple(map(Blob, nodes))) for at, nodes in self._storage.items() if nodes)
        return StateProof(tuple(map(Blob, self._accounts)), storage)


def _votes(chain: Chain, network: Network, dispute: Digest, facts: Facts, header: ProvenHeader) -> tuple[list[Log], list[Log]]:
    """Reads the events of revealed votes, and the events of certificates, of a dispute, each oldest first."""
    if facts.case.phase is Phase.NONE:
        return [], []
    where = ("Rounds", network.addresses.rounds, ["Revealed", "Certified"], facts.batch.block, header.number)
    logs = [each for each in chain.logs(*where) if each.values["id"] == dispute]
    return [each for each in logs if each.event == "Revealed"], [each for each in logs if each.event == "Certified"]


def _round(number: int, revealed: Sequence[Log], certified: Sequence[Log]) -> RoundVotes:
    votes = [_vote(each.values["vote"]) for each in revealed if each.values["round"] == number]
    findings = [each.values["finding"] for each in certified if each.values["round"] == number]
    certificate = CertifiedVote(*_content(findings[0])) if findings else None
    return RoundVotes(number, tuple(sorted(votes, key=lambda vote: vote.seat)), certificate)


def _vote(raw: dict[str, Any]) -> RevealedVote:
    mask = raw["seatMask"]
    return RevealedVote((mask & -mask).bit_length() - 1, *_content(raw))


def _content(raw: dict[str, Any]) -> tuple[U8, U8, Digest, Digest, Digest]:
    tokens, trace, digest = (Digest(raw[name]) for name in ("tokensHash", "traceRoot", "roundDigest"))
    return U8(raw["outcome"]), U8(raw["code"]), tokens, trace, digest


# Proofs of events: the headers of their blocks, whose hashes the newer state has, and the nodes of each block's trie of receipts.


def _proofs_of(chain: Chain, logs: Sequence[Log], header: ProvenHeader) -> tuple[tuple[Blob, ...], tuple[LogProof, ...]]:
    """Returns the headers and proofs of these logs. Returns none if a log is too old, the chain stores no block hashes
    (EIP-2935), or the receipts do not give the block's root."""
    numbers = sorted({each.block for each in logs})
    if not all(is_hash_stored(number, header.number) for number in numbers) or not all(
        chain.codes([HISTORY], at_hash(header.hash))
    ):
        return (), ()
    headers, proofs = list[Blob](), list[LogProof]()
    for number in numbers:
        headers.append(header_rlp(chain, number))
        found, raws = header_of(headers[-1]), chain.raw_receipts(number)
        with reading_answer("eth_getBlockReceipts"):
            root, nodes = trie_of_list([encode_receipt(raw) for raw in raws])
            if found is None or root != found.receipts_root:
                return (), ()
            proofs += [_proof(each, raws, root, nodes.values()) for each in logs if each.block == number]
    return tuple(headers), tuple(proofs)


def _proof(log: Log, raws: Sequence[Any], root: Digest, nodes: Collection[bytes]) -> LogProof:
    for index, raw in enumerate(raws):
        places = [quantity(each["logIndex"]) for each in raw["logs"]]
        if log.place in places:
            path = ProofNodes(nodes)
            path.value(root, index_path(index))
            return LogProof(U64(log.block), index, places.index(log.place), tuple(map(Blob, path.needed)))
    raise MalformedValue("receipts", f"no log {log.place}")


def add_finality(
    data: bytes, bootstrap: Any, updates: Sequence[Any], finality: Any, networks: Mapping[int, BeaconNetwork] = NETWORKS
) -> bytes:
    """Returns the capsule with signatures of sync committees, built from answers of a beacon node.

    The answers are those of `chain.capsule.beacon.finality_proof`. Raises `ConfigurationError` if the file is no capsule, its
    chain's beacon chain is unknown, an answer has another form, or the signatures do not show the capsule's block.
    """
    capsule = _capsule_in(data)
    try:
        proof = finality_proof(bootstrap, updates, finality)
    except MalformedValue as error:
        raise ConfigurationError("--bootstrap, --updates or --finality", str(error)) from None
    network = networks.get(int(capsule.claim.chain_id))
    if network is None:
        raise ConfigurationError("FILE", f"is of chain {capsule.claim.chain_id}, whose beacon chain is not known here")
    try:
        verify_finality(proof, network, capsule.claim.block_hash)
    except Stop as error:
        told = "fetch capsule and answers within one epoch" if error.failure is Failure.FINALITY_EXECUTION else "fetch them again"
        raise ConfigurationError("--finality", f"{error.failure.value}: {error.detail}: {told}") from None
    return encode(dataclasses.replace(capsule, finality=proof))


def _capsule_in(data: bytes) -> Capsule:
    try:
        return read_capsule(data)
    except Rejected as error:
        raise ConfigurationError("FILE", f"is no capsule: {': '.join(error.args)}") from None


def add_witness(data: bytes, open_chain: Callable[[int], Chain], signer: Signer) -> bytes:
    """Returns the capsule with a signature of `signer` as witness of its block. A second call adds nothing.

    Raises `ConfigurationError` if the file is no capsule, or if the node has another block with that number. Raises `TooEarly`
    before the block is finalized.
    """
    capsule = _capsule_in(data)
    if not is_complete(capsule.deployment):
        raise ConfigurationError("FILE", "has no complete deployment")
    claim, chain = capsule.claim, open_chain(int(capsule.claim.chain_id))
    finalized = chain.head("finalized").number
    if claim.block > finalized:
        raise TooEarly(f"block {claim.block}", "it is finalized", f"block {finalized} is")
    have = chain.block(int(claim.block)).hash
    if have != claim.block_hash:
        raise ConfigurationError("FILE", f"block {claim.block} of your node is {hex0x(have)}, not {hex0x(claim.block_hash)}")
    witness = BlockWitness(claim.block, claim.block_hash)
    signature = signer.sign_preimage(typed_preimage(domain_of(capsule.deployment, "Disputes"), witness))
    witnesses = tuple(dict.fromkeys((*capsule.witnesses, signature)))
    return encode(dataclasses.replace(capsule, witnesses=witnesses))
