"""Key epochs of tests in force: shards whose keys the test has sign for their shares, as after a ceremony."""

from collections.abc import Iterable

from bytewise.protocol import digests
from bytewise.protocol.address_book import Network
from bytewise.protocol.keys.epochs import EpochDocument
from bytewise.protocol.records.statements import Shares, holders_digest
from bytewise.protocol.signing import Domain, LocalSigner, typed_digest
from bytewise.protocol.units import U32, Digest
from chain.acts.epochs import Signed, open_epoch
from chain.client.access import Chain
from chain.reads.reader import DocketReader

TRANSCRIPT = digests.keccak256(b"no ceremony")
"""What stands on the chain for the ceremony that there was not."""


def vouched(
    domain: Domain, document: EpochDocument, shards: Iterable[LocalSigner], version: int = 0, transcript: Digest = TRANSCRIPT
) -> Signed:
    """What all shards of an epoch sign for its shares, under `KeyEpochs`; of a later version they also had those before."""
    record = document.record
    holders = holders_digest(shard.address for shard in record.shards)
    transcript = record.hybrid.digest if record.hybrid else transcript
    shares = Shares(record.epoch, U32(version), digests.keccak256(b"".join(document.commitments)), holders, transcript)
    words = [each.sign(typed_digest(domain, shares)) for each in shards]
    return Signed(transcript, words, words if version else ())


def key_in_force(
    client: Chain, network: Network, curator: LocalSigner, document: EpochDocument, policy: Digest, shards: Iterable[LocalSigner]
) -> Network:
    """The address book with an epoch that was announced, vouched for and put in force."""
    reader, epoch = DocketReader(client, network), document.record.epoch
    signed = vouched(network.epochs_domain, document, shards)
    return open_epoch(client, network, curator, document, policy, signed, reader.epoch_on_chain(epoch, reader.head()))
