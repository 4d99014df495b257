"""The quoter for hardware against a directory with the kernel's interface: attributes come with entries, writes are counted."""

import base64
import io
import json
import pathlib
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding

from bytewise.ports import Quoter
from bytewise.protocol.encoding import decode
from bytewise.protocol.errors.actors import ConfigurationError, TryAgain
from bytewise.protocol.errors.evidence import EvidenceMalformed
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.evidence.appraisal_policy import EvidenceType, PlatformRule, TcbStatus
from bytewise.protocol.evidence.claims import Evidence
from bytewise.protocol.units import Blob
from bytewise.tee import quoters
from bytewise.tee.dcap import verify_quote
from bytewise.tee.documents import parse_collateral
from bytewise.tee.quoters import MAX_OUTPUT_BYTES, ConfigfsQuoter
from bytewise.tee.snp import verify_report
from bytewise.tee_simulated.td_quote import body_of, platform_key, signed_quote
from tests.fixtures.tee.configfs_kernel import Kernel, kernel, service_answer
from tests.fixtures.tee.simulated_platform import REPORT, Bench
from tests.fixtures.tee.synthetic_amd import NOW, TCB, Amd, Guest

__all__ = ["kernel"]


def test_a_trust_domain_quotes_through_the_kernel(bench: Bench, kernel: type[Kernel], tmp_path: Path) -> None:
    """From the bytes in configfs to verified claims: what the kernel would do is done with the keys of a simulated platform."""
    collateral = bench.evidence.collateral
    assert collateral is not None
    root = bench.policy.rules[0].root
    (tmp_path / "collateral.json").write_bytes(service_answer(collateral, root))
    leaf = x509.load_der_x509_certificate(collateral.pck_ca)
    key = ec.generate_private_key(ec.SECP256R1())
    pck = platform_key(bench.platform.pck_ca, leaf.not_valid_before_utc, leaf.not_valid_after_utc, key)
    kernel.report = staticmethod(lambda data: signed_quote(body_of(bench.program, data), pck, leaf, key))
    quoter = ConfigfsQuoter(tmp_path, kernel(tmp_path))
    evidence = decode(Evidence, quoter.quote(REPORT))
    assert evidence.type is EvidenceType.TDX and evidence.collateral == collateral
    claims = verify_quote(bench.policy.rules[0], evidence.quote, evidence.collateral, bench.now)
    assert claims.report_data == REPORT and claims.measurement == bench.policy.measurements[0].measurement
    quoter.close()
    assert [each.name for each in tmp_path.iterdir()] == ["collateral.json"]


def test_an_snp_guest_quotes_through_the_kernel(kernel: type[Kernel], tmp_path: Path) -> None:
    amd = Amd()
    kernel.provider = b"sev_guest\n"
    kernel.report = staticmethod(lambda data: amd.report(Guest(report_data=data)))
    given = amd.certificates()
    for name, certificate in (("ask.pem", given.ask), ("vcek.pem", given.vcek)):
        (tmp_path / name).write_bytes(x509.load_der_x509_certificate(certificate).public_bytes(Encoding.PEM))
    evidence = decode(Evidence, ConfigfsQuoter(tmp_path, kernel(tmp_path)).quote(REPORT))
    rule = PlatformRule(
        type=EvidenceType.SNP, root=amd.root_der(), statuses=(TcbStatus.UP_TO_DATE,), refused_advisories=(), min_evaluation=0,
        min_tcb=Blob(TCB), smt=False, dynamic_platform=False, cached_keys=False, platforms=(), max_age_s=0,
    )  # fmt: skip
    assert evidence.certificates == given
    assert verify_report(rule, evidence.quote, evidence.certificates, NOW).report_data == REPORT
    (tmp_path / "vcek.pem").write_bytes(base64.b64encode(b"nothing"))
    with pytest.raises(ConfigurationError, match=r"vcek\.pem"):
        ConfigfsQuoter(tmp_path, kernel(tmp_path), "other").quote(REPORT)


def test_report_requested_by_another_process_is_not_used(kernel: type[Kernel], tmp_path: Path) -> None:
    """Two of three tries are spoiled, then all; without the count of writes the other's report would be taken."""
    quoter = ConfigfsQuoter(tmp_path, kernel(tmp_path))
    kernel.interfere = 2
    assert quoter._report(REPORT) == REPORT
    kernel.interfere = 3
    with pytest.raises(TryAgain):
        quoter._report(REPORT)
    assert kernel.inblob != REPORT


@pytest.mark.parametrize("provider", [b"", b"arm_cca_guest\n", b"\xff\xfe", b"tdx_guest\0"])
def test_unverifiable_provider_is_named_and_leaves_nothing(kernel: type[Kernel], tmp_path: Path, provider: bytes) -> None:
    kernel.provider = provider
    with pytest.raises(ConfigurationError, match="provider"):
        ConfigfsQuoter(tmp_path, kernel(tmp_path))
    assert not list(tmp_path.iterdir())


def test_without_the_interface_there_is_no_quoter(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="missing: No such file or directory"):
        ConfigfsQuoter(tmp_path, tmp_path / "missing")
    with pytest.raises(ConfigurationError, match="provider: No such file or directory"):
        ConfigfsQuoter(tmp_path, pathlib.Path(tmp_path))


def test_kernel_and_owner_values_are_bounded_and_named(kernel: type[Kernel], tmp_path: Path) -> None:
    quoter = ConfigfsQuoter(tmp_path, kernel(tmp_path))
    with pytest.raises(ConfigurationError, match=r"collateral\.json"):
        quoter.quote(REPORT)
    for length in (0, 63, 65):
        with pytest.raises(MalformedValue):
            quoter.quote(bytes(length))
    kernel.report = staticmethod(lambda data: bytes(MAX_OUTPUT_BYTES + 1))
    with pytest.raises(ConfigurationError, match="outblob"):
        quoter.quote(REPORT)


def test_wrong_write_count_and_a_report_in_progress_are_named(kernel: type[Kernel], tmp_path: Path) -> None:
    class Odd(kernel):  # type: ignore[misc, valid-type]
        """One attribute is otherwise."""

        odd = "generation"

        def open(self, mode: str = "r", buffering: int = -1, *rest: Any) -> Any:
            if mode == "rb" and self.name == self.odd == "outblob":
                raise BlockingIOError
            return io.BytesIO(b"-1\n") if self.name == self.odd else super().open(mode, buffering, *rest)

    quoter = ConfigfsQuoter(tmp_path, Odd(tmp_path))
    with pytest.raises(ConfigurationError, match="generation is no number"):
        quoter.quote(REPORT)
    Odd.odd = "outblob"
    with pytest.raises(TryAgain, match="outblob is not ready"):
        quoter.quote(REPORT)


def test_collateral_answer_with_two_signers_or_bad_hex_is_malformed(bench: Bench) -> None:
    collateral, root = bench.evidence.collateral, bench.policy.rules[0].root
    assert collateral is not None
    answer = json.loads(service_answer(collateral, root))
    assert parse_collateral(json.dumps(answer).encode()) == collateral
    for name, value, words in (
        ("qe_identity_issuer_chain", answer["pck_crl_issuer_chain"], "two different keys"),
        ("pck_crl", "zz", "pck_crl is no hex"),
        ("tcb_info", None, "no tcb_info"),
    ):
        with pytest.raises(EvidenceMalformed, match=words):
            parse_collateral(json.dumps({**answer, name: value}).encode())


def test_wrong_attestation_type_is_named_and_its_configfs_entry_removed(
    kernel: type[Kernel], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[bool] = []
    # This process has the simulator: that production and it exclude each other `test_simulator` shows.
    monkeypatch.setattr(quoters, "enter_production", lambda: closed.append(True))
    monkeypatch.setattr(quoters, "ConfigfsQuoter", lambda folder: ConfigfsQuoter(folder, kernel(tmp_path)))

    def simulator(_: Path) -> Quoter:
        raise AssertionError("hardware was asked for")

    with pytest.raises(ConfigurationError, match="this machine attests by tdx, not snp"):
        quoters.open_quoter(EvidenceType.SNP, None, tmp_path, simulator)
    assert closed and not list(tmp_path.iterdir())
    quoter = quoters.open_quoter(EvidenceType.TDX, None, tmp_path, simulator)
    assert isinstance(quoter, ConfigfsQuoter) and list(tmp_path.iterdir())
    quoter.close()
