"""Computes the schedule of faults from a seed alone. Each fault names its target, so that checks know which actors could do
their duties."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cli.demo.plan import VERIFIERS

SPARED = ("eva", "eva-enclave", "shard3")
"""Actors that are never killed or paused, because their memory and descriptors are watched from start to end."""
MEMBERS = tuple(name for name in VERIFIERS if name not in SPARED)
QUORUM = ("ada", "ben", "watchtower")
"""Actors that read the chain from three endpoints, of which two must agree. Lying and stale endpoints are only injected for
them."""
ALL = "all"
"""Target of a fault that touches all actors."""

LONG_S = 6_000.0
"""Shortest length of a run, in seconds, in whose second half no fault ends a process. So every process lives long enough for a
check of its memory."""
PAUSE_S = (3.0, 8.0)
"""Shortest and longest time between the end of one fault and the start of the next, in seconds."""
SETTLE_S = 5.0
"""Seconds that an actor needs after the end of a fault that did not end its process."""
RESTART_S = 20.0
"""Seconds that a killed actor needs after its restart. It waits up to 10 s for the nonce lease of the killed process, imports its
modules, and makes a tick."""
SHALLOW = (1, 1, 2, 3, 5)
DEEP = (8, 16, 32, 64)
"""Depths of reorganisations, in blocks of one second. Every third pass over all kinds uses `DEEP`, the others `SHALLOW`."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of the schedule."""

    at_s: float
    """Seconds after the start of the run at which the fault begins."""
    kind: str
    """Kind of the fault, a key of `KINDS`."""
    target: str
    """Actor that the fault touches, or `ALL`."""
    for_s: float
    """Seconds for which the fault lasts."""
    value: float = 0.0
    """Depth of a reorganisation, or seconds of a lag or of a jump."""

    @property
    def recovery_s(self) -> float:
        """Seconds that the target may need after the end of the fault."""
        return RESTART_S if KINDS[self.kind].ends_process else SETTLE_S


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of fault."""

    targets: Sequence[str]
    """Actors that a fault of this kind may touch."""
    for_s: tuple[float, float]
    """Shortest and longest duration, in seconds."""
    values: Sequence[float] = (0.0,)
    """Possible values of `Fault.value`."""
    times: int = 1
    """Number of faults of this kind in one pass over all kinds."""
    ends_process: bool = False
    """Whether a fault of this kind ends a process."""
    needs: str = ""
    """Facility that the machine must have. Without it, faults of this kind are left out, and the report says so."""


_NODES = (*MEMBERS, "watchtower")
KINDS: dict[str, Kind] = {
    "kill-member": Kind(MEMBERS, (0, 4), times=3, ends_process=True),
    "kill-enclave": Kind([f"{name}-enclave" for name in MEMBERS], (0, 4), ends_process=True),
    "kill-shard": Kind(["shard1", "shard2"], (0, 6), ends_process=True),
    "kill-operator": Kind(["honest", "dishonest"], (0, 4), ends_process=True),
    "kill-watchtower": Kind(["watchtower"], (0, 4), ends_process=True),
    "kill-da": Kind(["da"], (0, 4), ends_process=True),
    "pause-actor": Kind([*_NODES, "shard1", "honest"], (3, 8)),
    "second-instance": Kind(MEMBERS, (16, 20), ends_process=True),
    "second-instance-after-pause": Kind(MEMBERS, (28, 34), ends_process=True),
    "rpc-lag": Kind(_NODES, (6, 12), values=(0.5, 2.0, 6.0)),
    "rpc-drop": Kind(_NODES, (4, 10)),
    "rpc-lose": Kind([*_NODES, "honest"], (4, 10)),
    "rpc-error": Kind([*_NODES, "shard1"], (4, 10)),
    "rpc-refuse": Kind(_NODES, (4, 10)),
    "rpc-stale": Kind(QUORUM, (6, 12)),
    "rpc-lie": Kind(QUORUM, (6, 12), times=2),
    "chain-pause": Kind([ALL], (3, 8)),
    "reorganisation": Kind([ALL], (0, 0), values=SHALLOW, times=2),
    "da-drop": Kind([ALL], (4, 10)),
    "da-lag": Kind([ALL], (6, 10), values=(1.0, 3.0, 8.0)),
    "da-error": Kind([ALL], (4, 10)),
    "da-withhold": Kind([ALL], (4, 10)),
    "da-corrupt": Kind([ALL], (4, 10)),
    "disk-full": Kind(["dan"], (6, 12), needs="a mounted file system of its own"),
    "chain-jump": Kind([ALL], (0, 0), values=(3, 8, 15)),
    "clock-jump": Kind(["cleo"], (10, 15), values=(-3600, -60, -5, 5, 60, 3600), needs="libfaketime"),
    "kill-gossip": Kind([f"{name}-gossip" for name in MEMBERS], (0, 20), ends_process=True, needs="gossip"),
    "database-cut": Kind(MEMBERS, (0, 0), needs="a PostgreSQL server"),
}
"""All kinds of faults."""


def schedule(
    seed: int, seconds: float, missing: frozenset[str] = frozenset(), chosen: frozenset[str] = frozenset()
) -> Iterator[Fault]:
    """Yields faults in the order of their times, one after the other. Each pass has every kind, or the kinds in `chosen`, without
    those that need a facility in `missing`. In the second half of a long run no fault ends a process."""
    dice, at_s, passes = random.Random(seed), dice_pause(random.Random(seed)), 0
    while True:
        deck, before = _shuffled(dice, missing, chosen), at_s
        for kind in deck:
            rule = KINDS[kind]
            if rule.ends_process and seconds >= LONG_S and at_s + rule.for_s[1] > seconds / 2:
                continue
            for_s = dice.uniform(*rule.for_s)
            value = float(dice.choice(list(rule.values)))
            if kind == "reorganisation" and passes % 3 == 2:
                value = float(DEEP[passes // 3 % len(DEEP)])
            if at_s + for_s > seconds:
                return
            yield Fault(round(at_s, 2), kind, dice.choice(list(rule.targets)), round(for_s, 2), value)
            at_s += for_s + dice_pause(dice)
        if at_s == before:
            return  # no kind is left
        passes += 1


def dice_pause(dice: random.Random) -> float:
    """Returns the seconds until the next fault."""
    return dice.uniform(*PAUSE_S)


def _shuffled(dice: random.Random, missing: frozenset[str], chosen: frozenset[str]) -> list[str]:
    wanted = {name: kind for name, kind in KINDS.items() if not chosen or name in chosen}
    deck = [name for name, kind in wanted.items() if kind.needs not in missing or not kind.needs for _ in range(kind.times)]
    dice.shuffle(deck)
    return deck
