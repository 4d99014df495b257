"""Signatures recover to their signer or to nobody: no second form of a signature is accepted (design section 4)."""

import dataclasses
from typing import Any

import pytest
from eth_abi.abi import encode as abi_encode
from eth_utils.crypto import keccak
from hypothesis import given
from hypothesis import strategies as st

from bytewise.protocol.court.commitments import Certified, Commit
from bytewise.protocol.errors.records import BadSignature, MalformedValue
from bytewise.protocol.records.receipt import EmptyLeaf, Receipt
from bytewise.protocol.records.statements import AuditResult, Finding, Possession, Release, Ticket, Vote
from bytewise.protocol.signing import (
    Domain,
    LocalSigner,
    camel,
    recover,
    struct_hash,
    struct_values,
    type_string,
    typed_digest,
    verify_signature,
)
from bytewise.protocol.units import U64, U256, Address, Digest
from tests.fixtures.builders import ANCHOR, DISPUTES, World, signer, word
from tests.fixtures.record_strategies import digests, record

ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
KEY = signer("ada")
MESSAGE = word("message")
SIGNATURE = KEY.sign(MESSAGE)
SIGNED = [Receipt, EmptyLeaf, Vote, AuditResult, Ticket, Release, Finding, Possession, Commit, Certified]
"""Records that contracts hash."""


@given(st.binary(min_size=32, max_size=32).filter(lambda raw: 0 < int.from_bytes(raw) < ORDER), digests)
def test_signature_recovers_to_its_account(secret: bytes, digest: Digest) -> None:
    key = LocalSigner(secret)
    signature = key.sign(digest)
    assert len(signature) == 65 and signature[64] in (27, 28)
    assert int.from_bytes(signature[32:64]) <= ORDER // 2
    assert verify_signature("test", digest, signature, key.address) == key.address


MIRRORED = SIGNATURE[:32] + (ORDER - int.from_bytes(SIGNATURE[32:64])).to_bytes(32) + bytes([55 - SIGNATURE[64]])
"""Which the curve accepts."""
NOBODYS = [
    b"", SIGNATURE[:64], SIGNATURE + b"\0", SIGNATURE[:-2], bytes(65), bytes(64) + b"\x1b", MIRRORED,
    *(SIGNATURE[:64] + bytes([v]) for v in (0, 1, 2, 3, 26, 29, 35, 255)),
    *(r.to_bytes(32) + SIGNATURE[32:] for r in (0, ORDER, 2**256 - 1)),
]  # fmt: skip
"""Of another length, of zeros, with the other s, with a v that is not 27 or 28, with an r outside the order."""


@pytest.mark.parametrize("signature", NOBODYS)
def test_signature_of_another_form_recovers_to_no_account(signature: bytes) -> None:
    assert recover(MESSAGE, signature) is None
    with pytest.raises(BadSignature) as refused:
        verify_signature("receipt", MESSAGE, signature, KEY.address)
    assert refused.value.values == ("receipt", KEY.address, "nobody")


@given(st.binary(min_size=64, max_size=64), st.sampled_from([27, 28]))
def test_arbitrary_bytes_never_recover_to_our_account_and_never_crash(raw: bytes, v: int) -> None:
    assert recover(MESSAGE, raw + bytes([v])) != KEY.address


@given(st.integers(0, 64), st.integers(1, 255))
def test_one_changed_byte_recovers_to_another_signer(at: int, change: int) -> None:
    raw = bytearray(SIGNATURE)
    raw[at] ^= change
    assert recover(MESSAGE, bytes(raw)) != KEY.address


@pytest.mark.parametrize("cls", SIGNED, ids=lambda cls: str(cls.__name__))
@given(data=st.data())
def test_record_hash_is_soliditys_for_one_contract_and_chain(cls: type, data: st.DataObject) -> None:
    value = data.draw(record(cls))
    elsewhere = Domain(ANCHOR.chain_id + 1, ANCHOR.contract)
    assert len({typed_digest(domain, value) for domain in (ANCHOR, DISPUTES, elsewhere)}) == 3
    kinds = ["bytes32", *(member.split()[0] for member in type_string(cls).partition("(")[2][:-1].split(","))]
    assert struct_hash(value) == keccak(abi_encode(kinds, (keccak(type_string(cls).encode()), *struct_values(value))))


@pytest.mark.parametrize(
    "change",
    [{"seq": 2**64}, {"seq": -1}, {"seq": True}, {"operator": "0x12"}, {"operator": "0x" + "g" * 40}, {"chain_id": 2**256}],
)
def test_a_value_outside_its_type_is_not_hashed(change: dict[str, Any]) -> None:
    leaf = EmptyLeaf(KEY.address, U64(1), U256(1))
    with pytest.raises(MalformedValue):
        struct_hash(dataclasses.replace(leaf, **change))


@pytest.mark.parametrize("length", [0, 31, 33])
def test_a_digest_of_another_length_is_not_hashed(length: int) -> None:
    with pytest.raises(MalformedValue):
        struct_hash(dataclasses.replace(World().answered(1).receipt, out_hash=Digest(bytes(length))))


def test_a_signer_prints_its_account_and_never_its_key() -> None:
    assert repr(KEY) == f"LocalSigner({KEY.address})"
    assert KEY.secret.hex() not in repr(KEY) + str(KEY)


def test_type_strings_are_those_of_the_design() -> None:
    assert type_string(EmptyLeaf) == "EmptyLeaf(address operator,uint64 seq,uint256 chainId)"
    assert type_string(Receipt) == (
        "Receipt(address operator,uint64 seq,bytes32 reqHash,bytes32 tokensHash,bytes32 outHash,bytes32 modelId,"
        "bytes32 environment,bytes32 gpuArch,uint64 keyEpoch,bytes32 envelopeHash,uint64 issuedAt,uint64 anchorBy,"
        "uint8 mode,uint8 clientMode,address enclaveKey,uint256 chainId)"
    )
    assert type_string(Vote) == (
        "Vote(bytes32 dispute,uint16 round,address voter,uint256 seatMask,uint8 outcome,uint8 code,bytes32 tokensHash,"
        "bytes32 traceRoot,bytes32 roundDigest,bytes32 quoteHash,bytes32 salt)"
    )
    assert (camel("seat_mask"), camel("voter")) == ("seatMask", "voter")


def test_signature_by_another_account_names_both_accounts() -> None:
    with pytest.raises(BadSignature) as refused:
        verify_signature("receipt", MESSAGE, SIGNATURE, Address("0x" + "00" * 20))
    assert KEY.address in str(refused.value) and "[R-05]" in str(refused.value)
