"""Operators that lie in one signed field or in two, from real bytes to balances: real model, envelopes and contracts.

Every receipt goes the whole way: list check, the enclave's vote function on the sealed bytes, a committee's votes, the money.
Keys alone are simpler than in a network: the test holds the application key, which t shards are together.
"""

import functools
import itertools
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from bytewise.crypto.envelope import seal_padded
from bytewise.inference.determinism import environment
from bytewise.inference.engine import ExactEngine
from bytewise.protocol import merkle
from bytewise.protocol.court import commitments
from bytewise.protocol.encoding import encode
from bytewise.protocol.errors.branches import Fault
from bytewise.protocol.jobs import Contracts, RunJob
from bytewise.protocol.records.receipt import (
    BatchHeader,
    ClientMode,
    EmptyLeaf,
    ListEntry,
    Mode,
    Receipt,
    ReceiptList,
    SignedEmptyLeaf,
    SignedReceipt,
    batch_leaves,
    receipt_id,
)
from bytewise.protocol.records.request import REQUEST_VERSION, Output, Request
from bytewise.protocol.records.seal import Payload, client_digest, envelope_hash, pad, seal_context
from bytewise.protocol.records.statements import Outcome, Ticket, TicketKind, Verdict, Vote
from bytewise.protocol.signing import Domain, struct_values, typed_digest
from bytewise.protocol.units import U8, U16, U32, U64, U256, ZERO_ADDRESS, ZERO_DIGEST, Address, Blob, Digest
from enclave.judge import Judgement, judge
from tests.anvil import CHAIN_ID, Anvil
from tests.court_network import OWNER, SHAPE, CourtNetwork, Read
from tests.court_world import params, word
from tests.devnet import signer
from tests.lies import TOKENS
from tests.unit.inference.models import policy, small_artifact
from tests.unit.verifier.bench import EPOCH, POLICY, PUBLIC, WholeKey
from verifier.watch.batch_check import verify_batch

OPERATOR, CLIENT, CHALLENGER = signer(1), signer(16), signer(8).address
VERIFIERS = [signer(i).address for i in range(3, 8)]
LOCATOR = "eigenda:standard:0x00"
OPERATOR_STAKE_WEI, VERIFIER_STAKE_WEI = 10**6, 10**5
CALLS_A_BLOCK = 40


class Call(NamedTuple):
    """A transaction of an account."""

    sender: Address
    contract: str
    function: str
    arguments: tuple[Any, ...]
    value: int = 0


@dataclass(frozen=True)
class Answer:
    """What an operator signs, seals and publishes; every part may be a lie."""

    receipt: Receipt
    """Before its envelope is sealed: `envelope_hash` is zero, or a lie that stays."""
    payload: Payload
    """What the envelope holds."""
    plaintext: bytes | None = None
    """What it holds instead, where that is no payload."""
    key: Blob = PUBLIC
    """Which key it is sealed to."""
    issued_at: U64 | None = None
    """Of the receipt that it was sealed for, where that is another one."""


@dataclass(frozen=True)
class Filed:
    """An answer in an anchored batch."""

    signed: SignedReceipt
    envelope: bytes
    """What DA serves."""
    batch_id: int
    header: BatchHeader
    listed: ReceiptList
    proof: tuple[Digest, ...]

    @property
    def opening(self) -> tuple[Any, ...]:
        """What names a receipt to the contracts: record, signature, batch, path."""
        return struct_values(self.signed.receipt), self.signed.signature, self.batch_id, list(self.proof)


class Ending(NamedTuple):
    """What became of a disputed receipt."""

    verdict: Verdict
    """The court's."""
    found: Judgement
    """What every seat found."""
    slashed: int
    """Wei that its operator lost."""
    is_final: bool
    """Whether it is accepted for good."""


class LiarsNetwork:
    """Contracts, five verifiers, an operator with much stake, and an engine that says what is true."""

    randomness: Callable[[int], bytes] = staticmethod(os.urandom)
    """For envelopes."""

    def __init__(self, anvil: Anvil, folder: Path, seats: tuple[int, int, int] = (3, 5, 7)) -> None:
        self.model = small_artifact(folder / "model", 7)
        self.engine = ExactEngine(self.model)
        for each in (self.engine, self.engine.second_backend()):
            # A seat runs them before each conviction; here once is enough for hundreds.
            each.vectors = functools.cache(each.vectors)  # type: ignore[method-assign]
        self.environment = environment(self.model, container=word("container"), max_new_tokens=64)
        plain = params(seats)
        times = replace(
            plain.times, window=900, commit_time=150, reveal_time=300, rerun_time=1000, unbond_delay=9000, key_retention=9000
        )
        money, shares = replace(plain.money, min_verifier_stake=200), replace(plain.shares, audit_rate_bps=10_000)
        self.params = replace(plain, times=times, money=money, shares=shares)
        self.chain = CourtNetwork(anvil, self.params, self.environment.digest, self.model.model_id)
        at = self.chain.at
        self.contracts = Contracts(U256(CHAIN_ID), at["ReceiptAnchor"], at["Disputes"], at["KeyEpochs"])
        self.court_domain = Domain(CHAIN_ID, at["Disputes"])
        for who in VERIFIERS:
            self.chain.stake(who, VERIFIER_STAKE_WEI)
            self.chain.join(who)
        self.chain.stake(OPERATOR.address, OPERATOR_STAKE_WEI)
        self.chain.must(OPERATOR.address, "Registry", "registerOperator", "")
        self.mine(SHAPE.epoch_blocks)
        self.chain.put_in_force(VERIFIERS)
        self.request = self._request()
        self.truth = self.engine.generate(self.request)

    def mine(self, blocks: int) -> None:
        """So many seconds, a block each."""
        self.chain.anvil.rpc("anvil_mine", hex(max(blocks, 0)))

    def wait(self, seconds: int) -> None:
        """So many seconds in one block."""
        now = self.chain.anvil.client.head().timestamp
        self.chain.anvil.rpc("evm_setNextBlockTimestamp", now + seconds)
        self.mine(1)

    def send(self, calls: Sequence[Call]) -> None:
        """Transactions that all succeed, some in each block."""
        client = self.chain.anvil.client
        # The node answers a batch in any order, so each transaction says its place.
        places = {who: itertools.count(client.nonce(who)) for who in {call.sender for call in calls}}
        requests = [{**self.chain.request(*call), "nonce": hex(next(places[call.sender]))} for call in calls]
        self.chain.anvil.automine(False)
        try:
            for some in (requests[i : i + CALLS_A_BLOCK] for i in range(0, len(requests), CALLS_A_BLOCK)):
                hashes = client.rpc_many([("eth_sendTransaction", (each,)) for each in some])
                self.chain.anvil.mine()
                included = client.rpc_many([("eth_getTransactionReceipt", (each,)) for each in hashes])
                assert all(each is not None and int(each["status"], 16) == 1 for each in included), calls[0].function
        finally:
            self.chain.anvil.automine(True)

    # --- what is said ---

    def honest(self, request: Request | None = None, output: Output | None = None) -> Answer:
        """The true answer; its number is given when it is posted."""
        request, output = request or self.request, output or self.truth.output
        now = self.chain.anvil.client.head().timestamp
        receipt = Receipt(
            operator=OPERATOR.address, seq=U64(0), req_hash=request.req_hash, tokens_hash=output.tokens_hash,
            out_hash=self.truth.out_hash, model_id=self.model.model_id, environment=self.environment.digest,
            gpu_arch=self.environment.gpu_arch_id, key_epoch=U64(1), envelope_hash=ZERO_DIGEST, issued_at=U64(now),
            anchor_by=U64(now + 600), mode=U8(Mode.PLAIN), client_mode=U8(ClientMode.DELEGATED), enclave_key=ZERO_ADDRESS,
            chain_id=U256(CHAIN_ID),
        )  # fmt: skip
        return Answer(receipt, self.payload(request, output))

    def payload(self, request: Request, output: Output, signed: Request | None = None) -> Payload:
        """What an envelope holds. `signed`: the request that the client signed, if it is another."""
        return Payload(request, output, CLIENT.sign(client_digest((signed or request).req_hash, CHAIN_ID)))

    def post(self, answers: Sequence[Answer]) -> list[Filed]:
        """Signs, seals and anchors answers under the honest header, in as many batches as they need."""
        most = self.params.shares.max_batch
        return [each for i in range(0, len(answers), most) for each in self._post(answers[i : i + most])]

    def _post(self, answers: Sequence[Answer]) -> list[Filed]:
        first = self._next_number()
        filed = [self._sealed(answer, first + i) for i, answer in enumerate(answers)]
        posted, listed, leaves = self._anchored(tuple(signed for signed, _ in filed), first)
        return [
            Filed(signed, data, posted.batch_id, posted, listed, merkle.batch_proof(leaves, i))
            for i, (signed, data) in enumerate(filed)
        ]  # fmt: skip

    def skip(self, answer: Answer) -> tuple[SignedReceipt, int, tuple[Digest, ...]]:
        """Signs an answer and anchors an empty leaf in its place, before an honest one: receipt, batch, path of the leaf."""
        first = self._next_number()
        hidden, _ = self._sealed(answer, first)
        leaf = EmptyLeaf(OPERATOR.address, U64(first), U256(CHAIN_ID))
        empty = SignedEmptyLeaf(leaf, OPERATOR.sign(receipt_id(self.chain.anchor_domain, leaf)))
        posted, _, leaves = self._anchored((empty, self._sealed(self.honest(), first + 1)[0]), first)
        return hidden, posted.batch_id, merkle.batch_proof(leaves, 0)

    def _next_number(self) -> int:
        return int(self.chain.one("ReceiptAnchor", "lastSeq", OPERATOR.address)) + 1

    def _anchored(self, entries: tuple[ListEntry, ...], first: int) -> tuple[BatchHeader, ReceiptList, Sequence[Digest]]:
        """The header of a batch of these under the honest service, its list and its leaves."""
        chain, leaves = self.chain, batch_leaves(self.chain.anchor_domain, entries)
        listed, root = ReceiptList(OPERATOR.address, U64(first), entries), merkle.batch_root(leaves)
        served = (self.environment.digest, self.model.model_id, 1)
        fee, batch_id = chain.one("FeeMarket", "feeFor", len(entries)), int(chain.one("ReceiptAnchor", "batchCount"))
        header = (first, len(entries), root, listed.list_hash, *served, b"locator")
        chain.must(OPERATOR.address, "ReceiptAnchor", "post", header, value=fee)
        shown = chain.one("ReceiptAnchor", "batch", batch_id)
        posted = BatchHeader(
            batch_id=batch_id, operator=OPERATOR.address, first_seq=U64(first), count=U32(len(entries)), root=root,
            list_hash=listed.list_hash, environment=served[0], model_id=served[1], key_epoch=U64(1), locator=LOCATOR,
            anchored_at=U64(shown["anchoredAt"]), block=U64(shown["blockNumber"]),
        )  # fmt: skip
        return posted, listed, leaves

    def _sealed(self, answer: Answer, seq: int) -> tuple[SignedReceipt, bytes]:
        # Under the receipt as it is: a liar makes envelopes that open.
        receipt = replace(answer.receipt, seq=U64(answer.receipt.seq or seq))
        plaintext = answer.plaintext or pad(answer.payload)
        sealed_for = receipt if answer.issued_at is None else replace(receipt, issued_at=answer.issued_at)
        context = seal_context(self.chain.anchor_domain, sealed_for)
        data = seal_padded(plaintext, answer.key, context, receipt.key_epoch, self.randomness)
        if receipt.envelope_hash == ZERO_DIGEST:
            receipt = replace(receipt, envelope_hash=envelope_hash(data))
        return SignedReceipt(receipt, OPERATOR.sign(receipt_id(self.chain.anchor_domain, receipt)), LOCATOR), data

    # --- what becomes of it ---

    def fault(self, filed: Filed) -> Fault | None:
        """What everybody's check of a list says of one receipt, without any key."""
        domain, header = self.chain.anchor_domain, filed.header
        try:
            checked = verify_batch(domain, header, encode(filed.listed), self.environment, frozenset({1}))
        except Fault as fault:
            return fault
        return checked.receipts[filed.signed.receipt.seq - header.first_seq].fault

    def is_member(self, filed: Filed) -> bool:
        """Whether the anchor takes it as a receipt of its batch: what it does not take is never accepted."""
        return self._answers("checkMember", filed)

    def is_final(self, filed: Filed) -> bool:
        """Whether it is accepted for good."""
        return self._answers("isFinal", filed)

    def judged(self, filed: Filed, subject: Digest, number: int = 1, seed: Digest | None = None) -> Judgement:
        """What an honest seat finds, in a round of that number and seed."""
        receipt, identifier = filed.signed.receipt, receipt_id(self.chain.anchor_domain, filed.signed.receipt)
        if envelope_hash(filed.envelope) != receipt.envelope_hash:
            return Judgement(Outcome.UNAVAILABLE)
        ticket = Ticket(
            U8(TicketKind.DISPUTE), subject, U16(number), identifier, VERIFIERS[0], ZERO_DIGEST, ZERO_DIGEST, receipt.key_epoch,
            U64(2**40),
        )  # fmt: skip
        job = RunJob(
            ticket, Blob(b""), receipt, filed.signed.signature, filed.batch_id, filed.proof, filed.header.anchored_at,
            Blob(filed.envelope), self.environment, EPOCH, self.contracts, seed or word("seed", subject), POLICY,
        )  # fmt: skip
        return judge(job, identifier, WholeKey(), b"", self.engine, self.model.model_id)

    def tried(self, cases: Sequence[Filed]) -> list[Ending]:
        """Disputes of all of them side by side: opened, drawn, judged by every seat, counted, paid."""
        chain, bond, times = self.chain, self.params.required_bond, self.params.times
        ids = [commitments.dispute_id(self.court_domain, receipt_id(chain.anchor_domain, each.signed.receipt)) for each in cases]
        before = chain.one("StakeVault", "stakeOf", OPERATOR.address)
        self.send([Call(CHALLENGER, "Disputes", "open", (*each.opening, word("alternative")), bond) for each in cases])
        blocks = [each["seedBlock"] for each in chain.read([Read("Rounds", "roundOf", (each, 1)) for each in ids])]
        self.mine(max(blocks) + 1 - chain.anvil.client.head().number)
        seats, headers = self.params.committee.seats[0], {block: chain.header(block) for block in set(blocks)}
        parts = zip(ids, blocks, strict=True)
        self.send([Call(OWNER, "Disputes", "draw", (each, seats, headers[block])) for each, block in parts])
        found = [self.judged(each, dispute) for each, dispute in zip(cases, ids, strict=True)]
        self._vote(ids, found)
        self.send([Call(OWNER, "Disputes", "settle", (each,)) for each in ids])
        self.mine(times.appeal_time + times.airgap + 2)
        self.send([Call(OWNER, "Disputes", "finalize", (each,)) for each in ids])
        self.wait(times.window)
        shown = chain.read([Read("Disputes", "dispute", (each,)) for each in ids])
        slashed = [each["slashed"] for each in chain.read([Read("Settlement", "accountOf", (each,)) for each in ids])]
        assert before - chain.one("StakeVault", "stakeOf", OPERATOR.address) == sum(slashed)
        verdicts = [Verdict(each["verdict"]) for each in shown]
        return [
            Ending(verdict, judgement, amount, self.is_final(each))
            for each, verdict, judgement, amount in zip(cases, verdicts, found, slashed, strict=True)
        ]  # fmt: skip

    def _vote(self, ids: Sequence[Digest], found: Sequence[Judgement]) -> None:
        seated = self.chain.read([Read("Rounds", "membersOf", (each, 1)) for each in ids])
        votes = [
            Vote(
                dispute, U16(1), member["voter"], U256(member["seatMask"]), U8(said.outcome), U8(said.code), said.tokens_hash,
                said.trace_root, said.round_digest, ZERO_DIGEST, word("salt", member["voter"], dispute),
            )
            for dispute, said, members in zip(ids, found, seated, strict=True)
            for member in members
        ]  # fmt: skip
        digests = [typed_digest(self.court_domain, each) for each in votes]
        self.send([
            Call(each.voter, "Rounds", "commit", (each.dispute, each.seat_mask, digest))
            for each, digest in zip(votes, digests, strict=True)
        ])  # fmt: skip
        # A round whose seats have all committed goes on at once.
        ends = [each["commitEnd"] for each in self.chain.read([Read("Rounds", "roundOf", (each, 1)) for each in ids])]
        self.mine(max(ends) + 1 - self.chain.anvil.client.head().timestamp)
        self.send([Call(OWNER, "Rounds", "reveal", (struct_values(each), b"")) for each in votes])

    def _answers(self, function: str, filed: Filed) -> bool:
        try:
            self.chain.one("ReceiptAnchor", function, *filed.opening)
        except Fault:
            return False
        return True

    def _request(self) -> Request:
        decode = replace(policy(TOKENS, "0.8"), logprobs=1)
        return Request(
            version=REQUEST_VERSION, model_id=self.model.model_id, model_name="small", environment=self.environment.digest,
            decode=decode, seed=U64(5), prompt=tuple(b"What is a receipt worth?"), template_digest=self.model.template_digest,
            tokenizer_digest=self.model.tokenizer_digest, prompt_commitments=None, nonce=word("nonce"),
            chain_id=U256(CHAIN_ID), expiry=U64(2**40), client=CLIENT.address, reply_key=None,
        )  # fmt: skip
