"""The plan of a deployment: every contract with its arguments, the wiring of contracts that refer to each other, and governance.

Addresses follow from the deployer's nonces (CREATE), so every argument is known before anything is sent.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bytewise.protocol.court.params import ParamSet
from bytewise.protocol.units import ZERO_ADDRESS, Address, Blob, Digest
from chain.client.artifacts import Interface, interface, to_struct


@dataclass(frozen=True, slots=True)
class Shape:
    """Values that a deployment never changes: lengths in blocks, the stake per unit of a draw, and the first price limits."""

    epoch_blocks: int
    """Length of a stake epoch in blocks. A change of stake counts from the next epoch on."""
    lookahead: int
    """Number of blocks at the start of an epoch whose mixes may not be seeds of that epoch."""
    shortest: int
    """Smallest distance in blocks between the current block and a seed block."""
    longest: int
    """Largest distance in blocks between the current block and a seed block."""
    unit_wei: int
    """Stake in wei that counts as one unit of a draw."""
    max_units: int
    """Largest number of units of one account."""
    least_price_wei: int
    """Lowest price for anchoring one receipt, in wei."""
    most_price_wei: int
    """Highest price for anchoring one receipt, in wei."""
    target: int
    """Number of receipts in a price epoch at which the price does not change."""
    price_epoch_s: int
    """Length of a price epoch in seconds."""
    block_s: int
    """Seconds per block. No contract knows this value; `chain.deployment.lengths` uses it."""


MAIN_NET = Shape(
    epoch_blocks=7_200, lookahead=128, shortest=128, longest=8_191, unit_wei=10**15, max_units=250_000,
    least_price_wei=10**12, most_price_wei=10**17, target=10_000, price_epoch_s=3_600, block_s=12,
)  # fmt: skip
"""Values for a chain with a block every twelve seconds. A mix can be a seed after four beacon epochs; a stake epoch lasts one
day."""

DEVNET_SHAPE = Shape(
    epoch_blocks=40, lookahead=4, shortest=3, longest=1_000, unit_wei=10**15, max_units=250_000,
    least_price_wei=10**12, most_price_wei=10**17, target=100, price_epoch_s=60, block_s=1,
)  # fmt: skip
"""Values for a network on one machine with a block every second."""


SLOT_S = 12
"""Seconds that `EigenLayerStake` counts for one block, on any chain. EigenLayer's delays are in blocks."""

LEAST_LONG_DELAY_DAYS = 34
"""`Charter.LONG_DELAY` in whole days: 30 days of unbonding, one pause of three days, and the full hour of the queue."""

LONG_DELAY_DAYS = 64
"""Delay in days that outlasts the longest withdrawal of stake, even if a guardian stops the clock as often as it may (ADR-047).

After each pause comes the time of the longest dispute, which is at least as long as the pause. So 30 days and an hour take at
most twice as long, plus one more pause of three days.
"""


@dataclass(frozen=True, slots=True)
class GovernanceSettings:
    """Accounts and delays of governance."""

    guardian: Address
    """Account that may pause the network, refund disputes and mark key epochs as compromised, without a vote."""
    curator: Address
    """Account that decides, without a vote, which pools, environments, models, measurements, appraisal policies and key epochs
    are in force."""
    holder: Address
    """Account that gets all voting tokens at first."""
    supply: int = 10**27
    """Number of voting tokens in their smallest unit; one is one vote."""
    threshold: int = 10**24
    """Number of votes that an account needs to make a proposal."""
    quorum_percent: int = 4
    """Percentage of all votes that must be cast for a proposal or abstain. Votes against it do not count for this percentage."""
    delay_blocks: int = 7_200
    """Blocks between a proposal and its vote."""
    period_blocks: int = 50_400
    """Length of a vote in blocks."""
    short_delay_s: int = 3 * 86_400
    """Delay in seconds for changes of parameters and prices; at least `Charter.SHORT_DELAY`."""
    long_delay_s: int = LONG_DELAY_DAYS * 86_400
    """Delay in seconds for every change that can move stake; at least `Charter.LONG_DELAY`."""


@dataclass(frozen=True, slots=True)
class Header:
    """The header of a block. The constructor of `RandaoSource` takes two headers, and refuses a chain on which both have the
    same random value (prevRandao)."""

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
    """Name of the called function, or "create"."""
    to: Address | None
    """Address of the called contract; None if the step creates it."""
    data: bytes
    """Data of the transaction."""


@dataclass(frozen=True, slots=True)
class EigenLayerSettings:
    """Settings for a network whose stake EigenLayer has. `EigenLayerStake` then takes the place of the vault (ADR-034)."""

    allocations: Address
    """EigenLayer's AllocationManager, which knows EigenLayer's other contracts. The operator set in it must already name the
    stake source as slasher and recipient."""
    strategy: Address
    """EigenLayer strategy whose stake counts. Its token must be wrapped ether."""
    avs: Address
    """Address of the service that owns the operator set."""
    set_id: int
    """Number of the operator set."""
    max_age: int
    """Number of blocks for which a record of stake counts."""
    longest_s: int
    """Longest dispute in seconds that this stake can cover, at `SLOT_S` per block. It is at least the longest dispute that the
    parameters allow (`longest_for`)."""

    @property
    def horizon(self) -> int:
        """Number of blocks for which EigenLayer must be able to slash recorded stake (`EigenLayerStake.HORIZON`)."""
        return self.max_age - (-self.longest_s // SLOT_S)


def longest_for(params: ParamSet, shape: Shape) -> int:
    """Returns the smallest allowed `EigenLayerSettings.longest_s`: the longest dispute of these parameters, in seconds.

    The dispute is counted in blocks of this chain, and each block as `SLOT_S` seconds, as the contract counts them. The result
    is therefore larger than the dispute's real length on a chain with shorter blocks.
    """
    return -(-params.longest_dispute // shape.block_s) * SLOT_S


def default_max_age(shape: Shape) -> int:
    """Returns three stake epochs in blocks. On main net these are three days. A process that renews records at half this age may
    then fail for one day."""
    return 3 * shape.epoch_blocks


TREE = "StakeTree "
"""Prefix of the name of a stake tree. The digest of its pool follows."""


@dataclass(frozen=True, slots=True)
class DeploymentPlan:
    """All values from which constructor arguments are computed."""

    deployer: Address
    """Account that sends the deployment. It has no power afterwards."""
    at: Mapping[str, Address]
    """Future address of each contract."""
    params: ParamSet
    """First version of the parameters."""
    shape: Shape
    """Lengths, units and first price limits."""
    headers: tuple[Header, Header]
    """Headers of two recent blocks with different mixes."""
    pools: tuple[Digest, ...]
    """Pools for which stake trees are deployed. The curator adds the pools to the registry."""
    vote: GovernanceSettings
    """Accounts and delays of governance."""
    restaked: EigenLayerSettings | None = None
    """Settings of EigenLayer; None for a network with the native vault."""


def names(pools: Sequence[Digest]) -> tuple[str, ...]:
    """Returns the names of all contracts of a deployment with these pools, in the order of creation."""
    return (*CREATED_BEFORE_TREES, *(TREE + pool.hex() for pool in pools), *CREATED_AFTER_TREES)


CREATED_BEFORE_TREES = ("Charter", "AccessManager", "Params", "Guardian", "Ledger", "StakeVault", "Registry")
CREATED_AFTER_TREES = (
    "RandaoSource", "BlsKeys", "KeyEpochs", "FeeMarket", "ReceiptAnchor", "Demands", "Settlement", "Rounds", "Breaker",
    "Disputes", "Keeper", "Audits", "Lens", "GovernanceToken", "ShortTimelock", "LongTimelock", "BytewiseGovernor",
)  # fmt: skip

ARTIFACT = {"ShortTimelock": "TimelockController", "LongTimelock": "TimelockController"}
"""Name of the compiled contract, for contracts that are deployed under another name."""


def steps(site: DeploymentPlan) -> list[DeploymentStep]:
    """Returns all transactions of a deployment in order: creations (as `names` lists them), wiring, and the assignment of
    roles."""
    arguments = _money(site) | _court(site) | _governance(site)
    created = [DeploymentStep(name, "create", None, _code(site, name).creation(*arguments[name])) for name in names(site.pools)]
    wired = [_call(site, name, "wire", *wires) for name, wires in _wires(site)]
    return [*created, *wired, _establish(site)]


def code(name: str) -> Interface:
    """Returns the compiled artifact of a contract of a deployment."""
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
    """Returns the constructor arguments of the contracts for parameters, money and stake."""
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
    """Returns the constructor arguments of the contracts for receipts, disputes, keys and audits, and of `Lens`."""
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
    """Returns the constructor arguments of the contracts for governance."""
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
    """Returns the call of `Charter` that assigns all roles. After it the deployer has no power."""
    governed = [
        site.at[name] for name in ("Params", "Guardian", "Ledger", "StakeVault", "Registry", "KeyEpochs", "FeeMarket", "Breaker")
    ]
    holders = (site.at["ShortTimelock"], site.at["LongTimelock"], site.vote.guardian, site.vote.curator)
    return _call(site, "Charter", "establish", site.at["AccessManager"], tuple(governed), holders)


def _wires(site: DeploymentPlan) -> list[tuple[str, tuple[Address, ...]]]:
    """Returns the arguments of each contract's wiring call, which names contracts that did not exist when it was created."""
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
