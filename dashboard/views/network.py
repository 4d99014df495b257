"""Builds the records of the whole network: statistics, rules, environments, models, keys and money."""

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bytewise.protocol.court.params import Committee, Durations, RewardShares
from bytewise.protocol.court.params import Money as MoneyParams
from bytewise.protocol.court.phases import Phase
from bytewise.protocol.court.settlement import CONVICTIONS
from bytewise.protocol.encoding import verify_depth
from bytewise.protocol.errors.records import TooLarge
from bytewise.protocol.records.statements import Verdict
from bytewise.protocol.signing import camel
from bytewise.protocol.units import hex0x
from bytewise.service.settings import field_texts
from bytewise.storage.index.reader import Row
from bytewise.storage.index.tables import (
    AuditFact,
    BatchFact,
    CreditFact,
    DemandFact,
    DisputeFact,
    ItemFact,
    KeyEpochFact,
    LedgerFact,
    OperatorFact,
    PoolFact,
    ProposalFact,
    SettingFact,
    StakeFact,
    VerifierFact,
)
from dashboard.index.money import BURNED, CREDITS, FUNDED, POTS, SEAT_PENALTY, TREASURY
from dashboard.views.disputes import open_disputes, summaries
from dashboard.views.records import (
    Amount,
    FinalityState,
    Party,
    Record,
    Time,
)
from dashboard.views.scene import Scene, amount, hex_or_none, newest, time_of
from dashboard.views.words import ASSURANCES, AUDIT_RESULTS, EPOCH_STATES, ITEM_STATES

# --- records ---


class ItemSummary(Record):
    """An environment or a model."""

    digest: str
    kind: str
    """Kind of item: `environment` or `model`."""
    status: str
    pool: str | None
    certified_units: int
    vectors: str | None
    held: bool
    """Whether the breaker holds convictions in this environment."""
    tripped: int
    batches: int
    title: str
    """A few words from the document of the item. They are not checked against the digest."""
    finality: FinalityState


class KeyEpochSummary(Record):
    """A key epoch."""

    epoch: int
    state: str
    assurance: str
    threshold: int
    shards: tuple[Party, ...]
    version: int
    """Version of the shares. It rises each time that new shares of the key are dealt."""
    confirmed: bool
    policy_digest: str
    public_key: str
    opened_block: int
    batches: int
    finality: FinalityState


class ParameterLine(Record):
    """One parameter in force."""

    group: str
    name: str
    value: str
    unit: str
    previous: str | None
    """Value before the last change of this parameter; None if it never changed."""
    since_block: int
    meaning: str


class ParameterVersion(Record):
    """A version of all parameters, and the blocks in which it is or was in force."""

    version: int
    valid_from: int
    valid_to: int | None
    finality: FinalityState


class ProposalSummary(Record):
    """A governance proposal, or an operation that a timelock delays."""

    kind: str
    """`vote` for a governance proposal. For an operation that a timelock delays, the timelock's address."""
    id: str
    state: str
    """`voting`, `defeated`, `queued`, `scheduled`, `executed`, `cancelled`; or `ended: …` if a vote ended with a majority and
    nobody queued the proposal."""
    text: str
    proposed_block: int
    ready_at: Time | None
    calls: int
    votes_for: str
    votes_against: str
    finality: FinalityState


class Parameters(Record):
    """The rules of the network."""

    version: int
    in_force: tuple[ParameterLine, ...]
    versions: tuple[ParameterVersion, ...]
    fee_price: Amount | None
    policy_serial: int
    policy_digest: str | None
    paused_until: Time | None
    proposals: tuple[ProposalSummary, ...]


class MoneyFlow(Record):
    """Sum of all money that moved for one reason."""

    label: str
    amount: Amount


class MoneyReport(Record):
    """The money of the network, by the place where it is. Stake that is being withdrawn is not counted."""

    stake: Amount
    pots: Amount
    credits: Amount
    treasury: Amount
    burned: Amount
    taken: tuple[MoneyFlow, ...]
    credited: tuple[MoneyFlow, ...]
    burned_by_reason: tuple[MoneyFlow, ...]
    sums: bool
    """Whether all money that came into the ledger equals the money in it and the money that left it."""


class Statistics(Record):
    """Counts of everything in the index."""

    disputes: int
    open_disputes: int
    verdicts: dict[str, int]
    phases: dict[str, int]
    batches: int
    receipts: int
    last_batch: Time | None
    demands_open: int
    demands_expired: int
    audits: int
    audit_results: dict[str, int]
    operators: int
    suspended_operators: int
    verifiers: int
    environments_active: int
    models_active: int
    held_environments: int
    stopped_pools: int
    key_epochs_active: int
    convictions_24h: int
    convictions_30d: int
    demands_24h: int
    audits_24h: int
    slashed: Amount
    burned: Amount


# --- statistics ---

DAY_S = 86_400
TITLE_CHARACTERS = 80


def statistics(scene: Scene) -> Statistics:
    """Returns counts of everything in the index."""
    index = scene.index
    rows = index.all(DisputeFact)
    phases: dict[str, int] = {}
    for each in summaries(scene, open_disputes(scene)):
        phases[each.phase] = phases.get(each.phase, 0) + 1
    verdicts: dict[str, int] = {}
    for row in rows:
        if row["phase"] == Phase.FINAL:
            name = Verdict(row["verdict"]).name.lower()
            verdicts[name] = verdicts.get(name, 0) + 1
    batches, asked, ledger = index.all(BatchFact), index.count_by(DemandFact, "state"), _ledger(scene)
    items = index.all(ItemFact)
    active = [row["pool"] is not None for row in items if row["status"] == 2]
    results = {AUDIT_RESULTS.get(code, str(code)): count for code, count in index.count_by(AuditFact, "result").items()}
    return Statistics(
        disputes=len(rows), open_disputes=sum(phases.values()), verdicts=verdicts, phases=phases, batches=len(batches),
        receipts=sum(row["receipts"] for row in batches),
        last_batch=time_of(max(row["anchored_at"] for row in batches)) if batches else None, demands_open=asked.get(1, 0),
        demands_expired=asked.get(3, 0), audits=sum(results.values()), audit_results=results,
        operators=index.count(OperatorFact),
        suspended_operators=sum(row["suspended_until"] is not None for row in index.all(OperatorFact)),
        verifiers=sum(row["pool"] is not None for row in index.all(VerifierFact)), environments_active=sum(active),
        models_active=len(active) - sum(active), held_environments=sum(row["held"] for row in items),
        stopped_pools=sum(row["stopped_since"] is not None for row in index.all(PoolFact)),
        key_epochs_active=index.count(KeyEpochFact, state=2),
        slashed=amount(sum(row["slashed"] for row in index.all(StakeFact))), burned=amount(ledger.get(BURNED, 0)),
        **_recent(scene, rows),
    )  # fmt: skip


def _recent(scene: Scene, disputes: Sequence[Row]) -> dict[str, int]:
    # A dispute that is paid out later changes again.
    ended = scene.index.since(DisputeFact, ended=True)
    convicted = [ended[row["id"],] for row in disputes if row["ended"] and Verdict(row["verdict"]) in CONVICTIONS]
    asked = [row["opened_block"] for row in scene.index.all(DemandFact)]
    checked = [row["posted_block"] for row in scene.index.all(AuditFact)]
    times = scene.index.block_times([*convicted, *asked, *checked])

    def within(blocks: Sequence[int], seconds: int) -> int:
        return sum(scene.state.timestamp - times.get(block, 0) <= seconds for block in blocks)

    return {
        "convictions_24h": within(convicted, DAY_S), "convictions_30d": within(convicted, 30 * DAY_S),
        "demands_24h": within(asked, DAY_S), "audits_24h": within(checked, DAY_S),
    }  # fmt: skip


def alarms(scene: Scene, told: Statistics, overdue: int) -> Iterator[str]:
    """Yields a sentence for each thing that is wrong now. `overdue` is the number of demands that are past their deadline."""
    meta = scene.meta()
    if meta.differences:
        yield f"This index differs from the contracts in {len(meta.differences)} places. Do not rely on it."
    if scene.paused_until is not None:
        until = scene.paused_until.utc
        yield (
            f"The guardian has paused the network until {until}. Nobody can withdraw credits, no deadline passes, and only the "
            "guardian can end a dispute."
        )
    if told.held_environments:
        yield f"The breaker holds convictions in {told.held_environments} environments until the curator has looked."
    if told.stopped_pools:
        yield f"{told.stopped_pools} pools of verifiers are too small to judge. Open windows stand still."
    if told.suspended_operators:
        yield f"{told.suspended_operators} operators are suspended."
    if overdue:
        yield f"{overdue} demands are past their deadline. Anybody may have them expire."


# --- money ---


def _ledger(scene: Scene) -> dict[str, int]:
    return {row["name"]: row["amount"] for row in scene.index.all(LedgerFact)}


def money(scene: Scene) -> MoneyReport:
    """Returns the money of the network by the place where it is. It does not count stake that is being withdrawn."""
    ledger = _ledger(scene)
    inside = sum(ledger.get(name, 0) for name in (POTS, CREDITS, TREASURY, BURNED))
    came = sum(value for name, value in ledger.items() if name.startswith("taken: ")) + ledger.get(FUNDED, 0)
    left = sum(row["withdrawn"] for row in scene.index.all(CreditFact))
    shown = _with_seat_penalties(ledger)
    return MoneyReport(
        stake=amount(sum(row["active"] for row in scene.index.all(StakeFact))), pots=amount(ledger.get(POTS, 0)),
        credits=amount(ledger.get(CREDITS, 0)), treasury=amount(ledger.get(TREASURY, 0)), burned=amount(ledger.get(BURNED, 0)),
        taken=_flows(shown, "taken"), credited=_flows(shown, "credited"), burned_by_reason=_flows(shown, "burned"),
        sums=came == inside + left,
    )  # fmt: skip


def _with_seat_penalties(ledger: Mapping[str, int]) -> dict[str, int]:
    """Returns the sums of the ledger, with a sum of its own for penalties of seats.

    The ledger takes such a penalty with the code of a slash, and burns all of it as `penalty`. If EigenLayer pays a penalty late,
    the penalty counts as a slash until it is burned.
    """
    shown = dict(ledger)
    penalties = shown.pop("burned: penalty", 0)
    if not penalties:
        return shown
    slashes = shown.pop("taken: slash", 0) - penalties
    shown |= {f"taken: {SEAT_PENALTY}": penalties, f"burned: {SEAT_PENALTY}": penalties}
    return shown | ({"taken: slash": slashes} if slashes else {})


def _flows(ledger: Mapping[str, int], what: str) -> tuple[MoneyFlow, ...]:
    start = f"{what}: "
    return tuple(
        MoneyFlow(label=name.removeprefix(start), amount=amount(value))
        for name, value in sorted(ledger.items())
        if name.startswith(start)
    )


# --- rules ---

_GROUPS = (("times", Durations), ("committee", Committee), ("money", MoneyParams), ("shares", RewardShares))
_UNITS = {"times": "s", "money": "ETH"}


def parameters(scene: Scene) -> Parameters:
    """Returns the rules in force, with their earlier values, and all proposals."""
    index = scene.index
    history = index.history(SettingFact, "params")
    price, policy = index.find(SettingFact, "fee_price"), index.find(SettingFact, "policy")
    proposals = index.all(ProposalFact)
    return Parameters(
        version=history[-1]["version"] if history else 0, in_force=tuple(_lines(history)),
        versions=tuple(
            ParameterVersion(
                version=row["version"], valid_from=row["valid_from"], valid_to=row["valid_to"],
                finality=scene.finality(row["valid_from"]),
            )
            for row in history
        ),
        fee_price=amount(int(price["content"]["price"])) if price else None, policy_serial=policy["version"] if policy else 0,
        policy_digest=policy["content"]["digest"] if policy else None, paused_until=scene.paused_until,
        proposals=tuple(_proposal(scene, row) for row in sorted(proposals, key=lambda row: -row["proposed_block"])),
    )  # fmt: skip


def _lines(history: Sequence[Row]) -> Iterator[ParameterLine]:
    if not history:
        return
    for group, cls in _GROUPS:
        texts = field_texts(cls)
        for name in cls.__dataclass_fields__:
            values = [(row["content"][group][camel(name)], row["valid_from"]) for row in history]
            since = _since(values)
            earlier = [value for value, block in values if block < since]
            yield ParameterLine(
                group=group, name=name, value=_shown(group, name, values[-1][0]), unit=_unit(group, name),
                previous=_shown(group, name, earlier[-1]) if earlier else None, since_block=since, meaning=texts.get(name, ""),
            )  # fmt: skip


def _since(values: Sequence[tuple[Any, int]]) -> int:
    """Returns the block of the last change of a value. `values` are (value, first block), oldest first."""
    since = values[0][1]
    for (before, _), (after, block) in itertools.pairwise(values):
        since = block if after != before else since
    return since


def _unit(group: str, name: str) -> str:
    return "1/10,000" if name.endswith("_bps") else _UNITS.get(group, "")


def _shown(group: str, name: str, value: Any) -> str:
    if group == "money":
        return amount(int(value)).eth
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _proposal(scene: Scene, row: Row) -> ProposalSummary:
    return ProposalSummary(
        kind=row["kind"], id=row["id"], state=_state_of_proposal(scene, row), text=row["text"],
        proposed_block=row["proposed_block"], calls=len(row["targets"]), votes_for=str(row["votes_for"]),
        ready_at=time_of(row["ready_at"]) if row["ready_at"] else None, votes_against=str(row["votes_against"]),
        finality=scene.finality(newest(row)),
    )  # fmt: skip


def _state_of_proposal(scene: Scene, row: Row) -> str:
    """Returns the state of a proposal at the newest block. No event says that a vote is over, and the index does not know the
    quorum."""
    if row["state"] != "voting" or row["vote_end"] is None or scene.state.number <= row["vote_end"]:
        return str(row["state"])
    return "defeated" if row["votes_for"] <= row["votes_against"] else "ended: accepted if the votes reach the quorum"


# --- environments, models, keys ---


def items(scene: Scene, rows: Sequence[Row]) -> list[ItemSummary]:
    """Returns the records of environments and models."""
    used = {
        False: scene.index.count_by(BatchFact, "model_id"),
        True: scene.index.count_by(BatchFact, "environment"),
    }
    return [
        ItemSummary(
            digest=hex0x(row["digest"]), kind="model" if row["pool"] is None else "environment",
            status=ITEM_STATES.get(row["status"], str(row["status"])), pool=hex_or_none(row["pool"]),
            certified_units=row["certified"], vectors=hex_or_none(row["vectors"]), held=row["held"], tripped=row["tripped"],
            batches=used[row["pool"] is not None].get(row["digest"], 0), title=_title(row["document"]),
            finality=scene.finality(newest(row)),
        )
        for row in rows
    ]  # fmt: skip


def _title(document: bytes) -> str:
    """Returns a few words of a document that anybody may have proposed. Returns empty text if the document is not a JSON
    object, or if it is nested too deep to be parsed."""
    try:
        told = json.loads(verify_depth(document))
    except (ValueError, TooLarge):
        return ""
    if not isinstance(told, dict):
        return ""
    words = (told.get(name) for name in ("name", "family", "profile", "gpu_arch", "container", "precision"))
    shown = ", ".join(each for each in words if isinstance(each, str) and not each.startswith("0x"))
    return "".join(letter for letter in shown if letter.isprintable())[:TITLE_CHARACTERS]


def key_epochs(scene: Scene) -> list[KeyEpochSummary]:
    """Returns the records of all key epochs."""
    used = scene.index.count_by(BatchFact, "key_epoch")
    return [
        KeyEpochSummary(
            epoch=row["epoch"], state=EPOCH_STATES.get(row["state"], str(row["state"])),
            assurance=ASSURANCES.get(row["assurance"], "unknown"), threshold=row["threshold"],
            shards=tuple(scene.party(each) for each in row["shards"]), version=row["version"], confirmed=row["confirmed"],
            policy_digest=hex0x(row["policy_digest"]), public_key=hex0x(row["public_key"]), opened_block=row["opened_block"],
            batches=used.get(row["epoch"], 0), finality=scene.finality(newest(row)),
        )
        for row in scene.index.all(KeyEpochFact)
    ]  # fmt: skip
