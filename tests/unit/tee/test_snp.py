"""SNP reports of a synthetic AMD: one change at a time, each refused by its own rule."""

import hashlib
from collections.abc import Callable
from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from bytewise.protocol.encoding import encode
from bytewise.protocol.errors.actors import ConfigurationError, EvidenceRefused
from bytewise.protocol.errors.evidence import (
    EvidenceExpired,
    EvidenceFromFuture,
    EvidenceMalformed,
    MeasurementRefused,
    TcbRefused,
    UntrustedRoot,
)
from bytewise.protocol.evidence import appraisal_policy
from bytewise.protocol.evidence.appraisal_policy import (
    AppraisalPolicy,
    Coverage,
    EvidenceType,
    GpuUse,
    PlatformKind,
    TcbStatus,
    TrustedMeasurement,
)
from bytewise.protocol.evidence.claims import Evidence
from bytewise.protocol.units import U64, U256, Blob
from bytewise.tee import appraisal, snp
from bytewise.tee.appraisal import verify_evidence
from bytewise.tee.snp import certificate_time, verify_report
from tests.fixtures.tee.snp_rules import amd, amd_measurement, measurement_of, rule
from tests.fixtures.tee.synthetic_amd import CHIP, NOW, TCB, Amd, Guest

__all__ = ["amd"]


def test_sound_report_describes_the_guest(amd: Amd) -> None:
    claims = verify_report(rule(amd), amd.report(), amd.certificates(), NOW)
    assert (claims.platform_id, claims.status, claims.simulated) == (CHIP, TcbStatus.UP_TO_DATE, False)
    for other in ({"measurement": b"\x09" * 48}, {"host_data": b"\x09" * 32}, {"policy": 1 << 17}):
        changed = verify_report(rule(amd), amd.report(replace(Guest(), **other)), amd.certificates(), NOW)
        assert changed.measurement != claims.measurement
    assert verify_report(rule(amd, smt=True), amd.report(Guest(platform=1)), amd.certificates(), NOW), "a rule may allow it"


GUESTS: dict[str, tuple[Guest, type[EvidenceRefused], str]] = {
    "debug": (Guest(policy=1 << 19), EvidenceRefused, "debug"),
    "a migration agent": (Guest(policy=1 << 18), EvidenceRefused, "migration"),
    "another privilege level": (Guest(vmpl=1), EvidenceRefused, "privilege"),
    "an old layout": (Guest(version=1), EvidenceMalformed, "version"),
    "another algorithm": (Guest(algorithm=2), EvidenceRefused, "P-384"),
    "a provider's key": (Guest(flags=1 << 2), EvidenceRefused, "own chip"),
    "no signature": (Guest(flags=7 << 2), EvidenceRefused, "own chip"),
    "a masked chip": (Guest(flags=1 << 1), EvidenceRefused, "own chip"),
    "threads that share a core": (Guest(platform=1), TcbRefused, "multithreading"),
    "another chip": (Guest(chip_id=bytes(64)), EvidenceRefused, "another chip"),
    "the TCB of another certificate": (Guest(tcb=bytes([5]) + TCB[1:]), TcbRefused, "another TCB"),
}


@pytest.mark.parametrize("name", GUESTS)
def test_a_correctly_signed_report_with_one_wrong_field_is_refused(amd: Amd, name: str) -> None:
    guest, error, words = GUESTS[name]
    with pytest.raises(error, match=words):
        verify_report(rule(amd), amd.report(guest), amd.certificates(), NOW)


@pytest.mark.parametrize("place", [0, 1, 6, 7])
def test_each_security_number_is_compared(amd: Amd, place: int) -> None:
    higher = bytearray(TCB)
    higher[place] += 1
    claims = verify_report(rule(amd, min_tcb=Blob(bytes(higher))), amd.report(), amd.certificates(), NOW)
    assert claims.status is TcbStatus.OUT_OF_DATE


def test_a_chain_with_another_link_is_refused(amd: Amd) -> None:
    other, sound = Amd(), amd.certificates()
    foreign = other.certificates()
    for chain in (foreign, replace(sound, ask=foreign.ask), replace(sound, vcek=foreign.vcek)):
        with pytest.raises(UntrustedRoot):
            verify_report(rule(amd), amd.report(), chain, NOW)
    for root, words in ((b"\0", "does not parse"), (b"\x30\x00", "does not parse"), (ec_key(), "not RSA")):
        with pytest.raises(UntrustedRoot, match=words):
            verify_report(rule(amd, root=Blob(root)), amd.report(), sound, NOW)
    elliptic = amd.signed("SEV-Milan", "ARK-Milan", ec.generate_private_key(ec.SECP384R1()).public_key(), amd.root, {})
    with pytest.raises(UntrustedRoot, match="VCEK is issued by a key that is not RSA"):
        verify_report(rule(amd), amd.report(), replace(sound, ask=Blob(elliptic.public_bytes(Encoding.DER))), NOW)
    with pytest.raises(EvidenceRefused, match="signature"):
        verify_report(rule(amd), other.report(), sound, NOW)


def ec_key() -> bytes:
    key = ec.generate_private_key(ec.SECP256R1()).public_key()
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


@pytest.mark.parametrize("without", ["2", "3.1", "3.2", "3.3", "3.8", "4"])
def test_a_chip_certificate_without_its_extensions_is_malformed(amd: Amd, without: str) -> None:
    with pytest.raises(EvidenceMalformed):
        verify_report(rule(amd), amd.report(), amd.certificates(without=without), NOW)


def test_a_product_of_unknown_layout_is_refused(amd: Amd) -> None:
    with pytest.raises(EvidenceRefused, match="product"):
        verify_report(rule(amd), amd.report(), amd.certificates(product=b"\x16\x08Turin-C1"), NOW)


def test_an_rsa_key_signs_no_report(amd: Amd) -> None:
    weak = amd.signed("SEV-VCEK", "SEV-Milan", rsa.generate_private_key(65537, 2048).public_key(), amd.ask_key, {})
    chain = replace(amd.certificates(), vcek=Blob(weak.public_bytes(Encoding.DER)))
    with pytest.raises(EvidenceRefused, match="P-384"):
        verify_report(rule(amd), amd.report(), chain, NOW)


DAY = 86_400
LISTS: dict[str, tuple[Callable[[Amd], Blob], type[EvidenceRefused]]] = {
    "none": (lambda amd: Blob(b""), EvidenceMalformed),
    "no list": (lambda amd: Blob(b"\x30\x00"), EvidenceMalformed),
    "beyond the cap": (lambda amd: Blob(bytes(9000)), EvidenceMalformed),
    "another's": (lambda amd: amd.revocation_list(0, DAY, signer=amd.ask_key), UntrustedRoot),
    "old": (lambda amd: amd.revocation_list(31 * DAY, 90 * DAY), EvidenceExpired),
    "over": (lambda amd: amd.revocation_list(2 * DAY, DAY), EvidenceExpired),
    "from the future": (lambda amd: amd.revocation_list(-60, DAY), EvidenceFromFuture),
    "names the signing key": (lambda amd: amd.revocation_list(0, DAY, revoked=(1,)), TcbRefused),
}


@pytest.mark.parametrize("name", LISTS)
def test_rule_asking_for_a_revocation_list_gets_a_sound_one_or_fails(amd: Amd, name: str) -> None:
    """Control: without the demand every one of these lists passes."""
    made, error = LISTS[name]
    chain = replace(amd.certificates(), crl=made(amd))
    with pytest.raises(error):
        verify_report(rule(amd, max_age_s=30 * DAY), amd.report(), chain, NOW)
    assert verify_report(rule(amd), amd.report(), chain, NOW)


def test_a_sound_revocation_list_dates_the_evidence(amd: Amd) -> None:
    chain = replace(amd.certificates(), crl=amd.revocation_list(DAY, 30 * DAY, revoked=(2, 3)))
    asking = rule(amd, max_age_s=30 * DAY)
    assert verify_report(asking, amd.report(), chain, NOW).issued_at == certificate_time(asking, chain) == NOW - DAY
    # Where no list is asked for, its date is nobody's word and dates nothing.
    assert certificate_time(rule(amd), chain) < NOW - DAY


def test_synthetic_vendor_is_not_accepted_as_vendor(amd: Amd, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything fits but the root, which only the fingerprints in the code can make AMD's. Control: without those it passes."""
    claims = verify_report(rule(amd), amd.report(), amd.certificates(), NOW)
    trusted = TrustedMeasurement(PlatformKind.SNP, claims.measurement, (Coverage.IMAGE,), "the image", GpuUse.NONE)
    policy = AppraisalPolicy(U64(1), (U256(1),), (rule(amd),), (trusted,), False)
    evidence = encode(Evidence(EvidenceType.SNP, Blob(amd.report()), None, amd.certificates(), Blob(b"")))
    with pytest.raises(UntrustedRoot, match="vendor's"):
        verify_evidence(policy, evidence, Guest().report_data, NOW, 1)
    monkeypatch.setattr(appraisal, "is_vendor_root", lambda kind, root: True)
    assert verify_evidence(policy, evidence, Guest().report_data, NOW, 1).assurance == "hardware"
    with pytest.raises(MeasurementRefused):
        other = encode(
            Evidence(EvidenceType.SNP, Blob(amd.report(Guest(measurement=bytes(48)))), None, amd.certificates(), Blob(b""))
        )
        verify_evidence(policy, other, Guest().report_data, NOW, 1)


def test_attack_27_platform_cannot_claim_coverage_it_lacks(amd: Amd) -> None:
    """Two images on AWS have one measurement: whoever listed it for "the image" would give keys to any image."""
    for kind in (PlatformKind.SNP_AWS, PlatformKind.SNP_AZURE):
        for covers in ((Coverage.IMAGE,), (Coverage.PROGRAM,), (Coverage.FIRMWARE, Coverage.KERNEL), (Coverage.FIRMWARE,), ()):
            with pytest.raises(ConfigurationError, match="trusted measurement"):
                TrustedMeasurement(kind, amd_measurement(amd), covers, "the image", GpuUse.NONE)
    assert TrustedMeasurement(PlatformKind.SNP, amd_measurement(amd), (Coverage.IMAGE,), "the image", GpuUse.NONE)
    with pytest.raises(ConfigurationError, match="no statement"):
        TrustedMeasurement(PlatformKind.SNP, amd_measurement(amd), (Coverage.IMAGE,), "", GpuUse.NONE)


FIRMWARE, OURS, THEIRS = b"the provider's firmware", b"our image", b"the attacker's image"


def booted(kind: PlatformKind, image: bytes) -> Guest:
    """A guest that runs this image: on AWS the firmware is measured and loads what it is given, elsewhere the image is, too.

    The key that it wants keys for is made by what runs, so that each image asks with report data of its own.
    """
    covered = FIRMWARE if kind is PlatformKind.SNP_AWS else FIRMWARE + image
    return Guest(measurement=hashlib.sha384(covered).digest(), report_data=hashlib.sha512(b"key of " + image).digest())


def appraised(amd: Amd, kind: PlatformKind, image: bytes) -> TrustedMeasurement:
    """As what a guest with this image is known to a policy that lists, as an image, what ours measures."""
    ours = measurement_of(amd, booted(kind, OURS))
    listed = TrustedMeasurement(kind, ours, (Coverage.IMAGE,), "the image", GpuUse.NONE)
    policy, guest = AppraisalPolicy(U64(1), (U256(1),), (rule(amd),), (listed,), False), booted(kind, image)
    evidence = encode(Evidence(EvidenceType.SNP, Blob(amd.report(guest)), None, amd.certificates(), Blob(b"")))
    accepted = verify_evidence(policy, evidence, guest.report_data, NOW, 1)
    assert accepted.report_data == hashlib.sha512(b"key of " + image).digest()
    return accepted.program


def test_attack_27_control_firmware_measurement_alone_passes_any_image(amd: Amd, monkeypatch: pytest.MonkeyPatch) -> None:
    """The provider's firmware loads whatever it is given: with it listed as the image, the attacker's gets keys like ours."""
    monkeypatch.setattr(appraisal, "is_vendor_root", lambda kind, root: True)
    for image in (OURS, THEIRS):
        with pytest.raises(ConfigurationError, match="cannot cover image"):
            appraised(amd, PlatformKind.SNP_AWS, image)
    # Where the image is measured, listing it is right: ours passes, and the attacker's does not.
    assert appraised(amd, PlatformKind.SNP, OURS).covers == (Coverage.IMAGE,)
    with pytest.raises(MeasurementRefused):
        appraised(amd, PlatformKind.SNP, THEIRS)
    # Control: a policy that may say of AWS what it says of others.
    monkeypatch.setitem(appraisal_policy.CAN_COVER, PlatformKind.SNP_AWS, frozenset(Coverage))
    assert appraised(amd, PlatformKind.SNP_AWS, OURS) == appraised(amd, PlatformKind.SNP_AWS, THEIRS)


def test_attack_6_control_without_debug_check_a_readable_guest_gets_keys(amd: Amd, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two things stop it: the question, and that the guest's policy is part of its measurement."""
    guest = Guest(policy=Guest().policy | 1 << 19)
    monkeypatch.setattr(appraisal, "is_vendor_root", lambda kind, root: True)
    listed = TrustedMeasurement(PlatformKind.SNP, amd_measurement(amd), (Coverage.IMAGE,), "the image", GpuUse.NONE)
    policy = AppraisalPolicy(U64(1), (U256(1),), (rule(amd),), (listed,), False)
    evidence = encode(Evidence(EvidenceType.SNP, Blob(amd.report(guest)), None, amd.certificates(), Blob(b"")))
    with pytest.raises(EvidenceRefused, match="debug"):
        verify_evidence(policy, evidence, guest.report_data, NOW, 1)
    monkeypatch.setattr(snp, "POLICY_DEBUG", 0)
    with pytest.raises(MeasurementRefused):
        verify_evidence(policy, evidence, guest.report_data, NOW, 1)
    monkeypatch.setattr("bytewise.tee.appraisal.trusted_program", lambda policy, *_: policy.measurements[0])
    assert verify_evidence(policy, evidence, guest.report_data, NOW, 1).program == listed
