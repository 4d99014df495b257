"""The file format of a fork pack, and its verification without a node: a ZIP file, not compressed, of canonical JSON documents.

The same state gives the same bytes, so two people compare packs by one digest. Nothing in a pack is signed: its stake table is
what a node said at one block. Anybody with a node of that block makes the pack again.
"""

import io
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from bytewise.protocol import encoding
from bytewise.protocol.address_book import Network
from bytewise.protocol.digests import sha256
from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.errors.branches import Fault
from bytewise.protocol.units import U64, U256, Address, Digest, hex0x
from chain.capsule.deployment import deployment_of
from chain.capsule.report import Result
from chain.capsule.schema import SUFFIX
from chain.capsule.verification import Trust, verify_capsule

FORMAT = "bytewise/fork-pack/v1"
MANIFEST, NETWORK, STAKE, PARAMETERS, DISPUTES, PAGE = (
    "manifest.json", "network.json", "stake.json", "parameters.json", "disputes.json", "README.md",
)  # fmt: skip
FIXED = (NETWORK, STAKE, PARAMETERS, DISPUTES, PAGE)
"""Files of every pack beside the manifest; the others are capsules."""
MAX_BYTES = 64 * 2**20
"""Largest pack that is read."""
MAX_FILES = 10_000
"""Most files in a pack."""
ARITY, LEVELS = 7, 5
"""Children of a node of a stake tree, and its levels below the root."""

_EPOCH_BIT, _SUM_BITS = 224, 32


class PackRejected(Exception):
    """A file is no fork pack, or does not verify. The first value says whether it is a pack at all, the second why."""


@dataclass(frozen=True, slots=True)
class PackedFile:
    """One file of a pack."""

    name: str
    """Path in the pack."""
    sha256: Digest
    """SHA-256 of its bytes."""


@dataclass(frozen=True, slots=True)
class PackManifest:
    """What a pack has, and of which block."""

    format: str
    """Always `FORMAT`."""
    chain_id: U256
    """EIP-155 chain id."""
    block: U64
    """Number of the block whose state is in the pack."""
    block_hash: Digest
    """Hash of that block."""
    files: tuple[PackedFile, ...]
    """All other files, ascending by name."""


@dataclass(frozen=True, slots=True)
class PlaceWeight:
    """What an account weighs at its place of a stake tree."""

    place: int
    """Number of the place."""
    account: Address
    """Who has it."""
    since: U64
    """Stake epoch from which on the newest weight counts."""
    units: U64
    """The newest weight."""
    before: U64
    """The weight in the epoch before `since`."""


@dataclass(frozen=True, slots=True)
class PoolTable:
    """The stake tree of one pool."""

    pool: Digest
    """Name of the pool."""
    tree: Address
    """Its stake tree."""
    epoch: U64
    """The running stake epoch."""
    weights: tuple[PlaceWeight, ...]
    """All places that were ever taken, in order without a gap."""

    def units(self, epoch: int) -> tuple[int, ...]:
        """Units of all places in the running epoch or the next."""
        return tuple(int(each.units if each.since <= epoch else each.before) for each in self.weights)

    def root(self, epoch: int) -> tuple[int, ...]:
        """Sums of the root's seven children in the running epoch or the next, as the contract's root node has them."""
        width, units = ARITY ** (LEVELS - 1), self.units(epoch)
        return tuple(sum(units[child * width : (child + 1) * width]) for child in range(ARITY))


@dataclass(frozen=True, slots=True)
class AccountStake:
    """Stake of one account in wei."""

    account: Address
    """The account."""
    stake: U256
    """What counts for draws and for posting."""
    unbonding: U256
    """What is on its way out."""
    locked: U256
    """What open disputes bind."""
    collateral: U256
    """What open receipts bind."""


@dataclass(frozen=True, slots=True)
class StakeTable:
    """All stake at the pack's block."""

    pools: tuple[PoolTable, ...]
    """Every pool of the address book, in its order."""
    accounts: tuple[AccountStake, ...]
    """Everybody who ever staked or had a place, ascending by account."""


class ForkPack(NamedTuple):
    """A pack that verifies."""

    manifest: PackManifest
    network: Network
    stake: StakeTable
    files: Mapping[str, bytes]


def sums_of_node(word: int) -> tuple[int, ...]:
    """The seven sums in a node of the contract's tree (`SumNodeLib`)."""
    return tuple(word >> (child * _SUM_BITS) & 2**_SUM_BITS - 1 for child in range(ARITY))


def write_pack(chain_id: int, block: int, block_hash: Digest, files: Mapping[str, bytes]) -> bytes:
    """The bytes of a pack with these files."""
    listed = tuple(PackedFile(name, sha256(files[name])) for name in sorted(files))
    manifest = PackManifest(FORMAT, U256(chain_id), U64(block), block_hash, listed)
    return _zipped({MANIFEST: encode(manifest), **files})


def read_pack(data: bytes, network: Network | None = None) -> ForkPack:
    """The pack in these bytes; `PackRejected` names what is wrong. `network`: the one that the reader means."""
    files = _unzipped(data)
    try:
        manifest = decode(PackManifest, files.pop(MANIFEST))
        if manifest.format != FORMAT:
            raise PackRejected(False, f"format {manifest.format[:60]!r}, this program reads {FORMAT}")
        _verify_files(manifest, files)
        book, stake = decode(Network, files[NETWORK]), decode(StakeTable, files[STAKE])
        for name in (PARAMETERS, DISPUTES):
            encoding.parse(files[name])
    except (KeyError, Fault) as error:
        raise PackRejected(False, f"a document is missing or malformed: {error}") from None
    if manifest.chain_id != book.chain_id:
        raise PackRejected(True, f"it is of another network, on chain {book.chain_id}")
    if network is not None and _identity(book) != _identity(network):
        raise PackRejected(True, f"it is of another network than the address book, which is of chain {network.chain_id}")
    _verify_stake(book, stake)
    _verify_capsules(book, manifest, files)
    return ForkPack(manifest, book, stake, files)


def _identity(book: Network) -> tuple[object, ...]:
    """What two address books of one network have in common. Key epochs come and go."""
    return book.chain_id, book.deploy_block, encode(book.addresses), book.pools, book.code


def _verify_files(manifest: PackManifest, files: Mapping[str, bytes]) -> None:
    named = {each.name: each.sha256 for each in manifest.files}
    if list(named) != sorted(files) or len(named) != len(manifest.files) or set(FIXED) - named.keys():
        raise PackRejected(True, "its files are not those of its manifest")
    changed = next((name for name in sorted(files) if sha256(files[name]) != named[name]), None)
    if changed is not None:
        raise PackRejected(True, f"{changed} was altered: it has another SHA-256 than the manifest says")


def _verify_stake(network: Network, stake: StakeTable) -> None:
    if [(each.pool, each.tree) for each in stake.pools] != [(each.digest, each.tree) for each in network.pools]:
        raise PackRejected(True, f"{STAKE} does not have the pools of the address book")
    for table in stake.pools:
        holders = [each.account for each in table.weights]
        if [each.place for each in table.weights] != list(range(len(holders))) or len(set(holders)) != len(holders):
            raise PackRejected(True, f"{STAKE}: places of pool {hex0x(table.pool)} are not in order, or an account has two")
        # What is written in stake epoch 1, the first, counts from epoch 2 on.
        if any(not 2 <= each.since <= table.epoch + 1 for each in table.weights):
            raise PackRejected(True, f"{STAKE}: a weight of pool {hex0x(table.pool)} counts from an impossible epoch")
    names = [each.account for each in stake.accounts]
    if any(one >= other for one, other in pairwise(names)):
        raise PackRejected(True, f"{STAKE}: accounts are not ascending, or an account is there twice")


def _verify_capsules(network: Network, manifest: PackManifest, files: Mapping[str, bytes]) -> None:
    trust = Trust(frozenset({deployment_of(network).digest}), manifest.block_hash)
    for name in sorted(files.keys() - set(FIXED)):
        report = verify_capsule(files[name], trust)
        if report.result is not Result.PASS or report.capsule is None:
            wrong = report.first_failure or next(iter(report.open_conditions), None)
            raise PackRejected(True, f"{name} does not verify: {wrong.failure if wrong else report.result}")
        if name != capsule_name(report.capsule.claim.dispute):
            raise PackRejected(True, f"{name} is the capsule of another dispute")
        if report.capsule.claim.block != manifest.block:
            raise PackRejected(True, f"{name} is of block {report.capsule.claim.block}, the pack of block {manifest.block}")


def capsule_name(dispute: Digest) -> str:
    """Path of a dispute's capsule in a pack."""
    return f"capsules/{hex0x(dispute)}{SUFFIX}"


def _zipped(files: Mapping[str, bytes]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name)
            entry.create_system, entry.external_attr = 3, 0o644 << 16
            archive.writestr(entry, files[name])
    return made.getvalue()


_UNREADABLE = (
    zipfile.BadZipFile, zipfile.LargeZipFile, NotImplementedError, RuntimeError, ValueError, EOFError, OSError, OverflowError,
)  # fmt: skip
"""What `zipfile` raises on bytes that are no ZIP file."""


def _unzipped(data: bytes) -> dict[str, bytes]:
    if len(data) > MAX_BYTES:
        raise PackRejected(False, f"larger than {MAX_BYTES} bytes")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries: Sequence[zipfile.ZipInfo] = archive.infolist()
            names = [each.filename for each in entries]
            if len(names) != len(set(names)):
                raise PackRejected(False, "a file is in it twice")
            plain = all(each.compress_type == zipfile.ZIP_STORED and each.file_size <= len(data) for each in entries)
            if len(names) > MAX_FILES or not plain:
                raise PackRejected(False, f"more than {MAX_FILES} files, or a compressed one")
            if sum(each.file_size for each in entries) > MAX_BYTES:
                raise PackRejected(False, f"its files have more than {MAX_BYTES} bytes")
            files = {name: archive.read(name) for name in names}
    except _UNREADABLE as error:
        raise PackRejected(False, f"no whole ZIP file: {error}") from None
    if _zipped(files) != data:
        raise PackRejected(False, "it has bytes beside its files: only what `bytewise evidence fork-pack` writes is read")
    return files
