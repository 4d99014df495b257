"""What `bytewise verify` concludes from what it has seen, without a network."""

from bytewise.protocol.court.phases import Phase
from bytewise.protocol.records.statements import Verdict
from bytewise_client.checks import Standing, conclude, without_list
from bytewise_client.shown_members import Comparison
from tests.fixtures.snapshot_builders import case

UPHELD = case(phase=Phase.FINAL, verdict=Verdict.UPHELD)


def test_verdicts_of_others_do_not_cover_an_uncompared_text() -> None:
    audited = Standing(True, "", None, {"match": 1, "mismatch": 0}, "")
    uncompared = [Comparison(unchecked=[path]) for path in ("choices", "choices[0].message.content", "answers[1].choices")]
    ends = [conclude([], audited, None, shown) for shown in uncompared]
    ends += [without_list(audited._replace(dispute=UPHELD), ends[0], None, shown) for shown in uncompared]
    assert {(end.word, end.exit) for end in ends} == {("INCONCLUSIVE", 3)}
    assert all("was not compared" in end.reason for end in ends)
    assert conclude([], audited, None, None).exit == conclude([], audited, None, Comparison(unchecked=["service_tier"])).exit == 0
    assert without_list(audited._replace(dispute=UPHELD), ends[0], None, None).exit == 0
