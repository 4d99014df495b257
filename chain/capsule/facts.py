"""What the contracts say about one receipt, read word by word from their storage at one block.

The maker of a capsule and its verification run the same `read_facts`: one on a node, which proves each word, the other on the
proofs. Rules are those of the contracts named beside them.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from bytewise.protocol.assurance import HARDWARE, SIMULATED
from bytewise.protocol.court.phases import Phase
from bytewise.protocol.court.settlement import CONVICTIONS
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.records.receipt import list_subject
from bytewise.protocol.records.statements import Verdict
from bytewise.protocol.units import ZERO_DIGEST, Address, Digest
from chain.capsule.deployment import TREE, address_in, domain_of
from chain.capsule.schema import CapsuleDeployment
from chain.client.layout import layout

ReadWord = Callable[[Address, int], bytes]
"""The 32-byte word in a slot of a contract."""

NOBODY = 0xFFFF
"""`SeatsLib.NOBODY`: the place of a seat that nobody holds."""

MAX_ROUNDS = 13
"""More rounds than any dispute has (`ParamLaw.MAX_RERUNS` and three levels)."""

_SEATS_PER_WORD = 16
_OPEN, _ANCHOR = 1, 3
"""`IDemands.State` and `IDemands.Kind`."""


class Batch(NamedTuple):
    """The batch of the receipt, with its service (`ReceiptAnchor.Stored`, `Service`)."""

    operator: Address
    first_seq: int
    size: int
    """How many receipts; 0 if the chain has no such batch."""
    anchored_at: int
    block: int
    params_version: int
    is_void: bool
    root: Digest
    environment: Digest
    model_id: Digest
    key_epoch: int


class Case(NamedTuple):
    """The dispute (`Disputes.Case`)."""

    phase: Phase
    verdict: Verdict
    appealed: Verdict
    """The verdict that was appealed; NONE if none was."""
    decided_in: int
    rounds: int
    """Rounds that were begun."""
    is_mixed: bool
    """Whether an UNAVAILABLE verdict needed the leading fault, too."""
    batch_id: int
    challenger: Address
    claim: Digest
    """Hash of what the receipt claims."""


class CommitteeMember(NamedTuple):
    """A member of a committee."""

    voter: Address
    mask: int
    """Its seats: bit i is set for seat i."""
    word: Digest
    """Group of its vote if it revealed directly; else its commitment, or zero."""


class Tally(NamedTuple):
    """Seats of a round by what they said, as the contract counted them (`TallyLib`)."""

    equal: int
    lead: int
    unavailable: int
    no_key: int
    cannot_execute: int


class Round(NamedTuple):
    """A drawn round (`RoundStore.RoundData`)."""

    number: int
    seats: int
    quorum: int
    is_settled: bool
    tally: Tally
    lead: tuple[int, int, Digest]
    """Outcome, code and out_hash of the leading fault."""
    opened: int
    """Mask of seats that revealed directly."""
    certified: int
    """Mask of seats that a certificate counts for."""
    certified_group: Digest
    members: tuple[CommitteeMember, ...]


class Facts(NamedTuple):
    """Everything that the state says about the receipt."""

    batch: Batch
    case: Case
    rounds: tuple[Round, ...]
    window_s: int
    assurance: str
    """Label of the key epoch; empty if the chain has no such epoch."""
    shards: tuple[Address, ...]
    """Shards of the key epoch."""
    policy: Digest
    """Appraisal policy in force."""
    window_end: int
    """Last second to question the receipt, on the protocol clock."""
    clock: int
    """The protocol clock."""
    is_demanded: bool
    """Whether a demand that makes the window stand still is open."""

    @property
    def verdict(self) -> Verdict:
        """The final verdict; NONE before it."""
        return self.case.verdict if self.case.phase is Phase.FINAL else Verdict.NONE

    @property
    def open_reason(self) -> str:
        """Why the receipt is not accepted for good; empty if it is (`ReceiptAnchor.isFinal`)."""
        if self.batch.is_void:
            return "its batch is void"
        if self.is_demanded:
            return "a demand is open"
        if self.case.phase not in (Phase.NONE, Phase.FINAL):
            return "a dispute is running"
        if self.case.phase is Phase.FINAL and self.verdict is not Verdict.UPHELD:
            return "the receipt is void"
        return "" if self.clock > self.window_end else "its challenge window is open"

    @property
    def replacement(self) -> Digest | None:
        """`out_hash` that replaces the claim; None unless the verdict is OVERTURNED (`Disputes._replacementOf`)."""
        if self.verdict is not Verdict.OVERTURNED:
            return None
        return next((each.lead[2] for each in self.rounds if each.number == self.case.decided_in), None)

    @property
    def decided_in(self) -> int:
        """The round whose votes gave the final verdict; 0 where none did."""
        return self.case.decided_in if self.verdict in {Verdict.UPHELD, *CONVICTIONS} else 0


class Storage:
    """Variables of a deployment's contracts by name."""

    def __init__(self, deployment: CapsuleDeployment, timestamp: int, read_word: ReadWord) -> None:
        """`timestamp` is the Unix second of the block whose words `read_word` gives."""
        self.deployment = deployment
        self.timestamp = timestamp
        self._read_word = read_word

    def get(self, contract: str, variable: str, *steps: Any, at: Address | None = None) -> Any:
        """Value of a variable (`Layout.place`). `at` is the contract's address where there are several of the name."""
        found = layout(contract)
        place = found.place(variable, *steps)
        return found.decode(place, self._read_word(at or address_in(self.deployment, contract), place.slot))


def read_facts(storage: Storage, dispute: Digest, receipt_id: Digest, batch_id: int) -> Facts:
    """All facts about a receipt. `MalformedValue` or `ValueError` for state that no contract of ours leaves."""
    batch, service = _batch(storage, batch_id)
    case, tree = _case(storage, dispute)
    clock = _clock(storage)
    window = storage.get("Params", "_times", batch.params_version, "window")
    held, is_demanded = _demand_pause(storage, clock, batch_id, receipt_id)
    shards = storage.get("KeyEpochs", "_epochs", batch.key_epoch, "shards")
    label = storage.get("KeyEpochs", "_epochs", batch.key_epoch, "assurance")
    return Facts(
        batch=batch,
        case=case,
        rounds=tuple(_rounds(storage, dispute, case, tree)),
        window_s=window,
        assurance={1: SIMULATED, 2: HARDWARE}.get(label, ""),
        shards=tuple(storage.get("KeyEpochs", "_epochs", batch.key_epoch, "shards", i) for i in range(min(shards, 64))),
        policy=Digest(storage.get("Registry", "policyDigest")),
        window_end=_window_end(storage, batch_id, service, window, clock) + held,
        clock=clock,
        is_demanded=is_demanded,
    )


def _batch(storage: Storage, batch_id: int) -> tuple[Batch, int]:
    """The batch, and the number of its service."""

    def stored(name: str) -> Any:
        return storage.get("ReceiptAnchor", "_batches", batch_id, name)

    def served(name: str) -> Any:
        return storage.get("ReceiptAnchor", "_services", service, name)

    service = stored("service")
    batch = Batch(
        operator=stored("operator"), first_seq=stored("firstSeq"), size=stored("count"), anchored_at=stored("anchoredAt"),
        block=stored("blockNumber"), params_version=stored("paramsVersion"), is_void=stored("isVoid"), root=stored("root"),
        environment=served("environment"), model_id=served("modelId"), key_epoch=served("keyEpoch"),
    )  # fmt: skip
    return batch, service


def _case(storage: Storage, dispute: Digest) -> tuple[Case, Address]:
    """The dispute, and the stake tree of its committees."""

    def stored(name: str) -> Any:
        return storage.get("Disputes", "_cases", dispute, name)

    case = Case(
        phase=Phase(stored("phase")), verdict=Verdict(stored("verdict")), appealed=Verdict(stored("appealed")),
        decided_in=stored("decidedIn"), rounds=stored("round"), is_mixed=stored("mixed"), batch_id=stored("batchId"),
        challenger=stored("challenger"), claim=storage.get("Rounds", "claimOf", dispute),
    )  # fmt: skip
    return case, stored("tree")


def _rounds(storage: Storage, dispute: Digest, case: Case, tree: Address) -> Iterator[Round]:
    if case.rounds > MAX_ROUNDS:
        raise MalformedValue("dispute", f"{case.rounds} rounds")
    if case.rounds and not any(each.name == TREE and each.address == tree for each in storage.deployment.contracts):
        raise MalformedValue("dispute", f"its stake tree {tree} is not of this deployment")
    version = storage.get("Disputes", "_cases", dispute, "paramsVersion") if case.rounds else 0
    for number in range(1, case.rounds + 1):
        # A round that was never drawn has no members and no votes.
        if storage.get("Rounds", "_rounds", dispute, number, "commitEnd"):
            yield _round(storage, dispute, number, tree, version)


def _round(storage: Storage, dispute: Digest, number: int, tree: Address, version: int) -> Round:
    def stored(*steps: Any) -> Any:
        return storage.get("Rounds", "_rounds", dispute, number, *steps)

    seats, everyone = stored("seats"), (1 << stored("seats")) - 1
    certified = (stored("certifiedMask") or everyone) if stored("certified") else 0
    numerator, denominator = (storage.get("Params", "_committee", version, name) for name in ("tauNum", "tauDen"))
    if not denominator:
        raise MalformedValue("parameters", f"version {version} is none")
    leads = stored("lead") > 0
    return Round(
        number=number, seats=seats, quorum=-(-seats * numerator // denominator), is_settled=stored("settled"),
        tally=Tally(*(stored(name) for name in ("equal", "lead", "unavailable", "noKey", "cannotExecute"))),
        lead=(stored("leadOutcome"), stored("leadCode"), Digest(stored("leadOutHash") if leads else ZERO_DIGEST)),
        opened=stored("opened"), certified=certified,
        certified_group=Digest(stored("certifiedGroup") if certified else ZERO_DIGEST),
        members=tuple(_members(storage, stored, seats, tree)),
    )  # fmt: skip


def _members(storage: Storage, stored: Callable[..., Any], seats: int, tree: Address) -> Iterator[CommitteeMember]:
    words = [stored("places", i) for i in range(-(-seats // _SEATS_PER_WORD))]
    masks: dict[int, int] = {}
    for seat in range(seats):
        place = words[seat // _SEATS_PER_WORD] >> 16 * (seat % _SEATS_PER_WORD) & 0xFFFF
        masks[place] = masks.get(place, 0) | 1 << seat
    for place, mask in masks.items():
        if place != NOBODY:
            voter = storage.get(TREE, "_accountAt", place, at=tree)
            yield CommitteeMember(voter, mask, Digest(stored("words", mask & -mask)))


def _clock(storage: Storage) -> int:
    """`Guardian.clock`, at the time of the block."""
    start, until, before = (storage.get("Guardian", "_last", name) for name in ("from", "until", "stoppedBefore"))
    now = storage.timestamp
    return int(start - before if now < until else now - (before + until - start))


def _window_end(storage: Storage, batch_id: int, service: int, window: int, clock: int) -> int:
    """`ReceiptAnchor._undemandedEnd`."""
    pool = storage.get("ReceiptAnchor", "_services", service, "pool")
    since, stopped = (storage.get("Registry", "_pools", pool, name) for name in ("stoppedSince", "stopped"))
    stopped += clock - since if since else 0
    start, before = (storage.get("ReceiptAnchor", "_batches", batch_id, name) for name in ("startedAt", "stoppedAtStart"))
    return int(start + window + stopped - before)


def _demand_pause(storage: Storage, clock: int, batch_id: int, receipt_id: Digest) -> tuple[int, bool]:
    """`Demands.heldFor`: seconds for which demands made the window stand still, and whether one does so now."""
    if not storage.get("ReceiptAnchor", "_batches", batch_id, "demanded"):
        return 0, False
    held, is_open = 0, False
    for subject in (list_subject(domain_of(storage.deployment, "Demands"), batch_id), receipt_id):
        state, kind, opened, closed = (
            storage.get("Demands", "_demands", subject, name) for name in ("state", "kind", "openedAt", "closedAt")
        )
        if not state:
            continue
        version = storage.get("Demands", "_demands", subject, "paramsVersion")
        wait = storage.get("Params", "_times", version, "maxAnchorDelay" if kind == _ANCHOR else "cure")
        held += (min(clock, opened + wait) if state == _OPEN else closed) - opened
        is_open = is_open or state == _OPEN
    return held, is_open
