"""Verdict certificates: who is seated, and the one signature of all who signed (`Certificate.sol`)."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from bytewise.protocol.docket import Seat
from bytewise.protocol.errors import MalformedValue
from bytewise.protocol.units import Address
from chain.bls import BlsSignature, PublicKey, aggregate, committee_key, words


class Seating(NamedTuple):
    """The seats whose holders have a key, and those keys, once for each seat, lowest seat first."""

    seated: int
    """Mask of seats."""
    keys: tuple[PublicKey, ...]


class CertificateProof(NamedTuple):
    """An aggregate signature and what it takes to check it."""

    seated: int
    """Mask of the seats whose keys are in `committee_key`."""
    signers: int
    """Mask of the seats that signed."""
    committee_key: PublicKey
    signature: BlsSignature
    absent_keys: tuple[PublicKey, ...]
    """Of the seated that did not sign, lowest seat first."""

    @property
    def argument(self) -> tuple[Any, ...]:
        """As an argument of `Disputes.certify`."""
        absent = [words(key) for key in self.absent_keys]
        return (self.seated, self.signers, words(self.committee_key), words(self.signature), absent)


def seating(members: Sequence[Seat], keys: Mapping[Address, PublicKey]) -> Seating:
    """Who of a round is seated; `keys` are those of the end of the block before its seed block (`history.keys_at`)."""
    of_seat = _keys_of_seats(members, keys)
    return Seating(sum(1 << seat for seat in of_seat), tuple(of_seat[seat] for seat in sorted(of_seat)))


def signing(members: Sequence[Seat], keys: Mapping[Address, PublicKey], willing: Collection[Address]) -> int:
    """Mask of the seats that everybody is to sign for (`ballots.certified_digest`): of those who are willing, whose
    commitments under the root were seen opened, who have a key and did not commit on the chain."""
    return sum(each.seat_mask for each in members if each.voter in willing and each.voter in keys and not each.committed)


def certificate(
    members: Sequence[Seat], keys: Mapping[Address, PublicKey], signatures: Mapping[Address, BlsSignature]
) -> CertificateProof:
    """The certificate of all who signed; `MalformedValue` if nobody did, or somebody who may not: without a key or seat, or
    committed on the chain. Each must have signed for the seats of all of these (`signing`).

    Signatures are taken as they are: check each before (`bls.check_signature`), for one bad one spoils the sum.
    """
    of_seat = _keys_of_seats(members, keys)
    strangers = signatures.keys() - {each.voter for each in members if each.voter in keys and not each.committed}
    if not signatures or strangers:
        raise MalformedValue("certificate", f"signed by {len(signatures)}, of whom may not: {sorted(strangers)}")
    signers = sum(each.seat_mask for each in members if each.voter in signatures)
    return CertificateProof(
        seated=sum(1 << seat for seat in of_seat),
        signers=signers,
        committee_key=committee_key((key, 1) for key in of_seat.values()),
        signature=aggregate((signatures[m.voter], m.seat_mask.bit_count()) for m in members if m.voter in signatures),
        absent_keys=tuple(of_seat[seat] for seat in sorted(of_seat) if not signers >> seat & 1),
    )


def _keys_of_seats(members: Sequence[Seat], keys: Mapping[Address, PublicKey]) -> dict[int, PublicKey]:
    return {seat: keys[each.voter] for each in members if each.voter in keys for seat in _seats_in(each.seat_mask)}


def _seats_in(mask: int) -> Iterator[int]:
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest
