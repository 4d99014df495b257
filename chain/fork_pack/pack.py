"""The file format of a fork pack, and its verification without a node. A pack is a ZIP file, not compressed, of canonical JSON.

The same state gives the same bytes, so two people can compare packs by one digest. Nothing in a pack is signed: it has the state
that one node reported at one block. Anybody with a node that has this block can make the pack again.
"""

import dataclasses
import enum
import io
import re
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

from bytewise.protocol import encoding
from bytewise.protocol.address_book import Network, StakeSource
from bytewise.protocol.court.params import ParamSet
from bytewise.protocol.digests import sha256
from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.errors.branches import Fault
from bytewise.protocol.records.statements import Vote
from bytewise.protocol.units import U64, U256, Address, Digest, hex0x
from chain.capsule.facts import contract_without_code_hash, deployment_of
from chain.capsule.report import Result
from chain.capsule.schema import SUFFIX
from chain.capsule.verification import Trust, verify_capsule
from chain.reads.history import (
    CertificateEvent,
    CommitEvent,
    DisputeEndedEvent,
    DisputeOpenedEvent,
    RoundSettledEvent,
    SeatsDrawnEvent,
)

FORMAT = "bytewise/fork-pack/v1"
MANIFEST, NETWORK, STAKE, PARAMETERS, DISPUTES, PAGE = (
    "manifest.json", "network.json", "stake.json", "parameters.json", "disputes.json", "README.md",
)  # fmt: skip
FIXED = (NETWORK, STAKE, PARAMETERS, DISPUTES, PAGE)
"""Files that every pack has beside the manifest. All other files are capsules."""
MAX_BYTES = 64 * 2**20
"""Largest pack that is read."""
MAX_FILES = 10_000
"""Largest number of files in a pack."""
ARITY, LEVELS = 7, 5
"""Number of children of each node of a stake tree, and number of levels below the root."""

_EPOCH_BIT, _SUM_BITS = 224, 32


class PackRejected(Exception):
    """Exception: a file is no fork pack, or does not verify. The first value is False if it is no pack at all; the second is the
    reason."""


@dataclass(frozen=True, slots=True)
class PackedFile:
    """One file of a pack."""

    name: str
    """Path in the pack."""
    sha256: Digest
    """SHA-256 of the file's bytes."""


@dataclass(frozen=True, slots=True)
class PackManifest:
    """The list of a pack's files, with the block whose state they contain."""

    format: str
    """Always `FORMAT`."""
    chain_id: U256
    """EIP-155 chain id."""
    block: U64
    """Number of the block whose state is in the pack."""
    block_hash: Digest
    """Hash of the block with number `block`."""
    files: tuple[PackedFile, ...]
    """All other files, ascending by name."""


@dataclass(frozen=True, slots=True)
class PlaceWeight:
    """The weight of an account at its place of a stake tree."""

    place: int
    """Number of the place."""
    account: Address
    """Account that has the place."""
    since: U64
    """Stake epoch from which the newest weight counts."""
    units: U64
    """The newest weight, in units."""
    before: U64
    """Weight in the epoch before `since`, in units."""


@dataclass(frozen=True, slots=True)
class PoolTable:
    """The stake tree of one pool."""

    pool: Digest
    """Digest of the pool."""
    tree: Address
    """Address of the pool's stake tree."""
    epoch: U64
    """Number of the running stake epoch."""
    unit: U256
    """Stake in wei that counts as one unit."""
    most: U64
    """Largest number of units of one account."""
    weights: tuple[PlaceWeight, ...]
    """All places that were ever taken, in order without a gap."""

    def units(self, epoch: int) -> tuple[int, ...]:
        """Returns the units of all places. `epoch` is the running stake epoch or the next one."""
        return tuple(int(each.units if each.since <= epoch else each.before) for each in self.weights)

    def root(self, epoch: int) -> tuple[int, ...]:
        """Returns the sums of the root's seven children, as the contract's root node has them. `epoch` is the running stake
        epoch or the next one."""
        width, units = ARITY ** (LEVELS - 1), self.units(epoch)
        return tuple(sum(units[child * width : (child + 1) * width]) for child in range(ARITY))


@dataclass(frozen=True, slots=True)
class AccountStake:
    """Stake of one account in wei."""

    account: Address
    """The account."""
    stake: U256
    """Stake that counts for draws and for posting batches."""
    unbonding: U256
    """Stake that is being withdrawn."""
    locked: U256
    """Stake that open disputes lock."""
    collateral: U256
    """Stake that is bound to open receipts."""


@dataclass(frozen=True, slots=True)
class StakeTable:
    """All stake at the pack's block."""

    pools: tuple[PoolTable, ...]
    """Every pool of the address book, in its order."""
    accounts: tuple[AccountStake, ...]
    """Every account that ever deposited, registered as operator or had a place, ascending."""


class ForkPack(NamedTuple):
    """The content of a pack that verifies."""

    manifest: PackManifest
    """The list of files, with the block."""
    network: Network
    """The address book."""
    stake: StakeTable
    """All stake at the block."""
    files: Mapping[str, bytes]
    """Every file of the pack except the manifest, by its path."""


def sums_of_node(word: int) -> tuple[int, ...]:
    """Unpacks one word of the contract `StakeTree`, which is one node of its sum tree. Returns the sums of the node's seven
    children, lowest bits first."""
    return tuple(word >> (child * _SUM_BITS) & 2**_SUM_BITS - 1 for child in range(ARITY))


def write_pack(chain_id: int, block: int, block_hash: Digest, files: Mapping[str, bytes]) -> bytes:
    """Returns the bytes of a pack with these files and their manifest."""
    listed = tuple(PackedFile(name, sha256(files[name])) for name in sorted(files))
    manifest = PackManifest(FORMAT, U256(chain_id), U64(block), block_hash, listed)
    return _zipped({MANIFEST: encode(manifest), **files})


def read_pack(data: bytes, network: Network | None = None) -> ForkPack:
    """Parses and verifies a pack. Raises `PackRejected` with the reason if it does not verify, or is of another network than
    `network`."""
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
    lacking = contract_without_code_hash(book)
    if lacking is not None:
        raise PackRejected(True, f"{NETWORK} has no code hash of {lacking}")
    if network is not None and _identity(book) != _identity(network):
        raise PackRejected(True, f"it is of another network than the address book, which is of chain {network.chain_id}")
    _verify_stake(book, stake)
    ended = _verify_disputes(encoding.parse(files[DISPUTES]))
    _verify_parameters(encoding.parse(files[PARAMETERS]))
    _verify_capsules(book, manifest, files, ended)
    missing = [each for each in ended if capsule_name(each) not in files]
    page = page_of(book, int(manifest.block), manifest.block_hash, stake, len(files) - len(FIXED), missing)
    if files[PAGE] != page.encode():
        raise PackRejected(True, f"{PAGE} is not the page of this pack")
    return ForkPack(manifest, book, stake, files)


def _identity(book: Network) -> tuple[object, ...]:
    """Returns the values that all address books of one network share. Key epochs are left out, because they change."""
    return book.chain_id, book.deploy_block, encode(book.addresses), book.pools, book.code


def _verify_files(manifest: PackManifest, files: Mapping[str, bytes]) -> None:
    named = {each.name: each.sha256 for each in manifest.files}
    if list(named) != sorted(files) or len(named) != len(manifest.files) or set(FIXED) - named.keys():
        raise PackRejected(True, "its files are not those of its manifest")
    changed = next((name for name in sorted(files) if sha256(files[name]) != named[name]), None)
    if changed is not None:
        raise PackRejected(True, f"{changed} was altered: it has another SHA-256 than the manifest says")


def _verify_stake(network: Network, stake: StakeTable) -> None:
    """Raises `PackRejected` unless the stake tables have the pools of the address book, and places, accounts and epochs are
    consistent."""
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
    _verify_accounts(network, stake)


def _verify_accounts(network: Network, stake: StakeTable) -> None:
    """Raises `PackRejected` unless every account with a place is listed, and has either no weight or the weight that its stake
    gives.

    The rule is that of `Verifiers._weigh` and `StakeTree.unitsFor`. With EigenLayer the weight is not checked, because it
    follows the stake later.
    """
    held = {each.account: int(each.stake) for each in stake.accounts}
    for table in stake.pools:
        for each in table.weights:
            if each.account not in held:
                raise PackRejected(True, f"{STAKE}: {each.account} has a place, and is not among the accounts")
            due = min(held[each.account] // max(1, int(table.unit)), int(table.most))
            if network.stake is not StakeSource.EIGENLAYER and each.units not in (0, due):
                told = f"{each.account} has {each.units} units, and its stake gives {due}"
                raise PackRejected(True, f"{STAKE}: {told}")


# `disputes.json` is no record. Its form follows from the classes into which `CourtHistory` reads events.

_EVENTS: Mapping[str, type] = {
    "opened": DisputeOpenedEvent, "drawn": SeatsDrawnEvent, "commitments": CommitEvent, "certificates": CertificateEvent,
    "rounds": RoundSettledEvent, "ended": DisputeEndedEvent,
}  # fmt: skip


def _verify_disputes(document: Any) -> dict[Digest, str]:
    """Checks the form of the disputes, and returns the verdicts of those that ended, in their order."""
    if not isinstance(document, dict) or document.keys() != {*_EVENTS, "votes"}:
        raise PackRejected(True, f"{DISPUTES} does not have the lists {', '.join(sorted({*_EVENTS, 'votes'}))}")
    for name, kind in _EVENTS.items():
        if not _fits(document[name], tuple[kind, ...]):  # type: ignore[valid-type]
            raise PackRejected(True, f"{DISPUTES}: an entry of {name} has another form")
    votes = document["votes"]
    if not isinstance(votes, list) or not all(_is_record(each, {"vote": Vote, "block": None}) for each in votes):
        raise PackRejected(True, f"{DISPUTES}: an entry of votes has another form")
    return {Digest(bytes.fromhex(each["dispute"][2:])): each["verdict"] for each in document["ended"]}


def _verify_parameters(document: Any) -> None:
    form = {"version": None, "block": None, "params": ParamSet}
    if not isinstance(document, list) or not all(_is_record(each, form) for each in document):
        raise PackRejected(True, f"{PARAMETERS}: a version has another form")
    if [each["version"] for each in document] != list(range(1, len(document) + 1)):
        raise PackRejected(True, f"{PARAMETERS}: the versions are not 1, 2, … in order")


def _is_record(value: Any, form: Mapping[str, Any]) -> bool:
    """Returns whether a value is an object of exactly these members. A type of None means a plain number."""
    if not isinstance(value, dict) or value.keys() != form.keys():
        return False
    return all(type(value[name]) is int if kind is None else _fits(value[name], kind) for name, kind in form.items())


def _fits(value: Any, kind: Any) -> bool:
    """Returns whether plain JSON data has the form of a type: integers are decimal text, bytes hex, enumerations names in lower
    case."""
    kind = getattr(kind, "__supertype__", kind)
    arguments = get_args(kind)
    if get_origin(kind) is tuple:
        return isinstance(value, list) and all(_fits(each, arguments[0]) for each in value)
    if get_origin(kind) is dict:
        return isinstance(value, dict) and all(_fits(each, arguments[1]) for each in value.values())
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return value in {each.name.lower() for each in kind}
    if isinstance(kind, type) and (dataclasses.is_dataclass(kind) or hasattr(kind, "_fields")):
        return _is_record(value, get_type_hints(kind))
    patterns = {int: r"-?[0-9]{1,80}", bytes: r"0x([0-9a-f]{2})*", str: r"[^\x00-\x1f]{0,200}"}
    form = next((pattern for base, pattern in patterns.items() if isinstance(kind, type) and issubclass(kind, base)), None)
    return form is not None and isinstance(value, str) and re.fullmatch(form, value) is not None


def _verify_capsules(network: Network, manifest: PackManifest, files: Mapping[str, bytes], ended: Mapping[Digest, str]) -> None:
    """Raises `PackRejected` unless each capsule verifies at the pack's block and shows the verdict that `disputes.json` has."""
    trust = Trust(frozenset({deployment_of(network).digest}), manifest.block_hash)
    for name in sorted(files.keys() - set(FIXED)):
        report = verify_capsule(files[name], trust)
        if report.result is not Result.PASS or report.capsule is None:
            wrong = report.first_failure or next(iter(report.open_conditions), None)
            raise PackRejected(True, f"{name} does not verify: {wrong.failure if wrong else report.result}")
        if name != capsule_name(report.capsule.claim.dispute):
            raise PackRejected(True, f"{name} is the capsule of another dispute")
        if ended.get(report.capsule.claim.dispute) != report.capsule.claim.verdict:
            raise PackRejected(True, f"{name} shows {report.capsule.claim.verdict}, and {DISPUTES} says otherwise")
        if report.capsule.claim.block != manifest.block:
            raise PackRejected(True, f"{name} is of block {report.capsule.claim.block}, the pack of block {manifest.block}")


def capsule_name(dispute: Digest) -> str:
    """Returns the path of a dispute's capsule in a pack."""
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
"""Exceptions that `zipfile` raises for bytes that are no ZIP file."""


def _unzipped(data: bytes) -> dict[str, bytes]:
    """Returns the files of a pack by name. Raises `PackRejected` unless `_zipped` gives exactly these bytes for them."""
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


def page_of(network: Network, block: int, block_hash: Digest, stake: StakeTable, capsules: int, missing: Sequence[Digest]) -> str:
    """Returns the page that explains a pack. It follows from the other files, so a verification can write it again and
    compare."""
    pools = "\n".join(
        f"| {hex0x(each.pool)} | {len(each.weights)} | {sum(each.units(int(each.epoch)))} |" for each in stake.pools
    )
    lacking = "".join(f"\n- {hex0x(each)}: the node could not prove it at this block." for each in missing)
    return _PAGE.format(
        chain_id=network.chain_id, block=block, block_hash=hex0x(block_hash), accounts=len(stake.accounts),
        total=sum(each.stake for each in stake.accounts), capsules=capsules, pools=pools, width=ARITY ** (LEVELS - 1),
        lacking=lacking,
    )  # fmt: skip


_PAGE = """\
# Fork pack of a Bytewise network

This file has what people need who go on without the contracts of this network: on a copy of its chain, or on another one.

- chain {chain_id}, block {block}, hash {block_hash}
- {accounts} accounts with stake, {total} wei in all
- {capsules} capsules of disputes that ended

| pool | places | units |
|---|---|---|
{pools}

## What is in it

| file | content |
|---|---|
| `manifest.json` | chain, block, and the SHA-256 of every other file |
| `network.json` | addresses and code hashes of the contracts |
| `stake.json` | units of every place of each stake tree; stake, unbonding, locked and collateral wei of every account |
| `parameters.json` | every version of the parameters, with the block of its start |
| `disputes.json` | disputes, draws, commitments, votes, certificates, rounds and endings with their money |
| `capsules/` | one evidence capsule for each dispute that ended: `bytewise capsule verify` |

## How to check it

Nothing in it is signed. Make it again from a node of your own at the same block: the bytes are equal.

    bytewise evidence fork-pack --out mine.zip --block {block} --network network.json --rpc URL
    bytewise evidence fork-pack --verify mine.zip

Capsules prove themselves: each has trie nodes up to the hash of the block. Compare the hash with a source that you trust.

## How to use it

The units of a place in stake epoch e are `units` if `since` is e or less, else `before`. Sum them by ranges of {width} places:
these are the sums of the tree's root. A new deployment that gives each account its stake in the order of the places has the
same tree, and so the same draws for the same beacon.

## What it lacks

Quotes of the votes, sealed envelopes, key shares and everything after its block.{lacking}
"""
