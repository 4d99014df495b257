"""Several endpoints of one chain.

An answer counts once `quorum` endpoints gave it, and `quorum` is more than half of them (ADR-013). An endpoint that lies, lags,
follows another fork or is silent can delay a decision but not change it. Reads are pinned to a block hash on which a quorum
agrees. If too few agree, `NoAgreement` is raised, and the next tick tries again. Endpoints are named by their position in the
settings, because a URL may contain a key.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from bytewise.protocol.errors.actors import ChainReverted, ConfigurationError, NoAgreement, RpcRefused
from bytewise.protocol.errors.branches import BytewiseError, Unavailable
from bytewise.protocol.units import Address, Digest
from bytewise.service import metrics, telemetry
from bytewise.service.clock import monotonic_s
from chain.client.artifacts import Log, View
from chain.client.rpc import Block, Calldata, ChainClient, Inclusion, OtherChain, SlotProof, at_hash

T = TypeVar("T")

FIRST_BACKOFF_S = 1.0
"""Seconds for which an endpoint is avoided after its first failure. Each further failure doubles them."""

LONGEST_BACKOFF_S = 60.0
"""Longest time in seconds for which an endpoint is avoided. A dead endpoint costs one timeout in this time."""


class EndpointBackoff:
    """One endpoint, and the time for which it is avoided after a failure. `place` is its position in the settings.

    The time grows with each failure in a row. During this time, the other endpoints are asked first.
    """

    def __init__(self, place: int, endpoint: ChainClient, now: Callable[[], float]) -> None:
        self.place = place
        self.took_s = 0.0
        """Seconds that the last answer or failure took."""
        self._endpoint = endpoint
        self._now = now
        self._failures = 0
        self._until = 0.0

    @property
    def is_backing_off(self) -> bool:
        """Whether the endpoint failed recently, so that other endpoints are asked before it."""
        return self._now() < self._until

    def ask(self, ask: Callable[[ChainClient], T]) -> T:
        """Asks the endpoint and returns its answer. A refusal is an answer. No answer, an invalid answer or another chain is a
        failure, which starts a backoff."""
        began = self._now()
        try:
            answer = ask(self._endpoint)
        except RpcRefused:
            self._answered(began)
            raise
        except (Unavailable, ConfigurationError) as error:
            self.took_s = self._now() - began
            self._failures += 1
            self._until = self._now() + min(FIRST_BACKOFF_S * 2.0 ** min(self._failures - 1, 10), LONGEST_BACKOFF_S)
            metrics.RPC_USING_FALLBACK.labels(provider=str(self.place)).set(1)
            telemetry.log_error("chain.endpoint_failed", error, endpoint=self.place)
            raise
        self._answered(began)
        return answer

    def _answered(self, began: float) -> None:
        self.took_s = self._now() - began
        self._failures, self._until = 0, 0.0
        metrics.RPC_USING_FALLBACK.labels(provider=str(self.place)).set(0)


class EndpointAnswer(NamedTuple, Generic[T]):
    """The answer of one endpoint: a value, or the error with which it refused (`ChainReverted`, `RpcRefused`)."""

    key: Any
    """Value by which answers are compared: two answers agree if their keys are equal."""
    value: T | None
    """The value; None if the endpoint refused."""
    refusal: ChainReverted | RpcRefused | None
    """The refusal; None if the endpoint gave a value."""


class QuorumClient:
    """A `chain.client.access.Chain` over several endpoints, of which `quorum` must agree. `now` is the clock of their
    backoffs."""

    def __init__(self, endpoints: Sequence[ChainClient], quorum: int, now: Callable[[], float] = monotonic_s) -> None:
        if not len(endpoints) < 2 * quorum <= 2 * len(endpoints):
            raise ConfigurationError("chain", f"a quorum of {quorum} of {len(endpoints)} endpoints: more than half, at most all")
        if len({each.chain_id for each in endpoints}) != 1:
            raise ConfigurationError("chain", "the endpoints are of different chains: name endpoints of one chain")
        self.chain_id = endpoints[0].chain_id
        self._quorum = quorum
        self._endpoints = [EndpointBackoff(place, endpoint, now) for place, endpoint in enumerate(endpoints)]

    # --- reads ---

    def head(self, tag: str = "latest") -> Block:
        """Reads the newest block that a quorum has. A single endpoint that is ahead does not change the result. An endpoint that
        is behind changes it only if no more endpoints than a quorum answer."""
        numbers = sorted((block.number for block in self._each("head", lambda node: node.head(tag))), reverse=True)
        return self.block(numbers[self._quorum - 1])

    def block(self, number: int) -> Block:
        """Reads the block on which a quorum agrees at a height."""
        return self._agreed(f"block {number}", lambda node: node.block(number))[0]

    def raw_block(self, number: int) -> Any:
        """Reads a block, in the form of JSON-RPC, whose hash a quorum gives. The caller checks that the other fields hash to
        it."""
        name = f"block {number}"
        return self._agreed(name, lambda node: node.raw_block(number), lambda raw: raw.get("hash") if raw else None)[0]

    def call(self, contract: str, at: Address, function: str, *arguments: Any, block: str | dict[str, Any]) -> Any:
        """Calls a view at an agreed block, and returns the decoded result on which a quorum agrees."""
        pinned = self._pin(block)
        return self._agreed(f"{contract}.{function}", lambda node: node.call(contract, at, function, *arguments, block=pinned))[0]

    def views(self, views: Sequence[View], block: str | dict[str, Any]) -> list[Any]:
        """Calls several views at an agreed block, and returns their decoded results. A quorum must agree on all of them."""
        pinned = self._pin(block)
        names = ", ".join(f"{each.contract}.{each.function}" for each in views)
        return self._agreed(names, lambda node: node.views(views, pinned))[0]

    def raw_blocks(self, numbers: Sequence[int]) -> list[Any]:
        """Reads the blocks at several heights, each as `raw_block` does."""
        return [self.raw_block(number) for number in numbers]

    def logs(self, contract: str, at: Address, events: Sequence[str], from_block: int, to_block: int) -> list[Log]:
        """Reads named events of one contract up to a block. Answers count only from endpoints that have this very block,
        because a node that lags returns too few events without an error."""
        return self._logs(to_block, lambda node: node.logs(contract, at, events, from_block, to_block))

    def logs_of(self, contracts: Mapping[Address, str], from_block: int, to_block: int) -> list[Log]:
        """Reads all known events of several contracts up to a block, with the same rule as `logs`."""
        return self._logs(to_block, lambda node: node.logs_of(contracts, from_block, to_block))

    def _logs(self, to_block: int, read: Callable[[ChainClient], list[Log]]) -> list[Log]:
        """Reads events on which a quorum agrees. Raises `NoAgreement` if the last block was replaced while they were read."""
        last = self.block(to_block)

        def ask(node: ChainClient) -> tuple[Block, list[Log]]:
            # Read the block before the events: an endpoint that got the block only in between has given too few events.
            node.block(to_block)
            found = read(node)
            return node.block(to_block), found

        agreed = self._agreed(f"logs up to block {to_block}", ask)[0]
        if agreed[0] != last:
            raise NoAgreement(f"logs up to block {to_block}", self._quorum, "reorganised while they were read")
        return agreed[1]

    def codes(self, where: Sequence[Address], block: str | dict[str, Any] = "latest") -> list[bytes]:
        """Reads code on which a quorum agrees. Code at an address never changes once it is there, so each endpoint may use its
        newest block."""
        pinned = block if block == "latest" else self._pin(block)
        return self._agreed("code", lambda node: node.codes(where, pinned))[0]

    def slot_proof(self, at: Address, slot: int, block: str | dict[str, Any]) -> SlotProof:
        """Reads the proof of a storage word at an agreed block."""
        pinned = self._pin(block)
        return self._agreed("proof of a slot", lambda node: node.slot_proof(at, slot, pinned))[0]

    def raw_receipts(self, number: int) -> Any:
        """Reads the receipts of a block on which a quorum agrees."""
        return self._agreed(f"receipts of block {number}", lambda node: node.raw_receipts(number))[0]

    def calldata(self, transaction: Digest) -> Calldata | None:
        """Returns recipient and calldata of a transaction, if a quorum of the endpoints gives the same answer. Returns None if a
        quorum of the endpoints answers that the node does not have the transaction."""
        return self._agreed("transaction", lambda node: node.calldata(transaction))[0]

    def balance(self, account: Address, block: str | dict[str, Any]) -> int:
        """Reads the balance of an account in wei, at an agreed block."""
        pinned = self._pin(block)
        return self._agreed("balance", lambda node: node.balance(account, pinned))[0]

    def nonce(self, account: Address, block: str | dict[str, Any] = "latest") -> int:
        """Reads the number of transactions of an account at an agreed block. With the tag pending, it is the largest number that
        any endpoint reports."""
        if block == "pending":
            return max(self._each("nonce", lambda node: node.nonce(account, block)))
        pinned = self._pin(block)
        return self._agreed("nonce", lambda node: node.nonce(account, pinned))[0]

    def receipts(self, hashes: Sequence[Digest], seen: Block | None = None) -> list[Inclusion | None]:
        """Reads receipts on which a quorum of the endpoints with block `seen` agrees. Endpoints that lag do not count, because
        they would agree that a transaction has no receipt."""
        return self._agreed("receipts", lambda node: node.receipts(hashes, seen))[0]

    def replay(self, request: Mapping[str, Any], block: str | dict[str, Any], changed: Mapping[str, Any] | None = None) -> None:
        """Repeats a call on the state after an agreed block. Raises the refusal on which a quorum agrees."""
        pinned = self._pin(block)
        self._agreed("replay", lambda node: node.replay(request, pinned, changed))

    # --- writes ---

    def estimate(self, request: Mapping[str, Any]) -> int:
        """Returns the gas of a transaction that a quorum would accept: the median of all estimates. Raises the refusal on which
        a quorum agrees."""

        def ask(node: ChainClient) -> int:
            return node.estimate(request)

        self._agreed("estimate", ask, lambda gas: None)
        heard: list[EndpointAnswer[int]] = self._each("estimate", lambda node: _answer_of(node, ask, lambda gas: gas))
        # The largest estimate is not used: an absurd limit times the offered fee would be more than the account has.
        gas = sorted(each.value for each in heard if each.value is not None)
        if not gas:
            raise NoAgreement("estimate", self._quorum, "it was taken, and then refused")
        return gas[len(gas) // 2]

    def knows(self, transaction: Digest) -> bool:
        """Returns whether every endpoint that answers has the transaction. If one dropped it, the caller sends it again."""
        return all(self._each("transaction", lambda node: node.knows(transaction), least=1))

    def broadcast(self, raw: bytes) -> None:
        """Sends the bytes to every endpoint that is not backing off, and to others until a quorum has answered.

        Raises `RpcRefused` with all reasons if every endpoint that answers refuses them, and `NoAgreement` if none answers.
        """
        refusals: list[str] = []

        def hand_in(node: ChainClient) -> None:
            try:
                node.broadcast(raw)
            except (ChainReverted, RpcRefused) as error:
                refusals.append(str(error))

        heard = self._each("broadcast", hand_in, least=1)
        if len(refusals) == len(heard):
            raise RpcRefused("broadcast", "; ".join(refusals))

    # --- agreement ---

    def _pin(self, block: str | dict[str, Any]) -> dict[str, Any]:
        """Returns the block by its hash, because two nodes may mean different blocks by one number or tag."""
        if isinstance(block, dict):
            return block
        seen = self.block(int(block, 16)) if block.startswith("0x") else self.head(block)
        return at_hash(seen.hash)

    def _agreed(self, what: str, ask: Callable[[ChainClient], T], key: Callable[[T], Any] = lambda value: value) -> list[T]:
        """Returns the answers of the first quorum with equal keys. If they are refusals, raises the first. Raises `NoAgreement`
        if there is no quorum."""
        said: dict[int, EndpointAnswer[T]] = {}
        silent: dict[int, BytewiseError] = {}
        for rest in self._order():
            try:
                said[rest.place] = rest.ask(lambda node: _answer_of(node, ask, key))
            except (Unavailable, ConfigurationError) as error:
                silent[rest.place] = error
                continue
            alike = [each for each in said.values() if each.key == said[rest.place].key]
            if len(alike) == self._quorum:
                self._report(what, [place for place, each in said.items() if each.key != alike[0].key])
                if alike[0].refusal is not None:
                    raise alike[0].refusal
                return [each.value for each in alike]  # type: ignore[misc]
        self._report(what, list(said) if len(said) >= self._quorum else [])
        raise self._disagreement(what, said, silent)

    def _each(self, what: str, ask: Callable[[ChainClient], T], least: int = 0) -> list[T]:
        """Returns the answers of all endpoints that are not backing off.

        Asks the other endpoints, too, if those answers are too few. Raises `NoAgreement` if fewer than `least` endpoints answer;
        0 means a quorum.
        """
        heard: list[T] = []
        silent: dict[int, BytewiseError] = {}
        for rest in self._order():
            if rest.is_backing_off and len(heard) >= self._quorum:
                break
            try:
                heard.append(rest.ask(ask))
            except (Unavailable, ConfigurationError) as error:
                silent[rest.place] = error
        if len(heard) < (least or self._quorum):
            raise self._disagreement(what, {}, silent)
        return heard

    def _disagreement(
        self, what: str, said: Mapping[int, EndpointAnswer[Any]], silent: Mapping[int, BytewiseError]
    ) -> BytewiseError:
        """Returns `NoAgreement`, or `OtherChain` if a quorum of endpoints is on another chain."""
        elsewhere = [each for each in silent.values() if isinstance(each, OtherChain)]
        if len(elsewhere) >= self._quorum:
            return elsewhere[0]
        return NoAgreement(
            what, self._quorum, _describe_camps(said, {place: type(each).__name__ for place, each in silent.items()})
        )

    def _order(self) -> list[EndpointBackoff]:
        """Returns the endpoints in the order of asking: those in a backoff last, faster ones before slower ones. A slow endpoint
        is asked only if it is needed."""
        return sorted(self._endpoints, key=lambda rest: (rest.is_backing_off, rest.took_s))

    def _report(self, what: str, places: Sequence[int]) -> None:
        for place in places:
            metrics.PROVIDER_DISAGREEMENTS.labels(provider=str(place)).inc()
        if places:
            telemetry.log("chain.disagreed", what=what, endpoints=",".join(str(place) for place in sorted(places)))


def _answer_of(node: ChainClient, ask: Callable[[ChainClient], T], key: Callable[[T], Any]) -> EndpointAnswer[T]:
    try:
        value = ask(node)
    except ChainReverted as error:
        # Nodes word a revert differently. Compare the contract's own reason.
        return EndpointAnswer((ChainReverted, error.values[2] if len(error.values) > 2 else None), None, error)
    except RpcRefused as error:
        return EndpointAnswer((RpcRefused, None), None, error)
    return EndpointAnswer((None, key(value)), value, None)


def _describe_camps(said: Mapping[int, EndpointAnswer[Any]], silent: Mapping[int, str]) -> str:
    """Returns a text about which endpoints gave equal answers, and which gave none. It never contains the answers."""
    camps: list[tuple[Any, list[int]]] = []
    for place, each in sorted(said.items()):
        camp = next((places for key, places in camps if key == each.key), None)
        if camp is None:
            camps.append((each.key, [place]))
        else:
            camp.append(place)
    parts = ["endpoint " + " and ".join(str(place) for place in places) for _, places in camps]
    lost = [f"endpoint {place}: {why}" for place, why in sorted(silent.items())]
    return "; ".join(([" against ".join(parts)] if parts else []) + lost)
