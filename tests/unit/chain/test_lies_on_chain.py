"""A lie in each signed field, and in each pair of fields, is convicted, refused or earns nothing: from bytes to balances.

The lists here are complete: a field that a record gets and that no list has fails `test_every_signed_field_has_its_lie`.
"""

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from bytewise.protocol.digests import out_hash
from bytewise.protocol.records.receipt import Receipt, receipt_id
from bytewise.protocol.records.request import Output, Request
from bytewise.protocol.records.seal import pad
from bytewise.protocol.records.statements import AuditOutcome, AuditResult, Verdict, audit_commitment
from bytewise.protocol.signing import struct_values, typed_digest
from bytewise.protocol.units import U8, U64
from tests.fixtures.chain.anvil import running_anvil
from tests.fixtures.chain.devnet import signer
from tests.fixtures.court.builders import word
from tests.fixtures.system.field_lies import CONVICTED, MALFORMED, PROMISED, RECEIPT_LIES, REFUSED, output_lies, request_lies
from tests.fixtures.system.lying_operators import CHALLENGER, OPERATOR, VERIFIERS, Answer, Ending, Filed, LiarsNetwork

Names = tuple[str, ...]
CONVICTIONS = (Verdict.OVERTURNED, Verdict.INVALID, Verdict.UNAVAILABLE)


@pytest.fixture(scope="module")
def liars(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiarsNetwork]:
    """One network for all lies of this file."""
    with running_anvil("--disable-block-gas-limit") as anvil:
        yield LiarsNetwork(anvil, tmp_path_factory.mktemp("liars"))


def singles_and_pairs(names: Iterable[str]) -> list[Names]:
    """Each name alone and each two of them."""
    listed = sorted(names)
    return [*((name,) for name in listed), *itertools.combinations(listed, 2)]


def convicted(ending: Ending, network: LiarsNetwork) -> bool:
    """Slashed by as much as a false answer costs, and never accepted."""
    return (ending.verdict in CONVICTIONS and ending.slashed == network.params.money.slash_amount, ending.is_final) == (
        True,
        False,
    )


def not_convicted(network: LiarsNetwork, lies: Mapping[Any, Answer]) -> dict[Any, Ending]:
    """The lies that got through a dispute."""
    filed = network.post(list(lies.values()))
    endings = zip(lies, network.tried(filed), strict=True)
    return {name: ending for name, ending in endings if not convicted(ending, network)}


def test_an_honest_answer_is_upheld_and_final(liars: LiarsNetwork) -> None:
    (filed,) = liars.post([liars.honest()])
    assert liars.fault(filed) is None and liars.is_member(filed)
    (ending,) = liars.tried([filed])
    assert (ending.verdict, ending.slashed, ending.is_final) == (Verdict.UPHELD, 0, True)
    assert ending.found.tokens_hash == filed.signed.receipt.tokens_hash


# --- Receipt ---


def false_receipt(network: LiarsNetwork, lies: Names) -> Answer:
    """A true answer under a receipt that lies in these fields; it is sealed so that it opens under the receipt as it is."""
    honest = network.honest()
    return replace(honest, receipt=replace(honest.receipt, **{name: RECEIPT_LIES[name] for name in lies}))


def test_every_lie_in_the_receipt_is_convicted_or_refused(liars: LiarsNetwork) -> None:
    # Each in a batch of its own: a list is judged as one.
    filed = {lies: liars.post([false_receipt(liars, lies)])[0] for lies in singles_and_pairs(RECEIPT_LIES)}
    refused = {lies: each for lies, each in filed.items() if set(lies) & set(REFUSED)}
    assert {lies for lies, each in refused.items() if liars.is_member(each)} == set()
    assert {lies for lies, each in refused.items() if liars.fault(each) is None} == set()
    liars.wait(liars.params.times.window)
    assert {lies for lies, each in refused.items() if liars.is_final(each)} == set()
    timed = {lies: each for lies, each in filed.items() if set(lies) <= set(PROMISED)}
    assert {lies for lies, each in timed.items() if liars.fault(each) is None} == set()


def test_every_lie_in_the_receipt_that_can_be_disputed_costs_a_slash(liars: LiarsNetwork) -> None:
    cases = [lies for lies in singles_and_pairs(CONVICTED | PROMISED) if set(lies) & set(CONVICTED)]
    assert not_convicted(liars, {lies: false_receipt(liars, lies) for lies in cases}) == {}


def test_a_lie_whose_number_is_skipped_costs_no_less_than_a_slash(liars: LiarsNetwork) -> None:
    """Each lie that a committee would find, skipped instead: whoever holds its receipt shows it."""
    chain, before = liars.chain, liars.chain.one("StakeVault", "stakeOf", OPERATOR.address)
    for number, name in enumerate(CONVICTED, 1):
        hidden, batch_id, proof = liars.skip(false_receipt(liars, (name,)))
        shown = (struct_values(hidden.receipt), hidden.signature, batch_id, list(proof))
        chain.must(CHALLENGER, "Demands", "reportSkipped", *shown)
        lost = before - chain.one("StakeVault", "stakeOf", OPERATOR.address)
        assert lost == number * liars.params.money.unanchored_penalty >= number * liars.params.money.slash_amount
        assert not chain.send(CHALLENGER, "Demands", "reportSkipped", *shown), "once for a number"


# --- Request ---


def false_request(network: LiarsNetwork, lies: Names) -> Request:
    """The client's question with other values."""
    values = request_lies(network.request)
    return replace(network.request, **{name: values[name] for name in lies})


def test_a_request_other_than_the_receipt_names_is_convicted(liars: LiarsNetwork) -> None:
    honest, lies = liars.honest(), {}
    for name in request_lies(liars.request):
        lies[name] = replace(honest, payload=liars.payload(false_request(liars, (name,)), liars.truth.output))
    assert not_convicted(liars, lies) == {}


def test_a_request_that_the_client_did_not_sign_is_convicted(liars: LiarsNetwork) -> None:
    lies = {}
    for name in request_lies(liars.request):
        asked = false_request(liars, (name,))
        payload = liars.payload(asked, liars.truth.output, signed=liars.request)
        lies[name] = replace(liars.honest(asked), payload=payload)
    assert not_convicted(liars, lies) == {}


def test_an_answer_to_another_request_than_was_signed_is_convicted(liars: LiarsNetwork) -> None:
    """A gateway that signs for its clients puts another question under the answer; one field, then two."""
    cases = singles_and_pairs(request_lies(liars.request))
    assert not_convicted(liars, {lies: liars.honest(false_request(liars, lies)) for lies in cases}) == {}


# --- Output ---


def false_output(network: LiarsNetwork, lies: Names) -> Output:
    """The true answer with other values."""
    values = output_lies(network.truth.output)
    return replace(network.truth.output, **{name: values[name] for name in lies})


def test_an_answer_other_than_the_receipt_names_is_convicted(liars: LiarsNetwork) -> None:
    honest, lies = liars.honest(), {}
    for name in output_lies(liars.truth.output):
        lies[name] = replace(honest, payload=liars.payload(liars.request, false_output(liars, (name,))))
    assert not_convicted(liars, lies) == {}


def test_a_false_answer_under_the_true_out_hash_is_convicted(liars: LiarsNetwork) -> None:
    """The operator runs the model, then gives, seals and signs another text: out_hash alone would call it equal."""
    cases = singles_and_pairs(output_lies(liars.truth.output))
    lies = {lies: liars.honest(output=false_output(liars, lies)) for lies in cases}
    assert all(each.receipt.out_hash == liars.truth.out_hash for each in lies.values())
    assert not_convicted(liars, lies) == {}


def test_a_false_answer_under_an_out_hash_of_its_own_is_convicted(liars: LiarsNetwork) -> None:
    lies = {}
    for name in output_lies(liars.truth.output):
        told = liars.honest(output=false_output(liars, (name,)))
        claimed = out_hash(told.receipt.tokens_hash, liars.truth.trace_root)
        lies[name] = replace(told, receipt=replace(told.receipt, out_hash=claimed))
    assert not_convicted(liars, lies) == {}


def test_a_record_that_contradicts_itself_is_convicted(liars: LiarsNetwork) -> None:
    lies = {}
    for true, false in MALFORMED:
        honest = liars.honest()
        plaintext = pad(honest.payload)
        assert plaintext.count(true) == 1
        lies[true] = replace(honest, plaintext=plaintext.replace(true, false))
    assert not_convicted(liars, lies) == {}


# --- AuditResult ---


def audit_lies(network: LiarsNetwork, other: Filed, now: int) -> dict[str, Any]:
    """Another value of every field, of a verifier that found the truth."""
    return {
        "receipt_id": receipt_id(network.chain.anchor_domain, other.signed.receipt), "verifier": VERIFIERS[1],
        "result": U8(AuditOutcome.MISMATCH), "commitment": word("no commitment"), "audited_at": U64(now + 10**6),
    }  # fmt: skip


class Auditors:
    """Verifiers that post, open and claim; `paid` says what one of them has earned."""

    def __init__(self, network: LiarsNetwork) -> None:
        self.network, self.chain = network, network.chain
        self.truth = network.truth.output.tokens_hash, network.truth.trace_root

    def result(self, filed: Filed, who: int, outcome: AuditOutcome) -> AuditResult:
        """What an honest verifier signs."""
        identifier, salt = receipt_id(self.chain.anchor_domain, filed.signed.receipt), word("salt", who)
        commitment = audit_commitment(identifier, VERIFIERS[who], *self.truth, salt)
        now = self.chain.anvil.client.head().timestamp
        return AuditResult(identifier, VERIFIERS[who], U8(outcome), commitment, U64(now))

    def post(self, result: AuditResult, who: int, batch_id: int) -> bool:
        """Signed by verifier number `who`, whatever the result says."""
        signature = signer(3 + who).sign(typed_digest(self.network.court_domain, result))
        return self.chain.send(VERIFIERS[who], "Audits", "post", struct_values(result), signature, batch_id)

    def claim(self, filed: Filed, result: AuditResult, who: int) -> bool:
        """Opens the commitment with the truth and claims the bounty; whether it was paid."""
        before = self.chain.one("Ledger", "creditOf", VERIFIERS[who])
        shown = (receipt_id(self.chain.anchor_domain, filed.signed.receipt), VERIFIERS[who])
        self.chain.send(VERIFIERS[who], "Audits", "open", *shown, *self.truth, word("salt", who))
        receipt, signature, _, proof = filed.opening
        self.chain.send(VERIFIERS[who], "Audits", "claim", receipt, signature, proof, result.verifier)
        return bool(self.chain.one("Ledger", "creditOf", VERIFIERS[who]) > before)


def test_an_audit_result_that_lies_is_refused_or_earns_nothing(liars: LiarsNetwork) -> None:
    """Verifier 0 lies in one field or two, verifiers 2 and 3 tell the truth and are paid."""
    auditors, names = Auditors(liars), [field.name for field in dataclasses.fields(AuditResult)]
    cases: list[Names] = [(), *singles_and_pairs(names)]
    filed = liars.post([liars.honest() for _ in range(2 * len(cases))])
    liars.mine(4)
    posted: dict[Names, AuditResult] = {}
    for lies, each, other in zip(cases, filed[::2], filed[1::2], strict=True):
        true = auditors.result(each, 0, AuditOutcome.MATCH)
        values = audit_lies(liars, other, int(true.audited_at))
        posted[lies] = replace(true, **{name: values[name] for name in lies})
        taken = auditors.post(posted[lies], 0, each.batch_id)
        assert taken == (not set(lies) & {"verifier", "audited_at"}), lies
        assert all(auditors.post(auditors.result(each, who, AuditOutcome.MATCH), who, each.batch_id) for who in (2, 3))
    liars.wait(liars.params.times.window + 1)
    paid: dict[Names, bool] = {}
    for lies, each in zip(cases, filed[::2], strict=True):
        for who in (2, 3):
            receipt, tokens, salt = receipt_id(liars.chain.anchor_domain, each.signed.receipt), auditors.truth, word("salt", who)
            liars.chain.must(VERIFIERS[who], "Audits", "open", receipt, VERIFIERS[who], *tokens, salt)
        paid[lies] = auditors.claim(each, posted[lies], 0)
    assert paid == {lies: lies == () for lies in cases}


# --- all of them ---


def test_every_signed_field_has_its_lie(liars: LiarsNetwork) -> None:
    (other,) = liars.post([liars.honest()])
    lists: list[tuple[type, set[str], set[str]]] = [
        (Receipt, set(RECEIPT_LIES), set()),
        (Request, set(request_lies(liars.request)), {"version"}),
        (Output, set(output_lies(liars.truth.output)), {"completion_tokens"}),
        (AuditResult, set(audit_lies(liars, other, 0)), set()),
    ]
    for record, lies, malformed in lists:
        assert {field.name for field in dataclasses.fields(record)} == lies | malformed, record.__name__
