"""Telemetry: events and fields, nothing secret."""

import io
import json
import sys

import pytest

from bytewise.protocol.errors.branches import PointFlaw
from bytewise.protocol.errors.records import MalformedPoint, MalformedValue
from bytewise.service.secret import Secret
from bytewise.service.telemetry import Telemetry


def configured(details: bool = True) -> tuple[Telemetry, io.StringIO]:
    stream, telemetry = io.StringIO(), Telemetry()
    telemetry.configure("test", stream, details=details)
    return telemetry, stream


def test_a_line_is_json_with_an_event_and_fields() -> None:
    telemetry, stream = configured()
    telemetry.log("receipt.signed", receipt_id=b"\x01\x02", seq=3, tags=("a", b"\xff"), none=None)
    line = json.loads(stream.getvalue())
    assert line.pop("at") > 0
    told = {"receipt_id": "0x0102", "seq": 3, "tags": ["a", "0xff"], "none": None}
    assert line == {"component": "test", "event": "receipt.signed", **told}


@pytest.mark.parametrize("event", ["", "Something happened", "a b", "a.", "über"])
def test_free_text_is_refused_as_an_event(event: str) -> None:
    telemetry, stream = configured()
    with pytest.raises(ValueError, match="name"):
        telemetry.log(event)
    assert stream.getvalue() == ""


def test_secrets_are_scrubbed_wherever_they_appear() -> None:
    telemetry, stream = configured()
    secret = Secret(bytes(range(40, 72)))
    telemetry.log("a.b", whole=secret, text=f"key={secret.reveal().decode()}", raw=secret.reveal(), deep=[secret.reveal().hex()])
    telemetry.log("a.b", prompt="what the user asked", token_ids=[1, 2], private_key="k", db_password="p")
    for form in (secret.reveal().decode(), secret.reveal().hex(), "user asked", "[1,2]"):
        assert form not in stream.getvalue()
    assert stream.getvalue().count("[redacted]") == 8
    telemetry.log("a.b", fields={"prompt": "what the user asked", "more": [{"token_ids": [1, 2]}]})
    # A long value is cut. No part of a secret is left at the cut.
    telemetry.log("a.b", raw=bytes(990) + secret.reveal())
    for form in ("user asked", "[1,2]", secret.reveal().hex()[:16]):
        assert form not in stream.getvalue()


def test_an_enclave_shows_the_rule_and_not_the_values() -> None:
    for details, shown in ((True, True), (False, False)):
        telemetry, stream = configured(details)
        telemetry.log_error("job.failed", MalformedValue("token", "a piece of plaintext"))
        assert ("plaintext" in stream.getvalue()) is shown
        assert json.loads(stream.getvalue())["rule"] == "R-01"


def test_error_of_a_library_is_logged_without_its_text() -> None:
    telemetry, stream = configured()
    try:
        raise ValueError("a piece of plaintext")
    except ValueError as error:
        telemetry.log_foreign_error("request.failed", error, part="engine")
    line = json.loads(stream.getvalue())
    assert (line["error"], line["part"]) == ("ValueError", "engine") and line["where"].startswith("test_telemetry.py:")
    assert "plaintext" not in stream.getvalue()


def test_reason_is_shown_with_or_without_values() -> None:
    for details in (True, False):
        telemetry, stream = configured(details)
        telemetry.log_error("job.failed", MalformedPoint("P-256 point", "65 bytes", PointFlaw.IDENTITY))
        telemetry.log_error("job.failed", MalformedValue("token", "identity"))
        first, second = map(json.loads, stream.getvalue().splitlines())
        assert (first["rule"], first["reason"]) == ("R-06", "identity") and "reason" not in second


def test_key_epoch_is_logged_once_per_change() -> None:
    telemetry, stream = configured()
    for epoch, assurance in ((1, "simulated"), (1, "simulated"), (2, "hardware"), (2, "hardware")):
        telemetry.key_epoch(epoch, assurance)
    first, second = (json.loads(line) for line in stream.getvalue().splitlines())
    assert (first["event"], first["epoch"], first["assurance"]) == ("key_epoch.reported", 1, "simulated")
    assert first["warning"].startswith("SIMULATED: ")
    assert (second["epoch"], second["assurance"]) == (2, "hardware") and "warning" not in second
    telemetry.configure("another", stream)
    telemetry.key_epoch(2, "hardware")
    assert len(stream.getvalue().splitlines()) == 3, "what one process told another did not"


def test_each_line_about_an_error_is_reported_by_its_event() -> None:
    telemetry, _ = configured()
    seen: list[str] = []
    telemetry.on_error(seen.append)
    telemetry.log("a.b")
    telemetry.log_error("job.failed", MalformedValue("token", "x"))
    assert seen == ["job.failed"]


def test_standard_error_may_be_replaced_or_closed_between_two_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command's runner does that; whoever logs later in the same process must not fail of it."""
    telemetry, first, second = Telemetry(), io.StringIO(), io.StringIO()
    monkeypatch.setattr(sys, "stderr", first)
    telemetry.log("first.line")
    assert json.loads(first.getvalue())["event"] == "first.line"
    first.close()
    monkeypatch.setattr(sys, "stderr", second)
    telemetry.log("second.line")
    assert json.loads(second.getvalue())["event"] == "second.line"
