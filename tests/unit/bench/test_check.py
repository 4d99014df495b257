"""The committed figures of checking batches follow from their seconds, and each size meets the target."""

import json

import pytest

from bench import check
from bytewise.protocol.errors.records import BadSignature
from bytewise.protocol.units import Blob


def test_figures_follow_from_their_seconds_and_meet_the_target() -> None:
    found = json.loads(check.RESULTS.read_text())
    assert [row["receipts"] for row in found["sizes"]] == list(check.SIZES) and found["machine"]["instructions"]
    assert found["target"] == check.TARGET and all(len(taken) == found["rounds"] for taken in found["seconds"].values())
    for row, again in zip(found["sizes"], check.summary(found["seconds"]), strict=True):
        assert row == pytest.approx(again, rel=0.01)
        assert row["receipts_per_second"] >= check.TARGET and row["over_smallest"] <= 1.1


def test_ratios_divide_the_same_round() -> None:
    each = {"16": [1.6, 3.2], "64": [12.8, 6.4], "188": [18.8, 37.6], "recovery": [9.4, 18.8]}
    small, _, large = check.summary(each)
    assert (small["over_smallest"], small["over_recovery"], large["over_smallest"], large["over_recovery"]) == (1, 2, 1, 2)
    assert check.summary(each)[1]["over_smallest"] == 1.25


def test_timed_work_is_the_whole_check() -> None:
    entries = [check.signed(seq) for seq in (1, 2)]
    assert len(check.check(entries)()) == 2  # type: ignore[arg-type]
    entries[1] = entries[1].__class__(entries[1].receipt, Blob(entries[0].signature), entries[1].locator)
    with pytest.raises(BadSignature):
        check.check(entries)()
    assert len(check.measure(1)["sizes"]) == len(check.SIZES)
