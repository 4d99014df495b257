"""Checks of the optional parts of a capsule: the opening, logs with quotes, release records, parts of journals."""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from cryptography.exceptions import InvalidSignature

from bytewise.crypto.checkpoint import NoteKey, SignedCheckpoint, entry_digest, parse_checkpoint, signed_by
from bytewise.crypto.tree_hash import leaf_hash, root_of_range
from bytewise.protocol import encoding
from bytewise.protocol.court.tally import vote_content
from bytewise.protocol.digests import keccak256
from bytewise.protocol.encoding import decode
from bytewise.protocol.errors.actors import ReleaseLogBroken
from bytewise.protocol.errors.branches import Fault
from bytewise.protocol.errors.records import BadSignature, MalformedValue, RequestHashMismatch, TokensHashMismatch
from bytewise.protocol.evidence.claims import ResultQuote, ResultStatement
from bytewise.protocol.keys.release_log import LogHead, verify_log
from bytewise.protocol.records.seal import Payload, client_digest, pad, verify_hashes, verify_opening
from bytewise.protocol.records.statements import Verdict, Vote
from bytewise.protocol.signing import camel, verify_signature
from bytewise.protocol.units import ZERO_DIGEST, Blob, Digest, hex0x
from chain.capsule.facts import Facts, address_in, domain_of
from chain.capsule.header import ProvenHeader, header_of
from chain.capsule.report import Failure, Stop
from chain.capsule.schema import Capsule, JournalPart, LogProof
from chain.capsule.trie import BrokenProof, Item, ProofNodes, decode_rlp, index_path
from chain.capsule.votes import SeatsVote
from chain.client.artifacts import interface

MAX_QUOTE_MARKS = 2**15
"""Largest number of brackets, commas and backslashes in a quote that is read (`encoding.MAX_MARKS`)."""


def opening_text(capsule: Capsule, facts: Facts) -> str:
    """Checks the opening, and returns a sentence about what it shows. Raises `Stop` if the opening is absent, is not of this
    receipt, or shows a defect although the verdict is not INVALID."""
    payload, receipt = capsule.opening, capsule.receipt
    if payload is None:
        raise Stop(Failure.OPENING_ABSENT, "request and answer are not disclosed", unverifiable=True)
    try:
        verify_hashes(payload, receipt)
        request = payload.request
        verify_signature("request", client_digest(request.req_hash, receipt.chain_id), payload.client_signature, request.client)
    except RequestHashMismatch as error:
        raise Stop(Failure.OPENING_REQUEST, str(error)) from None
    except TokensHashMismatch as error:
        raise Stop(Failure.OPENING_OUTPUT, str(error)) from None
    except BadSignature as error:
        raise Stop(Failure.OPENING_CLIENT, str(error)) from None
    defect = _defect(capsule, payload, facts)
    if defect and facts.verdict is not Verdict.INVALID:
        raise Stop(Failure.OPENING_DEFECT, defect)
    told = f"{len(request.prompt)} tokens of prompt and {len(payload.output.token_ids)} of answer hash to the receipt"
    return f"{told}; defect of the record: {defect}" if defect else told


def _defect(capsule: Capsule, payload: Payload, facts: Facts) -> str:
    if capsule.environment is None:
        return ""
    try:
        verify_opening(capsule.receipt, capsule.claim.receipt_id, pad(payload), capsule.environment, facts.batch.anchored_at)
    except Fault as error:
        return str(error)
    return ""


class ProvenVote(NamedTuple):
    """A vote as its `Revealed` event shows it."""

    vote: Vote
    quote: Blob


def proven_votes(capsule: Capsule, header: ProvenHeader, kept: Mapping[int, Digest]) -> list[ProvenVote]:
    """Checks the capsule's proofs of `Revealed` events, and returns the votes of these events.

    Raises `Stop` if there are no proofs, if a proof fails, or if a proven event is no vote of the capsule's dispute. `kept` maps
    the numbers of earlier blocks to their hashes, as the state of the capsule's block stores them (EIP-2935).
    """
    if not capsule.logs and not capsule.log_headers:
        raise Stop(Failure.LOGS_ABSENT, "no events are included", unverifiable=True)
    headers = {header.number: header}
    for raw in capsule.log_headers:
        earlier = header_of(raw)
        if earlier is None or kept.get(earlier.number) != earlier.hash:
            raise Stop(Failure.LOGS_LINK, "the header of a log is no earlier block of this chain")
        headers[earlier.number] = earlier
    found = [_proven(capsule, each, headers) for each in capsule.logs]
    places = [(each.block, each.transaction, each.log) for each in capsule.logs]
    numbers = [number for number in headers if number != header.number]
    if places != sorted(set(places)) or numbers != sorted({each.block for each in capsule.logs} - {header.number}):
        raise Stop(Failure.LOGS_SURPLUS, "logs or headers are not in order, doubled, or not needed")
    if len(numbers) != len(capsule.log_headers):
        raise Stop(Failure.LOGS_SURPLUS, "a header is doubled")
    return found


def _proven(capsule: Capsule, proof: LogProof, headers: Mapping[int, ProvenHeader]) -> ProvenVote:
    """Returns the vote of one proven event. Raises `Stop` unless the event is in its block and is a vote of the capsule's
    dispute."""
    where = f"log {proof.log} of transaction {proof.transaction} in block {proof.block}"
    if proof.block not in headers:
        raise Stop(Failure.LOGS_LINK, f"{where}: no header of that block is linked")
    nodes = ProofNodes(proof.nodes)
    try:
        value = nodes.value(headers[proof.block].receipts_root, index_path(proof.transaction))
        emitter, topics, data = _log(value, proof.log)
    except BrokenProof as error:
        raise Stop(Failure.LOGS_PROOF, f"{where}: {error}") from None
    if nodes.surplus:
        raise Stop(Failure.LOGS_SURPLUS, f"{where}: {nodes.surplus} nodes that the proof does not need")
    rounds = address_in(capsule.deployment, "Rounds")
    event = interface("Rounds").event(topics, data) if emitter == bytes.fromhex(rounds[2:]) else None
    if event is None or event[0] != "Revealed" or event[1]["id"] != capsule.claim.dispute:
        raise Stop(Failure.LOGS_EMITTER, f"{where} is no vote of this dispute")
    raw = event[1]["vote"]
    vote = Vote(**{name: raw[camel(name)] for name in Vote.__dataclass_fields__})
    return ProvenVote(vote, Blob(event[1]["quote"]))


def _log(value: bytes | None, index: int) -> tuple[bytes, list[bytes], bytes]:
    """Returns emitter, topics and data of one log of a transaction receipt."""
    if value is None:
        raise BrokenProof("the block has no such transaction")
    # A typed transaction receipt (EIP-2718) has its type before the list.
    receipt = decode_rlp(value[1:] if value[0] < 0x80 else value)
    logs = receipt[3] if isinstance(receipt, list) and len(receipt) == 4 else b""
    if not isinstance(logs, list) or not 0 <= index < len(logs):
        raise BrokenProof("the transaction has no such log")
    return _parts(logs[index])


def _parts(entry: Item) -> tuple[bytes, list[bytes], bytes]:
    if not isinstance(entry, list) or len(entry) != 3:
        raise BrokenProof("no log")
    emitter, topics, data = entry
    if not isinstance(emitter, bytes) or not isinstance(topics, list) or not isinstance(data, bytes):
        raise BrokenProof("no log")
    if not all(isinstance(each, bytes) for each in topics):
        raise BrokenProof("no log")
    return emitter, list(topics), data  # type: ignore[arg-type]


def quotes_stating(capsule: Capsule, said: Sequence[SeatsVote], proven: Sequence[ProvenVote]) -> int:
    """Counts the quotes that state the same as their votes.

    Raises `Stop` if an event shows another vote than the capsule, or if a quote is not the one that its vote names.
    """
    groups = {(each.round, _first(each.mask)): each.content.group for each in said if not each.is_certified}
    stating = 0
    for vote, quote in proven:
        where = f"seat {_first(vote.seat_mask)} of round {vote.round}"
        try:
            shown = vote_content(vote).group
        except MalformedValue as error:
            raise Stop(Failure.QUOTE_HASH, f"the event of {where} shows a vote that has no form: {error}") from None
        if groups.get((vote.round, _first(vote.seat_mask))) != shown:
            raise Stop(Failure.QUOTE_HASH, f"the event of {where} shows another vote")
        if (keccak256(quote) if quote else ZERO_DIGEST) != vote.quote_hash:
            raise Stop(Failure.QUOTE_HASH, f"the quote of {where} is not the one that its vote names")
        stating += _says(capsule, vote, quote)
    return stating


def _says(capsule: Capsule, vote: Vote, quote: bytes) -> bool:
    """Returns whether the statement of a quote is this vote, about this receipt."""
    try:
        statement = decode(ResultQuote, quote, MAX_QUOTE_MARKS).statement
    except Fault:
        return False
    domain = domain_of(capsule.deployment, "Disputes")
    expected = ResultStatement(
        capsule.receipt.chain_id, domain.contract, vote.dispute, vote.round, capsule.claim.receipt_id, vote.voter, vote.outcome,
        vote.code, vote.tokens_hash, vote.trace_root, vote.round_digest, statement.verify_passes, statement.premises,
    )  # fmt: skip
    return statement == expected


def releases_text(capsule: Capsule, facts: Facts) -> str:
    """Checks the release records, and returns a sentence about what they show.

    Raises `Stop` if there are none, if a record is broken or about another receipt, or if a record is by an account that is no
    shard of the key epoch now.
    """
    if not capsule.releases:
        raise Stop(Failure.RELEASES_ABSENT, "no release records are included", unverifiable=True)
    domain = domain_of(capsule.deployment, "KeyEpochs")
    former = 0
    for signed in capsule.releases:
        record = signed.record
        where = f"record {record.index} of shard {record.shard}"
        if (record.receipt_id, record.key_epoch) != (capsule.claim.receipt_id, capsule.receipt.key_epoch):
            raise Stop(Failure.RELEASES_RECEIPT, f"{where} is about another receipt")
        try:
            verify_log([signed], LogHead(record.previous, record.index), domain)
        except ReleaseLogBroken as error:
            raise Stop(Failure.RELEASES_RECORD, str(error)) from None
        former += record.shard not in facts.shards
    if former:
        raise Stop(
            Failure.RELEASES_SHARD, f"{former} records are by accounts that are no shards of the epoch now", unverifiable=True
        )
    return f"{len(capsule.releases)} signed records; nothing here shows that there are no others"


def journals_text(capsule: Capsule, known: Collection[Digest], witnesses: Collection[NoteKey]) -> str:
    """Checks the parts of journals, and returns a sentence about what they show.

    Raises `Stop` if there are none, a part is broken, `known` lacks a journal's keys, or no key of `witnesses` signed a
    checkpoint. Without `witnesses`, no checkpoint needs a witness.
    """
    if not capsule.journals:
        raise Stop(Failure.JOURNAL_ABSENT, "no entries of journals are included", unverifiable=True)
    names = [each.keys.fingerprint for each in capsule.journals]
    if len(set(names)) < len(names):
        raise Stop(Failure.JOURNAL_DOUBLED, "a journal is included twice")
    points = [_checkpoint(part) for part in capsule.journals]
    for part, point in zip(capsule.journals, points, strict=True):
        _verify_entries(capsule, part, point)
    open_names = [hex0x(each) for each in names if each not in known]
    if open_names:
        told = f"the reader did not name the keys of these journals: {', '.join(open_names)}"
        raise Stop(Failure.JOURNAL_OWNER, told, unverifiable=True)
    unseen = [each for each in points if witnesses and not any(_is_witnessed(each, key) for key in witnesses)]
    if unseen:
        told = f"{len(unseen)} checkpoints have no signature of a witness that the reader named"
        raise Stop(Failure.JOURNAL_UNWITNESSED, told, unverifiable=True)
    count, told = sum(len(each.entries) for each in capsule.journals), "; a witness signed each" if witnesses else ""
    return f"{count} entries of {len(names)} journals are in their checkpoints{told}; nothing here shows that there are no others"


def _checkpoint(part: JournalPart) -> SignedCheckpoint:
    """Returns the checkpoint of a part. Raises `Stop` unless both signatures of its journal are valid."""
    where = f"the checkpoint of {part.keys.origin}"
    try:
        signed = parse_checkpoint(part.checkpoint)
        ed25519, mldsa = signed_by(part.keys, signed)
    except MalformedValue as error:
        raise Stop(Failure.JOURNAL_CHECKPOINT, f"{where}: {error}") from None
    if signed.checkpoint.origin != part.keys.origin:
        raise Stop(Failure.JOURNAL_KEYS, f"{where} is of other keys")
    if not ed25519:
        raise Stop(Failure.JOURNAL_CHECKPOINT, f"{where} has no valid Ed25519 signature")
    if not mldsa:
        raise Stop(Failure.JOURNAL_POST_QUANTUM, f"{where} has no valid ML-DSA-65 signature")
    return signed


def _verify_entries(capsule: Capsule, part: JournalPart, signed: SignedCheckpoint) -> None:
    """Raises `Stop` unless each entry is about this receipt or its dispute, signed, in order, and under the root of the
    checkpoint."""
    before, following = -1, ZERO_DIGEST
    subjects = tuple(map(bytes, (capsule.claim.receipt_id, capsule.claim.dispute)))
    if not part.entries:
        raise Stop(Failure.JOURNAL_CHAIN, f"{part.keys.origin} has no entries")
    for each in part.entries:
        where, raw = f"entry {each.number} of {part.keys.origin}", each.body.encode()
        if each.subject not in subjects:
            raise Stop(Failure.JOURNAL_SUBJECT, f"{where} is about another subject")
        digest = entry_digest(each.number, each.at, each.kind, each.subject, raw, each.previous)
        try:
            encoding.parse(raw)
            part.keys.verify_entry(each.signature, digest)
        except (InvalidSignature, ValueError, Fault):
            raise Stop(Failure.JOURNAL_ENTRY, f"{where} is not signed: it or its predecessor was altered") from None
        if each.number <= before or (each.number == before + 1 and each.previous != following):
            raise Stop(Failure.JOURNAL_CHAIN, f"{where} does not follow the entry before it")
        try:
            root = root_of_range([leaf_hash(digest)], each.number, signed.checkpoint.size, each.proof)
        except MalformedValue as error:
            raise Stop(Failure.JOURNAL_INCLUSION, f"{where}: {error}") from None
        if root != signed.checkpoint.root:
            raise Stop(Failure.JOURNAL_INCLUSION, f"{where} is not in the checkpoint")
        before, following = each.number, digest


def _is_witnessed(signed: SignedCheckpoint, key: NoteKey) -> bool:
    try:
        return signed.note.is_signed_by(key)
    except MalformedValue:
        return False


def _first(mask: int) -> int:
    return (mask & -mask).bit_length() - 1
