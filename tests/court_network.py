"""The second contracts on a chain whose every block is one second: deployed, wired, and called without signatures."""

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from bytewise.protocol import digests, merkle
from bytewise.protocol.court.params import ParamSet
from bytewise.protocol.keys.epochs import EpochDocument
from bytewise.protocol.records.receipt import ClientMode, Mode, Receipt, SignedReceipt, receipt_id
from bytewise.protocol.signing import Domain, LocalSigner
from bytewise.protocol.stake_tree import TreeShape
from bytewise.protocol.units import U8, U64, U256, ZERO_ADDRESS, ZERO_DIGEST, Address, Blob, Digest, short_text
from chain.client.artifacts import interface
from chain.client.blocks import header_rlp
from chain.client.rpc import hex_bytes
from chain.deployment.deploy import created_address
from tests.anvil import CHAIN_ID, Anvil
from tests.court_world import HONEST, lies, word
from tests.devnet import SHARDS, epoch_document, signer
from tests.vouched import vouched

SHAPE = TreeShape(epoch_blocks=64, lookahead_blocks=4, unit_wei=10, max_units=100_000)
SHORTEST = 2
OWNER = signer(0).address
POOL, ENVIRONMENT, MODEL, MEASUREMENT = word("pool"), word("environment"), word("model"), word("measurement")
GAS = 15_000_000
MOMENT_S = 0.002
MOMENTS = 30_000
"""Waits for a block: a minute in all."""


class Read(NamedTuple):
    """A view to be read."""

    contract: str
    function: str
    arguments: tuple[Any, ...] = ()


class CourtNetwork:
    """Every contract that a dispute meets."""

    def __init__(self, anvil: Anvil, params: ParamSet, environment: Digest = ENVIRONMENT, model: Digest = MODEL) -> None:
        self.anvil = anvil
        self.environment, self.model = environment, model
        anvil.rpc("anvil_autoImpersonateAccount", True)
        anvil.rpc("anvil_setBlockTimestampInterval", 1)
        self.at: dict[str, Address] = {}
        self.fees = 0
        self._deploy(params)
        self._wire()

    @property
    def anchor_domain(self) -> Domain:
        """Under which receipts are signed."""
        return Domain(CHAIN_ID, self.at["ReceiptAnchor"])

    def send(self, sender: Address, contract: str, function: str, *arguments: Any, value: int = 0) -> bool:
        """A transaction in a block of its own; whether it succeeded."""
        return self._send(sender, self.at[contract], interface(contract).call(function, *arguments), value)

    def request(
        self, sender: Address, contract: str, function: str, arguments: tuple[Any, ...], value: int = 0
    ) -> dict[str, Any]:
        """A transaction as `eth_sendTransaction` has it."""
        data = interface(contract).call(function, *arguments)
        return {"from": sender, "to": self.at[contract], "data": "0x" + data.hex(), "value": hex(value), "gas": hex(GAS)}

    def must(self, sender: Address, contract: str, function: str, *arguments: Any, value: int = 0) -> None:
        """A transaction that succeeds."""
        assert self.send(sender, contract, function, *arguments, value=value), f"{contract}.{function}"

    def read(self, reads: Sequence[Read]) -> list[Any]:
        """Results as of the newest block, in one round trip."""
        known = [interface(each.contract) for each in reads]
        data = [code.call(each.function, *each.arguments) for code, each in zip(known, reads, strict=True)]
        requests = [
            {"to": self.at[each.contract], "data": "0x" + each_data.hex()} for each, each_data in zip(reads, data, strict=True)
        ]
        answers = self.anvil.client.rpc_many([("eth_call", (request, "latest")) for request in requests])
        return [code.result(each.function, hex_bytes(raw)) for code, each, raw in zip(known, reads, answers, strict=True)]

    def one(self, contract: str, function: str, *arguments: Any) -> Any:
        """One result."""
        return self.read([Read(contract, function, arguments)])[0]

    def stake(self, who: Address, amount: int) -> None:
        """Deposits."""
        self.must(who, "StakeVault", "deposit", value=amount)

    def join(self, who: Address) -> None:
        """Makes a staked account a verifier on a machine of its own."""
        self.must(who, "Registry", "join", POOL, word("platform", who), MEASUREMENT)

    def put_in_force(self, verifiers: Sequence[Address]) -> None:
        """Environment and model ACTIVE; the verifiers' weight must have lasted an epoch."""
        vectors = word("vectors")
        for digest, pool in ((self.environment, POOL), (self.model, ZERO_DIGEST)):
            self.must(OWNER, "Registry", "propose", digest, pool, vectors, b"")
            for who in verifiers:
                self.must(who, "Registry", "certify", digest, vectors)
            self.must(OWNER, "Registry", "activate", digest)

    def post(self, operator: LocalSigner, seq: int, batch_id: int) -> SignedReceipt:
        """Anchors a batch of one receipt, whose result is `HONEST`."""
        signed = self._receipt(operator, seq, batch_id)
        leaf = merkle.batch_leaf(receipt_id(self.anchor_domain, signed.receipt), seq)
        header = (seq, 1, leaf, word("list", batch_id), self.environment, self.model, 1, b"locator")
        fee = self.one("FeeMarket", "feeFor", 1)
        self.fees += fee
        self.must(operator.address, "ReceiptAnchor", "post", header, value=fee)
        return signed

    def header(self, block: int) -> Blob:
        """The header of a block, for a draw; any bytes while there is no such block."""
        return header_rlp(self.anvil.client, block) if block <= self.anvil.client.head().number else Blob(b"no header")

    def _receipt(self, operator: LocalSigner, seq: int, batch_id: int) -> SignedReceipt:
        now = self.anvil.client.head().timestamp
        tokens, trace = word(batch_id, HONEST, "tokens"), word(batch_id, HONEST, "trace")
        made = Receipt(
            operator=operator.address, seq=U64(seq), req_hash=word("request", batch_id),
            tokens_hash=word("altered") if lies(batch_id) else tokens, out_hash=digests.out_hash(tokens, trace),
            model_id=self.model, environment=self.environment, gpu_arch=short_text("cpu"), key_epoch=U64(1),
            envelope_hash=word("envelope", batch_id), issued_at=U64(now), anchor_by=U64(now + 600), mode=U8(Mode.PLAIN),
            client_mode=U8(ClientMode.DELEGATED), enclave_key=ZERO_ADDRESS, chain_id=U256(CHAIN_ID),
        )  # fmt: skip
        return SignedReceipt(made, operator.sign(receipt_id(self.anchor_domain, made)), "")

    def _deploy(self, params: ParamSet) -> None:
        newest = self.anvil.mine(2)
        proof = [value for n in (newest - 1, newest) for value in (n, header_rlp(self.anvil.client, n))]
        at = self.at
        self._create("AccessManager", lambda: (OWNER,))
        manager = at["AccessManager"]
        self._create("Params", lambda: (manager, _struct(params)))
        self._create("Guardian", lambda: (manager, at["Params"]))
        self._create("Ledger", lambda: (manager, at["Guardian"], at["Params"]))
        self._create("StakeVault", lambda: ((manager, at["Guardian"], at["Params"], at["Ledger"]),))
        self._create("Registry", lambda: (manager, at["Guardian"], at["Params"], at["StakeVault"]))
        self._create("StakeTree", lambda: (SHAPE.epoch_blocks, SHAPE.lookahead_blocks, SHAPE.unit_wei, SHAPE.max_units))
        self._create("RandaoSource", lambda: (SHORTEST, 10_000, *proof))
        self._create("BlsKeys", lambda: (at["Registry"],))
        self._create("KeyEpochs", lambda: (manager, at["Params"], at["Guardian"], at["Registry"]))
        self._create("FeeMarket", lambda: (manager, at["Guardian"], 10**9, 10**18, 16, 3600))
        self._create("Settlement", lambda: (at["Params"], at["Ledger"], at["StakeVault"]))
        served = ("Params", "Guardian", "Registry", "StakeVault", "KeyEpochs", "FeeMarket")
        self._create("ReceiptAnchor", lambda: (tuple(at[name] for name in served),))
        demanded = ("Params", "Guardian", "Registry", "StakeVault", "Ledger", "ReceiptAnchor")
        self._create("Demands", lambda: (tuple(at[name] for name in demanded),))
        self._create("Rounds", lambda: (at["Params"], at["Guardian"], at["BlsKeys"]))
        self._create("Breaker", lambda: (manager, at["Params"], at["Guardian"], at["Registry"]))
        court = ("Params", "Registry", "ReceiptAnchor", "Settlement", "Guardian", "RandaoSource", "Rounds", "Breaker")
        self._create("Disputes", lambda: (tuple(at[name] for name in court),))
        audited = ("Params", "Guardian", "Registry", "StakeVault", "Ledger", "KeyEpochs", "ReceiptAnchor", "Disputes")
        self._create("Audits", lambda: (tuple(at[name] for name in audited),))

    def _wire(self) -> None:
        at, owner = self.at, OWNER
        movers = at["Settlement"], at["Demands"], at["Audits"]
        self.must(owner, "Ledger", "wire", at["StakeVault"], *movers, at["Disputes"])
        self.must(owner, "StakeVault", "wire", at["Registry"], at["Settlement"], at["ReceiptAnchor"], at["Demands"])
        self.must(owner, "ReceiptAnchor", "wire", at["Disputes"], at["Demands"])
        for name in ("Settlement", "Rounds", "Breaker"):
            self.must(owner, name, "wire", at["Disputes"])
        self.must(owner, "Registry", "wire", at["Breaker"])
        self.must(owner, "FeeMarket", "wire", at["ReceiptAnchor"], at["Audits"])
        self.must(owner, "StakeTree", "wire", at["Registry"])
        self.must(owner, "Registry", "addPool", POOL, at["StakeTree"])
        self.must(owner, "Registry", "setMeasurement", MEASUREMENT, True)
        self._key_in_force(epoch_document())

    def _key_in_force(self, document: EpochDocument) -> None:
        record, commitments = document.record, b"".join(document.commitments)
        holders = [shard.address for shard in record.shards]
        told = (record.epoch, record.public_key, commitments, holders, record.threshold, 1, word("policy"))
        self.must(OWNER, "KeyEpochs", "openEpoch", *told)
        signed = vouched(Domain(CHAIN_ID, self.at["KeyEpochs"]), document, SHARDS)
        self.must(OWNER, "KeyEpochs", "confirm", record.epoch, signed.transcript, signed.signatures)
        self.must(OWNER, "KeyEpochs", "activate", record.epoch)

    def _create(self, name: str, arguments: Any) -> None:
        self.at[name] = created_address(OWNER, self.anvil.client.nonce(OWNER))
        assert self._send(OWNER, None, interface(name).creation(*arguments()), 0), name

    def _send(self, sender: Address, to: Address | None, data: bytes, value: int) -> bool:
        request = {"from": sender, "data": "0x" + data.hex(), "value": hex(value), "gas": hex(GAS)}
        sent = self.anvil.rpc("eth_sendTransaction", request if to is None else {**request, "to": to})
        # The answer may come before the block does.
        for _ in range(MOMENTS):
            if (included := self.anvil.rpc("eth_getTransactionReceipt", sent)) is not None:
                return bool(int(included["status"], 16))
            time.sleep(MOMENT_S)
        raise AssertionError(f"transaction {sent} is in no block after {MOMENTS * MOMENT_S:.0f} s")


def _struct(record: Any) -> Any:
    """A record of parameters as a struct."""
    if not hasattr(record, "__dataclass_fields__"):
        return record
    return tuple(_struct(getattr(record, name)) for name in record.__dataclass_fields__)
