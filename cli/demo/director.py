"""Makes two committee members fail in the demo. The director kills one member right after the broadcast of its commitment, and
starts the member again. The director makes another member stay away from another dispute.

The director chooses both members after the draw, among members with one to five of fifteen seats, so that a verdict is possible
without these members.
"""

from dataclasses import dataclass

import httpx2
from eth_utils.crypto import keccak

from bytewise.protocol.court.phases import Phase
from bytewise.protocol.decisions.snapshot import Dispute, Seat, Snapshot
from bytewise.protocol.units import Address, Digest
from bytewise.service.clock import SystemClock
from bytewise.storage.duties import Duties
from bytewise.storage.engine import open_database
from bytewise.storage.nonce_lease import NonceLease
from bytewise.storage.outbox import Outbox, OutboxState
from chain.reads.reader import SnapshotReader
from cli.demo.plan import CHAIN_ID, VERIFIERS
from cli.demo.processes import ProcessGroup
from cli.demo.site import Site

MOST_SEATS = 5
"""Most seats of a member that fails."""
CONTROL_TIMEOUT_S = 5.0
COMMIT_SELECTOR = keccak(b"commit(bytes32,uint256,bytes32)")[:4]


@dataclass(frozen=True, slots=True)
class MemberFailure:
    """The failure that the director chose for one member in one dispute."""

    member: str
    """Name of the member."""
    dispute: Digest
    """Id of the dispute."""
    round: int
    """Round of the dispute."""


@dataclass(slots=True)
class MemberFailures:
    """The record of the two failures that the director causes, which `cli.demo.facts` checks. A field is None until its value is
    known."""

    killed: MemberFailure | None = None
    """The member that is killed after its commitment is broadcast."""
    absent: MemberFailure | None = None
    """The member that stays away from a dispute."""
    kill_status: int | None = None
    """Exit status of the killed process."""
    withheld_answer: str | None = None
    """The chain's answer to the broadcast, which the proxy did not pass to the killed member. The answer proves the broadcast."""
    journal_unmarked: bool | None = None
    """True if the killed member's outbox still had the commitment in the state SIGNED."""
    same_bytes: bool | None = None
    """True if the transaction that the member signed before it was killed succeeded on the chain."""


class Director:
    """Chooses the two members that fail: kills and restarts one, and makes the other stay away from a dispute."""

    def __init__(self, site: Site, network: ProcessGroup, accounts: dict[str, Address]) -> None:
        self._site = site
        self._network = network
        self._names = {accounts[name]: name for name in VERIFIERS}
        self.failures = MemberFailures()
        self._signed_hash: Digest | None = None

    def step(self, snapshot: Snapshot) -> str | None:
        """Takes the next step that is possible at this snapshot. Returns a sentence for the screen, or None if no step is
        possible."""
        if self.failures.killed is not None and self.failures.kill_status is None:
            return self._kill_after_broadcast()
        for dispute in snapshot.disputes:
            if dispute.phase is not Phase.COMMIT:
                continue
            if self.failures.absent is None and self._can_fail_in(dispute, self.failures.killed):
                return self._decline_vote(dispute)
            if self.failures.killed is None and self._can_fail_in(dispute, self.failures.absent):
                return self._arm_kill(dispute)
        return None

    def _can_fail_in(self, dispute: Dispute, other: MemberFailure | None) -> bool:
        """Tells whether a member can fail in this dispute. The `other` failure must be in another dispute."""
        return (other is None or other.dispute != dispute.id) and self._candidate(dispute, other) is not None

    def _candidate(self, dispute: Dispute, other: MemberFailure | None) -> Seat | None:
        """Returns the seats of the member that can fail in this dispute, or None. The member of the `other` failure does not fail
        again."""
        free = [
            member
            for member in dispute.members
            if 1 <= member.seat_mask.bit_count() <= MOST_SEATS
            and not member.committed
            and member.voter in self._names
            and (other is None or self._names[member.voter] != other.member)
        ]
        # The member with most seats is chosen, because its penalty is the highest and shows best.
        return max(free, key=lambda member: member.seat_mask.bit_count(), default=None)

    def _decline_vote(self, dispute: Dispute) -> str:
        """Marks the dispute as declined in the database of a member, so that the member does not vote."""
        member = self._candidate(dispute, self.failures.killed)
        assert member is not None
        name = self._names[member.voter]
        engine = open_database(self._site.database(name))
        Duties(engine, SystemClock()).decline(dispute.id)
        engine.dispose()
        self.failures.absent = MemberFailure(name, dispute.id, dispute.round)
        return f"{name} stays away from dispute {dispute.id.hex()[:8]} ({member.seat_mask.bit_count()} of {dispute.seats} seats)"

    def _arm_kill(self, dispute: Dispute) -> str | None:
        """Orders the proxy to forward the commitment of a member without an answer, so that the member can be killed before it
        knows of the broadcast."""
        member = self._candidate(dispute, self.failures.absent)
        assert member is not None
        name = self._names[member.voter]
        needle = (COMMIT_SELECTOR + dispute.id).hex()
        answer = httpx2.post(self._site.control_url, json={"member": name, "needle": needle}, timeout=CONTROL_TIMEOUT_S)
        answer.raise_for_status()
        self.failures.killed = MemberFailure(name, dispute.id, dispute.round)
        return f"{name} will be killed right after its commitment in dispute {dispute.id.hex()[:8]} is broadcast"

    def _kill_after_broadcast(self) -> str | None:
        """Kills the member and starts it again, as soon as the proxy has forwarded the commitment."""
        assert self.failures.killed is not None
        caught = httpx2.get(self._site.control_url, timeout=CONTROL_TIMEOUT_S).json()
        if not caught:
            return None
        self.failures.withheld_answer = caught[0]["answer"]
        self.failures.kill_status = self._network.kill(self.failures.killed.member)
        self._inspect_outbox(self.failures.killed)
        self._network.restart(self.failures.killed.member)
        return f"{self.failures.killed.member} was killed (SIGKILL) before it could mark its commitment, and starts again"

    def finish(self, reader: SnapshotReader) -> None:
        """Looks up on the chain whether the transaction that the killed member had signed succeeded, and sets `same_bytes`."""
        if self._signed_hash is not None:
            (receipt,) = reader.client.receipts([self._signed_hash])
            self.failures.same_bytes = receipt is not None and receipt.succeeded

    def _inspect_outbox(self, failure: MemberFailure) -> None:
        """Records how the outbox of the killed member has the commitment: its state, and the hash of its transaction."""
        engine = open_database(self._site.database(failure.member))
        account = next(address for address, name in self._names.items() if name == failure.member)
        outbox = Outbox(NonceLease(engine, SystemClock(), CHAIN_ID, account))
        commits = [
            item
            for item in outbox.open_rows()
            if item.intent.function == "commit" and item.intent.subject.startswith(failure.dispute)
        ]
        attempts = [attempt for item in commits for attempt in outbox.attempts(item.id)]
        self.failures.journal_unmarked = [item.state for item in commits] == [OutboxState.SIGNED] and len(attempts) == 1
        self._signed_hash = attempts[0].tx_hash if attempts else None
        engine.dispose()
