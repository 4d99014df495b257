"""Reads what the checks of the monitor need from the contracts and from the shards: money with proofs, and release logs."""

from collections.abc import Mapping
from typing import Any

from bytewise.protocol.address_book import Network, ShareHolder, StakeSource
from bytewise.protocol.digests import keccak256
from bytewise.protocol.errors.actors import TryAgain
from bytewise.protocol.errors.branches import Fault, Unavailable
from bytewise.protocol.suites import is_rebuilt
from bytewise.protocol.units import Address, Digest
from chain.capsule.header import ProvenHeader, header_of
from chain.capsule.trie import BrokenProof, ProofNodes, decode_list, decode_rlp, to_integer
from chain.client.access import Chain
from chain.client.address_book import address_of
from chain.client.artifacts import from_struct
from chain.client.blocks import header_rlp
from chain.client.layout import layout
from chain.client.rpc import at_hash, reading_answer
from chain.reads.key_epochs import share_history
from chain.reads.reader import SnapshotReader
from chain.reads.records import MoneyTotals
from dashboard.monitor.observation import EpochLogs, MoneyParts, MoneySource, ShardLog
from dashboard.monitor.settings import ReleaseLogSettings
from kms.release_log.copies import LogReading, ReleaseLogCopy, read_log
from kms.release_log.entitlement import RETRYABLE, AuditBlock, judge_log
from kms.release_log.opening_report import SharesHistory, releases_out_of_force

LEDGER, VAULT = "Ledger", "StakeVault"
_PARTS: Mapping[str, tuple[str, ...]] = {
    LEDGER: ("_totalPots", "_totalCredits", "_treasury", "_totalBurned"), VAULT: ("totalStake", "totalUnbonding"),
}  # fmt: skip
"""Storage variables of each contract (`chain/abi/layout`). The contract must hold the sum of these variables."""


# --- money ---


def read_money(chain: Chain, network: Network, raw: Mapping[str, Any], block: int, hash_: Digest) -> MoneySource:
    """Reads the money of the contracts at one block. `raw` is the result of `Lens.money` at that block. If `raw` says that a
    contract holds less than it owes, this also reads a proof against the block's state root."""
    with reading_answer("money"):
        viewed = viewed_parts(from_struct(MoneyTotals, raw), network)
    if all(each.drift >= 0 for each in viewed):
        return MoneySource(viewed, (), "")
    try:
        return MoneySource(viewed, proven_parts(chain, network, viewed, block, hash_), "")
    except (Fault, Unavailable) as error:
        return MoneySource(viewed, (), str(error))


def viewed_parts(totals: MoneyTotals, network: Network) -> tuple[MoneyParts, ...]:
    """Returns the balance of each contract and the sum of its parts, as `Lens` reports them. With stake at EigenLayer the result
    has no vault, because no contract of this network holds the stake."""
    held = totals.total_pots + totals.total_credits + totals.treasury + totals.total_burned
    ledger = MoneyParts(LEDGER, totals.ledger_balance, held)
    if network.stake is StakeSource.EIGENLAYER:
        return (ledger,)
    return ledger, MoneyParts(VAULT, totals.vault_balance, totals.total_stake + totals.total_unbonding)


def proven_parts(
    chain: Chain, network: Network, viewed: tuple[MoneyParts, ...], block: int, hash_: Digest
) -> tuple[MoneyParts, ...]:
    """Returns balance and parts of each contract in `viewed`, as the block's state root proves them. Raises `TryAgain` if the
    node gives no proof or a wrong one."""
    header = header_of(header_rlp(chain, block))
    if header is None or header.hash != hash_:
        raise TryAgain("chain", f"the header of block {block} is not that of the index")
    return tuple(_proven(chain, header, address_of(network, each.contract), each.contract) for each in viewed)


def _proven(chain: Chain, header: ProvenHeader, at: Address, contract: str) -> MoneyParts:
    total, balance = 0, 0
    for name in _PARTS[contract]:
        place = layout(contract).place(name)
        proof = chain.slot_proof(at, place.slot, at_hash(header.hash))
        try:
            account = ProofNodes(proof.account).value(header.state_root, keccak256(bytes.fromhex(at[2:])).hex())
            if account is None:
                raise BrokenProof("there is no such account")
            fields = decode_list(account, 4)
            balance, root = to_integer(fields[1]), Digest(fields[2])
            word = ProofNodes(proof.storage).value(root, keccak256(place.slot.to_bytes(32)).hex())
            total += 0 if word is None else to_integer(decode_rlp(word))
        except BrokenProof as error:
            raise TryAgain("chain", f"the node's proof of {contract}.{name} is wrong: {error}") from None
    return MoneyParts(contract, balance, total)


# --- release logs ---


class ReleaseLogReader:
    """Reader of the release logs of one network's shards. It keeps a copy of each log, and the copy only grows. It
    judges a release again only if the last judgement was not possible yet."""

    def __init__(self, client: Chain, network: Network, settings: ReleaseLogSettings) -> None:
        self._client, self._network, self._settings = client, network, settings
        self._reader = SnapshotReader(client, network)
        self._judged: dict[tuple[int, Address], int] = {}
        self._wrong: dict[tuple[int, Address], tuple[str, ...]] = {}

    def read(self, epoch: int, seen: AuditBlock) -> EpochLogs:
        """Reads the logs of all shards of one key epoch. Judges the releases in them by the state of the chain at the block
        `seen`."""
        try:
            history = SharesHistory(share_history(self._client, self._network, epoch, seen.block))
        except (Fault, Unavailable) as error:
            return EpochLogs(epoch, 0, False, (), str(error))
        if not history.versions:
            return EpochLogs(epoch, 0, False, (), "the chain has no shares of it")
        logs = [self._log(history, epoch, place, each, seen) for place, each in enumerate(history.holders().values(), 1)]
        threshold = min(each.threshold for each in history.versions)
        return EpochLogs(epoch, threshold, is_rebuilt(epoch), tuple(logs), "")

    def _log(self, history: SharesHistory, epoch: int, place: int, holder: ShareHolder, seen: AuditBlock) -> ShardLog:
        copy = ReleaseLogCopy(self._settings.folder, epoch, holder.address)
        read = read_log(holder, copy, self._network.epochs_domain, self._settings.timeout_s)
        wrong, unjudged = self._judge(epoch, holder.address, read, seen)
        broken = (*read.broken, *releases_out_of_force(read.entries, history), *wrong)
        return ShardLog(epoch, place, holder.address, read.entries, broken, read.silent or read.unusable or unjudged)

    def _judge(self, epoch: int, shard: Address, read: LogReading, seen: AuditBlock) -> tuple[tuple[str, ...], str]:
        """Judges the records that were not judged before. Returns all faults of the whole log, and the reason why some records
        are not judged yet; empty if all are judged."""
        key = (epoch, shard)
        done = self._judged.get(key, 0)
        found = judge_log(read.entries[done:], self._reader, seen)
        self._wrong[key] = (*self._wrong.get(key, ()), *(each for each in found.wrong if each not in self._wrong.get(key, ())))
        if waiting := sum(found.unjudged[reason] for reason in RETRYABLE):
            return self._wrong[key], f"{waiting} releases are not judged yet {found.failure}".rstrip()
        self._judged[key] = len(read.entries)
        return self._wrong[key], ""
