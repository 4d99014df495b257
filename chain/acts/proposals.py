"""Proposals to the governor, and the timelock that makes their calls. Calls of the long timelock first pass the short one.

A proposal is identified by its calls and its description, so every later step can be read from the chain. Calls of the long
timelock are one batch, which the proposal schedules.
"""

import enum
from collections.abc import Sequence
from typing import Any, NamedTuple

from eth_abi.abi import encode

from bytewise.protocol.address_book import Network
from bytewise.protocol.digests import keccak256
from bytewise.protocol.errors.actors import ChainReverted, ConfigurationError
from bytewise.protocol.errors.branches import Fault
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.units import ZERO_DIGEST, Address, Digest, address
from chain.acts import governed
from chain.acts.governed import Timelock
from chain.client.access import Chain
from chain.client.address_book import address_of, field_of
from chain.client.artifacts import Reason, text_bytes
from chain.client.rpc import at_number, reading_answer
from chain.deployment.calls import ContractCall, dry_run
from chain.deployment.plan import code, names

_ENDS_SLOT, _CALLS_SLOT = 5, 6
"""Storage slots of the governor: the ends of its queue (the low half is the number of the first call, the high half the next free
number), and its calls by number."""

_EMPTY_QUEUE = 0x31
"""Solidity's panic code for taking an element from an empty array. It means that the governor's queue does not have the tried
call."""


def try_queued(client: Chain, network: Network, timelock: Address, act: ContractCall) -> None:
    """Tries a call of the governor in the name of its timelock, as if a proposal made it.

    The governor accepts such a call only if it is queued, so the node is asked about a state in which it is queued. Raises
    `ConfigurationError` if the node cannot answer calls on a changed state. Raises the same errors as `dry_run`.
    """
    slots = {_word(_ENDS_SLOT): _word(1 << 128), "0x" + _place_of_first().hex(): "0x" + keccak256(act.calldata).hex()}
    changed: dict[str, Any] = {address_of(network, act.contract): {"stateDiff": slots}}
    try:
        dry_run(client, network, timelock, act, changed)
    except ChainReverted as error:
        reason = error.values[2] if len(error.values) > 2 else None
        if isinstance(reason, Reason) and (reason.name, reason.arguments.get("code")) == ("Panic", _EMPTY_QUEUE):
            what = f"the node cannot try {act}: it answers no eth_call on a changed state (state override)"
            raise ConfigurationError("rpc", f"{what}; name another node") from None
        raise


def _place_of_first() -> bytes:
    """Returns the storage slot of call number 0 of the governor's queue."""
    return keccak256(encode(["uint256", "uint256"], [0, _CALLS_SLOT]))


def _word(value: int) -> str:
    return f"0x{value:064x}"


COURT = ("FeeMarket", "ReceiptAnchor", "Demands", "Settlement", "Rounds", "Breaker", "Disputes", "Audits", "Lens")
"""Contracts of a court, in the order of creation. No other contract is replaced together with a court."""

ROLES = (
    ("Breaker", ("resetBreaker",), 5),
    ("FeeMarket", ("setLimits",), 3),
)
"""Restricted functions of a court: contract, functions, and the number of the role that may call them
(`chain.reads.roles.ROLES`). `Charter` sets the same roles for the first court."""


def calls_for_court(old: Network, new: Network) -> list[ContractCall]:
    """Returns the calls of one proposal that put the court of the new address book in force beside the old court.

    Roles come first, so the court always has a curator (docs/guide/govern.md, "Upgrade"). Clock and guardian are those of the
    old court. Raises `ConfigurationError`, which names the differences, if the books are not of one network or share a court's
    contract.
    """
    _verify_beside(old, new)
    ruled = [
        governed.set_function_role(address_of(new, name), [code(name).selector(each) for each in functions], role)
        for name, functions, role in ROLES
    ]
    movers = [governed.set_money_mover(address_of(new, name), allowed=True) for name in ("Settlement", "Demands", "Audits")]
    movers += [
        governed.set_stake_mover(address_of(new, name), allowed=True) for name in ("Settlement", "ReceiptAnchor", "Demands")
    ]
    movers.append(governed.set_money_source(address_of(new, "Disputes"), allowed=True))
    return [*ruled, *movers, governed.set_court(address_of(new, "Breaker"))]


def _verify_beside(old: Network, new: Network) -> None:
    """Raises `ConfigurationError` unless two address books differ in all contracts of the court and in nothing else."""
    fields = [field_of(name) for name in COURT]
    shared: Sequence[str] = [name for name in type(old.addresses).__dataclass_fields__ if name not in fields]
    differ = [name for name in shared if getattr(old.addresses, name) != getattr(new.addresses, name)]
    if old.chain_id != new.chain_id or differ:
        raise ConfigurationError("--court", f"is no court of this network: its {', '.join(differ) or 'chain'} is another")
    same = [name for name in fields if getattr(old.addresses, name) == getattr(new.addresses, name)]
    if same:
        raise ConfigurationError("--court", f"has the old {', '.join(same)}: a court is a new set of {len(COURT)} contracts")


GOVERNOR = "BytewiseGovernor"


class ProposalState(enum.IntEnum):
    """OpenZeppelin's `IGovernor.ProposalState`."""

    PENDING = 0
    ACTIVE = 1
    CANCELED = 2
    DEFEATED = 3
    SUCCEEDED = 4
    QUEUED = 5
    EXPIRED = 6
    EXECUTED = 7


class Support(enum.IntEnum):
    """OpenZeppelin's `GovernorCountingSimple.VoteType`."""

    AGAINST = 0
    FOR = 1
    ABSTAIN = 2


class Contents(NamedTuple):
    """Calls and description of a proposal."""

    targets: Sequence[Address]
    """Called contracts, one for each call."""
    values: Sequence[int]
    """Wei that each call sends."""
    calldatas: Sequence[bytes]
    """Calldata of each call."""
    description: str
    """Text that voters read. For a proposal read from the chain it may contain any bytes
    (`chain.client.artifacts.text_bytes`)."""

    @property
    def named(self) -> tuple[Any, ...]:
        """Arguments by which the governor finds a proposal that it already has: the calls, and the hash of the description."""
        return list(self.targets), list(self.values), list(self.calldatas), keccak256(text_bytes(self.description))


class Proposal(NamedTuple):
    """A proposal as the governor's event shows it."""

    id: int
    """Id that the governor computed from the contents."""
    proposer: Address
    """Account that made the proposal."""
    contents: Contents
    """Calls and description."""
    vote_start: int
    """Block after which votes are accepted. A voter's weight is its votes at this block."""
    vote_end: int
    """Last block of the vote."""


def delegate(to: Address) -> ContractCall:
    """Returns the call that lets account `to` vote with the sender's tokens. A holder that votes itself must delegate to itself,
    because tokens without a delegate do not count."""
    return ContractCall("GovernanceToken", "delegate", (to,))


def propose(contents: Contents) -> ContractCall:
    """Returns the call that puts a proposal to the vote."""
    return ContractCall(GOVERNOR, "propose", tuple(contents))


def cast_vote(proposal: int, support: Support) -> ContractCall:
    """Returns the call that votes on a proposal. An account votes once."""
    return ContractCall(GOVERNOR, "castVote", (proposal, int(support)))


def queue(contents: Contents) -> ContractCall:
    """Returns the call that starts the short timelock of an accepted proposal."""
    return ContractCall(GOVERNOR, "queue", contents.named)


def execute(contents: Contents) -> ContractCall:
    """Returns the call that executes a proposal whose short timelock is over."""
    return ContractCall(GOVERNOR, "execute", contents.named)


def cancel(contents: Contents) -> ContractCall:
    """Returns the call by which a proposer withdraws its proposal before the vote."""
    return ContractCall(GOVERNOR, "cancel", contents.named)


def schedule_slow(batch: Contents, delay_s: int) -> ContractCall:
    """Returns the call that starts the long timelock of a batch of calls. The short timelock makes this call. The description
    distinguishes the batch from other batches."""
    salt = Digest(keccak256(batch.description.encode()))
    calls = (list(batch.targets), list(batch.values), list(batch.calldatas))
    return ContractCall("LongTimelock", "scheduleBatch", (*calls, ZERO_DIGEST, salt, delay_s))


def execute_slow(arguments: Sequence[Any]) -> ContractCall:
    """Returns the call that executes a batch whose long timelock is over. `arguments` are those of the batch's `scheduleBatch`;
    their last value, the delay, is left out."""
    return ContractCall("LongTimelock", "executeBatch", tuple(arguments[:5]))


def contents_of(client: Chain, network: Network, acts: Sequence[ContractCall], description: str) -> Contents:
    """Returns the proposal that makes these calls in order, through the timelock that may make them. Raises the contract's
    reason if a call is refused."""
    batch = _batch(network, acts, description)
    if timelock_for(client, network, acts) == "ShortTimelock":
        return batch
    long = address_of(network, "LongTimelock")
    delay: int = client.call("TimelockController", long, "getMinDelay", block="latest")
    return _batch(network, [schedule_slow(batch, delay)], description)


def timelock_for(client: Chain, network: Network, acts: Sequence[ContractCall]) -> Timelock:
    """Returns the timelock that may make all these calls now. Returns the short timelock if both may.

    If both are refused, raises the first refusal that has another reason than missing rights, because such a reason tells the
    user more. If both lack rights, raises the long timelock's refusal.
    """
    refusals: list[Fault] = []
    timelocks: tuple[Timelock, ...] = ("ShortTimelock", "LongTimelock")
    for timelock in timelocks:
        try:
            for act in acts:
                _try(client, network, timelock, act)
            return timelock
        except Fault as error:
            refusals.append(error)
    raise next((each for each in refusals if not _unauthorized(each)), refusals[-1])


def _try(client: Chain, network: Network, timelock: Timelock, act: ContractCall) -> None:
    """Tries one call of a timelock. The governor accepts calls of a proposal only from its own timelock, the short one, and none
    from a batch of the long one."""
    tried = try_queued if (act.contract, timelock) == (GOVERNOR, "ShortTimelock") else dry_run
    tried(client, network, address_of(network, timelock), act)


def proposals(client: Chain, network: Network, head: int) -> list[Proposal]:
    """Reads all proposals up to block `head`, oldest first."""
    where = (GOVERNOR, address_of(network, GOVERNOR))
    logs = client.logs(*where, ["ProposalCreated"], network.deploy_block, head)
    with reading_answer("proposals"):
        return [_proposal(each.values) for each in logs]


def state_of(client: Chain, network: Network, proposal: int, head: int) -> ProposalState:
    """Reads the state of a proposal at block `head`."""
    raw = _ask(client, network, "state", proposal, head=head)
    with reading_answer("state of a proposal"):
        return ProposalState(raw)


def id_of(client: Chain, network: Network, contents: Contents) -> int:
    """Reads the id that the governor computes for a proposal."""
    found: int = client.call(GOVERNOR, address_of(network, GOVERNOR), "hashProposal", *contents.named, block="latest")
    return found


def slow_operation(network: Network, contents: Contents) -> tuple[Any, ...] | None:
    """Returns the arguments of `scheduleBatch` if the proposal consists of one call of this function of the long timelock.
    Returns None for any other proposal."""
    if list(contents.targets) != [address_of(network, "LongTimelock")]:
        return None
    named = _named("LongTimelock", contents.calldatas[0])
    if named is None or named[0] != "scheduleBatch":
        return None
    # The timelock refuses lists of different lengths, but anybody can propose them.
    return named[1] if len({len(each) for each in named[1][:3]}) == 1 else None


def slow_ready_at(client: Chain, network: Network, operation: Sequence[Any], head: int) -> int:
    """Reads the Unix second from which the long timelock executes a batch. Returns 0 if the timelock does not have the batch,
    and 1 if the batch is executed."""
    where = ("TimelockController", address_of(network, "LongTimelock"))
    id_ = client.call(*where, "hashOperationBatch", *operation[:5], block=at_number(head))
    found: int = client.call(*where, "getTimestamp", id_, block=at_number(head))
    return found


def call_texts(network: Network, contents: Contents) -> list[str]:
    """Returns a text for each call of a proposal, including the calls inside a batch of the long timelock. A call that the
    address book cannot name is shown in hex."""
    operation = slow_operation(network, contents)
    if operation is not None:
        before = "" if operation[3] == ZERO_DIGEST else f" and batch 0x{operation[3].hex()}"
        return [f"after {operation[5]} s more{before}: {each}" for each in _describe_each(network, *operation[:3])]
    return _describe_each(network, contents.targets, contents.values, contents.calldatas)


def _describe_each(network: Network, targets: Sequence[str], values_wei: Sequence[int], calldatas: Sequence[bytes]) -> list[str]:
    parts = zip(targets, values_wei, calldatas, strict=True)
    return [_describe_call(network, address(target.lower()), value, data) for target, value, data in parts]


def _describe_call(network: Network, target: Address, value_wei: int, data: bytes) -> str:
    """Returns a call of a proposal as text. A call that the address book cannot name is in hex."""
    name = next((each for each in names(()) if address_of(network, each) == target), None)
    named = _named(name, data) if name else None
    money = f" with {value_wei} wei" if value_wei else ""
    if name is None or named is None:
        return f"{target} 0x{data.hex()}{money}"
    function, arguments = named
    parameters = [each["name"] for each in code(name).functions[function]["inputs"]]
    return str(Reason(f"{name}.{function}", dict(zip(parameters, arguments, strict=True)))) + money


def _named(contract: str, data: bytes) -> tuple[str, tuple[Any, ...]] | None:
    """Returns function and arguments of calldata. Returns None if the contract would not understand the calldata, because
    anybody can propose anything."""
    function = code(contract).function_of(data)
    try:
        return (function, code(contract).arguments(function, data[4:])) if function else None
    except MalformedValue:
        return None


def _batch(network: Network, acts: Sequence[ContractCall], description: str) -> Contents:
    if not acts or not description.strip():
        raise ConfigurationError("proposal", "needs at least one call and a description (--description)")
    try:
        description.encode()
    except UnicodeEncodeError:
        raise ConfigurationError("description", "is no UTF-8 text: write it again") from None
    targets = [address_of(network, act.contract) for act in acts]
    return Contents(targets, [act.value_wei for act in acts], [act.calldata for act in acts], description)


def _ask(client: Chain, network: Network, function: str, *arguments: Any, head: int) -> Any:
    return client.call(GOVERNOR, address_of(network, GOVERNOR), function, *arguments, block=at_number(head))


def _proposal(raw: Any) -> Proposal:
    contents = Contents(
        [address(each) for each in raw["targets"]], list(raw["values"]), list(raw["calldatas"]), raw["description"]
    )
    return Proposal(raw["proposalId"], address(raw["proposer"]), contents, raw["voteStart"], raw["voteEnd"])


UNAUTHORIZED = frozenset(
    {
        "AccessManagedUnauthorized", "AccessManagerUnauthorizedAccount", "AccessControlUnauthorizedAccount",
        "GovernorOnlyExecutor", "TimelockUnauthorizedCaller",
    }
)  # fmt: skip
"""Contract errors which say that the caller may not make this call, whatever the arguments are."""


def _unauthorized(error: Fault) -> bool:
    reason = error.values[2] if isinstance(error, ChainReverted) and len(error.values) > 2 else None
    return isinstance(reason, Reason) and reason.name in UNAUTHORIZED
