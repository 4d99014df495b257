"""What a ceremony fixed when its judgements ended: the commitments of the new shares, and the transcript that shards sign."""

from collections.abc import Mapping
from typing import NamedTuple

from Crypto.PublicKey.ECC import EccPoint

from bytewise.crypto.curve import decode_point, encode_point
from bytewise.crypto.shares import lagrange, verification_key
from bytewise.protocol import digests
from bytewise.protocol.digests import Label
from bytewise.protocol.errors import CeremonyFailed, MalformedValue
from bytewise.protocol.jobs import HybridKeys
from bytewise.protocol.keys.ceremony import Plan, Purpose
from bytewise.protocol.records.statements import Shares, holders_digest
from bytewise.protocol.signing import Domain, typed_digest
from bytewise.protocol.units import U32, Blob, Digest
from kms.ceremony.deals import weighted_sum


class Result(NamedTuple):
    """The outcome of the judgements."""

    qualified: tuple[int, ...]
    """Dealers whose polynomials are in the sum, ascending."""
    dealt: tuple[Blob, ...]
    """Commitments of the polynomial that was dealt: of a repair, the one whose value at 0 is the lost share."""
    commitments: tuple[Blob, ...]
    """Commitments of the epoch's shares afterwards; the first is the public key."""
    transcript: Digest
    """What is signed: plan and log up to here, these commitments, and in a hybrid epoch its keys."""
    hybrid: HybridKeys | None
    """The keys of a hybrid epoch."""

    @property
    def public_key(self) -> Blob:
        """The epoch's public key."""
        return self.commitments[0]

    def verification_key(self, index: int) -> EccPoint:
        """Share `index` of the epoch times G."""
        return verification_key(index, [decode_point(each) for each in self.commitments])


def signed_shares(plan: Plan, result: Result) -> Digest:
    """What is signed for the new shares, by who has one and who had one before: EIP-712 `Shares` under the plan's `KeyEpochs`."""
    commitments = digests.keccak256(b"".join(result.commitments))
    holders = holders_digest(seat.address for seat in plan.receivers)
    shares = Shares(plan.epoch, U32(plan.version), commitments, holders, result.transcript)
    return typed_digest(Domain(plan.chain_id, plan.key_epochs), shares)


def weights(plan: Plan, qualified: tuple[int, ...]) -> Mapping[int, int]:
    """What each dealer's polynomial counts: 1 for a new key, else what interpolates the old shares at 0, or at the heir."""
    if plan.source is None:
        return dict.fromkeys(qualified, 1)
    at = 0 if plan.heir is None else plan.heir.index
    return {index: lagrange(index, qualified, at) for index in qualified}


def result_of(plan: Plan, head: Digest, polynomials: Mapping[int, tuple[EccPoint, ...]], kem_keys: Mapping[int, Blob]) -> Result:
    """The result of these polynomials; `CeremonyFailed` if they do not make one."""
    qualified = tuple(sorted(polynomials))
    try:
        dealt = weighted_sum(weights(plan, qualified), polynomials)
    except MalformedValue as error:
        raise CeremonyFailed(plan.digest.hex()[:16], str(error)) from None
    commitments = plan.source.commitments if plan.source is not None and plan.purpose is Purpose.REPAIR else dealt
    transcript = digests.labelled(Label.CEREMONY_TRANSCRIPT, head, *dealt, *commitments)
    hybrid = HybridKeys(transcript, tuple(kem_keys[seat.index] for seat in plan.receivers)) if plan.hybrid else None
    result = Result(qualified, dealt, commitments, hybrid.digest if hybrid else transcript, hybrid)
    _verify_key_kept(plan, result)
    return result


def _verify_key_kept(plan: Plan, result: Result) -> Result:
    # Follows from each dealer's own constant having been checked; if it fails, nothing of this may be used.
    if plan.source is not None:
        old = [decode_point(each) for each in plan.source.commitments]
        want = verification_key(plan.heir.index, old) if plan.heir is not None else old[0]
        if result.dealt[0] != encode_point(want):
            raise CeremonyFailed(plan.digest.hex()[:16], "the sum is of another key")
    return result
