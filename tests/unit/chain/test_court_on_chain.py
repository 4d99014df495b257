"""Disputes under the contracts, from challenge to the last withdrawal, every act decided and sent by us."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from bytewise.crypto.bls import BlsSigner, certificate, signing_mask
from bytewise.protocol import digests, merkle
from bytewise.protocol.address_book import CodeHash
from bytewise.protocol.court.commitments import Commit, certified_digest, sealed
from bytewise.protocol.court.phases import Phase
from bytewise.protocol.court.tally import key_of, vote_content
from bytewise.protocol.errors.actors import BondMismatch, ChainReverted, ConfigurationError, SecondVote, WrongPhase
from bytewise.protocol.errors.records import MalformedValue, MerkleProofMismatch
from bytewise.protocol.evidence.claims import ChainClaims, epoch_keys_digest
from bytewise.protocol.records.statements import Finding, Outcome, Verdict
from bytewise.protocol.signing import LocalSigner, struct_values, typed_digest
from bytewise.protocol.units import U16, ZERO_DIGEST
from bytewise.storage.outbox import OutboxState
from chain.acts.disputes import SignedCommit
from chain.acts.governed import set_params
from chain.client.address_book import read_network, verify_code, write_network
from chain.client.rpc import ChainClient
from chain.deployment.calls import ContractCall, dry_run
from chain.deployment.params import DEVNET
from chain.reads.history import ChainClaimHistory, CourtHistory
from tests.fixtures.chain.anvil import CHAIN_ID, Anvil
from tests.fixtures.chain.devnet import CHALLENGER, OPERATORS, POLICY, STAKE_WEI, VERIFIERS, epoch_document, founded, mine, word
from tests.fixtures.court.claimed_receipts import claimed
from tests.fixtures.court.session import QUOTE, TRUE, DisputeFixture
from tests.fixtures.dashboard.indexed import found_differences, index_of


def test_honest_receipt_is_upheld_and_all_parties_are_paid(anvil: Anvil, tmp_path: Path) -> None:
    court = DisputeFixture(anvil, tmp_path)
    court.open(0, word("wrong guess"))
    case = court.until(Phase.COMMIT)
    assert (case.seats, case.drawn, case.quorum) == (15, 15, 10)
    assert sum(each.seat_mask for each in case.members) == 2**15 - 1
    votes = [court.vote(case, each.voter, claimed(court, 0)) for each in case.members]
    court.commit(votes)
    shown = {each.voter: each.commitment for each in court.case().members}
    assert all(sealed(typed_digest(court.domain, v), v.voter, v.seat_mask) == shown[v.voter] for v in votes)
    with pytest.raises(SecondVote):
        other = dataclasses.replace(votes[0], salt=word("other salt"))
        court.senders[other.voter].commit(case.id, case.round, other.seat_mask, typed_digest(court.domain, other))
    mine(anvil, 2)
    court.reveal(votes)
    assert {each.group for each in court.case().members} == {vote_content(votes[0]).group}
    opened = CourtHistory(court.reader).openings(0, court.reader.head())
    history = ChainClaimHistory(court.reader, court.reader.head())
    (header,) = court.reader.batches(0, court.reader.head())
    keys, policies = frozenset({epoch_keys_digest(epoch_document().record)}), frozenset({POLICY.digest})
    said = ChainClaims(header.anchored_at, keys, policies, case.round_seed)
    assert header.anchored_at > 0 and opened and {history.of(case, each.block) for each in opened} == {said}
    case = court.until(Phase.FINAL)
    assert case.verdict is Verdict.UPHELD and case.replacement == ZERO_DIGEST
    court.settled()
    (ending,) = CourtHistory(court.reader).endings(0, court.reader.head())
    fees, bond = 15 * DEVNET.money.fee_per_seat, DEVNET.required_bond
    assert (ending.bond, ending.slashed, ending.to_verifiers) == (bond, 0, fees)
    assert ending.to_operator == (bond - fees) * DEVNET.shares.operator_share_bps // 10_000
    court.everything_is_accounted_for()
    head = court.reader.head()
    operator = court.reader.holdings(OPERATORS[0].address, head)
    assert (
        operator.stake_wei == court.reader.stake_at(OPERATORS[0].address, head - 1, head)
        and operator.credit_wei == ending.to_operator
    )


def test_commitments_are_submitted_in_as_many_parts_as_needed(anvil: Anvil, tmp_path: Path) -> None:
    court = DisputeFixture(anvil, tmp_path)
    court.open(0, word("wrong guess"))
    case = court.until(Phase.COMMIT)
    keys = {each.address: each for each in VERIFIERS}
    votes = [court.vote(case, each.voter, claimed(court, 0)) for each in case.members]
    assert len(votes) > 2
    made = [Commit(v.dispute, v.round, v.seat_mask, typed_digest(court.domain, v)) for v in votes]
    signed = [
        SignedCommit(c, v.voter, keys[v.voter].sign(typed_digest(court.domain, c))) for c, v in zip(made, votes, strict=True)
    ]
    helper = court.of(CHALLENGER)
    helper.commit_for(signed[:1])
    court.pump()
    helper.commit_for(signed, most=2)
    court.pump()
    sent = [item for item in helper.transactions.outbox.all() if item.intent.function == "commitFor"]
    assert len(sent) == 1 + -(-len(votes) // 2) and all(item.state is OutboxState.CONFIRMED for item in sent)
    shown = {each.voter: each.commitment for each in court.case().members}
    assert all(sealed(typed_digest(court.domain, v), v.voter, v.seat_mask) == shown[v.voter] for v in votes)
    with pytest.raises(MalformedValue, match="two are of one voter"):
        helper.commit_for([signed[0], signed[0]])


def test_lie_is_overturned_by_a_certificate_and_non_signers_are_charged(anvil: Anvil, tmp_path: Path) -> None:
    court = DisputeFixture(anvil, tmp_path)
    keys = {each.address: BlsSigner(b"\0" + word("bls", each.address)[1:]) for each in VERIFIERS}
    for who, signer_ in keys.items():
        court.senders[who].register_bls(signer_)
    court.pump()
    out = digests.out_hash(*TRUE)
    known = court.open(1, key_of(Outcome.EXECUTED, 0, out))
    case = court.until(Phase.COMMIT)
    helper, history = court.of(CHALLENGER), CourtHistory(court.reader)
    tree = history.tree_of(case.id, court.reader.head())
    public = history.keys_at(tree, case.seed.block - 1, court.reader.head())
    assert public == {who: key.public_key for who, key in keys.items()}
    alone = min(case.members, key=lambda each: each.seat_mask.bit_count())
    votes = {each.voter: court.vote(case, each.voter, TRUE) for each in case.members}
    first = {each.voter: (each.seat_mask & -each.seat_mask).bit_length() - 1 for each in case.members}
    leaves = {first[who]: sealed(typed_digest(court.domain, v), who, v.seat_mask) for who, v in votes.items()}
    root = merkle.commit_root(leaves)
    court.senders[alone.voter].post_commit_root(case.id, case.round, root)
    court.pump()
    finding = Finding(case.id, U16(case.round), *struct_values(votes[alone.voter])[4:9])
    seated = court.case().members
    message = certified_digest(court.domain, finding, root, signing_mask(seated, public, votes.keys() - {alone.voter}))
    signatures = {who: keys[who].sign(message) for who in votes if who != alone.voter}
    proven, proof = certificate(seated, public, signatures), merkle.commit_proof(leaves, first[alone.voter])
    mine(anvil, court.case().commit_end - anvil.client.head().timestamp + 1)
    helper.certify(finding, root, proven)
    with pytest.raises(MalformedValue, match="7 siblings instead of 8"):
        court.senders[alone.voter].reveal_under_root(votes[alone.voter], QUOTE, proof[1:])
    court.senders[alone.voter].reveal_under_root(votes[alone.voter], QUOTE, proof)
    court.pump()
    (shown,) = history.certificates(0, court.reader.head())
    assert shown.finding == finding and shown.signers == 2**15 - 1 - alone.seat_mask
    assert court.case().certified_group == vote_content(votes[alone.voter]).group
    case = court.until(Phase.FINAL, known)
    assert (case.verdict, case.replacement) == (Verdict.OVERTURNED, out) and case.challenger.knew
    court.settled()
    assert found_differences(index_of(anvil.client, court.network, tmp_path), anvil.client, court.network) == []
    the_liar_pays(court)
    court.everything_is_accounted_for()


def the_liar_pays(court: DisputeFixture) -> None:
    """Slash, alpha for who knew, beta for the right, and what waits can be withdrawn."""
    head, money, shares = court.reader.head(), DEVNET.money, DEVNET.shares
    (ending,) = CourtHistory(court.reader).endings(0, head)
    slash = money.slash_amount
    assert ending.slashed == slash
    assert court.reader.holdings(OPERATORS[0].address, head).stake_wei == STAKE_WEI - slash
    assert ending.to_challenger == DEVNET.required_bond + slash * shares.alpha_bps // 10_000
    assert ending.burned >= slash // 5 and ending.to_verifiers <= slash * shares.beta_bps // 10_000 + 15 * money.fee_per_seat
    seats = CourtHistory(court.reader).seats(0, head)
    assert sum(each.pay for each in seats) == ending.to_verifiers and not any(each.penalty for each in seats)
    # Credits that come within an hour are payable together, after its end.
    court.anvil.pass_time(DEVNET.times.withdraw_delay + 3600)
    everybody = [CHALLENGER, *(who for who in VERIFIERS if who.address in {each.voter for each in seats})]
    for who in everybody:
        holdings = court.reader.holdings(who.address, court.reader.head())
        assert 0 < holdings.credit_due_wei == holdings.credit_wei
        court.of(who).withdraw(holdings.credit_due_wei)
    court.pump()
    assert all(court.reader.holdings(who.address, court.reader.head()).credit_wei == 0 for who in everybody)


def test_action_the_contracts_would_refuse_is_refused_before_sending(anvil: Anvil, tmp_path: Path) -> None:
    court = DisputeFixture(anvil, tmp_path)
    entry, client = court.batch.entries[0], anvil.client
    opening = (struct_values(entry.receipt), entry.signature, 0, court.batch.proofs[0], word("alt"))

    def tried(contract: str, function: str, *arguments: object, value_wei: int = 0, who: LocalSigner = CHALLENGER) -> None:
        dry_run(client, court.network, who.address, ContractCall(contract, function, arguments, value_wei))

    bond = DEVNET.required_bond
    tried("Disputes", "open", *opening, value_wei=bond)
    with pytest.raises(BondMismatch, match=f"{bond - 1} wei sent, {bond} asked"):
        tried("Disputes", "open", *opening, value_wei=bond - 1)
    with pytest.raises(ChainReverted, match="OwnReceipt"):
        tried("Disputes", "open", *opening, value_wei=bond, who=OPERATORS[0])
    with pytest.raises(WrongPhase, match="is in NONE, this step is for COMMIT"):
        tried("Disputes", "settle", word("no dispute"))
    with pytest.raises(MerkleProofMismatch):
        tried("Disputes", "open", *opening[:3], court.batch.proofs[1], word("alt"), value_wei=bond)
    worse = dataclasses.replace(DEVNET, times=dataclasses.replace(DEVNET.times, unbond_delay=100))
    short = court.network.addresses.short_timelock
    with pytest.raises(MalformedValue, match="unbondDelay of 100 s is below the longest dispute"):
        dry_run(client, court.network, short, set_params(worse))
    dry_run(client, court.network, short, set_params(DEVNET))
    with pytest.raises(ChainReverted, match="AccessManagedUnauthorized"):
        dry_run(client, court.network, CHALLENGER.address, set_params(DEVNET))


class Counting(ChainClient):
    """Counts its round trips."""

    trips = 0

    def rpc(self, method: str, *params: Any) -> Any:
        self.trips += 1
        return super().rpc(method, *params)

    def rpc_many(self, calls: Sequence[tuple[str, Sequence[Any]]]) -> list[Any]:
        self.trips += 1
        return super().rpc_many(calls)


def test_start_reads_code_once_wiring_once_and_each_pool_once(anvil: Anvil) -> None:
    network, client = founded(anvil), Counting(anvil.url, CHAIN_ID)
    verify_code(client, network)
    assert client.trips == 2 + len(network.pools)


def test_an_address_book_is_believed_only_if_the_chain_has_its_code(anvil: Anvil, tmp_path: Path) -> None:
    network = founded(anvil)
    write_network(tmp_path / "network.json", network)
    assert read_network(tmp_path / "network.json") == network == verify_code(anvil.client, network)
    first, *others = network.code
    with pytest.raises(ConfigurationError, match=r"charter at 0x[0-9a-f]{40} has other code"):
        verify_code(anvil.client, dataclasses.replace(network, code=(CodeHash(first.contract, word("other")), *others)))
    with pytest.raises(ConfigurationError, match="no code hash of charter"):
        verify_code(anvil.client, dataclasses.replace(network, code=tuple(others)))
    anvil.rpc("anvil_setCode", network.addresses.ledger, "0x")
    with pytest.raises(ConfigurationError, match="nothing is deployed"):
        verify_code(anvil.client, network)
