"""Attack 6, a trust domain in debug mode, whose host reads its memory: genuine hardware, the right program, and no secret kept.

Two things stop it, each alone: the library asks every quote for the mode, and the mode is part of what we measure.
"""

import json
from dataclasses import replace
from types import SimpleNamespace

import dcap_qvl
import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from bytewise.protocol.encoding import encode
from bytewise.protocol.errors.actors import EvidenceRefused
from bytewise.protocol.errors.evidence import MeasurementRefused
from bytewise.protocol.evidence.appraisal_policy import AppraisalPolicy
from bytewise.protocol.evidence.claims import Evidence
from bytewise.tee import dcap
from bytewise.tee_simulated.td_quote import SEPT_VE_DISABLE, measurement_of
from tests.fixtures.tee.simulated_platform import Bench

DEBUG = bytes([SEPT_VE_DISABLE[0] | 1]) + SEPT_VE_DISABLE[1:]
"""TD attributes with bit 0, by which a host may read and write the domain's memory."""
SIGNED, SIGNATURE, KEY, ATTRIBUTES = slice(0, 632), slice(636, 700), slice(700, 764), slice(168, 176)
"""Places in a quote: header and body, what the attestation key says of them, that key, and the attributes in the body."""


@pytest.fixture
def debugged(bench: Bench) -> Evidence:
    """Genuine evidence of the trusted program in debug mode."""
    return bench.quoter.evidence(replace(bench.body, td_attributes=DEBUG))


def let_the_library_not_ask(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library less its question for debug mode, of quotes by the bench's platform.

    It is compiled, so the question is gone around: it judges the same quote of the same attestation key without that bit, and
    whether this key signed what was given is verified here.
    """
    sound, verifier = bench.evidence.quote, dcap_qvl.QuoteVerifier

    class NeverAsks:
        def __init__(self, root: bytes) -> None:
            self._verifier = verifier(root)

        def verify_with_policy(self, quote: bytes, *given: object) -> SimpleNamespace:
            found = json.loads(self._verifier.verify_with_policy(bytes(sound), *given).to_json())
            assert quote[KEY] == sound[KEY]
            key = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), b"\x04" + quote[KEY])
            r, s = (int.from_bytes(quote[SIGNATURE][at : at + 32]) for at in (0, 32))
            key.verify(encode_dss_signature(r, s), quote[SIGNED], ec.ECDSA(hashes.SHA256()))
            for report in found["report"].values():
                report["td_attributes"] = quote[ATTRIBUTES].hex()
            return SimpleNamespace(to_json=lambda: json.dumps(found))

    monkeypatch.setattr(dcap_qvl, "QuoteVerifier", NeverAsks)


def measure_no_attributes(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> AppraisalPolicy:
    """A build that measures no attributes; the policy that names the trusted program as such a build does."""
    monkeypatch.setattr(dcap, "MEASURED", tuple(name for name in dcap.MEASURED if name != "td_attributes"))
    trusted = replace(bench.policy.measurements[0], measurement=measurement_of(bench.program))
    return replace(bench.policy, measurements=(trusted,))


def test_attack_6_a_debug_quote_is_refused_by_the_library_alone(
    bench: Bench, debugged: Evidence, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(EvidenceRefused, match="Debug"):
        bench.appraise(encode(debugged))
    policy = measure_no_attributes(bench, monkeypatch)
    with pytest.raises(EvidenceRefused, match="Debug"):
        bench.appraise(encode(debugged), policy)


def test_attack_6_a_debug_quote_is_refused_by_its_measurement_alone(
    bench: Bench, debugged: Evidence, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_the_library_not_ask(bench, monkeypatch)
    assert bench.appraise(encode(bench.evidence))
    with pytest.raises(MeasurementRefused):
        bench.appraise(encode(debugged))


def test_attack_6_control_without_debug_check_a_readable_domain_is_trusted(
    bench: Bench, debugged: Evidence, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_the_library_not_ask(bench, monkeypatch)
    policy = measure_no_attributes(bench, monkeypatch)
    assert bench.appraise(encode(debugged), policy).program == policy.measurements[0]
