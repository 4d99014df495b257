"""Reading of collateral in the form of Intel's services, and of the time when it was issued."""

from cryptography.hazmat.primitives.serialization import Encoding

from bytewise.protocol.errors.evidence import EvidenceMalformed, EvidenceTooLarge
from bytewise.protocol.evidence.claims import Collateral
from bytewise.protocol.units import Blob
from bytewise.tee.certificates import read_chain, read_list
from bytewise.tee.strict_json import read_object, unix_second

MAX_COLLATERAL_BYTES = 1 << 20
"""Size in bytes of the largest answer of a collateral service that is read."""


def parse_collateral(document: bytes) -> Collateral:
    """Returns the collateral of a JSON object with the nine members of Intel's `sgx_ql_qve_collateral_t`. Bytes are in hex.

    Only the first certificate of each chain is used, because the policy names the root. Raises `EvidenceMalformed` if the
    document is not such an object.
    """
    if len(document) > MAX_COLLATERAL_BYTES:
        raise EvidenceTooLarge(f"collateral of {len(document)} bytes, at most {MAX_COLLATERAL_BYTES}")
    given = read_object(document, "collateral")
    signers = {_first(given, name) for name in ("tcb_info_issuer_chain", "qe_identity_issuer_chain")}
    if len(signers) != 1:
        raise EvidenceMalformed("collateral: TCB info and QE identity are signed by two different keys")
    return Collateral(
        pck_ca=_first(given, "pck_crl_issuer_chain"), tcb_signer=signers.pop(), root_crl=_hex(given, "root_ca_crl"),
        pck_crl=_hex(given, "pck_crl"), tcb_info=Blob(_text(given, "tcb_info").encode()),
        tcb_info_signature=_hex(given, "tcb_info_signature"), qe_identity=Blob(_text(given, "qe_identity").encode()),
        qe_identity_signature=_hex(given, "qe_identity_signature"),
    )  # fmt: skip


def issued_at(collateral: Collateral) -> int:
    """Returns the newest issue time, in Unix seconds, that a part of the collateral states. The time is unverified until the
    collateral is verified for it."""
    documents = (("TCB info", collateral.tcb_info), ("QE identity", collateral.qe_identity))
    dates = [unix_second(str(read_object(data, what).get("issueDate"))) for what, data in documents]
    dates += [int(read_list(crl).last_update_utc.timestamp()) for crl in (collateral.root_crl, collateral.pck_crl)]
    return max(dates)


def _first(given: dict[str, object], name: str) -> Blob:
    first = read_chain(_text(given, name).encode())[0]
    return Blob(first.public_bytes(Encoding.DER))


def _hex(given: dict[str, object], name: str) -> Blob:
    try:
        return Blob(bytes.fromhex(_text(given, name)))
    except ValueError:
        raise EvidenceMalformed(f"collateral: {name} is no hex") from None


def _text(given: dict[str, object], name: str) -> str:
    value = given.get(name)
    if not isinstance(value, str):
        raise EvidenceMalformed(f"collateral: no {name}")
    return value
