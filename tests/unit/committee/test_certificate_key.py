"""A member's certificate key: its file, and the pool for which it counts."""

from pathlib import Path
from typing import Any, cast

import pytest

from bytewise.crypto.bls import BlsSigner, PublicKey, key_hash
from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.units import ZERO_DIGEST, Address, address
from chain.client.artifacts import Log
from chain.reads.history import CourtHistory
from chain.reads.reader import SnapshotReader
from committee.__main__ import bls_signer, registered_key
from tests.fixtures.builders import word
from tests.fixtures.verifier.verifier_fixture import ME, NETWORK

WHO = ME.address
TREES = [address("0x" + f"{number:02x}" * 20) for number in (0xAA, 0xBB)]
POOLS = [word("pool", number) for number in range(2)]
KEYS = [BlsSigner(number.to_bytes(32)).public_key for number in (5, 6, 7)]


class KeyChain:
    """Events of `BlsKeys` and `Registry` about one account, each in a block of its own. Also the member's sender: what it sends
    is mined at once."""

    chain_id = NETWORK.chain_id

    def __init__(self) -> None:
        self.found: list[Log] = []
        self.sent: list[PublicKey] = []
        self.pool = 0
        for pool, tree in zip(POOLS, TREES, strict=True):
            self.add("PoolAdded", pool=pool, tree=tree)

    @property
    def head(self) -> int:
        return len(self.found)

    def add(self, event: str, **values: Any) -> None:
        self.found.append(Log(WHO, event, values, self.head + 1, ZERO_DIGEST, 0, ZERO_DIGEST))

    def join(self, pool: int) -> None:
        self.pool = pool
        self.add("VerifierJoined", verifier=WHO, pool=POOLS[pool], platformId=ZERO_DIGEST, measurement=ZERO_DIGEST)

    def quit(self) -> None:
        self.add("VerifierLeft", verifier=WHO, pool=POOLS[self.pool])

    def register(self, key: PublicKey, account: Address = WHO) -> None:
        self.add("KeyRegistered", account=account, keyHash=key_hash(key), key={"x": key[:64], "y": key[64:]})

    def note(self, key: PublicKey) -> None:
        self.add("PlaceNoted", account=WHO, keyHash=key_hash(key), tree=TREES[self.pool], place=3)

    def logs(self, contract: str, at: Address, events: list[str], from_block: int, to_block: int) -> list[Log]:
        return [log for log in self.found if log.event in events and from_block <= log.block <= to_block]

    def history(self) -> CourtHistory:
        return CourtHistory(SnapshotReader(cast(Any, self), NETWORK))

    def keys(self, pool: int) -> dict[Address, PublicKey]:
        return self.history().keys_at(TREES[pool], self.head, self.head)

    def register_bls(self, signer: BlsSigner) -> None:
        self.sent.append(signer.public_key)
        taken = [log.values["keyHash"] for log in self.found if log.event == "KeyRegistered"]
        if key_hash(signer.public_key) not in taken:
            self.register(signer.public_key)
            self.note(signer.public_key)


def in_first_pool(chain: KeyChain) -> None:
    chain.join(0)
    chain.register(KEYS[0])
    chain.note(KEYS[0])


def moved(chain: KeyChain) -> None:
    in_first_pool(chain)
    chain.quit()
    chain.join(1)


def replaced(chain: KeyChain) -> None:
    in_first_pool(chain)
    chain.register(KEYS[1])


def replaced_elsewhere(chain: KeyChain) -> None:
    moved(chain)
    chain.register(KEYS[1])


def moved_twice(chain: KeyChain) -> None:
    replaced_elsewhere(chain)
    chain.note(KEYS[1])
    chain.register(KEYS[2])


def returned(chain: KeyChain) -> None:
    replaced_elsewhere(chain)
    chain.quit()
    chain.join(0)


@pytest.mark.parametrize(
    ("history", "first", "second"),
    [
        (in_first_pool, KEYS[0], None), (moved, KEYS[0], None), (replaced, KEYS[1], None), (replaced_elsewhere, None, None),
        (moved_twice, None, KEYS[2]), (returned, None, None),
    ],
)  # fmt: skip
def test_certificate_key_counts_only_in_the_pool_of_its_noted_place(history: Any, first: Any, second: Any) -> None:
    """As `BlsKeys` decides: a key is of one tree for good; a replacement has its place only while the account stays there."""
    chain = KeyChain()
    history(chain)
    assert chain.keys(0) == ({WHO: first} if first else {})
    assert chain.keys(1) == ({WHO: second} if second else {})


def test_replaced_certificate_key_counts_before_its_replacement() -> None:
    chain = KeyChain()
    in_first_pool(chain)
    before = chain.head
    chain.register(KEYS[1])
    assert chain.history().keys_at(TREES[0], before, chain.head) == {WHO: KEYS[0]}


def test_member_that_changed_its_pool_registers_another_key(tmp_path: Path) -> None:
    chain, file = KeyChain(), tmp_path / "bls.key"

    def start() -> BlsSigner:
        register = chain.history().key_register(chain.head)
        return registered_key(register, cast(Any, chain), WHO, TREES[chain.pool], chain.head, file)

    chain.join(0)
    keys = [start().public_key for _ in range(2)]
    chain.quit()
    chain.join(1)
    keys += [start().public_key for _ in range(2)]
    assert chain.keys(1) == {WHO: keys[2]}
    chain.quit()
    chain.join(0)
    keys += [start().public_key for _ in range(2)]
    assert keys == [each for each in chain.sent for _ in range(2)] and len(set(keys)) == 3
    assert keys[0] == bls_signer(file).public_key, "no key is overwritten"


def test_certificate_key_of_another_account_is_not_used(tmp_path: Path) -> None:
    chain, file = KeyChain(), tmp_path / "bls.key"
    chain.join(0)
    chain.register(bls_signer(file).public_key, address("0x" + "33" * 20))
    register = chain.history().key_register(chain.head)
    made = registered_key(register, cast(Any, chain), WHO, TREES[0], chain.head, file)
    assert chain.keys(0) == {WHO: made.public_key}


def test_certificate_key_is_made_once_with_mode_0600(tmp_path: Path) -> None:
    made = bls_signer(tmp_path / "bls.key")
    assert (tmp_path / "bls.key").stat().st_mode & 0o777 == 0o600
    assert bls_signer(tmp_path / "bls.key").public_key == made.public_key


@pytest.mark.parametrize("text", ["", "no hex", "00" * 32, "ff" * 32, "11" * 31])
def test_file_without_a_certificate_key_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "bls.key").write_text(text)
    (tmp_path / "bls.key").chmod(0o600)
    with pytest.raises(ConfigurationError):
        bls_signer(tmp_path / "bls.key")
