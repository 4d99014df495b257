"""Offline verification of DCAP quotes (`tdx`, and `simulated` in the same format) by `dcap-qvl`, under one rule of a policy.

The library verifies signatures, chains, revocation lists and TCB levels. It also applies a policy in a format of its own, which
this module makes from the rule. `bytewise.tee.appraisal` then judges the result again. The caller provides the time. Nothing here
uses the network.
"""

import json
from typing import Any

import dcap_qvl
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import Encoding

from bytewise.protocol import digests
from bytewise.protocol.digests import Label
from bytewise.protocol.errors.actors import EvidenceRefused
from bytewise.protocol.errors.evidence import (
    EvidenceExpired,
    EvidenceFromFuture,
    EvidenceMalformed,
    EvidenceTooLarge,
    TcbRefused,
    UntrustedRoot,
)
from bytewise.protocol.evidence.appraisal_policy import PlatformRule, TcbStatus
from bytewise.protocol.evidence.claims import Collateral
from bytewise.protocol.units import Blob, Digest
from bytewise.tee.claims import Claims
from bytewise.tee.documents import UNREADABLE, read_certificate, read_chain, read_list, read_object

SIMULATED_MARK = b"SIMULATED TEE - NOT INTEL/AMD".ljust(48, b"\0")
"""Value of the register MRCONFIGID in every simulated quote (fence 2)."""

MAX_QUOTE_BYTES = 16 * 1024
"""Size in bytes of the largest quote that is parsed. A real quote has about 5 KB."""

TCB_INFO_VERSION = 3
"""The only version of Intel's TCB info about trust domains that this program understands. The library also accepts later
versions, but reads only the fields of this version."""

_REFUSALS: tuple[tuple[str, type[EvidenceRefused]], ...] = (
    # Messages of the library in lower case, with their errors; the first match counts. A text without a match is a general
    # refusal.
    ("in the future", EvidenceFromFuture),
    ("not valid before", EvidenceFromFuture),
    ("notvalidyet", EvidenceFromFuture),
    ("expired", EvidenceExpired),
    ("by policy", TcbRefused),
    ("eval data number", TcbRefused),
    ("no matching tcb level", TcbRefused),
    ("current tdx tcb", TcbRefused),
    ("module tcb level", TcbRefused),
    ("below minimum required", TcbRefused),
    ("revoked", TcbRefused),
    ("unrecognized tcb status", TcbRefused),
    ("tcb too old", TcbRefused),
    ("unknownissuer", UntrustedRoot),
    ("failed to verify certificate chain", UntrustedRoot),
    ("root ca", UntrustedRoot),
    ("decode", EvidenceMalformed),
    ("parse", EvidenceMalformed),
)

_BODIES = ("TD10", "TD15")
"""Names that the library gives to the accepted report bodies. TDX 1.5 adds a second TCB, which the library judges, and a
service domain, which it refuses. Bodies with more fields are refused, because nothing here would judge these fields."""

MEASURED = (
    "td_attributes",
    "xfam",
    "mr_td",
    "mr_config_id",
    "mr_owner",
    "mr_owner_config",
    "rt_mr0",
    "rt_mr1",
    "rt_mr2",
    "rt_mr3",
)
"""Registers of a trust domain that its measurement covers, in the order of hashing."""


def verify_quote(rule: PlatformRule, quote: bytes, collateral: Collateral, now: int) -> Claims:
    """Verifies a quote of a trust domain at Unix second `now`, and returns its claims. Raises a subclass of `EvidenceRefused`
    that names the flaw."""
    if len(quote) > MAX_QUOTE_BYTES:
        raise EvidenceTooLarge(f"quote of {len(quote)} bytes, at most {MAX_QUOTE_BYTES}")
    tcb_info = read_object(collateral.tcb_info, "TCB info")
    version = tcb_info.get("version")
    if version != TCB_INFO_VERSION:
        raise EvidenceRefused(f"TCB info of version {version!r:.20}, only {TCB_INFO_VERSION} is understood")
    found = _verified(rule, quote, collateral, now)
    claims = _claims(found)
    _verify_authority(rule, quote, collateral, now)
    # The library compares the platform's family with the TCB info, but not this.
    provisioning = bytes(found["platform"]["pck"]["pce_id"]).hex()
    if str(tcb_info["pceId"]).lower() != provisioning:
        raise EvidenceRefused(f"TCB info is of another provisioning enclave (PCEID) than the platform's {provisioning}")
    return claims


def _verified(rule: PlatformRule, quote: bytes, collateral: Collateral, now: int) -> dict[str, Any]:
    try:
        claims = dcap_qvl.QuoteVerifier(bytes(rule.root)).verify_with_policy(
            bytes(quote), _collateral(rule, collateral), now, quote_policy(rule, now)
        )
    except (ValueError, OverflowError) as error:
        said = str(error)
        if "TCB too old" in said:
            said += f": out_of_date_grace_s of the rule is {rule.out_of_date_grace_s or 0}"
        refused = refusal(said)
        if isinstance(refused, UntrustedRoot):
            _explain_chain(rule, quote, collateral, now)
        raise refused from None
    found: dict[str, Any] = json.loads(claims.to_json())
    return found


def _verify_authority(rule: PlatformRule, quote: bytes, collateral: Collateral, now: int) -> None:
    # The library never reads this certificate: it uses the one in the quote, which may be another one of the same key.
    authority, chain = read_certificate(collateral.pck_ca), _chain(quote)
    name = "the authority of platform keys"
    try:
        authority.verify_directly_issued_by(_root(rule))
        chain[0].verify_directly_issued_by(authority)
    except (InvalidSignature, TypeError, IndexError, *UNREADABLE):
        raise UntrustedRoot(f"{name} is not the root's, or did not issue the platform's") from None
    _verify_dates(name, authority, now)
    if _lists(collateral.root_crl, authority.serial_number):
        raise TcbRefused(f"{name} was revoked")


def refusal(said: str) -> EvidenceRefused:
    """Returns the error of this project for a refused quote. `said` is the message with which the library refused the quote."""
    text = said.removeprefix("Verification failed: ")[:200]
    kind = next((kind for part, kind in _REFUSALS if part in text.lower()), EvidenceRefused)
    return kind(text)


def quote_policy(rule: PlatformRule, now: int) -> dcap_qvl.QuotePolicy:
    """Returns the library's form of the rule: a policy that makes the same demands at Unix second `now`."""
    grace_s = rule.out_of_date_grace_s or 0
    policy = dcap_qvl.QuotePolicy.strict(now).platform_grace_period(grace_s).qe_grace_period(grace_s)
    for status in rule.statuses:
        policy = policy.allow_status(status.value)
    return (
        policy.reject_advisories(list(rule.refused_advisories))
        .min_tcb_eval_data_number(rule.min_evaluation)
        .allow_dynamic_platform(rule.dynamic_platform)
        .allow_cached_keys(rule.cached_keys)
        .allow_smt(rule.smt)
    )


def _collateral(rule: PlatformRule, given: Collateral) -> dcap_qvl.QuoteCollateralV3:
    root = _text_of(_root(rule))
    signer = _pem(given.tcb_signer) + root
    return dcap_qvl.QuoteCollateralV3(
        pck_crl_issuer_chain=_pem(given.pck_ca) + root, root_ca_crl=bytes(given.root_crl), pck_crl=bytes(given.pck_crl),
        tcb_info_issuer_chain=signer, tcb_info=_text(given.tcb_info), tcb_info_signature=bytes(given.tcb_info_signature),
        qe_identity_issuer_chain=signer, qe_identity=_text(given.qe_identity),
        qe_identity_signature=bytes(given.qe_identity_signature),
    )  # fmt: skip


def _claims(found: dict[str, Any]) -> Claims:
    report = _registers(found["report"])
    # If the module was updated under a running trust domain, the library names the module of the launch. The running module is
    # judged as well.
    levels = [found["tcb"]["advisory_ids"], (found["platform"]["current_tcb_level"] or {}).get("advisoryIDs", [])]
    registers = [bytes.fromhex(report[name]) for name in MEASURED]
    simulated = bytes.fromhex(report["mr_config_id"]) == SIMULATED_MARK
    return Claims(
        measurement=digests.labelled(Label.TD_MEASUREMENT, *registers),
        report_data=bytes.fromhex(report["report_data"]),
        platform_id=Blob(bytes(found["platform"]["pck"]["ppid"])),
        status=_status(found["tcb"]["status"]),
        advisories=tuple(dict.fromkeys(each for level in levels for each in level)),
        evaluation=found["tcb"]["eval_data_number"],
        issued_at=max(found["latest_issue_date"], found["qe_iden_latest_issue_date"]),
        expires_at=min(found["earliest_expiration_date"], found["qe_iden_earliest_expiration_date"]),
        simulated=simulated,
    )


def _registers(report: dict[str, Any]) -> dict[str, Any]:
    # The library names the body, and nests the common fields below those that later bodies add.
    ((body, found),) = report.items()
    if body == "SgxEnclave":
        raise EvidenceRefused("quote of an SGX enclave, not of a trust domain")
    if body not in _BODIES:
        raise EvidenceRefused(f"quote with a body {body[:20]}, which has fields that this program does not read")
    inner: dict[str, Any] = found["base"] if body == "TD15" else found
    return inner


def td_measurement(**registers: bytes) -> Digest:
    """Returns the measurement of a trust domain with these registers (`mr_td`, `rt_mr0`, …). Registers that the caller does not
    pass are zero."""
    sizes = {"td_attributes": 8, "xfam": 8}
    return digests.labelled(Label.TD_MEASUREMENT, *(registers.get(name, bytes(sizes.get(name, 48))) for name in MEASURED))


def _explain_chain(rule: PlatformRule, quote: bytes, collateral: Collateral, now: int) -> None:
    # For an expired or revoked chain the library only says that it fails. The operator needs to know which of the two. This
    # reading verifies nothing, and nothing is accepted because of it.
    chain = _chain(quote)
    authority, signer = (read_certificate(each) for each in (collateral.pck_ca, collateral.tcb_signer))
    for each in (*chain, _root(rule), authority, signer):
        _verify_dates("a certificate", each, now)
    if chain and _lists(collateral.pck_crl, chain[0].serial_number):
        raise TcbRefused("the platform's key was revoked")
    if _lists(collateral.root_crl, authority.serial_number):
        raise TcbRefused("the authority of platform keys was revoked")


def _verify_dates(name: str, certificate: x509.Certificate, now: int) -> None:
    if now < certificate.not_valid_before_utc.timestamp():
        raise EvidenceFromFuture(f"{name} is valid from {certificate.not_valid_before_utc:%Y-%m-%d %H:%M:%S}")
    if now >= certificate.not_valid_after_utc.timestamp():
        raise EvidenceExpired(f"{name} was valid until {certificate.not_valid_after_utc:%Y-%m-%d %H:%M:%S}")


def _lists(crl: bytes, serial: int) -> bool:
    if serial < 0:
        return False  # no list can name it (RFC 5280, 4.1.2.2)
    try:
        return read_list(crl).get_revoked_certificate_by_serial_number(serial) is not None
    except EvidenceMalformed:
        return False


def _chain(quote: bytes) -> list[x509.Certificate]:
    try:
        return read_chain((dcap_qvl.Quote.parse(bytes(quote)).cert_chain_pem_bytes() or b"").rstrip(b"\0"))
    except EvidenceMalformed:
        return []


def _status(text: str) -> TcbStatus:
    try:
        return TcbStatus(text)
    except ValueError:
        raise TcbRefused(f"TCB status {text[:60]}, which this program does not know") from None


def _root(rule: PlatformRule) -> x509.Certificate:
    try:
        return read_certificate(rule.root)
    except EvidenceMalformed:
        raise UntrustedRoot("root of the rule does not parse") from None


def _pem(der: bytes) -> str:
    return _text_of(read_certificate(der))


def _text_of(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(Encoding.PEM).decode()


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise EvidenceMalformed("collateral is no text") from None
