"""Strict readers of documents from untrusted parties: certificates, revocation lists, vendors' JSON, and collateral in the form
of Intel's services. Every flaw becomes an error of this project.

The library's parser of certificates reads keys, dates and extensions only when they are used. It raises several kinds of errors
then. JSON is read strictly, so that two readers cannot understand a text differently.
"""

import datetime
import json
from typing import Any, NoReturn

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding

from bytewise.protocol.encoding import verify_depth
from bytewise.protocol.errors.evidence import EvidenceMalformed, EvidenceTooLarge
from bytewise.protocol.errors.records import TooLarge
from bytewise.protocol.evidence.claims import Collateral
from bytewise.protocol.units import Blob

UNREADABLE = (
    ValueError, x509.InvalidVersion, x509.DuplicateExtension, x509.UnsupportedGeneralNameType, UnsupportedAlgorithm,
)  # fmt: skip
"""Errors that can be raised when any part of a certificate or list is read."""
MAX_COLLATERAL_BYTES = 1 << 20
"""Size in bytes of the largest answer of a collateral service that is read."""


def read_certificate(der: bytes) -> x509.Certificate:
    """Returns the certificate after parsing its key and dates too. Raises `EvidenceMalformed` if a part does not parse."""
    try:
        found = x509.load_der_x509_certificate(der)
        found.public_key(), found.not_valid_before_utc, found.not_valid_after_utc
    except UNREADABLE:
        raise EvidenceMalformed("certificate does not parse") from None
    return found


def read_chain(pem: bytes) -> list[x509.Certificate]:
    """Returns the certificates of a PEM text after parsing their keys and dates too. Raises `EvidenceMalformed` if a part does
    not parse."""
    try:
        found = x509.load_pem_x509_certificates(pem)
        for each in found:
            each.public_key(), each.not_valid_before_utc, each.not_valid_after_utc
    except UNREADABLE:
        raise EvidenceMalformed("chain of certificates does not parse") from None
    return found


def read_list(der: bytes) -> x509.CertificateRevocationList:
    """Returns the revocation list after parsing its dates and entries too. Raises `EvidenceMalformed` if a part does not
    parse."""
    try:
        found = x509.load_der_x509_crl(der)
        found.last_update_utc, found.next_update_utc, found.get_revoked_certificate_by_serial_number(0)
    except UNREADABLE:
        raise EvidenceMalformed("revocation list is missing or does not parse") from None
    return found


def read_object(data: bytes, what: str) -> dict[str, Any]:
    """Returns the JSON object of these bytes. Raises `EvidenceMalformed` for anything else, for example repeated keys, floats,
    deep nesting or broken text."""
    try:
        verify_depth(data)
        value = json.loads(data, object_pairs_hook=_once, parse_float=_refuse, parse_constant=_refuse)
        # An escape can encode half of a surrogate pair, which has no encoding as bytes.
        json.dumps(value, ensure_ascii=False).encode()
    except TooLarge as error:
        raise EvidenceTooLarge(f"{what}: {error}") from None
    except (ValueError, RecursionError):
        raise EvidenceMalformed(f"{what}: no strict JSON") from None
    if not isinstance(value, dict):
        raise EvidenceMalformed(f"{what}: no object")
    return value


def unix_second(text: str) -> int:
    """Returns the Unix second of an RFC 3339 time in UTC. Raises `EvidenceMalformed` if the text is not such a time."""
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise EvidenceMalformed(f"{text[:40]} is no time") from None
    if moment.utcoffset() != datetime.timedelta(0):
        raise EvidenceMalformed(f"{text[:40]} is no time in UTC")
    return int(moment.timestamp())


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("repeated key")
    return members


def _refuse(text: str) -> NoReturn:
    raise ValueError(text[:20])


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
    """Returns the newest issue time, in Unix seconds, that a part of the collateral states. The time counts as verified only when
    the caller has verified the collateral at this time."""
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
