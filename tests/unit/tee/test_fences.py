"""The fences around the simulator: each alone stops its evidence where it must not count (design section 7)."""

import datetime
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from bytewise.protocol.encoding import encode
from bytewise.protocol.errors import ConfigurationError, EvidenceRefused
from bytewise.protocol.evidence import (
    MAX_SIMULATED_LIFETIME_S,
    SIMULATED_ROOT_NAME,
    AppraisalPolicy,
    Evidence,
    EvidenceType,
    TrustedMeasurement,
    TrustRoot,
    evidence_digest,
)
from bytewise.protocol.jobs import EpochRecord
from bytewise.protocol.units import U64, U256, Blob
from bytewise.service.clock import SystemClock
from bytewise.tee.policy import load_policy
from bytewise.tee_simulated.root import load_root
from kms.envelope import sealing_key
from tests.unit.tee.bench import CHAIN_ID, SIMULATED, Bench

# --- the fences, each sufficient alone ---


def hardware_policy(bench: Bench, root: x509.Certificate | None = None) -> AppraisalPolicy:
    """A production policy, as wrong as it can be: it trusts the simulator's own root and measurement for TDX."""
    kind, trusted = EvidenceType.TDX, root or load_root(bench.folder / "root")
    return AppraisalPolicy(
        serial=U64(1), chain_ids=(U256(CHAIN_ID),), allowed_types=(kind,),
        roots=(TrustRoot(kind, Blob(trusted.public_bytes(Encoding.DER))),),
        measurements=(TrustedMeasurement(kind, bench.evidence.body.measurement, "all"),), max_age_s=300,
        insecure_accept_simulated=False,
    )  # fmt: skip


def test_fence_1_another_runs_root_is_refused(bench: Bench, tmp_path: Path) -> None:
    other = Bench(tmp_path)
    with pytest.raises(EvidenceRefused, match="root"):
        bench.appraise(bench.signed(bench.evidence.body, other.platform))


def test_fence_1_a_root_that_is_not_marked_as_simulated_is_no_simulated_root(bench: Bench) -> None:
    """A root by another name, even one that a policy lists, does not make evidence of type simulated."""
    key = ec.generate_private_key(ec.SECP256R1())
    root, leaf_key = certificate("Intel SGX Root CA", key), ec.generate_private_key(ec.SECP256R1())
    assert SIMULATED_ROOT_NAME not in root.subject.rfc4514_string()
    leaf = certificate("simulated platform", key, leaf_key.public_key(), root.subject)
    signature = leaf_key.sign(evidence_digest(bench.evidence.body), ec.ECDSA(hashes.SHA256()))
    data = encode(Evidence(bench.evidence.body, (Blob(leaf.public_bytes(Encoding.DER)),), Blob(signature)))
    listed = replace(bench.policy, roots=(TrustRoot(SIMULATED, Blob(root.public_bytes(Encoding.DER))),))
    with pytest.raises(EvidenceRefused, match="root"):
        bench.appraise(data, listed)


def certificate(
    name: str, signer: ec.EllipticCurvePrivateKey, key: ec.EllipticCurvePublicKey | None = None, issuer: x509.Name | None = None
) -> x509.Certificate:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.fromtimestamp(SystemClock().now(), datetime.UTC)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer or subject)
    builder = builder.public_key(key or signer.public_key()).serial_number(7)
    builder = builder.not_valid_before(now - datetime.timedelta(hours=1)).not_valid_after(now + datetime.timedelta(hours=1))
    return builder.sign(signer, hashes.SHA256())


def test_fence_2_the_simulators_type_is_refused_where_hardware_is_required(bench: Bench) -> None:
    with pytest.raises(EvidenceRefused, match="type simulated is not allowed"):
        bench.appraise(encode(bench.evidence), hardware_policy(bench))


def test_fence_2_relabelled_simulated_evidence_is_refused(bench: Bench) -> None:
    """Even under a policy that lists the simulator's root and measurement for TDX."""
    relabelled = bench.signed(replace(bench.evidence.body, type=EvidenceType.TDX))
    with pytest.raises(EvidenceRefused):
        bench.appraise(relabelled, hardware_policy(bench))


FENCE_4: dict[str, Callable[[AppraisalPolicy], dict[str, object]]] = {
    "no root": lambda p: {"roots": ()},
    "no insecure switch": lambda p: {"insecure_accept_simulated": False},
    "no test chain": lambda p: {"chain_ids": (U256(1),)},
    "a test chain and another": lambda p: {"chain_ids": (U256(CHAIN_ID), U256(1))},
    "no chain": lambda p: {"chain_ids": ()},
    "root of another type": lambda p: {"roots": (replace(p.roots[0], type=EvidenceType.TDX),)},
    "simulated and hardware together": lambda p: {
        "allowed_types": (SIMULATED, EvidenceType.TDX),
        "roots": (p.roots[0], replace(p.roots[0], type=EvidenceType.TDX)),
    },
    "a measurement that covers nothing": lambda p: {"measurements": (replace(p.measurements[0], covers=""),)},
    "no measurement": lambda p: {"measurements": ()},
    "no age": lambda p: {"max_age_s": 0},
}


@pytest.mark.parametrize("name", FENCE_4)
def test_fence_4_a_policy_without_one_of_its_conditions_cannot_exist(bench: Bench, name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError):
        replace(bench.policy, **FENCE_4[name](bench.policy))  # type: ignore[arg-type]


def test_fence_4_a_policy_file_with_the_switch_removed_does_not_load(bench: Bench, tmp_path: Path) -> None:
    path = tmp_path / "policy.json"
    data = encode(bench.policy)
    path.write_bytes(data)
    assert load_policy(path, CHAIN_ID, production=False) == bench.policy
    for chain_id, production in ((1337, False), (1, False), (CHAIN_ID, True)):
        with pytest.raises(ConfigurationError):
            load_policy(path, chain_id, production)
    for old, new in ((b":true", b":false"), (b'"serial"', b'"seriql"'), (b"}", b"} ")):
        path.write_bytes(data.replace(old, new))
        with pytest.raises(ConfigurationError):
            load_policy(path, CHAIN_ID, production=False)
    with pytest.raises(ConfigurationError):
        load_policy(tmp_path / "missing.json", CHAIN_ID, production=False)


def test_fence_7_simulated_evidence_is_short_lived_and_names_no_platform(bench: Bench) -> None:
    body = bench.evidence.body
    assert body.expires_at - body.issued_at <= MAX_SIMULATED_LIFETIME_S
    assert body.platform_id == bytes(16) and body.debug is False and body.type is SIMULATED
    root = load_root(bench.folder / "root")
    lifetime = root.not_valid_after_utc - root.not_valid_before_utc
    assert lifetime < datetime.timedelta(days=3)


@pytest.mark.parametrize(
    ("assurance", "accepted", "allowed"), [("simulated", False, False), ("simulated", True, True), ("hardware", False, True)]
)
def test_fence_5_nobody_seals_to_a_simulated_epoch_unasked(assurance: str, accepted: bool, allowed: bool) -> None:
    epoch = EpochRecord(U64(1), Blob(b"key"), 2, (), assurance)
    if allowed:
        assert sealing_key(epoch, accept_simulated=accepted) == b"key"
    else:
        with pytest.raises(ConfigurationError):
            sealing_key(epoch, accept_simulated=accepted)
