"""What a dishonest dealer or helper can seal."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace

from bytewise.crypto.curve import GENERATOR, decode_point, encode_point, encode_scalar, random_scalar
from bytewise.crypto.proofs import prove_log
from bytewise.protocol.digests import Label
from bytewise.protocol.keys.ceremony_log import Body, Deal, SealedDeal
from bytewise.protocol.units import Blob, Digest
from kms.ceremony.deals import SEALED_BYTES
from tests.unit.kms.ceremonies import Meddling, Party, Town


def sealed_garbage(place: Digest, dealer: int, receiver: int) -> SealedDeal:
    """Random bytes for a receiver, under an ephemeral key of the dealer's own, proven as the rules want it."""
    ephemeral, ciphertext = random_scalar(os.urandom), Blob(os.urandom(SEALED_BYTES))
    enc = encode_point(GENERATOR * ephemeral)
    statement = (place, dealer, receiver, enc, ciphertext)
    e, f = prove_log(Label.CEREMONY_EPHEMERAL, ephemeral, os.urandom, *statement)
    return SealedDeal(receiver, enc, ciphertext, encode_scalar(e), encode_scalar(f))


def with_sealed(body: Deal, others: Mapping[int, SealedDeal]) -> Deal:
    """The deal with other sealed values for some receivers."""
    return replace(body, sealed=tuple(others.get(each.receiver, each) for each in body.sealed))


def spying(wanted: Mapping[int, int], shift: int = 0) -> Meddling:
    """A dealer that seals garbage under the ephemeral points of others, or `shift` times G beside them, proofs and all.

    `wanted`: whose point, by receiver. Without the proof the receiver complains rightly and shows what opens the other's.
    """

    def meddle(town: Town, who: Party, body: Body) -> Iterator[Body]:
        yield with_sealed(body, dict(_borrowed(town, wanted, shift))) if isinstance(body, Deal) else body

    return meddle


def _borrowed(town: Town, wanted: Mapping[int, int], shift: int) -> Iterator[tuple[int, SealedDeal]]:
    for receiver, dealer in wanted.items():
        for theirs in town.state.deals[dealer].sealed if dealer in town.state.deals else ():
            if theirs.receiver == receiver:
                point = decode_point(theirs.enc)
                enc = encode_point(point + GENERATOR * shift) if shift else theirs.enc
                yield receiver, replace(theirs, enc=enc, ciphertext=Blob(os.urandom(SEALED_BYTES)))
