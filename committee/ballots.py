"""The votes of a committee member: from a duty to one protected vote, its commitment and its reveal (design sections 9 and 10).

A vote and its salt are stored in the protection table before anything about the vote is signed, sent or written to the journal.
From then on the stored vote is the member's only vote of this round.

`SeatResults` counts and logs how the member's seats were settled, once all seats of their dispute are settled.
"""

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from bytewise.ports import CertificateSender, VoteSender
from bytewise.protocol.address_book import Network
from bytewise.protocol.court.phases import Phase
from bytewise.protocol.court.settlement import SeatSettledEvent
from bytewise.protocol.decisions.actions import (
    Action,
    CastCommit,
    CastReveal,
    CertifyRound,
    PostCommitRoot,
    RevealUnderRoot,
    RunVoteJob,
)
from bytewise.protocol.decisions.certificates import ALONE
from bytewise.protocol.decisions.disputes import Round, VotePolicy, decide_member
from bytewise.protocol.decisions.snapshot import Dispute, Snapshot
from bytewise.protocol.digests import keccak256
from bytewise.protocol.errors.actors import NotServed
from bytewise.protocol.errors.branches import Bug, Unavailable
from bytewise.protocol.jobs import JobResult
from bytewise.protocol.records.statements import Outcome, Vote
from bytewise.protocol.signing import Signer
from bytewise.protocol.units import U8, U16, U256, ZERO_DIGEST, Address, Blob, Digest, hex0x
from bytewise.service import metrics, telemetry
from bytewise.storage.backups.restore_fence import RestoreFence
from bytewise.storage.duties import Duties
from bytewise.storage.journal import Journal
from bytewise.storage.protection import Protection, StoredVote
from committee.certificates import Certificates
from verifier.jobs.job import VOTE, EnclaveAway, FinishedJob, JobOrder, JobPool, run_job, vote_right
from verifier.watch.absence_check import DaHealth
from verifier.watch.open_windows import CHECKPOINTS, is_over
from verifier.watch.records import Records

KIND = "vote"
"""Kind of the duty to vote in round 1 of a dispute. The duty's subject is the dispute id. The duty in a later round has the kind
`vote.2`, `vote.3` and so on. If the person who runs the member declines the duty, the decision covers all rounds of the
dispute."""

RETRY_PAUSE_S = 2
"""Seconds of the protocol clock between two attempts at one vote. That is long enough for a shard or an enclave to come back, and
short in comparison with a commit phase."""

MIN_ASKED = 2
"""How many fetches of the envelope must have failed in a round before the member votes UNAVAILABLE. So a member that
starts late does not vote on a single failed fetch."""


class PendingVote(NamedTuple):
    """The result of a vote job that is not yet stored as a vote in the protection table."""

    action: RunVoteJob
    result: JobResult


class Ballots:
    """The part of a node that makes all votes of its account. Implements `verifier.executor.VoteExecutor` and
    `verifier.node.VotePart`."""

    def __init__(
        self, network: Network, records: Records, control: DaHealth, duties: Duties, protection: Protection, journal: Journal,
        signer: Signer, pool: JobPool, rng: Callable[[int], bytes], policy: VotePolicy,
        fence: RestoreFence | None = None, certificates: Certificates | None = None,
    ) -> None:  # fmt: skip
        self._certificates = certificates
        self._fence = fence
        self._network = network
        self._records = records
        self._control = control
        self._duties = duties
        self._protection = protection
        self._journal = journal
        self._signer = signer
        self._pool = pool
        self._rng = rng
        self._policy = policy
        self._asked: dict[Round, RunVoteJob] = {}
        self._held: dict[Round, PendingVote] = {}
        self._not_before: dict[Round, int] = {}
        self._unserved: dict[Round, int] = {}
        self._tracked: set[tuple[Digest, int, Phase, bool]] = set()
        self._lost: set[Round] = set()

    def step(self, snapshot: Snapshot) -> tuple[Action, ...]:
        """Turns pending results into votes where it is time (`_protect_settled`). Then decides the next step of this account in
        each round in which it has seats. Raises `ProtectionMissing` if the chain has a vote of this account that the protection
        table lacks."""
        votes: dict[Round, Vote] = {}
        if self._fence is not None:
            self._fence.note(snapshot.clock, snapshot.timestamp)
        self._forget_others({each.id for each in snapshot.disputes})
        self._protect_settled(snapshot)
        seated = [each for each in snapshot.disputes if each.seat_of(self._signer.address) is not None]
        for dispute in seated:
            self._track(dispute)
        mine = [dispute for dispute in seated if dispute.phase in (Phase.COMMIT, Phase.REVEAL)]
        for dispute in mine:
            stored = self._stored(dispute.id, dispute.round)
            if stored is not None:
                votes[(dispute.id, dispute.round)] = stored.vote
        declined = {dispute.id for dispute in mine if self._duties.declined(KIND, dispute.id)}
        running = {(subject, round_number) for kind, subject, round_number in self._pool.busy() if kind == KIND}
        running |= self._held.keys()
        lost = {key for key in ((each.id, each.round) for each in mine if self._may_be_lost(each)) if key not in votes}
        for dispute_id, number in lost - self._lost:
            do = "nothing: the lost database may have a vote of this round, so this seat makes none, at the known penalty"
            telemetry.log("vote.left_out", dispute=dispute_id, round=number, do=do)
        self._lost = lost
        actions = decide_member(
            snapshot, self._network.disputes_domain, self._signer.address, votes, declined, running, self._policy, lost
        )
        if self._certificates is None or snapshot.paused:
            return actions
        return self._together(self._certificates, snapshot, actions, votes, declined)

    def start(self, action: RunVoteJob, snapshot: Snapshot) -> None:
        """Fetches the envelope and queues the enclave job that finds the vote.

        The member votes UNAVAILABLE only if three conditions hold. DA gave no fitting bytes in at least `MIN_ASKED` fetches. The
        last fetch was after the fetch deadline. DA served other bytes right before and right after it. If anything else is
        missing, for example the batch or DA as a whole, the member does not vote. It tries again while there is time for a job.
        """
        key = (action.dispute, action.round)
        if snapshot.clock < self._not_before.get(key, 0):
            return
        batch = next(case.batch_id for case in snapshot.disputes if case.id == action.dispute)
        last = snapshot.clock >= action.fetch_deadline and self._unserved.get(key, 0) + 1 >= MIN_ASKED
        sure = last and self._control.works()
        try:
            self._records.obtain(action.receipt_id, batch, snapshot)
        except NotServed as error:
            telemetry.log_error("vote.fetch_failed", error, dispute=action.dispute)
            self._not_before[key] = snapshot.clock + RETRY_PAUSE_S
            self._unserved[key] = self._unserved.get(key, 0) + 1
            if sure and self._control.works():
                self._protect(action, Outcome.UNAVAILABLE, None)
            elif last:
                metrics.VOTES_WITHOUT_DA.inc()
                telemetry.log("vote.da_failed", dispute=action.dispute, round=action.round)
            return
        if self._pool.away():
            self._not_before[key] = snapshot.clock + RETRY_PAUSE_S
            return
        case = self._records.case(action.receipt_id, snapshot)
        right = vote_right(action.dispute, action.round, action.round_seed, action.commit_end)
        job = functools.partial(run_job, signer=self._signer, contracts=self._network.contracts, case=case, right=right)
        if key not in self._asked:
            telemetry.log("vote.requested", dispute=action.dispute, round=action.round, assurance=case.epoch.assurance)
        self._asked[key] = action
        self._pool.submit(JobOrder(VOTE, (KIND, *key), action.receipt_id, action.commit_end - snapshot.clock, job))

    def finish(self, finished: FinishedJob, snapshot: Snapshot) -> None:
        """Takes the result of a vote job and stores it in memory until it may become the vote. If the job has no usable result,
        the duty stays open, and a later tick starts a job again."""
        _, dispute, round_number = finished.key
        self._not_before[(dispute, round_number)] = snapshot.clock + RETRY_PAUSE_S
        if isinstance(finished.outcome, EnclaveAway):
            return  # `_asked` still has the action, and a later tick tries the vote again
        action, outcome = self._asked.pop((dispute, round_number), None), finished.outcome
        if action is None or not isinstance(outcome, JobResult):
            return
        # Shards may be a block behind or restarting. So the outcome NO_KEY does not become a vote while there is time for a new
        # job.
        if outcome.outcome == Outcome.NO_KEY.value and snapshot.clock < action.fetch_deadline:
            return
        self._held[(dispute, round_number)] = PendingVote(action, outcome)

    def commit(self, action: CastCommit, sender: VoteSender) -> None:
        """Sends the commitment of a vote. Raises `ProtectionMissing` if the protection table lacks the vote."""
        vote = action.vote
        self._protection.require(vote.dispute, vote.round, vote.voter)
        sender.commit(vote.dispute, vote.round, vote.seat_mask, action.commitment)

    def reveal(self, action: CastReveal, sender: VoteSender) -> None:
        """Reveals a vote and its quote as the protection table has them. Raises `ProtectionMissing` if the table lacks the
        vote."""
        vote = action.vote
        stored = self._protection.require(vote.dispute, vote.round, vote.voter)
        sender.reveal(stored.vote, stored.quote)

    def collect(self, action: PostCommitRoot | CertifyRound | RevealUnderRoot, sender: CertificateSender) -> None:
        """Sends the transaction of one step of a verdict certificate. The step posts the Merkle root of the members' commitments,
        posts the certificate, or reveals a vote whose commitment is under such a root."""
        _present(self._certificates).collect(action, sender)

    def _together(
        self, certificates: Certificates, snapshot: Snapshot, actions: tuple[Action, ...], votes: dict[Round, Vote],
        declined: set[Digest],
    ) -> tuple[Action, ...]:  # fmt: skip
        """Adds the actions of verdict certificates to `actions`, and removes each single commitment and reveal of a round in
        which the member acts together with the others. Returns the new actions."""
        certificates.listen(snapshot)
        found: list[Action] = []
        shared: set[Round] = set()
        for dispute in snapshot.disputes:
            vote = votes.get((dispute.id, dispute.round))
            plan = ALONE if vote is None else certificates.plan(snapshot, dispute, vote, dispute.id in declined)
            found += plan.actions
            if not plan.acts_alone:
                shared.add((dispute.id, dispute.round))
        single = [each for each in actions if not (isinstance(each, CastCommit | CastReveal) and _round_of(each.vote) in shared)]
        return (*single, *found)

    def _protect_settled(self, snapshot: Snapshot) -> None:
        """Turns each pending result into the vote of its round, when a reorganisation of the round's seed block is very unlikely
        or when the fetch deadline is reached.

        The vote of a round never changes once it is stored, and it names the seats that the seed drew. If it were stored earlier,
        a shallow reorganisation could make the member's only vote invalid (ADR-014).
        """
        cases = {(case.id, case.round): case for case in snapshot.disputes}
        for key, held in list(self._held.items()):
            case = cases.get(key)
            if case is None or _draw_of(case, self._signer.address) != (held.action.round_seed, held.action.seat_mask):
                del self._held[key]
                telemetry.log("vote.redrawn", dispute=key[0], round=key[1])
            elif snapshot.number - case.seed.block >= self._policy.seed_depth or snapshot.clock >= held.action.fetch_deadline:
                try:
                    self._protect(held.action, Outcome(held.result.outcome), held.result)
                except Unavailable as error:
                    # The disk may be full. Other seats go on, and this one tries again.
                    telemetry.log_error("vote.not_stored", error, dispute=key[0], round=key[1])
                    continue
                del self._held[key]

    def _protect(self, action: RunVoteJob, outcome: Outcome, result: JobResult | None) -> None:
        quote = Blob(b"") if result is None else result.quote
        vote = Vote(
            dispute=action.dispute, round=U16(action.round), voter=self._signer.address, seat_mask=U256(action.seat_mask),
            outcome=U8(outcome), code=U8(0 if result is None else result.code),
            tokens_hash=ZERO_DIGEST if result is None else result.tokens_hash,
            trace_root=ZERO_DIGEST if result is None else result.trace_root,
            round_digest=ZERO_DIGEST if result is None else result.round_digest,
            quote_hash=keccak256(quote) if quote else ZERO_DIGEST, salt=Digest(self._rng(32)),
        )  # fmt: skip
        self._protection.sign_once(vote, quote)
        body = {"outcome": outcome.name, "code": int(vote.code), "round": action.round, "receipt": hex0x(action.receipt_id)}
        self._journal.append("vote.protected", action.dispute, body)
        metrics.VOTES.labels(choice=outcome.name.lower()).inc()
        telemetry.log("vote.protected", dispute=action.dispute, round=action.round, outcome=outcome.name)

    def _may_be_lost(self, dispute: Dispute) -> bool:
        return self._fence is not None and self._fence.covers(dispute.commit_end - dispute.commit_s)

    def _forget_others(self, current: set[Digest]) -> None:
        """Removes all notes about disputes that are not in `current`, because they are over."""
        self._asked = {key: kept for key, kept in self._asked.items() if key[0] in current}
        self._held = {key: kept for key, kept in self._held.items() if key[0] in current}
        self._not_before = {key: kept for key, kept in self._not_before.items() if key[0] in current}
        self._unserved = {key: kept for key, kept in self._unserved.items() if key[0] in current}
        self._tracked = {each for each in self._tracked if each[0] in current}

    def _stored(self, dispute: Digest, round_number: int) -> StoredVote | None:
        return self._protection.known(dispute, round_number, self._signer.address)

    def _track(self, dispute: Dispute) -> None:
        """Updates the database row of the duty to vote in this round. The row shows whether the duty is due, done or missed."""
        seat = dispute.seat_of(self._signer.address)
        revealed = seat is not None and any(seat.group)
        now = (dispute.id, dispute.round, dispute.phase, revealed)
        if seat is None or now in self._tracked:
            return
        self._tracked.add(now)
        kind = KIND if dispute.round == 1 else f"{KIND}.{dispute.round}"
        self._duties.add(kind, dispute.id, dispute.reveal_end)
        if revealed:
            self._duties.done(kind, dispute.id, "revealed")
        elif dispute.phase > Phase.REVEAL:
            self._duties.miss(kind, dispute.id, "no vote")


def _round_of(vote: Vote) -> Round:
    return vote.dispute, int(vote.round)


def _present(certificates: Certificates | None) -> Certificates:
    if certificates is None:
        raise Bug("a step of a certificate in a member that makes none")
    return certificates


def _draw_of(case: Dispute, who: Address) -> tuple[Digest, int]:
    """Returns the seed of the current round, and the mask of the seats that it drew for an account. The mask is 0 without a
    seat."""
    seat = case.seat_of(who)
    return case.round_seed, 0 if seat is None else seat.seat_mask


class SeatSettlements(Protocol):
    """The part of the chain that `SeatResults` reads."""

    def seats(self, from_block: int, to_block: int) -> Sequence[SeatSettledEvent]:
        """Reads the seats that were paid or charged in a closed range of blocks."""
        ...


class SeatResults:
    """A part of a member that counts how the member's seats were settled. It decides no action.

    This part reads the events of a dispute when all seats of the dispute are settled. It counts each seat once, even if a
    reorganisation repeats the settlement. Seats that were settled while the process was stopped are not counted; `bytewise
    status` has all sums.
    """

    def __init__(self, chain: SeatSettlements, me: Address) -> None:
        self._chain = chain
        self._me = me
        self._seen: dict[Digest, int] = {}
        """Block at which each dispute that is not over was first seen."""
        self._over: dict[Digest, int] = {}
        """The block of `_seen`, for each dispute that is over and whose events were not read yet."""
        self._counted: dict[tuple[Digest, int, int], int] = {}
        """Block at which seats were counted, by dispute, round and mask of the seats."""

    def step(self, snapshot: Snapshot) -> Sequence[Action]:
        """Follows the disputes, and counts the seats of each dispute that is over. Returns no action. After an error, the next
        step reads the same blocks again."""
        still_open = {case.id for case in snapshot.disputes if not is_over(case)}
        for dispute in still_open:
            self._seen.setdefault(dispute, snapshot.number)
        # A tick may leave out this step, and snapshots have a finished dispute for one block only. So a missing dispute is over.
        for dispute in self._seen.keys() - still_open:
            self._over[dispute] = self._seen.pop(dispute)
        for dispute, first in list(self._over.items()):
            # The range begins where the dispute was open, so that no reorganisation moves its settlement out of it.
            self._count(dispute, self._chain.seats(first, snapshot.number), snapshot.number)
            del self._over[dispute]
        # `OpenDisputes` remembers as many blocks, so no reorganisation that it finds goes back further.
        self._counted = {key: block for key, block in self._counted.items() if block > snapshot.number - CHECKPOINTS}
        return ()

    def _count(self, dispute: Digest, settled: Sequence[SeatSettledEvent], block: int) -> None:
        for each in settled:
            key = each.dispute, each.round, each.seat_mask
            if (each.dispute, each.voter) != (dispute, self._me) or key in self._counted:
                continue
            self._counted[key] = block
            outcome, seats = each.standing.name.lower(), each.seat_mask.bit_count()
            metrics.SEATS.labels(outcome=outcome).inc(seats)
            telemetry.log(
                "seats.settled", dispute=dispute, round=each.round, outcome=outcome, seats=seats, pay_wei=each.pay,
                penalty_wei=each.penalty,
            )  # fmt: skip
