"""Who copies the folders of t shards, without their storage keys, and is the coordinator, is no shard and gets no share.

Shards, desks and their operators are honest, and no plan is approved. The thief runs our desk over its copies, under a storage
key of its own: as the heir of a repair, and as receivers of shares that others deal again.
"""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from bytewise.crypto.curve import GENERATOR, Rng, encode_point
from bytewise.crypto.shares import combine_values
from bytewise.protocol.errors.actors import CeremonyRefused, ConfigurationError
from bytewise.protocol.keys.ceremony import CeremonyPlan
from bytewise.protocol.signing import LocalSigner
from bytewise.service.secret import write_secret
from kms.ceremony.state import CeremonyState
from kms.storage import keyring
from kms.storage.files import read_key
from kms.storage.sealing import STORAGE_KEY, Sealer, StorageKeySource
from tests.fixtures.kms.ceremony_runs import numbered, on_chain, run
from tests.fixtures.kms.dkg_fixture import (
    CeremonyShard,
    OneEpoch,
    brought,
    ceremony_shards,
    coordinator_of,
    coordinator_over,
    plan,
)

THRESHOLD = 2


class Copy(CeremonyShard):
    """A desk over the copy of a shard's folder, with the database of nobody and a storage key of the thief's."""

    def __init__(self, of: CeremonyShard, folder: Path) -> None:
        shutil.copytree(of.folder, folder)
        for path in [*folder.glob("share-*"), *folder.glob("*.sqlite*"), *folder.glob(STORAGE_KEY)]:
            path.unlink()
        super().__init__(folder, 0, of.chain, of.folder.parent / "template.sqlite", of.port)


class Network:
    """Shards whose storage keys are elsewhere, with a key in force, and copies of the folders of a threshold of them."""

    def __init__(self, folder: Path, count: int) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        self.shards, self.chain = [], OneEpoch()
        for number in range(1, count + 1):
            sealing = StorageKeySource(folder / f"{number}.key")
            made, _ = ceremony_shards(folder, 1, number, sealing=sealing)
            made[0].chain = self.chain
            self.shards += made
        state = run(coordinator_of(folder, plan(self.shards, THRESHOLD, count), self.shards))
        assert state.result is not None
        self.source, self.key = on_chain(self.chain, state), state.result.public_key

    def copy(self, number: int) -> Copy:
        """What the thief makes of a folder."""
        return Copy(self.shards[number - 1], self.folder / f"copy-{number}")

    def conducted(self, agreed: CeremonyPlan, copies: dict[int, Copy], honest: list[int]) -> CeremonyState:
        """The plan with its corrupt coordinator, who reaches copies in the place of the shards that they are of."""
        links = {each.signer.address: each for each in (*(self.shards[n - 1] for n in honest), *copies.values())}
        return run(coordinator_over(self.folder, agreed, links))


def by_repairs(network: Network) -> dict[int, int]:
    """Shares that the thief gets as the heir of a repair for each copy."""
    got = {}
    for number in (1, 2):
        copy = network.copy(number)
        helpers = {n: each for n, each in numbered(network.shards).items() if n != number}
        seat = network.shards[number - 1].seat(number)
        agreed = plan(helpers.values(), THRESHOLD, 2, dealers=helpers, source=network.source, heir=seat)
        (network.folder / "coordinator.sqlite").unlink()
        network.conducted(agreed, {number: copy}, list(helpers))
        got[number] = copy.share(3, network.source.commitments)
    return got


def by_a_refresh(network: Network) -> dict[int, int]:
    """Shares that the thief gets where shards that were not copied are enough to deal, and it plays two that get."""
    copies = {number: network.copy(number) for number in (1, 2)}
    dealers = {number: network.shards[number - 1] for number in (3, 4)}
    agreed = plan(network.shards, THRESHOLD, 4, dealers=dealers, source=network.source)
    state = network.conducted(agreed, copies, [3, 4])
    assert state.result is not None
    return {number: copy.share(3, state.result.commitments) for number, copy in copies.items()}


WAYS: dict[str, tuple[Callable[[Network], dict[int, int]], int]] = {
    "as heirs of repairs": (by_repairs, 3),
    "as receivers of new shares": (by_a_refresh, 4),
}


@pytest.mark.parametrize("way", WAYS)
def test_copied_folders_without_storage_keys_cannot_serve(tmp_path: Path, way: str) -> None:
    steal, count = WAYS[way]
    network = Network(tmp_path / "net", count)
    with pytest.raises(ConfigurationError, match=r"signing\.sealed: does not open under the storage key"):
        steal(network)


@pytest.mark.parametrize("way", WAYS)
def test_control_with_open_signing_keys_copied_folders_are_the_private_key(
    tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it was: the storage key sealed shares, and shares alone."""
    monkeypatch.setattr(keyring, "draw_account", drawn_open)
    monkeypatch.setattr(keyring, "open_account", signer_of_the_open_key)
    steal, count = WAYS[way]
    network = Network(tmp_path / "net", count)
    assert encode_point(GENERATOR * combine_values(steal(network))) == network.key


def drawn_open(folder: Path, sealer: Sealer, rng: Rng) -> None:
    if not (folder / keyring.PLAIN_KEY).exists():
        write_secret(folder / keyring.PLAIN_KEY, rng(32).hex().encode())


def signer_of_the_open_key(folder: Path, sealer: Sealer | None = None) -> LocalSigner:
    return LocalSigner(read_key(folder / keyring.PLAIN_KEY))


def test_holder_of_a_folder_with_another_account_is_no_repair_receiver(tmp_path: Path) -> None:
    """A new account in the copy is not the one that the chain names at its place."""
    network = Network(tmp_path / "net", 3)
    folder = network.folder / "copy-1"
    shutil.copytree(network.shards[0].folder, folder)
    for path in [*folder.glob("*.sqlite*"), folder / keyring.SEALED_KEY]:
        path.unlink()
    other = CeremonyShard(folder, 0, network.chain, network.folder / "template.sqlite", network.shards[0].port)
    helpers = {n: each for n, each in numbered(network.shards).items() if n != 1}
    agreed = plan(helpers.values(), THRESHOLD, 2, dealers=helpers, source=network.source, heir=other.seat(1))
    for helper in helpers.values():
        with pytest.raises(CeremonyRefused, match="approved_plans of this shard does not list it"):
            helper.exchange(brought(agreed))
