"""EIP-712 typed data of records, and secp256k1 signatures: sign, recover and verify.

The EIP-712 type string follows from the record class: its name, its field names in camelCase, and types from `units` (design
sections 4 and 13). Signatures are 65 bytes r ‖ s ‖ v with v 27 or 28 and low s, as OpenZeppelin's ECDSA requires.

An account signs the keccak256 of a preimage. A signer takes the preimage and not its hash, because remote signers hash by
themselves and signing rules must be able to read what is signed. There are three kinds of preimages, and their first bytes
differ: EIP-712 data (0x1901), transactions (0x02), and a label of this project with one 32-byte word.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NewType, Protocol

from eth_abi.abi import encode as abi_encode
from eth_keys.datatypes import PrivateKey, Signature
from eth_keys.exceptions import BadSignature as KeysBadSignature
from eth_utils.crypto import keccak
from eth_utils.exceptions import ValidationError

from bytewise.protocol.encoding import field_types
from bytewise.protocol.errors.records import BadSignature
from bytewise.protocol.units import U8, U16, U32, U64, U256, WIDTHS, Address, Blob, Digest, address, bounded, digest

_SOLIDITY: Mapping[Any, str] = {
    Digest: "bytes32", Address: "address", U8: "uint8", U16: "uint16", U32: "uint32", U64: "uint64", U256: "uint256",
}  # fmt: skip
Preimage = NewType("Preimage", bytes)
"""Bytes whose keccak256 is signed."""

TYPED = b"\x19\x01"
"""First bytes of EIP-712 data."""
TRANSACTION = b"\x02"
"""First byte of an EIP-1559 transaction."""
ALTERNATIVE = b"bytewise alternative"
"""Label of a signature from which a watchtower derives a salt. The salt hides the answer to which the watchtower commits."""
SIGNER_TEST = b"bytewise signer test"
"""Label of a test signature, which shows that a signer works."""
LABELS = (ALTERNATIVE, SIGNER_TEST)
"""Labels that an account signs, each followed by 32 bytes. No contract or actor accepts such a signature as a statement."""

_HEADS: dict[type, bytes] = {}
"""EIP-712 typeHash of each record class."""
_HALF_ORDER = 0x7FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF5D576E7357A4501DDFE92F46681B20A0


@dataclass(frozen=True, slots=True)
class Domain:
    """EIP-712 domain of one contract, with the name "Bytewise" and the version "1"."""

    chain_id: int
    """EIP-155 chain id."""
    contract: Address
    """Address of the verifying contract."""

    @property
    def separator(self) -> bytes:
        """EIP-712 domain separator."""
        return _separator(self)


@lru_cache(maxsize=32)
def _separator(domain: Domain) -> bytes:
    kinds = ("bytes32", "bytes32", "bytes32", "uint256", "address")
    head = keccak(b"EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)")
    return keccak(abi_encode(kinds, (head, keccak(b"Bytewise"), keccak(b"1"), domain.chain_id, domain.contract)))


class Signer(Protocol):
    """A key that signs for one account, in this process or at a remote signer."""

    @property
    def address(self) -> Address:
        """The account of the key."""
        ...

    def sign_preimage(self, preimage: Preimage) -> Blob:
        """Returns the 65-byte signature r ‖ s ‖ v over keccak256 of the preimage."""
        ...


class LocalSigner:
    """A secp256k1 key in this process. It is never printed."""

    def __init__(self, secret: bytes) -> None:
        """Takes a private key: 32 bytes, above 0 and below the curve's order. Raises `ValueError` for any other secret."""
        try:
            self._key = PrivateKey(secret)
        except ValidationError:
            # The cause is dropped, because its text contains the secret number.
            raise ValueError("not a private key of secp256k1") from None
        self.address: Address = address(self._key.public_key.to_address())

    def __repr__(self) -> str:
        return f"LocalSigner({self.address})"

    @property
    def secret(self) -> bytes:
        """The private key. Only code that writes a key file may read it."""
        return self._key.to_bytes()

    def sign_preimage(self, preimage: Preimage) -> Blob:
        """Returns the 65-byte signature r ‖ s ‖ v over keccak256 of the preimage (RFC 6979)."""
        return self.sign(preimage_digest(preimage))

    def sign(self, digest: Digest) -> Blob:
        """Returns the 65-byte signature r ‖ s ‖ v of a digest (RFC 6979)."""
        signature = self._key.sign_msg_hash(digest)
        return Blob(signature.to_bytes()[:64] + bytes([27 + signature.v]))


def type_string(cls: type) -> str:
    """Returns EIP-712 encodeType of a record class."""
    members = ",".join(f"{_SOLIDITY[kind]} {camel(name)}" for name, kind in field_types(cls).items())
    return f"{cls.__name__}({members})"


def struct_hash(record: object) -> bytes:
    """Returns EIP-712 hashStruct of a record."""
    cls = type(record)
    if cls not in _HEADS:
        _HEADS[cls] = keccak(type_string(cls).encode())
    return keccak(_HEADS[cls] + b"".join(map(_word, field_types(cls).values(), struct_values(record))))


def _word(kind: Any, value: Any) -> bytes:
    """Returns `abi.encode` of one field; every type of a record fills one word.

    Raises `MalformedValue` for a value outside its type.
    """
    if kind is Digest:
        return digest(value)
    if kind is Address:
        return bytes.fromhex(address(value)[2:]).rjust(32, b"\0")
    return bounded(value, WIDTHS[kind]).to_bytes(32)


def struct_values(record: object) -> tuple[Any, ...]:
    """Returns the field values of a record in order, as a contract call takes them."""
    return tuple(getattr(record, name) for name in field_types(type(record)))


def typed_preimage(domain: Domain, record: object) -> Preimage:
    """Returns the bytes that EIP-712 hashes: 0x1901 ‖ domain separator ‖ hashStruct."""
    return Preimage(TYPED + domain.separator + struct_hash(record))


def typed_digest(domain: Domain, record: object) -> Digest:
    """Returns the EIP-712 digest of a record: keccak256 of `typed_preimage`."""
    return preimage_digest(typed_preimage(domain, record))


def labelled_preimage(label: bytes, word: Digest) -> Preimage:
    """Returns the preimage of a label from `LABELS` and one 32-byte word."""
    return Preimage(label + word)


def preimage_digest(preimage: Preimage) -> Digest:
    """Returns the digest that is signed: keccak256 of the preimage."""
    return Digest(keccak(preimage))


def verify_signature(what: str, digest: Digest, signature: bytes, signer: Address) -> Address:
    """Returns `signer` if this account made the signature over the digest; otherwise raises `BadSignature`.

    `what` names the signed thing in the error.
    """
    found = recover(digest, signature)
    if found != signer:
        raise BadSignature(what, signer, found or "nobody")
    return signer


def recover(digest: Digest, signature: bytes) -> Address | None:
    """Returns the account that signed the digest, or None for a malformed or malleable signature."""
    if len(signature) != 65 or signature[64] not in (27, 28) or has_high_s(signature):
        return None
    try:
        parsed = Signature(signature_bytes=signature[:64] + bytes([signature[64] - 27]))
        return address(parsed.recover_public_key_from_msg_hash(digest).to_address())
    except (KeysBadSignature, ValidationError):
        return None


def has_high_s(signature: bytes) -> bool:
    """Returns whether the s value of a signature is in the upper half of the curve's order. EIP-2 forbids this form, because
    every signature also has a form with low s."""
    return int.from_bytes(signature[32:64]) > _HALF_ORDER


def camel(name: str) -> str:
    """Converts snake_case to camelCase."""
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)
