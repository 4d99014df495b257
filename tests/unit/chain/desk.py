"""An operator's sender on a chain that is mined by hand, and what may happen around it."""

from pathlib import Path

from bytewise.protocol.address_book import Network
from bytewise.storage.outbox import Item, Outbox
from chain.acts.actor import ContractSender
from chain.client.artifacts import interface
from chain.client.rpc import ChainClient
from chain.reads.reader import DocketReader
from chain.sending.fees import fees_at
from chain.sending.sender import SenderPolicy
from chain.sending.transactions import Call, sign
from tests.anvil import Anvil
from tests.devnet import FEE_WEI, MODEL, batch, deployed, reader, sender, signer


class Desk:
    """An operator's sender on a chain that is mined by hand, with one batch planned."""

    def __init__(self, anvil: Anvil, folder: Path, policy: SenderPolicy | None = None) -> None:
        self.anvil, self.folder = anvil, folder
        self.network: Network = deployed(anvil)
        self.chain: DocketReader = reader(anvil, self.network)
        anvil.automine(False)
        self.sender: ContractSender = sender(anvil, self.network, signer(1), folder, policy)
        self.post(1)

    @property
    def outbox(self) -> Outbox:
        return self.sender.transactions.outbox

    def post(self, first_seq: int, count: int = 2) -> None:
        self.sender.anchor(batch(self.network, signer(1), first_seq, count, 0).header, FEE_WEI)

    def row(self, place: int = 0) -> Item:
        return self.outbox.all()[place]

    def batches(self) -> int:
        return len(self.chain.batches(0, self.chain.head()))


def governance(network: Network, function: str) -> Call:
    """The curator closes or activates the model."""
    data = interface("Registry").call(function, MODEL)
    return Call(signer(0), network.addresses.registry, data, 0, 300_000)


def send(client: ChainClient, call: Call, tip_wei: int, nonce: int | None = None) -> None:
    count = client.nonce(call.signer.address) if nonce is None else nonce
    raw, _ = sign(client, call, count, fees_at(client.head().base_fee_wei, tip_wei))
    client.rpc("eth_sendRawTransaction", "0x" + raw.hex())


def base_fee(anvil: Anvil, wei: int) -> None:
    anvil.rpc("anvil_setNextBlockBaseFeePerGas", hex(wei))
    anvil.mine()


def sign_only(desk: Desk) -> None:
    """What a crash between the signature and the first broadcast leaves behind."""
    transactions, head = desk.sender.transactions, desk.anvil.client.head()
    desk.outbox.lane.acquire()
    make = transactions._maker(desk.row().intent, 400_000, fees_at(head.base_fee_wei))
    desk.outbox.sign(desk.row().id, desk.anvil.client.nonce(signer(1).address), make)
