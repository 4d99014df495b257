"""What `bytewise verify` concludes from what it has seen, without a network."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from bytewise.da.conventions import certificate_of
from bytewise.protocol.court.phases import Phase
from bytewise.protocol.digests import Label, labelled
from bytewise.protocol.encoding import encode
from bytewise.protocol.errors.actors import TryAgain
from bytewise.protocol.records.receipt import Mode, SignedReceipt
from bytewise.protocol.records.statements import Verdict
from bytewise.protocol.units import U8, U64
from bytewise_client.checks import ReceiptCheck, Rerun, Standing, conclude, public_checks, without_list
from bytewise_client.connection import Accept, Connection
from bytewise_client.receipt_search import Found
from bytewise_client.shown_members import Comparison
from tests.fixtures.builders import ANCHOR, NOW
from tests.fixtures.snapshot_builders import case
from tests.fixtures.verifier.enclave_in_memory import sealed
from tests.fixtures.verifier.verifier_fixture import NETWORK, WORLD
from verifier.watch.batch_check import verify_batch

UPHELD = case(phase=Phase.FINAL, verdict=Verdict.UPHELD)
UNDISPUTED = Standing(True, "", None, {"match": 0, "mismatch": 0}, "")
SAME_BYTES = Rerun(None, "", "", ())
LOCATOR = "eigenda:standard:0x02ab"


def checked(locator: str = LOCATOR, blob: bytes = b"", named: bytes = b"", **changes: Any) -> dict[str, ReceiptCheck]:
    """Public checks of a changed receipt that is anchored at `NOW`, by name. DA gives `blob` in place of the sealed envelope; the
    receipt names the hash of `named` in its place."""
    request = WORLD.request(1)
    truth = WORLD.engine.generate(request)
    receipt, envelope = sealed(WORLD, WORLD.payload(request, truth.output), WORLD.receipt(1, request, truth, **changes))
    if named:
        receipt = replace(receipt, envelope_hash=labelled(Label.ENVELOPE, named))
    return _seen(WORLD.sign(receipt, locator), blob or envelope)


class Store:
    """DA with the same bytes under each locator of a known form."""

    def __init__(self, blob: bytes) -> None:
        self._blob = blob

    def get(self, locator: str, accept: Accept) -> bytes:
        certificate_of(locator)
        if not accept(self._blob):
            raise TryAgain("da", "gave other bytes")
        return self._blob


def _seen(entry: SignedReceipt, blob: bytes) -> dict[str, ReceiptCheck]:
    header, listed = WORLD.batch((entry,))
    (found,) = verify_batch(ANCHOR, header, encode(listed), WORLD.environment, frozenset({1})).receipts
    reader: Any = SimpleNamespace(epoch_on_chain=lambda *_: SimpleNamespace(assurance="simulated"))
    store: Any = Store(blob)
    nothing: Any = None
    connection = Connection(NETWORK, reader, nothing, nothing, store)
    return {each.name: each for each in public_checks(connection, Found(header, found, WORLD.environment, 1))}


@pytest.mark.parametrize(
    "changes", [{"anchor_by": U64(NOW - 1), "issued_at": U64(NOW - 2)}, {"issued_at": U64(NOW + 301)}, {"locator": "https://a"}]
)
def test_lapse_that_the_chain_accepts_decides_no_conclusion(changes: dict[str, Any]) -> None:
    seen = checked(**changes)
    assert seen["record"].result == "WARN" and "R-" in seen["record"].detail
    checks = list(seen.values())
    assert conclude(checks, UNDISPUTED, SAME_BYTES, None).word == "VERIFIED"
    assert conclude(checks, UNDISPUTED._replace(dispute=UPHELD), None, None).word == "UPHELD"
    assert conclude(checks, UNDISPUTED, None, None).word == "INCONCLUSIVE"


def test_defect_of_a_late_receipt_decides_the_conclusion() -> None:
    seen = checked(anchor_by=U64(NOW - 1), mode=U8(Mode.TEE))
    assert seen["record"].result == "FAIL" and "mode" in seen["record"].detail
    assert conclude(list(seen.values()), UNDISPUTED, SAME_BYTES, None).word == "DEFECTIVE"


def test_bytes_that_no_receipt_names_accuse_nobody() -> None:
    assert checked()["sealed envelope"].result == "PASS"
    for seen in (checked(blob=b"<html>captive portal</html>"), checked(locator="eigenda:standard:0xff")):
        assert seen["sealed envelope"].result == "UNKNOWN"
    assert checked(blob=b"{}", named=b"{}")["sealed envelope"].result == "FAIL"


def test_verdicts_of_others_do_not_cover_an_uncompared_text() -> None:
    audited = Standing(True, "", None, {"match": 1, "mismatch": 0}, "")
    uncompared = [Comparison(unchecked=[path]) for path in ("choices", "choices[0].message.content", "answers[1].choices")]
    ends = [conclude([], audited, None, shown) for shown in uncompared]
    ends += [without_list(audited._replace(dispute=UPHELD), ends[0], None, shown) for shown in uncompared]
    assert {(end.word, end.exit) for end in ends} == {("INCONCLUSIVE", 3)}
    assert all("was not compared" in end.reason for end in ends)
    assert conclude([], audited, None, None).exit == conclude([], audited, None, Comparison(unchecked=["service_tier"])).exit == 0
    assert without_list(audited._replace(dispute=UPHELD), ends[0], None, None).exit == 0
