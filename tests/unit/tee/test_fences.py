"""The fences around the simulator: each alone stops its evidence where it must not count, and once removed stops nothing."""

import datetime
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key

from bytewise.crypto.envelope import sealing_key
from bytewise.protocol.encoding import encode
from bytewise.protocol.errors.actors import ConfigurationError, EvidenceRefused
from bytewise.protocol.errors.evidence import UntrustedRoot
from bytewise.protocol.evidence.appraisal_policy import (
    AppraisalPolicy,
    Coverage,
    EvidenceType,
    GpuUse,
    PlatformKind,
    PlatformRule,
    TcbStatus,
    TrustedMeasurement,
)
from bytewise.protocol.evidence.claims import MAX_SIMULATED_LIFETIME_S, SIMULATED_ROOT_NAME
from bytewise.protocol.jobs import EpochRecord, ShardRecord
from bytewise.protocol.units import U64, U256, ZERO_ADDRESS, Blob
from bytewise.tee import appraisal
from bytewise.tee.appraisal import verify_evidence
from bytewise.tee.dcap import td_measurement
from bytewise.tee.policy import load_policy
from bytewise.tee_simulated.authorities import Platform, certificate, common_name, der, issue, load_root, make_root
from bytewise.tee_simulated.td_quote import TdBody
from tests.fixtures.tee.simulated_platform import CHAIN_ID, REPORT, SIMULATED, Bench

HARDWARE_ROOT = "Intel SGX Root CA"
SHARD = ShardRecord(1, ZERO_ADDRESS, "https://127.0.0.1:1", "127.0.0.1:1", "PEM", Blob(b"key"))


def hardware_policy(bench: Bench, root: bytes | None = None, chain_id: int = CHAIN_ID) -> AppraisalPolicy:
    """A production policy, as wrong as it can be: it trusts the simulator's own root and measurement for TDX."""
    rule = replace(bench.policy.rules[0], type=EvidenceType.TDX, root=Blob(root or bench.policy.rules[0].root))
    program = bench.policy.measurements[0].measurement
    trusted = TrustedMeasurement(PlatformKind.TDX, program, (Coverage.PROGRAM,), "all", GpuUse.NONE)
    return AppraisalPolicy(U64(1), (U256(chain_id),), (rule,), (trusted,), False)


def relabelled(bench: Bench, body: TdBody | None = None, ppid: bytes = bytes(16)) -> bytes:
    """Simulated evidence under the label of hardware."""
    return encode(replace(bench.quoter.evidence(body or bench.body, ppid=ppid), type=EvidenceType.TDX))


# --- 1: own root ---


def test_fence_1_another_runs_root_is_refused(bench: Bench, tmp_path: Path) -> None:
    other = Bench(tmp_path)
    with pytest.raises(UntrustedRoot):
        bench.appraise(encode(bench.quoter_at(bench.now, other.platform).evidence(bench.body)))


def test_fence_1_root_without_the_simulated_mark_is_no_simulated_root(bench: Bench, tmp_path: Path) -> None:
    """A root by another name, even one that a policy lists, does not make evidence of type simulated."""
    unmarked = unmarked_platform(tmp_path)
    policy = bench.with_rule(root=der(load_root(tmp_path / "root")))
    with pytest.raises(UntrustedRoot, match="not marked"):
        bench.appraise(encode(bench.quoter_at(bench.now, unmarked).evidence(bench.body)), policy)


def unmarked_platform(folder: Path) -> Platform:
    """A platform under a root with the name of Intel's."""
    make_root(folder / "root")
    plain = load_root(folder / "root")
    key = (folder / "root" / "root.key").read_bytes()
    loaded = load_pem_private_key(key, None)
    assert isinstance(loaded, ec.EllipticCurvePrivateKey) and SIMULATED_ROOT_NAME in plain.subject.rfc4514_string()
    renamed = certificate(
        common_name(HARDWARE_ROOT), loaded.public_key(), None, loaded, plain.not_valid_before_utc, plain.not_valid_after_utc,
        path_length=1,
    )  # fmt: skip
    (folder / "root" / "root.pem").write_bytes(renamed.public_bytes(Encoding.PEM))
    issue(folder / "root", folder / "platform.key")
    return Platform(folder / "platform.key")


def test_fence_1_only_the_vendors_root_makes_hardware(bench: Bench, tmp_path: Path) -> None:
    """Even where the policy lists the root, and nothing in the evidence is marked or nameless."""
    unmarked = unmarked_platform(tmp_path)
    policy = hardware_policy(bench, der(load_root(tmp_path / "root")))
    body = replace(bench.body, mr_config_id=bytes(48))
    evidence = bench.quoter_at(bench.now, unmarked).evidence(body, ppid=b"\x07" * 16)
    with pytest.raises(UntrustedRoot, match="vendor's"):
        verify_evidence(policy, encode(replace(evidence, type=EvidenceType.TDX)), REPORT, bench.now, CHAIN_ID)


def test_fence_1_without_compiled_in_roots_the_quote_would_be_hardware(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Control: the attack wins."""
    unmarked = unmarked_platform(tmp_path)
    body = replace(bench.body, mr_config_id=bytes(48))
    evidence = replace(bench.quoter_at(bench.now, unmarked).evidence(body, ppid=b"\x07" * 16), type=EvidenceType.TDX)
    monkeypatch.setattr(appraisal, "is_vendor_root", lambda kind, root: True)
    wrong = hardware_policy(bench, der(load_root(tmp_path / "root")))
    registers = {name: getattr(body, name) for name in ("td_attributes", "xfam", "mr_td")}
    named = replace(wrong, measurements=(replace(wrong.measurements[0], measurement=td_measurement(**registers)),))
    assert verify_evidence(named, encode(evidence), REPORT, bench.now, CHAIN_ID).assurance == "hardware"


def test_fence_1_no_simulated_root_is_a_vendor_root(bench: Bench) -> None:
    assert appraisal.VENDOR_ROOTS[SIMULATED] == frozenset()
    assert not any(appraisal.is_vendor_root(kind, bench.policy.rules[0].root) for kind in EvidenceType)


# --- 2: own type, own mark ---


def test_fence_2_the_simulators_type_is_refused_where_hardware_is_required(bench: Bench) -> None:
    with pytest.raises(EvidenceRefused, match="type simulated is not allowed"):
        bench.appraise(encode(bench.evidence), hardware_policy(bench))


@pytest.mark.parametrize("fence", ["root", "mark", "platform id"])
def test_fences_of_relabelled_evidence_hold_without_each_other(bench: Bench, fence: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of three fences in turn is the only one left, and each refuses; with none left the label would pass."""
    marked = bench.body if fence == "mark" else replace(bench.body, mr_config_id=bytes(48))
    ppid = bytes(16) if fence == "platform id" else b"\x07" * 16
    if fence != "root":
        monkeypatch.setattr(appraisal, "is_vendor_root", lambda kind, root: True)
    with pytest.raises(EvidenceRefused, match={"root": "vendor's", "mark": "marked", "platform id": "without a platform"}[fence]):
        bench.appraise(relabelled(bench, marked, ppid), hardware_policy(bench))


def test_relabelled_evidence_passes_when_every_fence_is_removed(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bytewise.tee.appraisal.verify_hardware", lambda rule, claims: claims)
    assert bench.appraise(relabelled(bench), hardware_policy(bench)).assurance == "hardware"


def test_fence_2_simulated_evidence_without_the_mark_is_refused(bench: Bench) -> None:
    unmarked = bench.signed(replace(bench.body, mr_config_id=bytes(48)))
    with pytest.raises(EvidenceRefused, match="not marked"):
        bench.appraise(unmarked)


# --- 4: configuration ---

FENCE_4: dict[str, Callable[[AppraisalPolicy], dict[str, object]]] = {
    "no rule": lambda p: {"rules": ()},
    "no insecure switch": lambda p: {"insecure_accept_simulated": False},
    "no test chain": lambda p: {"chain_ids": (U256(1),)},
    "a test chain and another": lambda p: {"chain_ids": (U256(CHAIN_ID), U256(1))},
    "no chain": lambda p: {"chain_ids": ()},
    "rule of another type": lambda p: {"rules": (replace(p.rules[0], type=EvidenceType.TDX),)},
    "simulated and hardware together": lambda p: {"rules": (p.rules[0], replace(p.rules[0], type=EvidenceType.TDX))},
    "no measurement": lambda p: {"measurements": ()},
    "too many rules": lambda p: {"rules": p.rules * 33},
}


@pytest.mark.parametrize("name", FENCE_4)
def test_fence_4_a_policy_without_one_of_its_conditions_cannot_exist(bench: Bench, name: str) -> None:
    with pytest.raises(ConfigurationError):
        replace(bench.policy, **FENCE_4[name](bench.policy))  # type: ignore[arg-type]


RULES: dict[str, dict[str, object]] = {
    "no root": {"root": Blob(b"")},
    "no status": {"statuses": ()},
    "a revoked platform": {"statuses": (TcbStatus.UP_TO_DATE, TcbStatus.REVOKED)},
    "statuses out of order": {"statuses": (TcbStatus.OUT_OF_DATE, TcbStatus.UP_TO_DATE)},
    "a status twice": {"statuses": (TcbStatus.UP_TO_DATE, TcbStatus.UP_TO_DATE)},
    "no age": {"max_age_s": 0},
    "no evaluation": {"min_evaluation": 0},
    "the TCB of another type": {"min_tcb": Blob(bytes(8))},
    "snp with an evaluation": {"type": EvidenceType.SNP, "min_tcb": Blob(bytes(8))},
    "snp with an age below zero": {"type": EvidenceType.SNP, "min_tcb": Blob(bytes(8)), "min_evaluation": 0, "max_age_s": -1},
    "snp without a minimal TCB": {"type": EvidenceType.SNP, "min_evaluation": 0, "max_age_s": 0},
}


@pytest.mark.parametrize("name", RULES)
def test_impossible_rule_cannot_be_constructed(bench: Bench, name: str) -> None:
    rule: PlatformRule = bench.policy.rules[0]
    with pytest.raises(ConfigurationError, match="appraisal rule"):
        replace(rule, **RULES[name])  # type: ignore[arg-type]


def test_fence_4_a_policy_file_with_the_switch_removed_does_not_load(bench: Bench, tmp_path: Path) -> None:
    path = tmp_path / "policy.json"
    data = encode(bench.policy)
    path.write_bytes(data)
    assert load_policy(path, CHAIN_ID, production=False) == bench.policy
    for chain_id, production in ((1337, False), (1, False), (CHAIN_ID, True)):
        with pytest.raises(ConfigurationError):
            load_policy(path, chain_id, production)
    for old, new in ((b'simulated":true', b'simulated":false'), (b'"serial"', b'"seriql"'), (b"}", b"} ")):
        assert old in data
        path.write_bytes(data.replace(old, new))
        with pytest.raises(ConfigurationError):
            load_policy(path, CHAIN_ID, production=False)
    with pytest.raises(ConfigurationError):
        load_policy(tmp_path / "missing.json", CHAIN_ID, production=False)


def test_fence_4_verifier_checks_the_switch_again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Controls: a policy that could exist without its conditions, and a verifier that asks for nothing."""
    monkeypatch.setattr(AppraisalPolicy, "__post_init__", lambda self: None)
    unasked = replace(bench.policy, insecure_accept_simulated=False)
    with pytest.raises(EvidenceRefused, match="insecure_accept_simulated"):
        bench.appraise(encode(bench.evidence), unasked)
    monkeypatch.setattr("bytewise.tee.appraisal.verify_simulated", lambda policy, rule, claims: claims)
    assert bench.appraise(encode(bench.evidence), unasked).assurance == "simulated"


# --- 5: key separation ---


@pytest.mark.parametrize(
    ("assurance", "accepted", "allowed"), [("simulated", False, False), ("simulated", True, True), ("hardware", False, True)]
)
def test_fence_5_sealing_to_a_simulated_epoch_needs_opt_in(assurance: str, accepted: bool, allowed: bool) -> None:
    epoch = EpochRecord(U64(1), Blob(b"key"), 1, (SHARD,), assurance)
    if allowed:
        assert sealing_key(epoch, accept_simulated=accepted) == b"key"
    else:
        with pytest.raises(ConfigurationError):
            sealing_key(epoch, accept_simulated=accepted)


def test_fence_5_without_its_check_sealing_to_simulation_succeeds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Control."""
    monkeypatch.setattr("bytewise.crypto.envelope.HARDWARE", "simulated")
    assert sealing_key(EpochRecord(U64(1), Blob(b"key"), 1, (SHARD,), "simulated"), accept_simulated=False) == b"key"


# --- 6: labels, 7: short life, no name ---


def test_fences_6_and_7_simulated_evidence_says_so_and_is_short_lived(bench: Bench) -> None:
    found = bench.appraise(encode(bench.evidence))
    claims = found.claims
    assert found.assurance == "simulated"
    assert claims.expires_at - claims.issued_at <= MAX_SIMULATED_LIFETIME_S
    assert claims.platform_id == bytes(16) and claims.simulated
    assert bench.evidence.collateral is not None and b'"fmspc":"000000000000"' in bench.evidence.collateral.tcb_info
    root: x509.Certificate = load_root(bench.folder / "root")
    assert root.not_valid_after_utc - root.not_valid_before_utc < datetime.timedelta(days=3)


@pytest.mark.parametrize(
    ("changes", "words"), [({"lifetime_s": MAX_SIMULATED_LIFETIME_S + 1}, "too long"), ({"ppid": b"\x07" * 16}, "platform id")]
)
def test_fence_7_long_lived_or_named_simulated_evidence_is_refused(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], words: str
) -> None:
    """Controls: the longest life that is allowed, and a verifier that asks for nothing."""
    assert bench.appraise(bench.signed(bench.body, lifetime_s=MAX_SIMULATED_LIFETIME_S))
    made = bench.signed(bench.body, **changes)
    with pytest.raises(EvidenceRefused, match=words):
        bench.appraise(made)
    monkeypatch.setattr("bytewise.tee.appraisal.verify_simulated", lambda policy, rule, claims: claims)
    assert bench.appraise(made).assurance == "simulated"
