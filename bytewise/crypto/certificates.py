"""Verdict certificates: the signatures of committee members over one finding, added up (ADR-030)."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from bytewise.crypto.bls import BlsSignature, PublicKey, aggregate, check_signature, committee_key
from bytewise.protocol.decisions.snapshot import Seat
from bytewise.protocol.errors.records import BadSignature, MalformedValue
from bytewise.protocol.units import Address, Digest


class BlsCertificate(NamedTuple):
    """An aggregate BLS signature over a finding, with the keys that made it. `Rounds.certify` takes it."""

    signers: int
    """Bit mask of the seats that signed."""
    keys: tuple[PublicKey, ...]
    """One key for each seat that signed, lowest seat first. A member with several seats appears several times."""
    signature: BlsSignature


def signing_mask(members: Sequence[Seat], keys: Mapping[Address, PublicKey], willing: Collection[Address]) -> int:
    """Returns the bit mask of the seats for which all signatures of a certificate are made (`commitments.certified_digest`).

    `willing` are members that were seen to open their commitments under the commit root. The mask has the seats of each willing
    member that has a key and did not commit on the chain.
    """
    return sum(each.seat_mask for each in members if each.voter in willing and each.voter in keys and not each.committed)


def certificate(
    members: Sequence[Seat], keys: Mapping[Address, PublicKey], signatures: Mapping[Address, BlsSignature]
) -> BlsCertificate:
    """Combines the signatures into one certificate. Each signer must have signed for the seats of all signers (`signing_mask`).

    Raises `MalformedValue` if there is no signature, or if a signer has no key, has no seat, or committed on the chain. The
    caller must check each signature first (`bls.check_signature`), because one bad signature makes the whole certificate invalid.
    """
    strangers = signatures.keys() - {each.voter for each in members if each.voter in keys and not each.committed}
    if not signatures or strangers:
        raise MalformedValue("certificate", f"signed by {len(signatures)}, of whom may not: {sorted(strangers)}")
    signing_members = [each for each in members if each.voter in signatures]
    key_of = {seat: keys[each.voter] for each in signing_members for seat in _seats_in(each.seat_mask)}
    return BlsCertificate(
        signers=sum(each.seat_mask for each in signing_members),
        keys=tuple(key_of[seat] for seat in sorted(key_of)),
        signature=aggregate((signatures[each.voter], each.seat_mask.bit_count()) for each in signing_members),
    )


def _seats_in(mask: int) -> Iterator[int]:
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


def is_signed_by_all(
    members: Sequence[Seat], keys: Mapping[Address, PublicKey], message: Digest, signatures: Mapping[Address, BlsSignature]
) -> bool:
    """Returns whether the aggregate of all these signatures is valid.

    It takes the time of one call of `is_signed`, and a tenth of that time more for each signature.
    """
    seats = {each.voter: each.seat_mask.bit_count() for each in members}
    try:
        whole = aggregate((signature, seats[who]) for who, signature in signatures.items())
        check_signature(committee_key((keys[who], seats[who]) for who in signatures), message, whole)
    except (BadSignature, MalformedValue):
        return False
    return True


def is_signed(key: PublicKey, message: Digest, signature: BlsSignature) -> bool:
    """Returns whether the key signed the message. It takes some 2 ms of processor time."""
    try:
        check_signature(key, message, signature)
    except (BadSignature, MalformedValue):
        return False
    return True
