"""Verdict certificates: the keys of all who signed and their one signature (`Rounds.certify`)."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from bytewise.crypto.bls import BlsSignature, PublicKey, aggregate
from bytewise.protocol.decisions.snapshot import Seat
from bytewise.protocol.errors import MalformedValue
from bytewise.protocol.units import Address


class Certificate(NamedTuple):
    """An aggregate signature and the keys that made it."""

    signers: int
    """Mask of the seats that signed."""
    keys: tuple[PublicKey, ...]
    """One for each of those seats, lowest seat first; the same again for each further seat of a member."""
    signature: BlsSignature


def signing(members: Sequence[Seat], keys: Mapping[Address, PublicKey], willing: Collection[Address]) -> int:
    """Mask of the seats that everybody is to sign for (`ballots.certified_digest`): of those who are willing, whose
    commitments under the root were seen opened, who have a key and did not commit on the chain."""
    return sum(each.seat_mask for each in members if each.voter in willing and each.voter in keys and not each.committed)


def certificate(
    members: Sequence[Seat], keys: Mapping[Address, PublicKey], signatures: Mapping[Address, BlsSignature]
) -> Certificate:
    """The certificate of all who signed; `MalformedValue` if nobody did, or somebody who may not: without a key or seat, or
    committed on the chain. Each must have signed for the seats of all of these (`signing`).

    Signatures are taken as they are: check each before (`bls.check_signature`), for one bad one spoils the sum.
    """
    strangers = signatures.keys() - {each.voter for each in members if each.voter in keys and not each.committed}
    if not signatures or strangers:
        raise MalformedValue("certificate", f"signed by {len(signatures)}, of whom may not: {sorted(strangers)}")
    signing_members = [each for each in members if each.voter in signatures]
    key_of = {seat: keys[each.voter] for each in signing_members for seat in _seats_in(each.seat_mask)}
    return Certificate(
        signers=sum(each.seat_mask for each in signing_members),
        keys=tuple(key_of[seat] for seat in sorted(key_of)),
        signature=aggregate((signatures[each.voter], each.seat_mask.bit_count()) for each in signing_members),
    )


def _seats_in(mask: int) -> Iterator[int]:
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest
