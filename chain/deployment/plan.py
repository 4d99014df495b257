"""The plan of a deployment: every contract with its arguments, the wiring of cycles, and the governance.

Addresses follow from the deployer's nonces (CREATE), so every argument is known before anything is sent.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bytewise.protocol.court.params import ParamSet
from bytewise.protocol.units import ZERO_ADDRESS, Address, Blob, Digest
from chain.client.artifacts import Interface, interface
from chain.client.structs import to_struct


@dataclass(frozen=True, slots=True)
class Shape:
    """Values that a deployment never changes: lengths in blocks, and stake per unit of a draw."""

    epoch_blocks: int
    """Length of a stake epoch. Stake counts from the next epoch on."""
    lookahead: int
    """Blocks at the start of an epoch whose mixes are no seeds of that epoch."""
    shortest: int
    """Smallest distance in blocks between the current block and a seed block."""
    longest: int
    """Largest distance in blocks between the current block and a seed block."""
    unit_wei: int
    """Stake of one unit of a draw."""
    max_units: int
    """Most units of one account."""
    least_price_wei: int
    """Lowest price for anchoring one receipt."""
    most_price_wei: int
    """Highest price for anchoring one receipt."""
    target: int
    """Receipts per price epoch at which the price stays."""
    price_epoch_s: int
    """Length of a price epoch."""
    block_s: int
    """Seconds per block. No contract knows it; `chain.deployment.lengths` uses it."""


MAIN_NET = Shape(
    epoch_blocks=7_200, lookahead=128, shortest=128, longest=8_191, unit_wei=10**15, max_units=250_000,
    least_price_wei=10**12, most_price_wei=10**17, target=10_000, price_epoch_s=3_600, block_s=12,
)  # fmt: skip
"""Blocks every twelve seconds: four beacon epochs before a mix can be a seed, stake epochs of one day."""

DEVNET_SHAPE = Shape(
    epoch_blocks=40, lookahead=4, shortest=3, longest=1_000, unit_wei=10**15, max_units=250_000,
    least_price_wei=10**12, most_price_wei=10**17, target=100, price_epoch_s=60, block_s=1,
)  # fmt: skip
"""Blocks every second, on one machine."""


SLOT_S = 12
"""Seconds that `EigenLayerStake` counts for one block on any chain, because EigenLayer counts blocks."""

LEAST_LONG_DELAY_DAYS = 34
"""Whole days of `Charter.LONG_DELAY`: 30 days of unbonding, one pause of three days, and the full hour of the queue."""

LONG_DELAY_DAYS = 64
"""Delay that outlasts the longest withdrawal of stake, even if a guardian stops the clock as often as it may (ADR-051).

After each pause comes the longest dispute, which is at least as long. So the 30 days and an hour take at most twice as long,
plus one more pause of three days.
"""


@dataclass(frozen=True, slots=True)
class GovernanceSettings:
    """Accounts and delays of the governance."""

    guardian: Address
    """Account that may pause and refund at once."""
    curator: Address
    """Account that decides at once what may be run."""
    holder: Address
    """First holder of all votes."""
    supply: int = 10**27
    """Number of votes."""
    threshold: int = 10**24
    """Votes that a proposer needs."""
    quorum_percent: int = 4
    """Percentage of the votes that a proposal needs to pass."""
    delay_blocks: int = 7_200
    """Blocks between a proposal and its vote."""
    period_blocks: int = 50_400
    """Blocks of a vote."""
    short_delay_s: int = 3 * 86_400
    """Delay of parameters and prices; at least `Charter.SHORT_DELAY`."""
    long_delay_s: int = LONG_DELAY_DAYS * 86_400
    """Delay of everything that moves stake; at least `Charter.LONG_DELAY`."""


@dataclass(frozen=True, slots=True)
class Header:
    """A block's header, which shows `RandaoSource` that mixes change."""

    number: int
    """Height."""
    rlp: Blob
    """RLP of the header (`chain.client.blocks.header_rlp`)."""


@dataclass(frozen=True, slots=True)
class DeploymentStep:
    """One transaction of a deployment."""

    contract: str
    """Name of the contract; the name of a tree contains its pool."""
    verb: str
    """Name of a function, or "create"."""
    to: Address | None
    """Address of the contract; None for a creation."""
    data: bytes
    """Data of the transaction."""


@dataclass(frozen=True, slots=True)
class EigenLayerSettings:
    """Settings of stake that EigenLayer holds, with `EigenLayerStake` in the place of the vault (ADR-030)."""

    allocations: Address
    """EigenLayer's AllocationManager, which names its other contracts. Its operator set must already name the stake source as
    slasher and recipient."""
    strategy: Address
    """Strategy whose stake counts; it must hold wrapped ether."""
    avs: Address
    """Service that owns the operator set."""
    set_id: int
    """Number of the operator set."""
    max_age: int
    """Blocks for which a record of stake counts."""
    longest_s: int
    """Longest dispute in seconds for which this stake answers, at `SLOT_S` per block: at least what the parameters allow
    (`longest_for`)."""

    @property
    def horizon(self) -> int:
        """Blocks for which EigenLayer must be able to slash recorded stake (`EigenLayerStake.HORIZON`)."""
        return self.max_age - (-self.longest_s // SLOT_S)


def longest_for(params: ParamSet, shape: Shape) -> int:
    """`longest_s` for these parameters: as many slots as the longest dispute has blocks on this chain."""
    return -(-params.longest_dispute // shape.block_s) * SLOT_S


def default_max_age(shape: Shape) -> int:
    """Three stake epochs. On main net these are three days; a process that renews at half of it may stand still for one day."""
    return 3 * shape.epoch_blocks


TREE = "StakeTree "
"""Prefix of the names of trees, before the pool's digest."""


@dataclass(frozen=True, slots=True)
class DeploymentPlan:
    """All values for constructor arguments."""

    deployer: Address
    """Account of the deployer, without any power after the deployment."""
    at: Mapping[str, Address]
    """Future address of each contract."""
    params: ParamSet
    """First version of the parameters."""
    shape: Shape
    """Values that never change."""
    headers: tuple[Header, Header]
    """Two recent blocks with different mixes."""
    pools: tuple[Digest, ...]
    """First pools. The curator adds them to the registry."""
    vote: GovernanceSettings
    """Governance settings."""
    restaked: EigenLayerSettings | None = None
    """Settings of EigenLayer; None for a native vault."""


def names(pools: Sequence[Digest]) -> tuple[str, ...]:
    """Names of all contracts of a deployment with these pools, in the order of creation."""
    return (*CREATED_BEFORE_TREES, *(TREE + pool.hex() for pool in pools), *CREATED_AFTER_TREES)


CREATED_BEFORE_TREES = ("Charter", "AccessManager", "Params", "Guardian", "Ledger", "StakeVault", "Registry")
CREATED_AFTER_TREES = (
    "RandaoSource", "BlsKeys", "KeyEpochs", "FeeMarket", "ReceiptAnchor", "Demands", "Settlement", "Rounds", "Breaker",
    "Disputes", "Keeper", "Audits", "Lens", "GovernanceToken", "ShortTimelock", "LongTimelock", "BytewiseGovernor",
)  # fmt: skip

ARTIFACT = {"ShortTimelock": "TimelockController", "LongTimelock": "TimelockController"}
"""Artifact of contracts that are deployed under another name."""


def steps(site: DeploymentPlan) -> list[DeploymentStep]:
    """All transactions of a deployment, in order: creations (as `names` lists them), wiring, and the assignment of roles."""
    arguments = _money(site) | _court(site) | _governance(site)
    created = [DeploymentStep(name, "create", None, _code(site, name).creation(*arguments[name])) for name in names(site.pools)]
    wired = [_call(site, name, "wire", *wires) for name, wires in _wires(site)]
    return [*created, *wired, _establish(site)]


def code(name: str) -> Interface:
    """Artifact of a contract of a deployment."""
    first = name.split()[0]
    return interface(ARTIFACT.get(first, first))


def _code(site: DeploymentPlan, name: str) -> Interface:
    return interface("EigenLayerStake") if name == "StakeVault" and site.restaked else code(name)


def _stake(site: DeploymentPlan) -> tuple[Any, ...]:
    at, held = site.at, site.restaked
    parts = (at["AccessManager"], at["Guardian"], at["Params"], at["Ledger"])
    if held is None:
        return (parts,)
    return parts, (held.allocations, held.strategy), (held.avs, held.set_id), held.max_age, held.longest_s


def _money(site: DeploymentPlan) -> dict[str, tuple[Any, ...]]:
    at, shape = site.at, site.shape
    authority, params, guardian = at["AccessManager"], at["Params"], at["Guardian"]
    prices = (shape.least_price_wei, shape.most_price_wei, shape.target, shape.price_epoch_s)
    tree = (shape.epoch_blocks, shape.lookahead, shape.unit_wei, shape.max_units)
    return {
        "Params": (authority, to_struct(site.params)),
        "Guardian": (authority, params),
        "Ledger": (authority, guardian, params),
        "StakeVault": _stake(site),
        "Registry": (authority, guardian, params, at["StakeVault"]),
        "FeeMarket": (authority, guardian, *prices),
        "Settlement": (params, at["Ledger"], at["StakeVault"]),
    } | {TREE + pool.hex(): tree for pool in site.pools}


def _court(site: DeploymentPlan) -> dict[str, tuple[Any, ...]]:
    at = site.at
    authority, params, guardian, registry = at["AccessManager"], at["Params"], at["Guardian"], at["Registry"]
    vault, ledger, epochs, anchor = at["StakeVault"], at["Ledger"], at["KeyEpochs"], at["ReceiptAnchor"]
    headers = [value for header in site.headers for value in (header.number, header.rlp)]
    settlement, seeds, rounds, breaker = at["Settlement"], at["RandaoSource"], at["Rounds"], at["Breaker"]
    shared = (params, guardian, registry, vault, ledger, epochs)
    demands, market = at["Demands"], at["FeeMarket"]
    return {
        "RandaoSource": (site.shape.shortest, site.shape.longest, *headers),
        "BlsKeys": (registry,),
        "KeyEpochs": (authority, params, guardian, registry),
        "ReceiptAnchor": ((params, guardian, registry, vault, epochs, market),),
        "Demands": ((params, guardian, registry, vault, ledger, anchor),),
        "Rounds": (params, guardian, at["BlsKeys"]),
        "Breaker": (authority, params, guardian, registry),
        "Disputes": ((params, registry, anchor, settlement, guardian, seeds, rounds, breaker),),
        "Keeper": (),
        "Audits": ((*shared, anchor, at["Disputes"]),),
        "Lens": ((*shared, market, anchor, demands, at["Disputes"], rounds, breaker, settlement, seeds, at["Audits"]),),
    }


def _governance(site: DeploymentPlan) -> dict[str, tuple[Any, ...]]:
    at, vote = site.at, site.vote
    governor = (vote.delay_blocks, vote.period_blocks, vote.threshold, vote.quorum_percent)
    return {
        "Charter": (),
        "AccessManager": (at["Charter"],),
        "GovernanceToken": (vote.holder, vote.supply),
        # Anybody may execute an accepted proposal (executor 0). A timelock is its own only administrator.
        "ShortTimelock": (vote.short_delay_s, [at["BytewiseGovernor"]], [ZERO_ADDRESS], ZERO_ADDRESS),
        "LongTimelock": (vote.long_delay_s, [at["ShortTimelock"]], [ZERO_ADDRESS], ZERO_ADDRESS),
        "BytewiseGovernor": (at["GovernanceToken"], at["ShortTimelock"], *governor),
    }


def _establish(site: DeploymentPlan) -> DeploymentStep:
    governed = [
        site.at[name] for name in ("Params", "Guardian", "Ledger", "StakeVault", "Registry", "KeyEpochs", "FeeMarket", "Breaker")
    ]
    holders = (site.at["ShortTimelock"], site.at["LongTimelock"], site.vote.guardian, site.vote.curator)
    return _call(site, "Charter", "establish", site.at["AccessManager"], tuple(governed), holders)


def _wires(site: DeploymentPlan) -> list[tuple[str, tuple[Address, ...]]]:
    at = site.at
    trees = [(TREE + pool.hex(), (at["Registry"],)) for pool in site.pools]
    return [
        *trees,
        ("Ledger", (at["StakeVault"], at["Settlement"], at["Demands"], at["Audits"], at["Disputes"])),
        ("StakeVault", (at["Registry"], at["Settlement"], at["ReceiptAnchor"], at["Demands"])),
        ("Registry", (at["Breaker"],)),
        ("FeeMarket", (at["ReceiptAnchor"], at["Audits"])),
        ("ReceiptAnchor", (at["Disputes"], at["Demands"])),
        ("Settlement", (at["Disputes"],)),
        ("Rounds", (at["Disputes"],)),
        ("Breaker", (at["Disputes"],)),
    ]


def _call(site: DeploymentPlan, name: str, function: str, *arguments: Any) -> DeploymentStep:
    return DeploymentStep(name, function, site.at[name], code(name).call(function, *arguments))
