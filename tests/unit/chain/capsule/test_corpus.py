"""Capsules that lie in one place each: every lie is found, by the check that is there for it."""

import dataclasses
import json
import random
from typing import Any

import pytest

from bytewise.crypto.checkpoint import NoteKey
from bytewise.protocol.encoding import encode
from bytewise.protocol.errors.branches import Fault
from bytewise.protocol.units import Digest
from chain.capsule.conclusion import conclude
from chain.capsule.report import Failure, Group, Result
from chain.capsule.verification import Trust, verify_capsule
from tests.fixtures.capsule.good_capsules import JOURNALS, KINDS, SEER, made_capsule
from tests.fixtures.capsule.liars import MUTATIONS, REPLACED, in_finality, leaves, liars, lie, witnessed
from tests.fixtures.chain.devnet import word

UNREACHABLE = {
    "state.value", "header.time", "batch.unknown", "batch.sequence", "batch.header", "votes.claim", "verdict.tally",
    "verdict.rule", "verdict.notFinal", "opening.defect", "logs.emitter", "quote.hash",
}  # fmt: skip
"""Failures that no change of a file brings about, because proofs of the state fail first; `test_rules.py` has them."""

ABSENT = {"opening.absent", "logs.absent", "quote.noLog", "quote.notAppraised", "releases.absent", "journal.absent", "notReached"}
"""Results of optional groups that have nothing to check."""


def test_every_liar_is_found_by_its_check() -> None:
    wrong, seen, count = [], set[str](), 0
    for liar in liars():
        report = verify_capsule(liar.data, liar.trust)
        found = report.first_failure or next(iter(report.open_conditions), None)
        named = None if found is None or found.failure is None else found.failure.value
        if (report.result, named) != (liar.result, liar.failure):
            wrong.append(f"{liar.name}: {report.result.value} {named}, expected {liar.result.value} {liar.failure}")
        seen.add(liar.failure)
        count += 1
    assert wrong == [] and count >= 100
    planned = {each.value for each in Failure} - UNREACHABLE - ABSENT - {"releases.shard", "journal.owner", "journal.unwitnessed"}
    assert planned - seen == set(), "a failure that no liar brings about"


def test_names_of_liars_are_distinct() -> None:
    names = [name for _, name, _, _ in (*MUTATIONS, *REPLACED)]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("kind", KINDS)
def test_good_capsule_passes_with_its_chain_gone(kind: str) -> None:
    made = made_capsule(kind)
    report = verify_capsule(made.data, made.trust)
    assert report.result is Result.PASS, report.checks
    assert [each.group for each in report.checks] == list(Group)
    assert report.capsule is not None and report.facts is not None
    verdict = {"opened": "none", "mixed": "unavailable", "escalated": "overturned"}.get(kind, kind)
    assert report.capsule.claim.verdict == verdict
    assert len(made.data) < {"upheld": 250_000, "opened": 70_000}.get(kind, 40_000)


@pytest.mark.parametrize("kind", ["opened", "overturned", "escalated"])
def test_every_leaf_of_a_capsule_is_checked(kind: str) -> None:
    """No member of a capsule is shown to a reader without a check: a change of any leaf is found."""
    made = made_capsule(kind)
    document = json.loads(made.data)
    paths = list(leaves(document))
    chosen = paths if kind == "opened" else random.Random(7).sample(paths, 150)
    for path in chosen:
        changed = json.loads(made.data)
        lie(*path)(changed)
        try:
            report = verify_capsule(encode(changed), made.trust)
        except Fault:
            continue
        assert report.result is not Result.PASS, path


def test_two_witnesses_of_three_stand_for_the_block() -> None:
    data, trust = witnessed("overturned", 2)
    report = verify_capsule(data, trust)
    assert report.result is Result.PASS
    assert next(each.detail for each in report.checks if each.group is Group.AUTHENTICITY).startswith("WITNESSED: 2 of")
    assert verify_capsule(data, Trust(trust.deployments)).result is Result.UNVERIFIABLE, "witnesses that the reader did not name"


@pytest.mark.parametrize(
    ("known", "failure"),
    [
        ({}, None),
        ({"journals": frozenset[Digest]()}, Failure.JOURNAL_OWNER),
        ({"journals": frozenset({JOURNALS[0].public.fingerprint})}, Failure.JOURNAL_OWNER),
        ({"journal_witnesses": frozenset[NoteKey]()}, None),
        ({"journal_witnesses": frozenset({SEER._replace(name="example.org/other")})}, Failure.JOURNAL_UNWITNESSED),
        ({"journal_witnesses": frozenset({SEER, SEER._replace(name="example.org/other")})}, None),
    ],
)
def test_journals_are_as_good_as_the_keys_that_the_reader_knows(known: dict[str, Any], failure: Failure | None) -> None:
    """The group is not required: the verdict stands without it."""
    made = made_capsule("opened")
    report = verify_capsule(made.data, dataclasses.replace(made.trust, **known))
    found = next(each for each in report.checks if each.group is Group.JOURNALS)
    assert (found.result, found.failure) == (Result.PASS if failure is None else Result.UNVERIFIABLE, failure)
    assert report.result is Result.PASS
    assert failure or found.detail.startswith("3 entries of 2 journals are in their checkpoints")
    assert ("a witness signed each" in found.detail) == (failure is None and known.get("journal_witnesses") != frozenset())


def test_entries_about_other_receipts_stay_out_of_a_capsule() -> None:
    report = verify_capsule(made_capsule("opened").data)
    assert report.capsule is not None
    kinds = [[each.kind for each in part.entries] for part in report.capsule.journals]
    assert kinds == [["receipt.sign", "receipt.skip"], ["audit.sign"]]


def test_sync_committees_of_a_trusted_checkpoint_stand_for_the_block() -> None:
    data, trust = in_finality()
    report = verify_capsule(data, trust)
    assert report.result is Result.PASS and len(data) < 350_000
    found = next(each.detail for each in report.checks if each.group is Group.AUTHENTICITY)
    assert found.startswith("SYNC COMMITTEE") and "507 of 512 members" in found and "1 periods on" in found
    nothing = dataclasses.replace(trust, checkpoint=None)
    assert [each.failure for each in verify_capsule(data, nothing).open_conditions] == [Failure.UNDECLARED]
    other = dataclasses.replace(trust, checkpoint=word("other"))
    assert "is one that you trust" in conclude(verify_capsule(data, other)).conditions[0]


def test_reader_without_trust_gets_the_conditions() -> None:
    report = verify_capsule(made_capsule("overturned").data)
    assert report.result is Result.UNVERIFIABLE and report.first_failure is None
    assert [each.failure for each in report.open_conditions] == [Failure.DEPLOYMENT_UNKNOWN, Failure.UNDECLARED]
