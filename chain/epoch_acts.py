"""What the curator does with key epochs: announce one, show that its shards signed, put it in force, deal its key again."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from bytewise.protocol.keys import EpochDocument
from bytewise.protocol.network import Network
from bytewise.protocol.signing import LocalSigner
from bytewise.protocol.units import Blob, Digest
from chain.calls import STORED_GAS_PER_BYTE, call_of
from chain.client import ChainClient
from chain.epochs import ASSURANCE
from chain.transactions import Call, send_all

TIMEOUT_S = 60.0
"""For all transactions of one act."""


class Signed(NamedTuple):
    """What a ceremony shows to the chain."""

    transcript: Digest
    """Of the ceremony."""
    signatures: Sequence[Blob]
    """One for each shard in order, empty for who did not sign (`kms.dkg.result.signed_shares`)."""


def open_epoch(
    client: ChainClient,
    network: Network,
    curator: LocalSigner,
    document: EpochDocument,
    policy: Digest,
    signed: Signed,
    timeout_s: float = TIMEOUT_S,
) -> Network:
    """Announces an epoch that a ceremony made, shows the signatures, puts it in force; the address book with it."""
    confirming = call_of(
        curator, network, "KeyEpochs", "confirm", document.record.epoch, signed.transcript, list(signed.signatures)
    )
    calls = [opening(curator, network, document, policy), confirming, activation(curator, network, document)]
    send_all(client, calls, timeout_s)
    return replace(network, epochs=(*network.epochs, document))


def reshare_epoch(
    client: ChainClient,
    network: Network,
    curator: LocalSigner,
    document: EpochDocument,
    signed: Signed,
    timeout_s: float = TIMEOUT_S,
) -> Network:
    """Says who has the shares of an epoch's key after it was dealt again; the address book with the new document."""
    record = document.record
    holders = [shard.address for shard in record.shards]
    dealt = (record.epoch, b"".join(document.commitments), holders, record.threshold, signed.transcript, list(signed.signatures))
    call = call_of(curator, network, "KeyEpochs", "reshare", *dealt, gas_per_byte=STORED_GAS_PER_BYTE)
    send_all(client, [call], timeout_s)
    others = tuple(each for each in network.epochs if each.record.epoch != record.epoch)
    return replace(network, epochs=(*others, document))


def opening(curator: LocalSigner, network: Network, document: EpochDocument, policy: Digest) -> Call:
    """Announces an epoch."""
    record = document.record
    assurance = next(number for number, name in ASSURANCE.items() if name == record.assurance)
    holders = [shard.address for shard in record.shards]
    told = (record.epoch, record.public_key, b"".join(document.commitments), holders, record.threshold, assurance, policy)
    return call_of(curator, network, "KeyEpochs", "openEpoch", *told, gas_per_byte=STORED_GAS_PER_BYTE)


def activation(curator: LocalSigner, network: Network, document: EpochDocument) -> Call:
    """Puts an epoch in force; the one before drains."""
    return call_of(curator, network, "KeyEpochs", "activate", document.record.epoch)
