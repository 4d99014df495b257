"""Plays of `tests.plays` on a chain: real model, envelopes, lists, judge and contracts; what became of everything is noted.

Who is honest does what it may: demands a list that is missing or false, questions a receipt, votes what the judge finds.
"""

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bytewise.crypto.bls import BlsSigner, key_hash, words
from bytewise.crypto.curve import GENERATOR, encode_point
from bytewise.protocol import digests, merkle
from bytewise.protocol.court import commitments
from bytewise.protocol.court.phases import Phase
from bytewise.protocol.decisions.snapshot import Seat
from bytewise.protocol.encoding import encode
from bytewise.protocol.errors.branches import Fault
from bytewise.protocol.records.receipt import EmptyLeaf, ListEntry, SignedEmptyLeaf, SignedReceipt, receipt_id
from bytewise.protocol.records.request import Request
from bytewise.protocol.records.seal import pad
from bytewise.protocol.records.statements import Finding, Outcome, Verdict, Vote
from bytewise.protocol.signing import Domain, struct_values, typed_digest
from bytewise.protocol.units import U8, U16, U64, U256, ZERO_DIGEST, Address, Digest
from chain.acts.demands import _leaf_values
from chain.acts.disputes import certificate
from enclave.judge import Judgement
from tests.anvil import CHAIN_ID, Anvil
from tests.court_network import OWNER, Read
from tests.court_world import word
from tests.fates import Fate, Penalty, Sat, Story
from tests.liars import CHALLENGER, LOCATOR, OPERATOR, VERIFIERS, Answer, Call, Filed, LiarsNetwork
from tests.lies import MALFORMED, RECEIPT_LIES, output_lies, request_lies
from tests.plays import FALSE, QUESTIONS, Conduct, Hidden, Play, Posted, Sealed, Swap, Told
from tests.reexecution import Reexecution
from tests.unit.verifier.bench import PUBLIC
from verifier.watch.batch_check import verify_batch

SEATS = (5, 7, 9)
DEMANDS = "Demands"
"""The contract that takes demands and reports."""
EVERYBODY = (OPERATOR.address, CHALLENGER, *VERIFIERS)
NOBODYS = encode_point(GENERATOR * 7)
"""A key of which no shard has a share."""
RIGHT = 1
"""`Standing` of seats that said what the verdict says."""
ENDED_EARLY = frozenset({Verdict.DRAW, Verdict.REFUNDED})


class WholeSystem(LiarsNetwork):
    """Plays start from one state of the chain, each for itself."""

    def __init__(self, anvil: Anvil, folder: Path) -> None:
        super().__init__(anvil, folder, SEATS)
        self.chain.must(OWNER, "Ledger", "fund", value=10**4)
        self.oracle = Reexecution(self.chain.anchor_domain, self.engine, self.environment)
        prompts = (self.request.prompt, tuple(b"Who pays?"), tuple(b"And if nobody looks at it at all?"))
        self.questions = [
            replace(self.request, prompt=prompt, seed=U64(5 + i), nonce=word("nonce", i)) for i, prompt in enumerate(prompts)
        ]
        assert len(self.questions) == QUESTIONS
        self.keys = {who: self._registered(who) for who in VERIFIERS}
        self._start = anvil.rpc("evm_snapshot")

    def _registered(self, who: Address) -> BlsSigner:
        key = BlsSigner(bytes(1) + word("bls", who)[1:])
        proof = key.prove_possession(Domain(CHAIN_ID, self.chain.at["BlsKeys"]), who)
        self.chain.must(who, "BlsKeys", "register", words(key.public_key), words(proof))
        self.chain.must(OWNER, "BlsKeys", "notePlace", key_hash(key.public_key))
        return key

    def play(self, play: Play, most_false: Callable[[int], int] | None = None) -> Story:
        """Everything from the first batch to the last payment. `most_false`: seats of a committee of so many that may say
        something else than an honest seat finds; none more than leaves a quorum out of reach."""
        self.chain.anvil.rpc("evm_revert", self._start)
        self._start, dice = self.chain.anvil.rpc("evm_snapshot"), itertools.count()
        self.randomness = lambda size: word("randomness", next(dice))[:size]
        story, self._most_false = Story(), most_false or (lambda seats: self.params.quorum(seats) - 1)
        for posted in play:
            story.fates += self._posted(posted, story)
        for fate in story.fates:
            self._asked(fate)
        disputed = [fate for fate in story.fates if fate.known and fate.is_member and fate.told.questioned]
        if disputed:
            self._tried(disputed)
        self.wait(self.params.times.window + 1)
        for fate in story.fates:
            fate.is_final = fate.is_member and self.is_final(fate.filed)
        story.sums = self._sums()
        return story

    # --- what the operator says ---

    def answer(self, told: Told) -> tuple[Request, Answer]:
        """What the client asked, and what the operator makes of it."""
        asked = self.questions[told.question]
        truth, lies = self.oracle.truth(asked), request_lies(asked)
        request = replace(asked, **{name: lies[name] for name in told.request})
        wrong = output_lies(truth.output)
        output = replace(truth.output, **{name: wrong[name] for name in told.output})
        if told.beyond:
            most = self.environment.limits.max_new_tokens
            request = replace(request, decode=replace(request.decode, max_new_tokens=most + 1))
        named = asked if told.swap is Swap.SHOWN and not told.beyond else request
        receipt = self.honest(named, output if told.follows else truth.output).receipt
        out_hash = digests.out_hash(receipt.tokens_hash, truth.trace_root) if told.follows == 2 else truth.out_hash
        receipt = replace(receipt, out_hash=out_hash)
        receipt = replace(receipt, **{name: RECEIPT_LIES[name] for name in told.receipt})
        payload = self.payload(request, output, asked if told.swap is Swap.UNSIGNED else None)
        key = NOBODYS if told.sealed is Sealed.LOCKED else PUBLIC
        made = Answer(receipt, payload, None, key, U64(1) if told.sealed is Sealed.COPIED else None)
        if told.malformed is None:
            return asked, made
        plaintext, (true, false) = pad(payload), MALFORMED[told.malformed]
        return asked, replace(made, plaintext=plaintext.replace(true, false))

    def _posted(self, posted: Posted, story: Story) -> list[Fate]:
        first = self._next_number()
        made = [self.answer(told) for told in posted.told]
        sealed = [self._sealed(answer, first + i) for i, (_, answer) in enumerate(made)]
        entries = [
            self._empty(first + i) if told.hidden is Hidden.NUMBER else signed
            for i, (told, (signed, _)) in enumerate(zip(posted.told, sealed, strict=True))
        ]
        header, listed, leaves = self._anchored(tuple(entries), first)
        fates = []
        for i, (told, (asked, _), (signed, data)) in enumerate(zip(posted.told, made, sealed, strict=True)):
            shown = b"" if told.hidden in (Hidden.ENVELOPE, Hidden.UNTIL_ASKED) else data
            filed = Filed(signed, shown, header.batch_id, header, listed, merkle.batch_proof(leaves, i))
            fate = Fate(told, asked, filed, i, is_member=self.is_member(filed))
            fates.append(fate)
            self._reported(fate, story)
            if told.hidden is Hidden.UNTIL_ASKED and told.demanded and fate.is_member:
                fate.filed = replace(filed, envelope=data)
        self._look_for_list(posted, fates, entries, story)
        return fates

    def _empty(self, seq: int) -> SignedEmptyLeaf:
        leaf = EmptyLeaf(OPERATOR.address, U64(seq), U256(CHAIN_ID))
        return SignedEmptyLeaf(leaf, OPERATOR.sign(receipt_id(self.chain.anchor_domain, leaf)))

    # --- what needs no committee ---

    def _reported(self, fate: Fate, story: Story) -> None:
        """Who holds a receipt whose number was skipped, or two with one number, shows them."""
        told, filed, domain = fate.told, fate.filed, self.chain.anchor_domain
        receipt, money = filed.signed.receipt, self.params.money
        if not told.questioned or (receipt.operator, receipt.chain_id) != (OPERATOR.address, CHAIN_ID):
            return
        if told.hidden is Hidden.NUMBER and receipt.seq == filed.header.first_seq + fate.place:
            story.penalties.append(self._punished("skipped", money.slash_amount, "reportSkipped", *filed.opening))
        if told.twice:
            other = replace(receipt, tokens_hash=word("another answer", receipt.seq))
            two = (struct_values(receipt), filed.signed.signature, struct_values(other), OPERATOR.sign(receipt_id(domain, other)))
            story.penalties.append(self._punished("signed twice", money.slash_amount, "equivocation", *two))

    def _punished(self, what: str, least: int, function: str, *arguments: Any) -> Penalty:
        before = self.chain.one("StakeVault", "stakeOf", OPERATOR.address)
        self.chain.must(CHALLENGER, DEMANDS, function, *arguments)
        return Penalty(what, before - self.chain.one("StakeVault", "stakeOf", OPERATOR.address), least)

    def _look_for_list(self, posted: Posted, fates: list[Fate], entries: Sequence[ListEntry], story: Story) -> None:
        filed = fates[0].filed
        fits = True
        try:
            verify_batch(self.chain.anchor_domain, filed.header, encode(filed.listed), self.environment, frozenset({1}))
        except Fault:
            fits = False
        known, is_void = posted.listed, False
        if posted.demanded and not (posted.listed and fits):
            bond = len(entries) * self.params.money.demand_bond
            self.chain.must(CHALLENGER, DEMANDS, "demandList", filed.batch_id, value=bond)
            leaves = [_leaf_values(each.receipt if isinstance(each, SignedReceipt) else each.record) for each in entries]
            shown = (filed.batch_id, encode(filed.listed), leaves, [each.signature for each in entries])
            if posted.answered and self.chain.send(OPERATOR.address, DEMANDS, "answerList", *shown):
                known = True
            else:
                self.wait(self.params.times.cure + 1)
                subject = self.chain.one(DEMANDS, "listSubject", filed.batch_id)
                story.penalties.append(self._punished("no list", self.params.money.slash_amount, "expire", subject))
                is_void = True
        for fate in fates:
            fate.known, fate.is_void = known, is_void

    def _asked(self, fate: Fate) -> None:
        """Somebody demands the envelope, which the operator has shown by now, or does not answer."""
        told, filed = fate.told, fate.filed
        if not (told.demanded and fate.known and fate.is_member):
            return
        identifier = receipt_id(self.chain.anchor_domain, filed.signed.receipt)
        self.chain.must(CHALLENGER, DEMANDS, "demandEnvelope", *filed.opening, value=self.params.money.demand_bond)
        if told.hidden is Hidden.UNTIL_ASKED:
            self.chain.must(OPERATOR.address, DEMANDS, "answerEnvelope", identifier, LOCATOR.encode())
        else:
            self.wait(self.params.times.cure + 1)
            self.chain.must(CHALLENGER, DEMANDS, "expire", identifier)

    # --- the court ---

    def _tried(self, cases: Sequence[Fate]) -> None:
        bond = self.params.required_bond
        for fate in cases:
            subject = receipt_id(self.chain.anchor_domain, fate.filed.signed.receipt)
            fate.dispute, fate.paid[CHALLENGER] = commitments.dispute_id(self.court_domain, subject), bond
        self.send([Call(CHALLENGER, "Disputes", "open", (*fate.filed.opening, word("guess")), bond) for fate in cases])
        live = list(cases)
        while live:
            self._seated(live)
            self._voted(live)
            self.send([Call(OWNER, "Disputes", "settle", (fate.dispute,)) for fate in live])
            live = [fate for fate, shown in zip(live, self._shown(live), strict=True) if self._goes_on(fate, shown)]
        self.wait(self.params.times.appeal_time + self.params.times.airgap + 2)
        for fate in cases:
            if fate.verdict is not Verdict.REFUNDED:
                self._ended(fate, Call(OWNER, "Disputes", "finalize", (fate.dispute,)))

    def _shown(self, cases: Iterable[Fate]) -> list[Any]:
        return self.chain.read([Read("Disputes", "dispute", (fate.dispute,)) for fate in cases])

    def _goes_on(self, fate: Fate, shown: Any) -> bool:
        """Whether there is another round; an appeal makes one, a refund is made here."""
        phase = Phase(shown["phase"])
        if phase is Phase.SEED:
            return True
        if phase is Phase.APPEAL and fate.told.course.appeal:
            loser = CHALLENGER if shown["verdict"] == Verdict.UPHELD else OPERATOR.address
            bond = self.chain.one("Disputes", "appealBond", fate.dispute)
            self.chain.must(loser, "Disputes", "appeal", fate.dispute, value=bond)
            fate.paid[loser] += bond
            return True
        if fate.told.course.refund:
            self._ended(fate, Call(OWNER, "Guardian", "refund", (self.chain.at["Disputes"], fate.dispute)))
        return False

    def _rounds_of(self, cases: Sequence[Fate]) -> list[Any]:
        return self.chain.read([Read("Rounds", "roundOf", (fate.dispute, self._number(fate))) for fate in cases])

    @staticmethod
    def _number(fate: Fate) -> int:
        return len(fate.rounds) + 1

    def _seated(self, cases: Sequence[Fate]) -> None:
        """Each right after its seed block, for a seed is lost with its epoch."""
        waiting: dict[int, list[Call]] = {}
        for fate, one in zip(cases, self._rounds_of(cases), strict=True):
            waiting.setdefault(one["seedBlock"], []).append(Call(OWNER, "Disputes", "draw", (fate.dispute, one["seats"])))
        for block, calls in sorted(waiting.items()):
            self.mine(block + 1 - self.chain.anvil.client.head().number)
            header = self.chain.header(block)
            self.send([call._replace(arguments=(*call.arguments, header)) for call in calls])

    def _voted(self, cases: Sequence[Fate]) -> None:
        """Commitments, then what is revealed of them, or certificates."""
        seated = self.chain.read([Read("Rounds", "membersOf", (fate.dispute, self._number(fate))) for fate in cases])
        rounds, committed, revealed, signed = self._rounds_of(cases), [], [], []
        for fate, one, members in zip(cases, rounds, seated, strict=True):
            votes = self._votes(fate, one, [each for each in members if int(each["voter"], 16)])
            together = self._signing(fate, one, votes)
            signed += [together] if together else []
            alone = [(conduct, vote) for conduct, vote in votes if vote not in together]
            committed += [vote for _, vote in alone]
            revealed += [vote for conduct, vote in alone if conduct is not Conduct.SILENT]
        rooted = [Call(votes[0].voter, "Rounds", "postCommitRoot", (votes[0].dispute, self._root(votes))) for votes in signed]
        self.send([
            Call(each.voter, "Rounds", "commit", (each.dispute, each.seat_mask, typed_digest(self.court_domain, each)))
            for each in committed
        ] + rooted)  # fmt: skip
        self._pass(max(each["commitEnd"] for each in self._past_rounds(cases)))
        self.send([Call(OWNER, "Rounds", "certify", self._certificate(votes)) for votes in signed])
        self.send([Call(OWNER, "Rounds", "reveal", (struct_values(each), b"")) for each in revealed])
        self._pass(max(each["revealEnd"] for each in self._past_rounds(cases)))

    def _signing(self, fate: Fate, one: Any, votes: Sequence[tuple[Conduct, Vote]]) -> list[Vote]:
        """Votes of those who sign together: honest ones that are a quorum, or none."""
        sat = fate.rounds[-1]
        willing = [vote for conduct, vote in votes if vote.voter in sat.faithful and conduct is Conduct.HONEST]
        quorum = self.params.quorum(one["seats"])
        return willing if fate.told.course.certified and sum(sat.seats[each.voter] for each in willing) >= quorum else []

    def _root(self, votes: Sequence[Vote]) -> Digest:
        return merkle.commit_root({
            (each.seat_mask & -each.seat_mask).bit_length() - 1:
            commitments.sealed(typed_digest(self.court_domain, each), each.voter, each.seat_mask)
            for each in votes
        })  # fmt: skip

    def _certificate(self, votes: Sequence[Vote]) -> tuple[Any, ...]:
        """What `certify` takes: all of them say the same."""
        one, root = votes[0], self._root(votes)
        finding = Finding(one.dispute, one.round, one.outcome, one.code, one.tokens_hash, one.trace_root, one.round_digest)
        seats = [Seat(each.voter, each.seat_mask, ZERO_DIGEST, ZERO_DIGEST) for each in votes]
        digest = commitments.certified_digest(self.court_domain, finding, root, sum(each.seat_mask for each in votes))
        keys = {who: key.public_key for who, key in self.keys.items()}
        made = certificate(seats, keys, {each.voter: self.keys[each.voter].sign(digest) for each in votes})
        return struct_values(finding), root, made.signers, [words(key) for key in made.keys], words(made.signature)

    def _pass(self, end: int) -> None:
        """Until a second is over."""
        if (left := end - self.chain.anvil.client.head().timestamp) >= 0:
            self.wait(left + 1)

    def _past_rounds(self, cases: Sequence[Fate]) -> list[Any]:
        """As `_rounds_of`, of the rounds whose votes are written down already."""
        return self.chain.read([Read("Rounds", "roundOf", (fate.dispute, len(fate.rounds))) for fate in cases])

    def _votes(self, fate: Fate, one: Any, members: Sequence[Any]) -> list[tuple[Conduct, Vote]]:
        """What the members commit to; the round is written down."""
        number = self._number(fate)
        found = self.judged(fate.filed, fate.dispute, number, Digest(one["roundSeed"]))
        sat, false = Sat(found, {each["voter"]: each["seats"] for each in members}), 0
        votes: list[tuple[Conduct, Vote]] = []
        course = fate.told.course
        conducts = course.conduct[number - 1] if number <= len(course.conduct) else ()
        for i, member in enumerate(members):
            conduct = conducts[i] if i < len(conducts) else Conduct.HONEST
            said = self._said(fate, conduct, found, member["voter"])
            if said != found and false + member["seats"] > self._most_false(one["seats"]):
                conduct, said = Conduct.HONEST, found
            false += member["seats"] * (said != found)
            if conduct is Conduct.ABSENT:
                continue
            vote = self._vote_of(fate, number, member, said)
            votes.append((conduct, vote))
            if conduct is not Conduct.SILENT:
                sat.votes[member["voter"]] = vote
                sat.faithful |= {member["voter"]} if said == found else set()
        fate.rounds.append(sat)
        return votes

    def _vote_of(self, fate: Fate, number: int, member: Any, said: Judgement) -> Vote:
        return Vote(
            fate.dispute, U16(number), member["voter"], U256(member["seatMask"]), U8(said.outcome), U8(said.code),
            said.tokens_hash, said.trace_root, said.round_digest, ZERO_DIGEST,
            word("salt", member["voter"], fate.dispute, number),
        )  # fmt: skip

    def _said(self, fate: Fate, conduct: Conduct, found: Judgement, voter: Address) -> Judgement:
        """By how a member behaves; whoever says what is true says it with the digest of who has done the work."""
        if conduct not in FALSE:
            return found
        receipt, digest = fate.filed.signed.receipt, word("digest of friends", fate.dispute)
        if conduct is Conduct.LAZY:
            return found._replace(round_digest=digest) if found.outcome is Outcome.EXECUTED else found
        if conduct is Conduct.OWN:
            return Judgement(Outcome.EXECUTED, 0, word("own", voter), word("own trace", voter), digest)
        if conduct is Conduct.STALLS:
            return Judgement(Outcome.NO_KEY)
        if conduct is Conduct.ACCUSES:
            told = Judgement(Outcome.EXECUTED, 0, word("accusation"), word("its trace"), digest)
            return (told, Judgement(Outcome.INVALID, 4), Judgement(Outcome.UNAVAILABLE))[fate.told.course.accusation]
        root = self.oracle.truth(fate.asked).trace_root
        claimed = Judgement(Outcome.EXECUTED, 0, receipt.tokens_hash, root, digest)
        return found if claimed[:4] == found[:4] else claimed

    # --- the money ---

    def holdings(self) -> dict[Address, int]:
        """Stake and credit of everybody."""
        reads = [Read("StakeVault", "stakeOf", (who,)) for who in EVERYBODY]
        reads += [Read("Ledger", "creditOf", (who,)) for who in EVERYBODY]
        values = self.chain.read(reads)
        return {who: values[i] + values[i + len(EVERYBODY)] for i, who in enumerate(EVERYBODY)}

    def _ended(self, fate: Fate, call: Call) -> None:
        """The last step of a dispute, and every seat paid or charged: what that was to everybody."""
        before = self.holdings()
        numbers = range(1, len(fate.rounds) + 1)
        for each in (call, *(Call(OWNER, "Settlement", "settleSeats", (fate.dispute, i, 255)) for i in numbers)):
            self.chain.must(each.sender, each.contract, each.function, *each.arguments)
        after = self.holdings()
        fate.gains = {who: after[who] - before[who] - fate.paid[who] for who in EVERYBODY}
        (shown,) = self._shown([fate])
        fate.verdict, fate.replacement = Verdict(shown["verdict"]), shown["replacement"]
        fate.left = self.chain.one("Ledger", "potOf", fate.dispute)
        seated = self.chain.read([Read("Rounds", "standingsOf", (fate.dispute, i, 0, 255)) for i in numbers])
        for sat, seats in zip(fate.rounds, seated, strict=True):
            sat.right = {who for who, standing in zip(*seats.values(), strict=True) if standing == RIGHT}

    def _sums(self) -> dict[str, tuple[int, int]]:
        read, rpc = self.chain.read, self.chain.anvil.rpc
        names = ("totalCredits", "totalPots", "treasury", "totalBurned")
        credit, *others = read([Read("Ledger", name) for name in names])
        stakes = read([Read("StakeVault", "stakeOf", (who,)) for who in EVERYBODY])
        credits_of = read([Read("Ledger", "creditOf", (who,)) for who in EVERYBODY])
        total = self.chain.one("StakeVault", "totalStake")
        ledger, vault = (int(rpc("eth_getBalance", self.chain.at[name], "latest"), 16) for name in ("Ledger", "StakeVault"))
        return {
            "wei of the ledger": (ledger, credit + sum(others)), "wei of the vault": (vault, total),
            "stakes": (total, sum(stakes)), "credits": (credit, sum(credits_of)),
        }  # fmt: skip
