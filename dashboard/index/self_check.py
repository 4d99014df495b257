"""The self-check: compares the index with the contracts' own views at the same block. Each difference names the row of the
index.

If an event is missing, repeated or wrong, the comparison finds that only through a view that shows the effect of the event. No
view lists all light audits, all certificate keys or all demands for envelopes. So the comparison covers only those of them that
the index knows (ADR-053).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from bytewise.protocol.court.phases import Phase
from bytewise.storage.index.reader import IndexSnapshot, Row
from bytewise.storage.index.tables import (
    AuditFact,
    BatchFact,
    CreditFact,
    DemandFact,
    DisputeFact,
    Fact,
    ItemFact,
    KeyEpochFact,
    LedgerFact,
    OperatorFact,
    PlaceFact,
    PoolFact,
    RoundFact,
    SeatFact,
    SettingFact,
    StakeFact,
    VerifierFact,
    VoteFact,
)
from dashboard.index.fold import plain
from dashboard.index.money import BURNED, CREDITS, POTS, TREASURY, is_lapsed
from dashboard.index.receipts import BatchWindows
from dashboard.index.registry import NO_END, clock_at

PER_CALL = 25
"""Most disputes, batches or accounts for which one view call asks."""
MOST_DIFFERENCES = 20
_OF_DISPUTES = (
    *(("Disputes", name) for name in ("SeedNamed", "SeatsDrawn", "CommitOpened", "Settled", "Decided", "Finalized")),
    ("Rounds", "Committed"), ("Rounds", "Revealed"), ("Settlement", "Ended"), ("Settlement", "Paid"),
)  # fmt: skip
"""Events whose first argument is the id of a dispute."""


class StateSource(Protocol):
    """Interface to the contracts' views at one block. The self-check reads them. A struct is a mapping with the names of the
    contract."""

    def view(self, contract: str, function: str, *arguments: Any) -> Any:
        """Returns the result of a contract's view function."""
        ...

    def view_at(self, address: str, contract: str, function: str, *arguments: Any) -> Any:
        """Returns the result of a view function of the contract at `address`. It is for stake trees, because a network has
        several of them."""
        ...

    def views(self, calls: Sequence[tuple[str, str, tuple[Any, ...]]]) -> list[Any]:
        """Returns the results of several view calls, each as (contract, function, arguments), in one round trip."""
        ...


def differences(state: StateSource, index: IndexSnapshot) -> list[str]:
    """Returns one line for each difference between index and contracts, but at most `MOST_DIFFERENCES` lines. `state` and `index`
    must be at one block."""
    found: list[str] = []
    for check in (_totals, _disputes, _batches, _demands, _accounts, _verifiers, _items, _epochs, _audits):
        for line in check(state, index):
            found.append(line)
            if len(found) == MOST_DIFFERENCES:
                return found
    return found


def differences_of(state: StateSource, index: IndexSnapshot, table: type[Fact], keys: Sequence[tuple[Any, ...]]) -> list[str]:
    """Compares rows of one table with the contracts, and returns one line for each difference. `table` holds disputes, batches,
    demands or audits, and `keys` name the rows. `state` and `index` must be at one block."""
    compare = {DisputeFact: _disputes_of, BatchFact: _batches_of, DemandFact: _demands_of, AuditFact: _audits_of}[table]
    found = [(key, index.find(table, *key)) for key in keys]
    missing = [f"{table.__tablename__} {plain(list(key))}: is not in the index" for key, row in found if row is None]
    return [*missing, *compare(state, index, [row for _, row in found if row is not None])]


def _differ(row: str, pairs: Mapping[str, tuple[Any, Any]]) -> Iterator[str]:
    for name, (ours, theirs) in pairs.items():
        if ours != theirs:
            yield f"{row}: {name} is {plain(ours)} in the index, {plain(theirs)} on the chain"


def _totals(state: StateSource, index: IndexSnapshot) -> Iterator[str]:
    seen = state.view("Lens", "snapshot", "0x" + "0" * 40, [])
    money = state.view("Lens", "money")
    at = index.state()
    ledger = {row["name"]: row["amount"] for row in index.all(LedgerFact)}
    params, policy = (index.find(SettingFact, name) for name in ("params", "policy"))
    yield from _differ(
        "network",
        {
            "protocol clock": (clock_at(index.find(SettingFact, "clock"), at.timestamp), seen["clock"]),
            "parameter version": (params["version"] if params else 0, seen["paramsVersion"]),
            "number of batches": (index.count(BatchFact), seen["batchCount"]),
            "policy serial": (policy["version"] if policy else 0, seen["policySerial"]),
            "pots": (ledger.get(POTS, 0), money["totalPots"]),
            "credits": (ledger.get(CREDITS, 0), money["totalCredits"]),
            "treasury": (ledger.get(TREASURY, 0), money["treasury"]),
            "burned": (ledger.get(BURNED, 0), money["totalBurned"]),
            "stake": (sum(row["active"] for row in index.all(StakeFact)), money["totalStake"]),
        },
    )


def _disputes(state: StateSource, index: IndexSnapshot) -> Iterator[str]:
    known = {f"0x{row['id'].hex()}" for row in index.all(DisputeFact)}
    for missing in sorted(index.subjects(_OF_DISPUTES) - known):
        yield f"dispute {missing}: is not in the index, and an event names it"
    yield from _disputes_of(state, index, index.all(DisputeFact))


def _disputes_of(state: StateSource, index: IndexSnapshot, rows: Sequence[Row]) -> Iterator[str]:
    for page in _pages(rows):
        for row, view in zip(page, state.view("Lens", "disputes", [row["id"] for row in page]), strict=True):
            yield from _dispute(index, row, view)


def _dispute(index: IndexSnapshot, row: Row, view: Mapping[str, Any]) -> Iterator[str]:
    name, d, account = f"dispute 0x{row['id'].hex()}", view["dispute"], view["account"]
    if view["phase"] == Phase.NONE:
        yield f"{name}: the chain has no such dispute"
        return
    amounts = {
        each: (row[each], account[camel])
        for each, camel in (
            ("advanced", "advanced"), ("operator_locked", "operatorLocked"), ("slashed", "slashed"),
            ("penalties", "penalties"), ("burned", "burned"),
            ("to_challenger", "toChallenger"), ("to_operator", "toOperator"), ("to_verifiers", "toVerifiers"),
        )
        if row["ended"] or each in ("advanced", "operator_locked")
    }  # fmt: skip
    yield from _differ(
        name,
        {
            "phase": (row["phase"], d["phase"]), "level": (row["level"], d["level"]), "round": (row["round"], d["round"]),
            "verdict": (row["verdict"], d["verdict"]), "operator": (row["operator"], d["operator"]),
            "challenger": (row["challenger"], d["challenger"]), "batch": (row["batch_id"], d["batchId"]),
            "environment": (row["environment"], d["environment"]), "parameters": (row["params_version"], d["paramsVersion"]),
            "airgap end": (row["airgap_end"], d["airgapEnd"]), "knew": (row["knew"], view["knew"]),
            "ended": (row["ended"], account["ended"]), "paid": (row["paid"], account["paid"]),
            "appealed": (row["appellant"] is not None, d["appealed"]), "replacement": (row["replacement"] or bytes(32),
            d["replacement"] if d["phase"] == Phase.FINAL else row["replacement"] or bytes(32)), **amounts,
        },
    )  # fmt: skip
    yield from _round(index, row, view)


def _round(index: IndexSnapshot, row: Row, view: Mapping[str, Any]) -> Iterator[str]:
    """Compares the newest round with its members and their votes. Of earlier rounds it compares only how many seats are
    settled."""
    number, r = row["round"], view["round"]
    name = f"dispute 0x{row['id'].hex()}, round {number}"
    mine = index.find(RoundFact, row["id"], number)
    if mine is None:
        yield f"{name}: is not in the index"
        return
    drawn = mine["drawn"] == mine["seats"]
    yield from _differ(
        name,
        {
            "level": (mine["level"], r["level"]),
            "seats": (mine["seats"], r["seats"] or mine["seats"]),
            "drawn seats": (mine["drawn"], r["drawn"]),
            "settled": (mine["settled"], r["settled"]),
            "committed": (mine["committed"], r["committedMask"].bit_count()),
            "revealed": (mine["revealed"] + mine["certified"], r["revealedMask"].bit_count()),
            "commit end": (mine["commit_end"], r["commitEnd"]) if drawn else (0, 0),
        },
    )
    masks: dict[str, int] = {}
    for seat in index.all(SeatFact, dispute=row["id"], round=number):
        if seat["voter"]:
            masks[seat["voter"]] = masks.get(seat["voter"], 0) | 1 << seat["seat"]
    theirs = {each["voter"]: each["seatMask"] for each in view["members"]}
    yield from _differ(name, {f"seats of {who}": (masks.get(who), theirs.get(who)) for who in {*masks, *theirs}})
    for each in view["members"]:
        vote = index.find(VoteFact, row["id"], number, each["voter"])
        said = bool(vote and vote["revealed_block"])
        yield from _differ(f"{name}, {each['voter']}", {"revealed": (said, any(each["group"]))})
    paid = [index.find(RoundFact, row["id"], place) for place in range(1, number + 1)]
    ours = [each["paid_seats"] if each else None for each in paid]
    yield from _differ(name, {"settled seats": (ours, [each["settled"] for each in view["rounds"]])})


def _batches(state: StateSource, index: IndexSnapshot) -> Iterator[str]:
    known, windows = {row["id"]: row for row in index.all(BatchFact)}, BatchWindows(index)
    count, start = int(state.view("ReceiptAnchor", "batchCount")), 0
    while start < count:
        for view in state.view("Lens", "batches", start, PER_CALL):
            mine = known.get(view["id"])
            if mine is None:
                yield f"batch {view['id']}: is not in the index"
                continue
            yield from _batch(mine, view, windows)
        start += PER_CALL


def _batches_of(state: StateSource, index: IndexSnapshot, rows: Sequence[Row]) -> Iterator[str]:
    windows = BatchWindows(index)
    for row, (view,) in zip(rows, state.views([("Lens", "batches", (row["id"], 1)) for row in rows]), strict=True):
        yield from _batch(row, view, windows)


def _batch(mine: Row, view: Mapping[str, Any], windows: BatchWindows) -> Iterator[str]:
    names = {"operator": "operator", "first_seq": "firstSeq", "receipts": "count", "root": "root", "is_void": "isVoid",
             "released": "released", "params_version": "paramsVersion", "started_at": "startedAt"}  # fmt: skip
    pairs = {ours: (mine[ours], view["batch"][theirs]) for ours, theirs in names.items()}
    yield from _differ(f"batch {mine['id']}", pairs | {"window end": (windows.end(mine), view["windowEnd"])})


def _demands(state: StateSource, index: IndexSnapshot) -> Iterator[str]:
    yield from _demands_of(state, index, index.all(DemandFact))


def _demands_of(state: StateSource, index: IndexSnapshot, rows: Sequence[Row]) -> Iterator[str]:
    for page in _pages(rows):
        for row, view in zip(page, state.view("Lens", "demands", [row["subject"] for row in page]), strict=True):
            names = {"state": "state", "operator": "operator", "opened_at": "openedAt", "deadline": "deadline"}
            pairs = {ours: (row[ours], view[theirs]) for ours, theirs in names.items()}
            yield from _differ(f"demand 0x{row['subject'].hex()}", pairs)


def record_life(state: StateSource, index: IndexSnapshot) -> int | None:
    """Returns the number of blocks for which a record of stake at EigenLayer counts (`EigenLayerStake.stakeOf`). Returns None if
    the index has no such record. Returns -1 if no record counts. This is so when, under the present parameters, a dispute may
    last longer than the stake stays slashable."""
    if not any(row["synced_block"] is not None for row in index.all(StakeFact)):
        return None
    if state.view("Params", "longestLive") > state.view("EigenLayerStake", "LONGEST"):
        return -1
    return int(state.view("EigenLayerStake", "MAX_AGE"))


def _counted_stakes(state: StateSource, index: IndexSnapshot) -> dict[str, int]:
    """Returns the stake that counts by account, in wei. Lapsed records count as zero here, because no event reports that a
    record has lapsed."""
    life, number = record_life(state, index), index.state().number
    return {row["account"]: 0 if is_lapsed(row, life, number) else row["active"] for row in index.all(StakeFact)}


def _accounts(state: StateSource, index: IndexSnapshot) -> Iterator[str]:
    stakes = {row["account"]: row for row in index.all(StakeFact)}
    counted = _counted_stakes(state, index)
    owed = {row["account"]: row for row in index.all(CreditFact)}
    operators = {row["account"]: row for row in index.all(OperatorFact)}
    for page in _pages(sorted({*stakes, *owed, *operators})):
        views = state.views([("Lens", "accountView", (who,)) for who in page])
        for who, view in zip(page, views, strict=True):
            stake, credit, operator = stakes.get(who), owed.get(who), operators.get(who)
            until = 0 if operator is None else operator["suspended_until"] or NO_END
            yield from _differ(
                f"account {who}",
                {
                    "stake": (counted.get(who, 0), view["stake"]),
                    "locked stake": (stake["locked"] if stake else 0, view["locked"]),
                    "collateral": (stake["collateral"] if stake else 0, view["collateral"]),
                    "credit": (credit["owed"] if credit else 0, view["credit"]),
                    "operator until": (until, view["operatorUntil"]),
                },
            )


def _verifiers(state: StateSource, index: IndexSnapshot) -> Iterator[str]:
    known = {row["digest"] for row in index.all(PoolFact)}
    named = {row["pool"] for table in (VerifierFact, ItemFact) for row in index.all(table)} - {None}
    for missing in sorted(named - known):
        yield f"pool 0x{missing.hex()}: is not in the index, and verifiers or environments name it"
    for pool in index.all(PoolFact):
        places = {row["place"]: row for row in index.all(PlaceFact, tree=pool["tree"])}
        coming = state.view_at(pool["tree"], "StakeTree", "epoch") + 1
        start, views = 0, [None]
        while views:
            views = state.view("Lens", "verifiers", pool["digest"], start, PER_CALL)
            for view in views:
                units = state.view_at(pool["tree"], "StakeTree", "unitsAt", view["account"], coming)
                mine = places.get(view["place"])
                joined = index.find(VerifierFact, view["account"])
                yield from _differ(
                    f"place {view['place']} of pool 0x{pool['digest'].hex()[:8]}",
                    {
                        "account": (mine["account"] if mine else None, view["account"]),
                        "units": (mine["units"] if mine else None, units),
                        "pool": ((joined["pool"] if joined else None) or bytes(32), view["verifier"]["pool"]),
                    },
                )
            start += PER_CALL
            views = views if len(views) == PER_CALL else []


def _items(state: StateSource, index: IndexSnapshot) -> Iterator[str]:
    for page in _pages(index.all(ItemFact)):
        views = state.views([("Registry", "item", (row["digest"],)) for row in page])
        for row, view in zip(page, views, strict=True):
            pairs = {name: (row[name], view[name]) for name in ("status", "certified")}
            pairs |= {name: (row[name] or bytes(32), view[name]) for name in ("pool", "vectors")}
            yield from _differ(f"item 0x{row['digest'].hex()}", pairs)


def _epochs(state: StateSource, index: IndexSnapshot) -> Iterator[str]:
    rows = index.all(KeyEpochFact)
    named = {*index.count_by(BatchFact, "key_epoch"), state.view("KeyEpochs", "activeEpoch")} - {0}
    for missing in sorted(named - {row["epoch"] for row in rows}):
        yield f"key epoch {missing}: is not in the index"
    for row, view in zip(rows, state.views([("KeyEpochs", "epochInfo", (row["epoch"],)) for row in rows]), strict=True):
        pairs = {name: (row[name], view[name]) for name in ("state", "threshold", "version")}
        yield from _differ(f"key epoch {row['epoch']}", pairs | {"shards": (list(row["shards"]), list(view["shards"]))})


def _audits(state: StateSource, index: IndexSnapshot) -> Iterator[str]:
    yield from _audits_of(state, index, index.all(AuditFact))


def _audits_of(state: StateSource, index: IndexSnapshot, rows: Sequence[Row]) -> Iterator[str]:
    for page in _pages(rows):
        views = state.views([("Audits", "audit", (row["receipt_id"], row["verifier"])) for row in page])
        for row, view in zip(page, views, strict=True):
            name = f"audit of 0x{row['receipt_id'].hex()} by {row['verifier']}"
            pairs = {"result": (row["result"], view["result"]), "opened": (row["out_hash"] or bytes(32), view["outHash"])}
            pairs |= {"batch": (row["batch_id"], view["batchId"])}
            yield from _differ(name, pairs)


def _pages(rows: Sequence[Any]) -> Iterator[Sequence[Any]]:
    return (rows[start : start + PER_CALL] for start in range(0, len(rows), PER_CALL))
