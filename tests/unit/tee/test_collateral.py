"""Collateral of a platform: each part must be about this platform, by whom the root names, of a version that is understood."""

import datetime
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography import x509

from bytewise.protocol.encoding import encode
from bytewise.protocol.errors.actors import EvidenceRefused
from bytewise.protocol.errors.evidence import EvidenceExpired, EvidenceFromFuture, EvidenceMalformed, TcbRefused, UntrustedRoot
from bytewise.protocol.units import Blob
from bytewise.tee.appraisal import verify_simulated
from bytewise.tee.dcap import verify_quote
from bytewise.tee_simulated.authorities import (
    ROOT_KEY,
    Authority,
    Platform,
    _load_key,
    certificate,
    der,
    issue,
    load_root,
    revocation_list,
)
from bytewise.tee_simulated.quoter import LIFETIME_S, SimulatedStatus
from tests.fixtures.tee.simulated_platform import Bench

DAY = datetime.timedelta(days=1)


def at(bench: Bench, seconds: int) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(bench.now + seconds, datetime.UTC)


def root_of(bench: Bench) -> Authority:
    return Authority(load_root(bench.folder / "root"), _load_key((bench.folder / "root" / ROOT_KEY).read_bytes()))


def renewed(bench: Bench, start: int = -60, end: int = 86_400, issuer: Authority | None = None) -> x509.Certificate:
    """Another certificate of the authority of platform keys, for the same key and name."""
    own = bench.platform.pck_ca
    by = issuer or root_of(bench)
    public = own.key.public_key()
    return certificate(own.certificate.subject, public, by, by.key, at(bench, start), at(bench, end), path_length=0)


def beside(bench: Bench, authority: x509.Certificate, root_crl: Blob | None = None) -> bytes:
    """The bench's evidence with another authority of platform keys in its collateral."""
    given = bench.evidence.collateral
    assert given is not None
    changed = replace(given, pck_ca=der(authority), root_crl=root_crl or given.root_crl)
    return encode(replace(bench.evidence, collateral=changed))


# --- the authority of platform keys ---


def test_platform_authority_may_be_certified_again(bench: Bench) -> None:
    """Control of all that follows: what is shown beside the revocation list need not be the certificate in the quote."""
    again = renewed(bench)
    assert der(again) != der(bench.platform.pck_ca.certificate)
    assert bench.appraise(beside(bench, again)) == bench.appraise(encode(bench.evidence))


def another_of_the_root(bench: Bench, folder: Path) -> x509.Certificate:
    issue(bench.folder / "root", folder / "another.key")
    return Platform(folder / "another.key").pck_ca.certificate


FOREIGN: dict[str, Callable[[Bench, Path], x509.Certificate]] = {
    "of another run": lambda bench, folder: Bench(folder).platform.pck_ca.certificate,
    "of the same root, over other platforms": another_of_the_root,
    "by another root, for the same key": lambda bench, folder: renewed(bench, issuer=root_of(Bench(folder))),
    "by itself": lambda bench, _: renewed(bench, issuer=bench.platform.pck_ca),
    "of the signer of TCB levels": lambda bench, _: bench.platform.tcb_signer.certificate,
    "of the root": lambda bench, _: load_root(bench.folder / "root"),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_authority_that_did_not_issue_the_platform_key_is_refused(bench: Bench, tmp_path: Path, name: str) -> None:
    with pytest.raises(UntrustedRoot, match="authority of platform keys"):
        bench.appraise(beside(bench, FOREIGN[name](bench, tmp_path)))


def test_platform_authority_has_a_validity_period(bench: Bench) -> None:
    with pytest.raises(EvidenceExpired, match="authority of platform keys was valid until"):
        bench.appraise(beside(bench, renewed(bench, -600, 0)))
    with pytest.raises(EvidenceFromFuture, match="authority of platform keys is valid from"):
        bench.appraise(beside(bench, renewed(bench, 1, 600)))
    assert bench.appraise(beside(bench, renewed(bench, 0, 1)))


def test_revoked_platform_authority_is_refused(bench: Bench) -> None:
    """Also where the certificate in the quote, of the same key, is not. Control: a list that names somebody else."""
    again = renewed(bench)
    for serial, revoked in ((again.serial_number, True), (again.serial_number + 1, False)):
        crl = revocation_list(root_of(bench), at(bench, 0), at(bench, LIFETIME_S), (serial,))
        if revoked:
            with pytest.raises(TcbRefused, match="the authority of platform keys was revoked"):
                bench.appraise(beside(bench, again, crl))
        else:
            assert bench.appraise(beside(bench, again, crl))


# --- TCB info and QE identity ---

ZEROS = {"mrsigner": "00" * 48, "attributes": "00" * 8, "attributesMask": "FF" * 8}
TCB_INFO: dict[str, tuple[Mapping[str, object], Mapping[str, object], type[EvidenceRefused], str]] = {
    # What a liar, or another platform's vendor, says; what is as good as what the simulator says; the refusal.
    "version before": ({"version": 2}, {"version": 3}, EvidenceRefused, "TCB info of version 2, only 3 is understood"),
    "version after": ({"version": 4}, {"version": 3}, EvidenceRefused, "TCB info of version 4, only 3 is understood"),
    "version of no number": ({"version": "3"}, {}, EvidenceRefused, "TCB info of version '3', only 3"),
    "no version": ({"version": None}, {}, EvidenceRefused, "TCB info of version None"),
    "provisioning enclave": ({"pceId": "0001"}, {"pceId": "0000"}, EvidenceRefused, "PCEID"),
    "provisioning enclave of no hex": ({"pceId": "zz"}, {}, EvidenceRefused, "PCEID"),
    "no provisioning enclave": ({"pceId": None}, {}, EvidenceMalformed, "decode"),
    "family": ({"fmspc": "00" * 5 + "01"}, {"fmspc": "00" * 6}, EvidenceRefused, "Fmspc"),
    "technology": ({"id": "SGX"}, {"id": "TDX"}, EvidenceRefused, "non-TDX"),
    "module's signer": ({"tdxModule": {**ZEROS, "mrsigner": "01" * 48}}, {"tdxModule": ZEROS}, EvidenceRefused, "module"),
    "module's attributes": ({"tdxModule": {**ZEROS, "attributes": "01" * 8}}, {}, EvidenceRefused, "module"),
    "no level": ({"tcbLevels": []}, {}, TcbRefused, "No matching TCB level"),
}


@pytest.mark.parametrize("name", TCB_INFO)
def test_tcb_info_about_something_else_is_refused(bench: Bench, name: str) -> None:
    """Signed by whom the root names, each time."""
    wrong, right, error, words = TCB_INFO[name]
    with pytest.raises(error, match=words):
        bench.appraise(bench.signed(bench.body, SimulatedStatus(tcb_info=wrong)))
    assert bench.appraise(bench.signed(bench.body, SimulatedStatus(tcb_info=right)))


def test_tcb_info_of_another_version_is_not_passed_to_the_library(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes every version from 3 on, and reads of each what it knows of 3. Control: without our question it accepts one."""
    data = bench.signed(bench.body, SimulatedStatus(tcb_info={"version": 4, "whatIsNew": ["a demand"]}))
    with pytest.raises(EvidenceRefused, match="version 4"):
        bench.appraise(data)
    monkeypatch.setattr("bytewise.tee.dcap.TCB_INFO_VERSION", 4)
    assert bench.appraise(data)


QE_IDENTITY: dict[str, tuple[Mapping[str, object], Mapping[str, object]]] = {
    "version": ({"version": 1}, {"version": 2}),
    "enclave": ({"id": "QE"}, {"id": "TD_QE"}),
    "signer": ({"mrsigner": "01" * 32}, {}),
    "product": ({"isvprodid": 1}, {"isvprodid": 2}),
    "attributes": ({"attributes": "31" + "00" * 15}, {"attributes": "11" + "00" * 15}),
    "selection": ({"miscselect": "01000000"}, {"miscselect": "00000000"}),
    "level": ({"tcbLevels": [{"tcb": {"isvsvn": 2}, "tcbDate": "2024-03-13T00:00:00Z", "tcbStatus": "UpToDate"}]}, {}),
}


@pytest.mark.parametrize("name", QE_IDENTITY)
def test_foreign_quoting_enclave_is_refused(bench: Bench, name: str) -> None:
    wrong, right = QE_IDENTITY[name]
    with pytest.raises(EvidenceRefused):
        bench.appraise(bench.signed(bench.body, SimulatedStatus(qe_identity=wrong)))
    assert bench.appraise(bench.signed(bench.body, SimulatedStatus(qe_identity=right)))


# --- the root of a rule ---


UNREADABLE: dict[str, Callable[[bytes], bytes]] = {
    "no certificate": lambda root: b"root",
    "an empty one": lambda root: b"\x30\x00",
    "a version that there is not": lambda root: root.replace(bytes.fromhex("a003020102"), bytes.fromhex("a003020103"), 1),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_malformed_root_is_blamed_on_the_policy_and_named(bench: Bench, name: str) -> None:
    """By the verifier of quotes, and by the fence behind it."""
    rule = bench.policy.rules[0]
    wrong = replace(rule, root=Blob(UNREADABLE[name](rule.root)))
    assert bench.evidence.collateral is not None
    claims = verify_quote(rule, bench.evidence.quote, bench.evidence.collateral, bench.now)
    with pytest.raises(UntrustedRoot, match="root of the rule does not parse"):
        verify_quote(wrong, bench.evidence.quote, bench.evidence.collateral, bench.now)
    with pytest.raises(UntrustedRoot, match="not marked as simulated"):
        verify_simulated(bench.policy, wrong, claims)
    assert verify_simulated(bench.policy, rule, claims) == claims
