"""Records that storage tests put away."""

from bytewise.protocol.records.receipt import BatchHeader, ClientMode, Mode, Receipt, SignedReceipt
from bytewise.protocol.records.statements import AuditResult, Outcome, Vote
from bytewise.protocol.units import U8, U16, U32, U64, U256, ZERO_ADDRESS, Address, Blob, Digest

ACCOUNT = Address("0x" + "a1" * 20)
OTHER = Address("0x" + "b2" * 20)


def name(number: int) -> Digest:
    """A digest that is easy to tell from others."""
    return Digest(number.to_bytes(32, "big"))


def vote(dispute: int = 1, round_number: int = 1, says: int = 7, salt: int = 1, voter: Address = ACCOUNT) -> Vote:
    """An EXECUTED vote; `says` is what it found, `salt` its packaging."""
    return Vote(
        dispute=name(dispute), round=U16(round_number), voter=voter, seat_mask=U256(5), outcome=U8(Outcome.EXECUTED), code=U8(0),
        tokens_hash=name(says), trace_root=name(says), round_digest=name(says), quote_hash=name(salt), salt=name(salt),
    )  # fmt: skip


def signed_receipt(seq: int, operator: Address = ACCOUNT) -> SignedReceipt:
    """A receipt with any signature."""
    receipt = Receipt(
        operator=operator, seq=U64(seq), req_hash=name(1), tokens_hash=name(2), out_hash=name(3), model_id=name(4),
        environment=name(5), gpu_arch=name(6), key_epoch=U64(1), envelope_hash=name(7), issued_at=U64(8), anchor_by=U64(9),
        mode=U8(Mode.PLAIN), client_mode=U8(ClientMode.DELEGATED), enclave_key=ZERO_ADDRESS, chain_id=U256(31337),
    )  # fmt: skip
    return SignedReceipt(receipt, Blob(bytes(65)), f"eigenda:standard:0x03{seq:04x}")


def header(first_seq: int, count: int, batch_id: int = 0, block: int = 10) -> BatchHeader:
    """A batch header."""
    return BatchHeader(
        batch_id=batch_id, operator=ACCOUNT, first_seq=U64(first_seq), count=U32(count), root=name(1), list_hash=name(2),
        environment=name(5), model_id=name(4), key_epoch=U64(1), locator="eigenda:standard:0x03ff", anchored_at=U64(20),
        block=U64(block),
    )  # fmt: skip


def audit_result(receipt: int) -> AuditResult:
    """A MATCH."""
    return AuditResult(name(receipt), ACCOUNT, U8(1), name(9), U64(30))
