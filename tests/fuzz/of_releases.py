"""What a shard reads of a stranger, an enclave and an auditor of a shard, and what comes back from a shard's own disk."""

import os
from pathlib import Path

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.errors.branches import Fault, Unavailable
from bytewise.protocol.jobs import key_domain
from bytewise.protocol.keys.ceremony import Erasure, ShardContact, SignedErasure
from bytewise.protocol.keys.epochs import (
    MAX_RELEASE_MARKS,
    EpochDocument,
    ReleaseAnswer,
    ReleaseReply,
    ReleaseRequest,
    SealedShare,
    ShardInfo,
    ShardRefusal,
)
from bytewise.protocol.keys.release_log import START, ReleaseLog, SignedRelease, SignedTicket, verify_log, verify_owner
from bytewise.protocol.units import U64, Blob
from bytewise.service.clock import SystemClock
from kms.backup import _LABEL as BACKUP_LABEL
from kms.backup import NONCE_BYTES, back_up, open_backup
from kms.release_log.copies import MAX_PAGE_MARKS
from kms.storage import keyring
from tests.fixtures.kms.memory_chain import CONTRACTS
from tests.fixtures.kms.release_network import World
from tests.fuzz.edits import mutant
from tests.fuzz.target import Target, corpus, records, same, target


def requests(folder: Path) -> Target:
    """The shape of a release request."""
    world = World(folder)
    seed = encode(world.request(world.case()))
    return target(lambda data: same(decode(ReleaseRequest, data, MAX_RELEASE_MARKS), data), [seed])


def shard(folder: Path) -> Target:
    """A whole shard, from the body of a request to its answer: also what is asked of the chain and written down."""
    world = World(folder)
    ours, case = world.shard(1), world.case()
    world.chain.open(case)
    peer = world.peer(ours)
    seeds = [encode(world.request(case)), encode(world.request(world.case(seq=2)))]
    return target(lambda data: ours.release(data, peer), seeds, (Fault, Unavailable))


def answers(folder: Path) -> Target:
    """What an enclave reads of a shard: every answer but the log."""
    world = World(folder)
    ours, case = world.shard(1), world.case()
    world.chain.open(case)
    answer = world.release(ours, case)
    right = ours.log(0).entries[0].right
    refusal = ShardRefusal("TryAgain", "R-52", True)
    seeds = (ReleaseReply(answer, None), ReleaseReply(None, refusal), answer, refusal, ours.info(), right)
    return records((ReleaseReply, ReleaseReply, ReleaseAnswer, ShardRefusal, ShardInfo, SignedTicket), seeds)


def logs(folder: Path) -> Target:
    """Pages of a shard's release log, as an auditor reads and verifies them."""
    world = World(folder)
    ours = world.shard(1)
    for seq in (1, 2):
        world.chain.open(case := world.case(seq=seq))
        world.release(ours, case)
    log = ours.log(0)
    owner, domain = log.entries[0].record.shard, key_domain(CONTRACTS)

    def read(data: bytes) -> None:
        entries = same(decode(ReleaseLog, data, MAX_PAGE_MARKS), data).entries
        verify_log(entries, START, domain)
        verify_owner(entries, owner, 1)

    return target(read, [encode(log)])


def documents(folder: Path) -> Target:
    """Files: epoch documents, entries of shards, sealed shares, erasure statements, lines of kept logs."""
    world = World(folder)
    ours, case = world.shard(1), world.case()
    world.chain.open(case)
    world.release(ours, case)
    own = folder / "shard-1"
    said = Erasure(CONTRACTS.chain_id, CONTRACTS.key_epochs, U64(1), 0, world.chain.facts.policy, 1, U64(7))
    erasure = SignedErasure(said, ours.info().shard, Blob(bytes(65)))
    share = decode(SealedShare, (own / "share-1.json").read_bytes())
    seeds = (
        world.document, keyring.shard_entry(own, "https://127.0.0.1:7001", "127.0.0.1:7002"), share, erasure,
        ours.log(0).entries[0],
    )  # fmt: skip
    return records((EpochDocument, ShardContact, SealedShare, SignedErasure, SignedRelease), seeds)


def backups(folder: Path) -> Target:
    """Backup files: altered ones, and altered content under the right key."""
    world = World(folder)
    file, key, nonce = folder / "backup", os.urandom(32), bytes(NONCE_BYTES)
    made = back_up(folder / "shard-1", folder / "made", key, world.records(1), SystemClock(), os.urandom)
    whole, content = (folder / "made").read_bytes(), encode(made)

    def one(data: bytes) -> bool:
        resealed = data[:1] > b"\x7f"
        given = mutant(data[1:], [content if resealed else whole])
        file.write_bytes(nonce + AESGCM(key).encrypt(nonce, given, BACKUP_LABEL) if resealed else given)
        try:
            found = open_backup(file, key)
        except ConfigurationError:
            return False
        same(found, given if resealed else content)
        return True

    return Target(one, tuple(bytes([kind]) + each for kind, seed in ((0, whole), (255, content)) for each in corpus([seed])))
