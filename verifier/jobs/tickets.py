"""Builds a job for the enclave: its inputs, and the ticket, which the voter's account key signs for one transport key."""

from typing import NamedTuple

from bytewise.ports import EnclaveJobs
from bytewise.protocol.errors.actors import TryAgain
from bytewise.protocol.jobs import Contracts, EpochRecord, JobResult, RunJob
from bytewise.protocol.records.environment import Environment
from bytewise.protocol.records.receipt import BatchHeader, SignedReceipt
from bytewise.protocol.records.statements import Ticket, TicketKind, transport_key_hash
from bytewise.protocol.signing import Domain, Signer, typed_preimage
from bytewise.protocol.units import U8, U16, U64, ZERO_DIGEST, Blob, Digest
from verifier.jobs.enclave_presence import EnclaveAway


class JobCase(NamedTuple):
    """One receipt with all public data that a job about it needs, read at one block."""

    receipt_id: Digest
    signed: SignedReceipt
    header: BatchHeader
    proof: tuple[Digest, ...]
    envelope: bytes
    environment: Environment
    epoch: EpochRecord
    policy: Blob


class TicketRight(NamedTuple):
    """The right to open a receipt, for a seat in a round or for a drawn audit. `expires_at` is in chain time."""

    kind: TicketKind
    subject: Digest
    round: int
    round_seed: Digest
    expires_at: int


def audit_right(receipt_id: Digest, expires_at: int) -> TicketRight:
    """Returns the right of a drawn auditor to open a receipt."""
    return TicketRight(TicketKind.AUDIT, receipt_id, 0, ZERO_DIGEST, expires_at)


def vote_right(dispute: Digest, round_number: int, round_seed: Digest, expires_at: int) -> TicketRight:
    """Returns the right of an account with a seat to open the disputed receipt."""
    return TicketRight(TicketKind.DISPUTE, dispute, round_number, round_seed, expires_at)


def run_job(enclave: EnclaveJobs, signer: Signer, contracts: Contracts, case: JobCase, right: TicketRight) -> JobResult:
    """Makes the enclave judge a receipt: gets a transport key, signs the ticket for that key, and sends the job.

    Raises `EnclaveAway` if no enclave accepts the job. Every other error comes from the job itself.
    """
    try:
        prepared = enclave.prepare(case.receipt_id, case.signed.receipt.model_id)
    except EnclaveAway:
        raise
    except TryAgain as error:
        raise EnclaveAway(*error.values) from None
    ticket = Ticket(
        kind=U8(right.kind), subject=right.subject, round=U16(right.round), receipt_id=case.receipt_id,
        voter=signer.address, transport_key_hash=transport_key_hash(prepared.transport_key), instance=prepared.instance,
        key_epoch=case.signed.receipt.key_epoch, expires_at=U64(right.expires_at),
    )  # fmt: skip
    domain = Domain(contracts.chain_id, contracts.key_epochs)
    job = RunJob(
        ticket=ticket, ticket_signature=signer.sign_preimage(typed_preimage(domain, ticket)), receipt=case.signed.receipt,
        receipt_signature=case.signed.signature, batch_id=case.header.batch_id, proof=case.proof,
        anchored_at=case.header.anchored_at, envelope=Blob(case.envelope), environment=case.environment,
        epoch=case.epoch, contracts=contracts, round_seed=right.round_seed, policy=case.policy,
    )  # fmt: skip
    return enclave.run(job)
