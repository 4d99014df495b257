"""The parties of `tests.court_play` on a chain, each step taken by the contracts and by the model, which must agree after it."""

from dataclasses import replace
from typing import Any

from bytewise.crypto.bls import BlsSigner, key_hash, words
from bytewise.protocol.court import commitments, verdicts
from bytewise.protocol.court.books import Books
from bytewise.protocol.court.params import ParamSet
from bytewise.protocol.court.phases import Event, Phase
from bytewise.protocol.court.state import Claim, Court, Dispute
from bytewise.protocol.decisions.snapshot import Seat
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.records.receipt import SignedReceipt, receipt_id
from bytewise.protocol.records.statements import Finding
from bytewise.protocol.signing import Domain, LocalSigner, struct_values
from bytewise.protocol.stake_tree import StakeTree
from bytewise.protocol.units import ZERO_DIGEST, Address, Blob, Digest
from chain.acts.disputes import certificate
from tests.anvil import CHAIN_ID, Anvil
from tests.court_facts import facts, money, within
from tests.court_network import ENVIRONMENT, OWNER, SHAPE, SHORTEST, CourtNetwork, Read
from tests.court_play import Choose, Play
from tests.court_world import word
from tests.devnet import signer

OPERATORS = [signer(i) for i in (1, 2, 17)]
VERIFIERS = [signer(i).address for i in range(3, 8)]
CHALLENGERS = [signer(i).address for i in range(8, 14)]
EVERYBODY = [*CHALLENGERS, *VERIFIERS, *(each.address for each in OPERATORS)]


class CourtBeside(Play):
    """A chain with the contracts, and the model of their court at the same block and second."""

    def __init__(self, anvil: Anvil, params: ParamSet, treasury: int) -> None:
        self.chain = CourtNetwork(anvil, params)
        self.tree = StakeTree(SHAPE)
        self.receipts: dict[int, SignedReceipt] = {}
        self.seqs: dict[Address, int] = {}
        self.keys: dict[Address, BlsSigner] = {}
        domain = Domain(CHAIN_ID, self.chain.at["Disputes"])
        super().__init__(Court(domain, {1: params}, Books()), CHALLENGERS, VERIFIERS)
        head = anvil.client.head()
        self.court = self.court.at(head.timestamp, head.number)
        for i, who in enumerate(VERIFIERS):
            self.stake(who, 2000 + 300 * i)
            self.tick()
            self.chain.join(who)
            self.tree.set_stake(self.court.block, who, self.court.books.stakes[who])
        for each in OPERATORS:
            self.stake(each.address, 3000)
            self.tick()
            self.chain.must(each.address, "Registry", "registerOperator", "")
        self.tick()
        self.chain.must(OWNER, "Ledger", "fund", value=treasury)
        self.court = replace(self.court, books=self.court.books.fund(treasury))
        self.wait(SHAPE.epoch_blocks)
        self.chain.put_in_force(VERIFIERS)
        self.wait(2 * (2 + len(VERIFIERS)), mine=False)
        self.agrees()

    # --- time ---

    def tick(self) -> None:
        """The block of the next transaction."""
        self.court = self.court.at(self.court.now + (not self.court.paused), self.court.block + 1)

    def wait(self, seconds: int, mine: bool = True) -> None:
        """As many blocks, mined now or by transactions already."""
        if mine and seconds:
            self.chain.anvil.rpc("anvil_mine", hex(seconds))
        self.court = self.court.at(self.court.now + seconds * (not self.court.paused), self.court.block + seconds)

    def pause(self, seconds: int) -> None:
        """The guardian stops the clock."""
        self.tick()
        self.chain.must(OWNER, "Guardian", "pause", seconds)
        self.court = replace(self.court, paused=True)
        self.agrees()

    def unpause(self) -> None:
        """The guardian lets it go on."""
        self.tick()
        self.chain.must(OWNER, "Guardian", "unpause")
        self.court = replace(self.court, paused=False)
        self.agrees()

    # --- what the model is told ---

    def seed_block(self, round_number: int) -> int:
        """By the tree's shape, for a transaction in the next block."""
        return SHAPE.seed_block_from(self.court.block + 1 + SHORTEST)

    def is_over(self, found: Dispute) -> bool:
        """Whether the stake epoch of the seed is over in the next block."""
        return SHAPE.epoch(self.court.block + 1) > SHAPE.epoch(found.round.seed_block)

    def holders(self, found: Dispute, count: int, choose: Choose) -> list[Address | None]:
        """By the tree's weights and the block's mix, read off the chain."""
        if self.court.block <= found.round.seed_block:
            return [None] * count
        seed = self.chain.one("RandaoSource", "seedOf", found.round.seed_block, self.chain.header(found.round.seed_block))
        excluded = {found.challenger.account}
        start, number = len(found.round.holders), len(found.rounds)
        return list(self.tree.draw(seed, found.round.seed_block, found.id, number, excluded, start, count))

    def claim(self, operator: LocalSigner) -> Claim:
        """A fresh receipt of an operator whose stake is filled up to what posting needs, in an environment that is open."""
        who, batch_id = operator.address, len(self.receipts)
        free = self.chain.one("StakeVault", "freeStakeOf", who)
        least = self.court.params[1].money.min_operator_stake
        if free < least + 1:
            self.stake(who, least + 1 - free)
        if self.court.breaker(ENVIRONMENT).closed:
            self.tick()
            self.chain.must(OWNER, "Registry", "activate", ENVIRONMENT)
            opened = replace(self.court.breaker(ENVIRONMENT), closed=False)
            self.court = replace(self.court, breakers={**self.court.breakers, ENVIRONMENT: opened})
        if who in self.court.suspended:
            self.tick()
            self.chain.must(OWNER, "Registry", "readmit", who)
            self.court = replace(
                self.court, suspended={each: until for each, until in self.court.suspended.items() if each != who}
            )
        self.tick()
        self.seqs[who] = self.seqs.get(who, 0) + 1
        signed = self.receipts[batch_id] = self.chain.post(operator, self.seqs[who], batch_id)
        id_ = receipt_id(self.chain.anchor_domain, signed.receipt)
        end = self.court.now + self.court.params[1].times.window
        assert self.chain.one("ReceiptAnchor", "windowEnd", id_, batch_id) == end
        return Claim(id_, signed.receipt.tokens_hash, signed.receipt.out_hash, ENVIRONMENT, who, batch_id, 1, end)

    def stake(self, who: Address, amount: int) -> None:
        """A deposit."""
        self.tick()
        self.chain.stake(who, amount)
        books = self.court.books
        self.court = replace(self.court, books=replace(books, stakes={**books.stakes, who: books.stakes.get(who, 0) + amount}))

    # --- steps ---

    def draw(self, found: Dispute, choose: Choose) -> bool:
        """A foreign epoch draws nothing, which the model is not told."""
        if self.phase(found.id) in (Phase.SEED, Phase.DRAWING) and self.is_over(found):
            self.tick()
            assert not self.chain.send(OWNER, "Disputes", "draw", found.id, 1, self.chain.header(found.round.seed_block))
            return False
        return super().draw(found, choose)

    def rearm(self, found: Dispute) -> bool:
        """A seed that is not lost cannot be replaced, which the model is not told."""
        if self.phase(found.id) in (Phase.SEED, Phase.DRAWING) and not self.is_over(found):
            self.tick()
            assert not self.chain.send(OWNER, "Disputes", "rearm", found.id)
            return False
        return super().rearm(found)

    def register_keys(self) -> None:
        """Every verifier gets a BLS key; certificates are possible from the next block on."""
        for who in VERIFIERS:
            key = self.keys[who] = BlsSigner(bytes(1) + word("bls", who)[1:])
            proof = key.prove_possession(Domain(CHAIN_ID, self.chain.at["BlsKeys"]), who)
            self.tick()
            self.chain.must(who, "BlsKeys", "register", words(key.public_key), words(proof))
            self.tick()
            self.chain.must(OWNER, "BlsKeys", "notePlace", key_hash(key.public_key))

    def certify(self, found: Dispute, choose: Choose) -> bool:
        """Without keys there is no certificate."""
        if not self.keys or not found.round.drawn or self.phase(found.id) is Phase.FINAL:
            return False
        return super().certify(found, choose)

    def _seats(self, found: Dispute) -> list[Seat]:
        return [Seat(who, found.round.mask(who), ZERO_DIGEST, ZERO_DIGEST) for who in found.round.members]

    def _certificate(self, found: Dispute, finding: Finding, root: Digest, signers: list[Address]) -> tuple[Any, ...]:
        held = self.court.disputes[finding.dispute].round
        mask = sum(held.mask(who) for who in signers)
        digest = commitments.certified_digest(self.court.domain, finding, root, mask)
        keys = {who: key.public_key for who, key in self.keys.items()}
        made = certificate(self._seats(found), keys, {who: self.keys[who].sign(digest) for who in signers})
        return made.signers, [words(key) for key in made.keys], words(made.signature)

    def do(self, name: str, dispute: Digest, allowed: frozenset[Event] | Event | None, *args: Any) -> bool:
        """Both take the step or neither does, and then they agree."""
        self.tick()
        taken = self._on_chain(name, *args)
        assert super().do(name, dispute, allowed, *args) == taken, (name, args)
        self._weigh()
        self.agrees(dispute)
        return taken

    def reset_breaker(self) -> None:
        """Governance."""
        self.tick()
        self.chain.must(OWNER, "Breaker", "resetBreaker", ENVIRONMENT)
        self.court = verdicts.reset_breaker(self.court, ENVIRONMENT)

    def _header_of(self, dispute: Digest) -> Blob:
        return self.chain.header(self.court.disputes[dispute].round.seed_block if dispute in self.court.disputes else 0)

    def _on_chain(self, name: str, *args: Any) -> bool:
        send = self.chain.send
        match name, args:
            case "open", (claim, who, bond, alt, _):
                signed = self.receipts[claim.batch_id]
                receipt = struct_values(signed.receipt)
                return send(who, "Disputes", "open", receipt, signed.signature, claim.batch_id, [], alt, value=bond)
            case "draw", (id_, holders):
                return send(OWNER, "Disputes", "draw", id_, len(holders), self._header_of(id_))
            case "commit", (id_, who, mask, commitment):
                return send(who, "Rounds", "commit", id_, mask, commitment)
            case "post_root", (id_, who, root):
                return send(who, "Rounds", "postCommitRoot", id_, root)
            case "reveal", (vote,):
                return send(OWNER, "Rounds", "reveal", struct_values(vote), b"")
            case "reveal_under_root", (vote, who, proof):
                return send(who, "Rounds", "revealUnderRoot", struct_values(vote), b"", list(proof))
            case "certify", (finding, root, signers):
                shown = self._certificate(self.court.disputes[finding.dispute], finding, root, signers)
                return send(OWNER, "Rounds", "certify", struct_values(finding), root, *shown)
            case "appeal", (id_, who, bond, _):
                return send(who, "Disputes", "appeal", id_, value=bond)
            case "open_alt", (id_, salt):
                return send(OWNER, "Disputes", "openAlt", id_, salt)
            case "refund", (id_,):
                return send(OWNER, "Guardian", "refund", self.chain.at["Disputes"], id_)
            case "settle_seats", (id_, number, count):
                return send(OWNER, "Settlement", "settleSeats", id_, number, count)
            case (("rearm" | "settle" | "finalize"), (id_, *_)):
                return send(OWNER, "Disputes", name, id_)
        raise MalformedValue("step", name)

    def _weigh(self) -> None:
        """Slashed verifiers weigh less from the next epoch on."""
        for who in VERIFIERS:
            stake = self.court.books.stakes[who]
            weight = stake if stake >= self.court.params[1].money.min_verifier_stake else 0
            self.tree.set_stake(self.court.block, who, weight)

    # --- what must be equal ---

    def agrees(self, touched: Digest | None = None) -> None:
        """All money and every phase, and everything about the dispute that was touched."""
        want = money(self.court, EVERYBODY, ENVIRONMENT)
        want[Read("Ledger", "totalPots")] = sum(self.court.books.pots.values()) + self.chain.fees
        if touched is not None and touched in self.court.disputes:
            want |= facts(self.court, self.court.disputes[touched])
        have = dict(zip(want, self.chain.read(list(want)), strict=True))
        wrong = {read: (within(have[read], value), value) for read, value in want.items() if within(have[read], value) != value}
        assert not wrong, wrong
