"""Every body that a quote of a trust domain can have, by our own keys: what is read of it, and which body is refused by name."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import pytest

from bytewise.protocol.encoding import encode
from bytewise.protocol.errors.actors import EvidenceRefused
from bytewise.protocol.errors.evidence import EvidenceMalformed, EvidenceReplayed, MeasurementRefused, TcbRefused
from bytewise.protocol.evidence.appraisal_policy import AppraisalPolicy, TcbStatus
from bytewise.protocol.evidence.claims import evidence_digest, signed_part
from bytewise.protocol.units import Blob
from bytewise.tee import dcap
from bytewise.tee_simulated.quoter import SimulatedStatus
from bytewise.tee_simulated.td_quote import TdBody, TdBody15
from tests.fixtures.tee.body_changes import BODY_CHANGES
from tests.fixtures.tee.simulated_platform import Bench


@dataclass(frozen=True, slots=True)
class TdBodyTyped(TdBody):
    """The body of version 4 in a quote of version 5."""

    TYPE: ClassVar[int | None] = 2


@dataclass(frozen=True, slots=True)
class TdBodyExtended(TdBody15):
    """The body of TDX 1.5 with the extensions behind it."""

    TYPE: ClassVar[int | None] = 4

    extensions: bytes = bytes(885 - 648)


def body15(bench: Bench, **changes: bytes) -> TdBody15:
    """The bench's program in a trust domain of TDX 1.5."""
    return TdBody15(**{"mr_td": bench.body.mr_td, "report_data": bench.body.report_data, **changes})


def test_a_trust_domain_of_tdx_15_is_the_same_program(bench: Bench) -> None:
    evidence = bench.quoter.evidence(body15(bench))
    assert (evidence.quote[:2], evidence.quote[48:54], len(signed_part(evidence))) == (b"\5\0", b"\3\0\x88\2\0\0", 48 + 6 + 648)
    found, old = bench.appraise(encode(evidence)), bench.appraise(encode(bench.evidence))
    assert found.program == old.program and found.claims.measurement == old.claims.measurement
    assert found.claims.report_data == bench.body.report_data and found.claims.simulated
    typed = TdBodyTyped(mr_td=bench.body.mr_td, report_data=bench.body.report_data)
    assert bench.appraise(bench.signed(typed)).program == old.program


@pytest.mark.parametrize("name", BODY_CHANGES)
def test_one_other_register_of_tdx_15_is_another_program(bench: Bench, name: str) -> None:
    with pytest.raises(MeasurementRefused):
        bench.appraise(bench.signed(body15(bench, **BODY_CHANGES[name])))


REFUSED: dict[str, tuple[dict[str, bytes], type[EvidenceRefused], str]] = {
    "debug": ({"td_attributes": (1 | 1 << 28).to_bytes(8, "little")}, EvidenceRefused, "Debug"),
    "migration": ({"td_attributes": (1 << 28 | 1 << 29).to_bytes(8, "little")}, EvidenceRefused, "migration"),
    "a service domain": ({"mr_service_td": b"\x01" * 48}, EvidenceRefused, "service TD"),
    "other report data": ({"report_data": b"\x43" * 64}, EvidenceReplayed, "report data"),
    "no mark": ({"mr_config_id": bytes(48)}, EvidenceRefused, "not marked"),
    "another module": ({"mr_seam": bytes(48), "mr_signer_seam": b"\x01" * 48}, EvidenceRefused, "module identity"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_of_tdx_10_apply_to_tdx_15(bench: Bench, name: str) -> None:
    changes, error, words = REFUSED[name]
    with pytest.raises(error, match=words):
        bench.appraise(bench.signed(body15(bench, **changes)))


def test_the_extended_body_is_refused_by_its_name(bench: Bench) -> None:
    """Its further members say which devices and service domains belong to it: nobody of us reads them, so nobody trusts it."""
    extended = TdBodyExtended(mr_td=bench.body.mr_td, report_data=bench.body.report_data)
    with pytest.raises(EvidenceRefused, match="body TD15Ex"):
        bench.appraise(bench.signed(extended))


def test_a_body_of_another_size_than_it_says_is_malformed(bench: Bench) -> None:
    evidence = bench.quoter.evidence(body15(bench))
    for size in (584, 647, 649):
        quote = evidence.quote[:50] + size.to_bytes(4, "little") + evidence.quote[54:]
        with pytest.raises(EvidenceMalformed):
            bench.appraise(encode(replace(evidence, quote=Blob(quote))))
    longer = replace(evidence, quote=Blob(evidence.quote + b"junk"))
    assert evidence_digest(longer) == evidence_digest(evidence) and bench.appraise(encode(longer))


# --- launched under one TCB, running under another ---


def levels(*given: tuple[int, str]) -> Mapping[str, object]:
    """TCB levels by the module's number, newest first, as the vendor lists them; old ones come with an advisory."""
    zeros = [{"svn": 0}] * 16
    return {
        "tcbLevels": [
            {
                "tcb": {"sgxtcbcomponents": zeros, "pcesvn": 0, "tdxtcbcomponents": [{"svn": number}, *zeros[1:]]},
                "tcbDate": "2024-03-13T00:00:00Z", "tcbStatus": status,
                "advisoryIDs": [] if status == "UpToDate" else [f"INTEL-SA-0000{number}"],
            }
            for number, status in given
        ]
    }  # fmt: skip


def ran(bench: Bench, launched: int, runs: int, tcb_info: Mapping[str, object]) -> bytes:
    """A domain that was launched under one number of the module, which was then replaced under it."""
    numbers = {"tee_tcb_svn": bytes([launched]).ljust(16, b"\0"), "tee_tcb_svn2": bytes([runs]).ljust(16, b"\0")}
    return bench.signed(body15(bench, **numbers), SimulatedStatus(tcb_info=tcb_info))


RELAUNCH = {
    TcbStatus.RELAUNCH_ADVISED: levels((3, "UpToDate"), (2, "OutOfDate")),
    TcbStatus.RELAUNCH_ADVISED_CONFIGURATION_NEEDED: levels((3, "ConfigurationNeeded"), (2, "OutOfDate")),
}


@pytest.mark.parametrize("status", RELAUNCH)
def test_domain_outliving_its_module_needs_relaunch_unless_rule_permits(bench: Bench, status: TcbStatus) -> None:
    """No grace is asked of what it was launched under: what runs now is not out of date."""
    data = ran(bench, 2, 3, RELAUNCH[status])
    others = tuple(each for each in TcbStatus if each not in (status, TcbStatus.REVOKED))
    for statuses in ((TcbStatus.UP_TO_DATE,), others):
        with pytest.raises(TcbRefused, match=status.value):
            bench.appraise(data, bench.with_rule(statuses=statuses))
    assert bench.appraise(data, bench.with_rule(statuses=(status,))).claims.status is status


def test_domain_running_under_its_launch_module_needs_no_relaunch(bench: Bench) -> None:
    listed = levels((3, "UpToDate"), (2, "OutOfDate"))
    assert bench.appraise(ran(bench, 3, 3, listed)).claims.status is TcbStatus.UP_TO_DATE
    with pytest.raises(TcbRefused, match="OutOfDate"):
        bench.appraise(ran(bench, 2, 2, listed), bench.with_rule(statuses=(TcbStatus.RELAUNCH_ADVISED,)))
    with pytest.raises(TcbRefused, match="Revoked"):
        bench.appraise(ran(bench, 3, 2, levels((3, "UpToDate"), (2, "Revoked"))))
    with pytest.raises(TcbRefused, match="current TDX TCB"):
        bench.appraise(ran(bench, 3, 1, listed))


def test_advisories_of_the_running_module_count_beside_those_of_the_launch(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the library lets them pass."""
    data = ran(bench, 2, 3, RELAUNCH[TcbStatus.RELAUNCH_ADVISED_CONFIGURATION_NEEDED])

    def policy(*refused: str) -> AppraisalPolicy:
        statuses = (TcbStatus.RELAUNCH_ADVISED_CONFIGURATION_NEEDED,)
        return bench.with_rule(statuses=statuses, refused_advisories=refused)

    assert set(bench.appraise(data, policy()).claims.advisories) == {"INTEL-SA-00002", "INTEL-SA-00003"}
    for name in ("INTEL-SA-00002", "INTEL-SA-00003"):
        with pytest.raises(TcbRefused, match=name):
            bench.appraise(data, policy(name))
    asked = dcap.quote_policy
    monkeypatch.setattr(dcap, "quote_policy", lambda rule, now: asked(replace(rule, refused_advisories=()), now))
    for name in ("INTEL-SA-00002", "INTEL-SA-00003"):
        with pytest.raises(TcbRefused, match=name):
            bench.appraise(data, policy(name))
