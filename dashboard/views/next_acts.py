"""Lists the actions that are possible next in a dispute, each with its call. The list is a forecast, because only the contract
decides whether it accepts a call."""

from collections.abc import Iterator, Mapping, Sequence

from bytewise.protocol.court.phases import AT_ANY_TIME, Event, Phase
from bytewise.protocol.court.settlement import CONVICTIONS
from bytewise.protocol.digests import keccak256
from bytewise.protocol.records.statements import Verdict
from bytewise.protocol.units import hex0x
from bytewise.storage.index.reader import Row
from bytewise.storage.index.tables import ItemFact
from dashboard.views.records import NextAct
from dashboard.views.scene import Scene, amount

SEATS_PER_CALL = 16
SHARED = frozenset({Verdict.OVERTURNED, Verdict.INVALID})
"""Verdicts after which the challenger may get a share of the slash (`SplitLib`). It gets the share if it knew the answer."""


class _Case:
    """A dispute, and the facts on which its next actions depend."""

    def __init__(self, scene: Scene, row: Row, rounds: Sequence[Row], addresses: Mapping[str, str]) -> None:
        self.scene, self.row, self.rounds, self.addresses = scene, row, rounds, addresses
        self.current = next((each for each in rounds if each["round"] == row["round"]), None)
        self.params = scene.params(row["params_version"])
        self.running = scene.paused_until is None

    def act(
        self, title: str, who: str, contract: str, function: str, words: str, allowed: bool, event: Event | None,
        kinds: str = "bytes32", arguments: Sequence[int] = (), value: int = 0, complete: bool = True,
    ) -> NextAct:  # fmt: skip
        """Returns one action. The first argument of its call is the dispute; `arguments` are the further arguments, as whole
        numbers. `event` is None for a payment, because a pause does not stop payments."""
        allowed = allowed and (self.running or event is None or event in AT_ANY_TIME)
        where = self.addresses.get(contract, "")
        plain = " ".join(str(each) for each in arguments)
        id_ = hex0x(self.row["id"])
        command = f"bytewise chain call {contract} {function} {id_}{' ' + plain if plain else ''}"
        command += f" --value {value}" if value else ""
        data = keccak256(f"{function}({kinds})".encode())[:4] + self.row["id"]
        data += b"".join(each.to_bytes(32, "big") for each in arguments)
        return NextAct(
            title=title, who=who, function=f"{contract}.{function}", to=where, calldata=hex0x(data) if complete else None,
            value=amount(value), command=command if complete else None, words=words, allowed_now=allowed,
        )  # fmt: skip


def next_acts(scene: Scene, row: Row, rounds: Sequence[Row], phase: Phase, addresses: Mapping[str, str]) -> Iterator[NextAct]:
    """Yields the actions of the present phase of a dispute."""
    case = _Case(scene, row, rounds, addresses)
    makers = {
        Phase.SEED: _seed, Phase.DRAWING: _seed, Phase.COMMIT: _commit, Phase.REVEAL: _reveal, Phase.APPEAL: _appeal,
        Phase.AIRGAP: _airgap, Phase.FINAL: _final,
    }  # fmt: skip
    yield from makers[phase](case) if phase in makers else ()


def _seed(case: _Case) -> Iterator[NextAct]:
    seed = case.current["seed_block"] if case.current else 0
    mined = case.scene.state.number > seed
    yield case.act(
        "Draw seats", "anybody", "Disputes", "draw",
        f"Needs the header of block {seed}" + ("." if mined else ", which is not mined yet."), mined, Event.DRAW_SOME,
        complete=False,
    )  # fmt: skip
    yield case.act(
        "Name another seed", "anybody", "Disputes", "rearm",
        "Allowed if the seed can no longer be read, or its stake epoch is over; at most three times a round.", False,
        Event.REARM,
    )  # fmt: skip


def _commit(case: _Case) -> Iterator[NextAct]:
    yield case.act(
        "Commit", "a drawn member", "Rounds", "commit", "Each member once, for all of its seats, until the commit phase ends.",
        True, Event.COMMIT, complete=False,
    )  # fmt: skip


def _reveal(case: _Case) -> Iterator[NextAct]:
    current = case.current
    over = current is not None and (case.scene.clock > current["reveal_end"] or _all_open(current))
    yield case.act(
        "Open a vote", "anybody who knows it", "Rounds", "reveal", "Each vote once, until the reveal phase ends.", not over,
        Event.REVEAL, complete=False,
    )  # fmt: skip
    yield case.act(
        "Count the seats", "anybody", "Disputes", "settle", "Allowed once all votes are open, or the time is over.", over,
        Event.SETTLE_LAST,
    )  # fmt: skip


def _all_open(round_: Row) -> bool:
    """Returns whether no further vote can come (`RoundStore`). Under a commit root any seat may still reveal its vote."""
    shown = round_["revealed"] + round_["certified"]
    return bool(shown >= round_["seats"] or (not round_["rooted"] and shown >= round_["committed"]))


def _appeal(case: _Case) -> Iterator[NextAct]:
    level = case.row["level"]
    seats = case.params["committee"]["seats"][level] if case.params and level < 3 else 0
    bond = 2 * int(seats) * int(case.params["money"]["feePerSeat"]) if seats else 0
    yield case.act(
        "Appeal", "anybody", "Disputes", "appeal", f"Asks {seats} seats anew. The bond is lost if the verdict stays.", True,
        Event.APPEAL, value=bond,
    )  # fmt: skip
    yield from _show_knowledge(case)


def _show_knowledge(case: _Case) -> Iterator[NextAct]:
    if Verdict(case.row["verdict"]) in SHARED and not case.row["knew"]:
        yield case.act(
            "Show that the challenger knew", "anybody with the challenger's salt", "Disputes", "openAlt",
            "Opens the challenger's commitment; it then gets its share of the slash if the verdict stays.", True,
            Event.OPEN_ALT, complete=False,
        )  # fmt: skip


def _airgap(case: _Case) -> Iterator[NextAct]:
    item = case.scene.index.find(ItemFact, case.row["environment"])
    holds = bool(item and item["held"]) and Verdict(case.row["verdict"]) in CONVICTIONS
    over = case.scene.clock > case.row["airgap_end"]
    words = (
        "The breaker holds convictions in this environment until the curator has looked."
        if holds
        else ("Ends the dispute and splits its money.")
    )
    yield case.act("Finish", "anybody", "Disputes", "finalize", words, over and not holds, Event.FINALIZE)
    if not over:
        yield from _show_knowledge(case)


def _final(case: _Case) -> Iterator[NextAct]:
    if case.row["ended"] and not case.row["paid"]:
        yield case.act(
            "Pay bonds and shares", "anybody", "Settlement", "payOut", "Slashed stake has to arrive first.", True, None
        )
    for each in case.rounds:
        left = each["seats"] - each["paid_seats"]
        if left > 0 and each["drawn"] == each["seats"]:
            yield case.act(
                f"Pay seats of round {each['round']}", "anybody", "Settlement", "settleSeats",
                f"{left} seats of {each['seats']} are not paid or charged yet.", case.row["ended"], None,
                "bytes32,uint16,uint256", (each["round"], min(left, SEATS_PER_CALL)),
            )  # fmt: skip
