"""The facts about one receipt that contracts store, read word by word from their storage at one block.

Making a capsule and verifying it run the same `read_facts`. The maker reads from a node, which proves each word. The verification
reads from those proofs. Functions here repeat the rules of the contracts that their docstrings name.

A capsule carries the contracts that it reads, with their addresses and code hashes, and the digest of their storage layouts.
"""

import json
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

from bytewise.protocol import digests
from bytewise.protocol.address_book import Network
from bytewise.protocol.assurance import HARDWARE, SIMULATED
from bytewise.protocol.court.phases import Phase
from bytewise.protocol.court.settlement import CONVICTIONS
from bytewise.protocol.digests import Label
from bytewise.protocol.encoding import encode
from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.records.receipt import list_subject
from bytewise.protocol.records.statements import Verdict
from bytewise.protocol.signing import Domain
from bytewise.protocol.units import ZERO_DIGEST, Address, Digest
from chain.capsule.schema import CapsuleDeployment, DeployedContract
from chain.client.artifacts import FOLDER
from chain.client.layout import layout

TREE = "StakeTree"

CONTRACTS = {
    "Disputes": "disputes", "Rounds": "rounds", "ReceiptAnchor": "receipt_anchor", "Demands": "demands", "Params": "params",
    "Guardian": "guardian", "Registry": "registry", "KeyEpochs": "key_epochs",
}  # fmt: skip
"""Contracts whose storage or signing domain a capsule needs, in the order of a capsule, each with its field in the address
book."""


@cache
def layout_digest() -> Digest:
    """Returns the digest of the storage layouts by which this program reads the contracts."""
    layouts = {name: json.loads((FOLDER / "layout" / f"{name}.json").read_text()) for name in (*CONTRACTS, TREE)}
    return digests.labelled(Label.CAPSULE_LAYOUT, encode(layouts))


def deployment_of(network: Network) -> CapsuleDeployment:
    """Returns the deployment that an address book describes. Raises `ConfigurationError` if the book lacks the code hash of a
    contract."""
    missing = contract_without_code_hash(network)
    if missing is not None:
        raise ConfigurationError("network.json", f"has no code hash of {missing}: fetch the address book again")
    code = {each.contract: each.digest for each in network.code}
    contracts = tuple(DeployedContract(name, where, code[where]) for name, where in _named(network))
    return CapsuleDeployment(network.chain_id, contracts, layout_digest())


def contract_without_code_hash(network: Network) -> str | None:
    """Returns the name of the first contract of which an address book has no code hash. Returns None if the book has all that
    `deployment_of` needs."""
    listed = {each.contract for each in network.code}
    return next((name for name, where in _named(network) if where not in listed), None)


def _named(network: Network) -> list[tuple[str, Address]]:
    named = [(name, getattr(network.addresses, field)) for name, field in CONTRACTS.items()]
    return named + [(TREE, pool.tree) for pool in network.pools]


def is_complete(deployment: CapsuleDeployment) -> bool:
    """Returns whether a deployment has every contract once, in order, and at least one stake tree after them."""
    names = [each.name for each in deployment.contracts]
    addresses = {each.address for each in deployment.contracts}
    wanted = [*CONTRACTS, *[TREE] * (len(names) - len(CONTRACTS))]
    return len(names) > len(CONTRACTS) and names == wanted and len(addresses) == len(names)


def address_in(deployment: CapsuleDeployment, name: str) -> Address:
    """Returns the address of a contract of `CONTRACTS`."""
    return next(each.address for each in deployment.contracts if each.name == name)


def domain_of(deployment: CapsuleDeployment, name: str) -> Domain:
    """Returns the EIP-712 domain of a contract of `CONTRACTS`."""
    return Domain(deployment.chain_id, address_in(deployment, name))


ReadWord = Callable[[Address, int], bytes]
"""A function that returns the 32-byte word in a storage slot of a contract."""

NOBODY = 0xFFFF
"""Place number of a seat that nobody has (`SeatsLib.NOBODY`)."""

MAX_ROUNDS = 13
"""Upper bound for the rounds of a dispute: more than any dispute can have (`ParamLaw.MAX_RERUNS` and three levels)."""

_SEATS_PER_WORD = 16
_OPEN, _ANCHOR = 1, 3
"""Values of `IDemands.State` and `IDemands.Kind`."""


class Batch(NamedTuple):
    """The batch of the receipt, as the contract stores it (`ReceiptAnchor.Stored`, and `Service` for environment, model and key
    epoch)."""

    operator: Address
    """The operator that posted the batch."""
    first_seq: int
    """Number of the first receipt."""
    size: int
    """Number of receipts; 0 if the chain has no such batch."""
    anchored_at: int
    """Time of the block that anchored the batch, in Unix seconds of chain time."""
    block: int
    """Number of the block that anchored the batch."""
    params_version: int
    """Version of the parameters that apply to the batch."""
    is_void: bool
    """Whether the batch is void, because nobody could read its list."""
    root: Digest
    """Merkle root of the batch."""
    environment: Digest
    """Digest of the environment."""
    model_id: Digest
    """Model id of the answers."""
    key_epoch: int
    """Number of the key epoch to which the envelopes are sealed."""


class Case(NamedTuple):
    """The dispute about the receipt, as the contract stores it (`Disputes.Case`)."""

    phase: Phase
    """Phase of the dispute; NONE if nobody disputed the receipt."""
    verdict: Verdict
    """The verdict that stands; NONE before the first."""
    appealed: Verdict
    """The verdict that was appealed; NONE if none was."""
    decided_in: int
    """Number of the round whose verdict stands; 0 before the first verdict."""
    rounds: int
    """Number of rounds that have begun."""
    is_mixed: bool
    """Whether seats of the leading fault were counted, too, to reach the quorum of an UNAVAILABLE verdict."""
    batch_id: int
    """Number of the receipt's batch."""
    challenger: Address
    """The account that opened the dispute."""
    claim: Digest
    """Hash over the tokens hash and the out_hash of the receipt."""


class CommitteeMember(NamedTuple):
    """A member of a committee."""

    voter: Address
    """Account of the member."""
    mask: int
    """Bit mask of the member's seats: bit i is set for seat i."""
    word: Digest
    """Hash of the vote's content (`VoteContent.group`) if the member revealed directly; else its commitment, or zero."""


class Tally(NamedTuple):
    """Numbers of seats of a round by their result, as the contract counted them (`TallyLib`)."""

    equal: int
    """Seats of the largest group that found the claimed answer."""
    lead: int
    """Seats of the largest other group that found an answer or a defect, the leading fault."""
    unavailable: int
    """Seats that could not fetch the envelope."""
    no_key: int
    """Seats that got no key."""
    cannot_execute: int
    """Seats that could not run the request."""


class Round(NamedTuple):
    """A drawn round, as the contract stores it (`RoundStore.RoundData`)."""

    number: int
    """Number of the round, from 1."""
    seats: int
    """Number of seats."""
    quorum: int
    """Number of equal seats that a verdict needs."""
    is_settled: bool
    """Whether the contract has counted the round."""
    tally: Tally
    """Seats by result."""
    lead: tuple[int, int, Digest]
    """Outcome, code and out_hash of the leading fault."""
    opened: int
    """Bit mask of the seats whose members revealed directly."""
    certified: int
    """Bit mask of the seats for which a certificate counts."""
    certified_group: Digest
    """Hash of the certificate's content; zero without a certificate."""
    members: tuple[CommitteeMember, ...]
    """The members in the order of their first seats."""


class Facts(NamedTuple):
    """Everything that the contracts' state says about the receipt."""

    batch: Batch
    """The batch of the receipt."""
    case: Case
    """The dispute about the receipt."""
    rounds: tuple[Round, ...]
    """The drawn rounds of the dispute."""
    window_s: int
    """Length of the challenge window in seconds."""
    assurance: str
    """Label of the key epoch; empty if the chain has no such epoch."""
    shards: tuple[Address, ...]
    """Shards of the key epoch."""
    policy: Digest
    """Appraisal policy in force."""
    window_end: int
    """Last second in which the receipt can be questioned, on the protocol clock."""
    clock: int
    """Time of the protocol clock at the block."""
    is_demanded: bool
    """Whether an open demand stops the challenge window now."""

    @property
    def verdict(self) -> Verdict:
        """The final verdict. It is NONE if nobody disputed the receipt, or until the dispute is final."""
        return self.case.verdict if self.case.phase is Phase.FINAL else Verdict.NONE

    @property
    def open_reason(self) -> str:
        """Reason why the contract does not accept the receipt as final. Empty if it does (`ReceiptAnchor.isFinal`)."""
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
        """`out_hash` that replaces the claimed one; None unless the verdict is OVERTURNED (`Disputes._replacementOf`)."""
        if self.verdict is not Verdict.OVERTURNED:
            return None
        return next((each.lead[2] for each in self.rounds if each.number == self.case.decided_in), None)

    @property
    def decided_in(self) -> int:
        """Round whose votes gave the final verdict; 0 if no round did."""
        return self.case.decided_in if self.verdict in {Verdict.UPHELD, *CONVICTIONS} else 0


class Storage:
    """Storage variables of a deployment's contracts, read by name."""

    def __init__(self, deployment: CapsuleDeployment, timestamp: int, read_word: ReadWord) -> None:
        """`timestamp` is the Unix second of the block whose words `read_word` gives."""
        self.deployment = deployment
        self.timestamp = timestamp
        self._read_word = read_word

    def get(self, contract: str, variable: str, *steps: Any, at: Address | None = None) -> Any:
        """Returns the value of a variable of the contract with name `contract`.

        If the variable is a mapping, array or struct, `steps` are the keys, indices and member names that select one value in
        it (`Layout.place`). `at` is the contract's address. It is needed only for a stake tree, because all trees have one name.
        """
        found = layout(contract)
        place = found.place(variable, *steps)
        return found.decode(place, self._read_word(at or address_in(self.deployment, contract), place.slot))


def read_facts(storage: Storage, dispute: Digest, receipt_id: Digest, batch_id: int) -> Facts:
    """Reads all facts about a receipt. Raises `MalformedValue` or `ValueError` if the state has values that our contracts never
    write."""
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
    """Reads the batch, and the number of its service."""

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
    """Reads the dispute, and the stake tree of its committees."""

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
    """Reads one drawn round with its members."""

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
    """Yields the members of a round in the order of their first seats. Seats that nobody has are left out."""
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
    """Computes `Guardian.clock` at the time of the block."""
    start, until, before = (storage.get("Guardian", "_last", name) for name in ("from", "until", "stoppedBefore"))
    now = storage.timestamp
    return int(start - before if now < until else now - (before + until - start))


def _window_end(storage: Storage, batch_id: int, service: int, window: int, clock: int) -> int:
    """Computes `ReceiptAnchor._undemandedEnd`: the end of the challenge window without the time of demands."""
    pool = storage.get("ReceiptAnchor", "_services", service, "pool")
    since, stopped = (storage.get("Registry", "_pools", pool, name) for name in ("stoppedSince", "stopped"))
    stopped += clock - since if since else 0
    start, before = (storage.get("ReceiptAnchor", "_batches", batch_id, name) for name in ("startedAt", "stoppedAtStart"))
    return int(start + window + stopped - before)


def _demand_pause(storage: Storage, clock: int, batch_id: int, receipt_id: Digest) -> tuple[int, bool]:
    """Computes `Demands.heldFor`: the seconds for which demands stopped the window, and whether a demand stops it now."""
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
