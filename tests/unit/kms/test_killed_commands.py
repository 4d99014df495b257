"""Commands of coordinator, curator and shards killed by SIGKILL at every moment, on a real chain beside real shard processes.

Each is begun again by the same words. Runs where BYTEWISE_SOAK_KMS is set (`make soak-kms`).
"""

import itertools
import json
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from bytewise.crypto.curve import GENERATOR, encode_point
from bytewise.crypto.shares import combine_values
from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.keys.ceremony import SignedPlan, sign_plan
from bytewise.protocol.keys.epochs import EpochDocument, EpochOnChain, EpochState
from bytewise.protocol.units import Digest, hex0x
from bytewise.service.exit_codes import Exit
from bytewise.service.settings import library_variables
from bytewise.storage.ceremonies import Ceremonies
from bytewise.storage.engine import open_database
from chain.client.address_book import read_network
from chain.deployment.params import DEVNET
from cli.__main__ import main
from kms.storage import keyring
from tests.fixtures.chain.devnet import POLICY, SHARDS, epoch_document, reader, signer
from tests.fixtures.kms.ceremony_processes import COUNT, EPOCH, Shards, running, shards
from tests.fixtures.kms.killed_command import Killed, killed
from tests.fixtures.kms.vouched_epochs import key_in_force

if not library_variables(("BYTEWISE_SOAK_KMS",)):
    pytest.skip("BYTEWISE_SOAK_KMS is not set", allow_module_level=True)

__all__ = ["shards"]
ALL, FRESH = range(1, COUNT + 1), (4, 5)


def command(shards: Shards, folder: Path, name: str, *words: object, flaw: str = "none") -> Killed:
    """A command that is killed at every moment at which it writes into this folder, or says something."""
    found = killed(shards.folder / "killed", folder, name, *words, flaw=flaw)
    assert len(found.seen) == len(found.moments)
    return found


def settings(shards: Shards, name: str, **changed: object) -> Path:
    """Settings of a ceremony of this name: those of a new key with other values, None for none; the path."""
    lines = dict(line.split(" = ", 1) for line in (shards.folder / "dkg.toml").read_text().splitlines())
    lines |= {"plan_file": f"'{name}.plan'", "out_file": f"'{name}.json'"}
    lines |= {key: json.dumps(value) for key, value in changed.items()}
    path = shards.folder / f"{name}.toml"
    path.write_text("".join(f"{key} = {value}\n" for key, value in lines.items() if value != "null"))
    return path


def ceremony(shards: Shards, verb: str, config: Path) -> list[str]:
    """A coordinator's command, killed; no shard keeps anything against its coordinator. The moments."""
    found = command(shards, shards.folder, f"{verb}-{config.stem}", "bytewise", "key", verb, "--config", config)
    assert found.code == Exit.OK
    for when in ("before", "after"):
        assert any(each.startswith(f"{when} commit: ") and "INSERT ceremony_message" in each for each in found.moments)
    assert any(each.startswith("after answer") for each in found.moments)
    for number in shards.processes:
        assert not [copy for copy in stored(shards, number).copies() if copy.fork is not None]
    return found.moments


def stored(shards: Shards, number: int) -> Ceremonies:
    """What a shard has of ceremonies."""
    return Ceremonies(open_database(f"sqlite:///{shards.of(number) / 'shard.sqlite'}"))


def document(shards: Shards, name: str) -> EpochDocument:
    """What a ceremony wrote."""
    return decode(EpochDocument, (shards.folder / f"{name}.json").read_bytes())


def opens(shards: Shards, made: EpochDocument, holders: Sequence[int]) -> None:
    """Any threshold of these shards' shares is one of the key; the holders are by index."""
    at = dict(enumerate(holders, start=1))
    held = {i: keyring.find_share(shards.of(n), EPOCH, made.commitments).scalar() for i, n in at.items()}
    for some in itertools.combinations(held, made.record.threshold):
        assert encode_point(GENERATOR * combine_values({i: held[i] for i in some})) == made.record.public_key


def put_in_force(shards: Shards, config: Path, version: int) -> list[str]:
    """The curator's command, killed: on the chain and in the address book is what the ceremony made."""
    words = ["--key", shards.folder / "curator.key", "--network", shards.folder / "network.json", "--rpc", shards.anvil.url]
    found = command(shards, shards.folder, f"open-{config.stem}", "bytewise", "key", "open", "--config", config, *words)
    assert found.code == Exit.OK
    made, on_chain = document(shards, config.stem), on_the_chain(shards)
    assert (on_chain.state, on_chain.version, on_chain.commitments) == (
        EpochState.ACTIVE, version, b"".join(made.commitments),
    )  # fmt: skip
    assert made in read_network(shards.folder / "network.json").epochs
    assert any(each.startswith("after broadcast") for each in found.moments)
    return found.moments


def on_the_chain(shards: Shards) -> EpochOnChain:
    """The epoch now."""
    book = read_network(shards.folder / "network.json")
    return reader(shards.anvil, book).epoch_on_chain(EPOCH, shards.anvil.client.head().number)


def leave(shards: Shards, number: int) -> None:
    """What a crash leaves at a shard: a share that has no name yet, and a ceremony that never ended, with its seed."""
    (shards.of(number) / f"share-{EPOCH}-{'ab' * 8}.draft").write_bytes(b"what a crash left of a share")
    refresh = decode(SignedPlan, (shards.folder / "refresh.plan").read_bytes()).plan
    stored(shards, number).open(sign_plan(shards.coordinator, replace(refresh, attempt=Digest(os.urandom(32)))), b"sealed seed")


def erase(shards: Shards, number: int, kept: set[str], flaw: str = "none") -> bool:
    """A shard's command, killed. Whether it ended well, had what it keeps at all times, and gave its word last."""
    folder, version = shards.of(number), on_the_chain(shards).version
    leave(shards, number)
    words = ["kms", "erase", "--config", folder / "bytewise.toml"]
    found = command(shards, folder, f"erase-{number}-v{version}-{flaw}", *words, flaw=flaw)
    word = f"erasure-{EPOCH}-v{version}{'' if kept else '-none'}.json"
    honest = found.code == 0 and (folder / word).exists() and not stored(shards, number).running()
    for names in (*found.seen, [path.name for path in folder.iterdir()]):
        shares = {each for each in names if each.startswith(f"share-{EPOCH}")}
        honest &= kept <= shares and (word not in names or shares == kept)
    for step in ("before commit: UPDATE ceremony erased", "after commit: UPDATE ceremony erased", "before os.remove share-"):
        assert any(each.startswith(step) for each in found.moments), step
    return honest


def counted(shards: Shards, numbers: Sequence[int]) -> None:
    """Enough shards said that the old shares are gone: `bytewise key verify-erasure`."""
    files = [str(path) for n in numbers for path in shards.of(n).glob(f"erasure-{EPOCH}-v{on_the_chain(shards).version}*.json")]
    network = ["--network", str(shards.folder / "network.json"), "--rpc", shards.anvil.url]
    assert len(files) == len(numbers)
    assert main(["key", "verify-erasure", *files, *network]) == Exit.OK


def renew(shards: Shards) -> tuple[EpochDocument, list[str]]:
    """A share that was lost is there again, then all shares are renewed, while the shards serve the old ones."""
    made, deaths = document(shards, "epoch"), []
    lost = keyring.find_share(shards.of(1), EPOCH, made.commitments).scalar()
    next(shards.of(1).glob(f"share-{EPOCH}-*.json")).unlink()
    repair = settings(shards, "repair", source_file="epoch.json", entries=None, repair_index=1, quorum=2)
    deaths += ceremony(shards, "repair", repair)
    assert keyring.find_share(shards.of(1), EPOCH, made.commitments).scalar() == lost
    deaths += ceremony(shards, "reshare", settings(shards, "refresh", source_file="epoch.json", entries=None))
    opens(shards, document(shards, "refresh"), ALL)
    opens(shards, made, ALL)
    assert on_the_chain(shards).version == 0
    return document(shards, "refresh"), deaths + put_in_force(shards, shards.folder / "refresh.toml", 1)


def move(shards: Shards) -> list[str]:
    """The key to two other shards, of which both open; every operator looked at the plan before."""
    shards.entries |= {n: shards.enrol(n, "moved.json") for n in FRESH}
    entries = [f"shard-{n}/entry.json" for n in FRESH]
    config = settings(shards, "moved", source_file="refresh.json", source_version=1, entries=entries, quorum=2)
    assert main(["key", "reshare", "--config", str(config), "--plan"]) == Exit.OK
    digest = decode(SignedPlan, (shards.folder / "moved.plan").read_bytes()).plan.digest
    for number in (*ALL, *FRESH):
        path = shards.of(number) / "bytewise.toml"
        path.write_text(path.read_text().replace("[shard]\n", f"[shard]\napproved_plans = ['{hex0x(digest)}']\n", 1))
    with running(shards, serving=True), running(shards, serving=False, numbers=FRESH):
        deaths = ceremony(shards, "reshare", config)
        opens(shards, document(shards, "moved"), FRESH)
        opens(shards, document(shards, "refresh"), ALL)
        assert on_the_chain(shards).version == 1
        return deaths + put_in_force(shards, config, 2)


def retire(shards: Shards) -> list[str]:
    """The curator ends the epoch, which another took the place of."""
    book, client = read_network(shards.folder / "network.json"), shards.anvil.client
    key_in_force(client, book, signer(0), epoch_document(EPOCH + 1), POLICY.digest, SHARDS)
    shards.anvil.pass_time(DEVNET.times.key_retention + 1)
    words = ["--key", shards.folder / "curator.key", "--network", shards.folder / "network.json", "--rpc", shards.anvil.url]
    found = command(shards, shards.folder, "retire", "bytewise", "key", "retire", EPOCH, *words)
    assert found.code == Exit.OK and on_the_chain(shards).state is EpochState.RETIRED
    return found.moments


@pytest.mark.e2e
def test_killed_coordinator_curator_and_erasing_shards_finish_their_work(shards: Shards) -> None:
    with running(shards, serving=False):
        deaths = ceremony(shards, "dkg", config := settings(shards, "epoch"))
        opens(shards, document(shards, "epoch"), ALL)
    deaths += put_in_force(shards, config, 0)
    with running(shards, serving=True):
        renewed, more = renew(shards)
    (shards.folder / "epoch.json").write_bytes(encode(renewed))
    kept = decode(SignedPlan, (shards.folder / "refresh.plan").read_bytes()).plan.digest.hex()[:16]
    assert all(erase(shards, number, {f"share-{EPOCH}-{kept}.json"}) for number in ALL)
    counted(shards, ALL)
    opens(shards, renewed, ALL)
    deaths += more + move(shards)
    assert all(erase(shards, number, set()) for number in ALL)
    counted(shards, ALL)
    opens(shards, document(shards, "moved"), FRESH)
    deaths += retire(shards)
    assert erase(shards, 4, set())
    assert not erase(shards, 5, set(), flaw="hasty"), "who says it before it is done is found"
    counted(shards, (*ALL, *FRESH))
    print(f"killed {len(deaths)} times:", dict(Counter(" ".join(each.split()[:2]) for each in deaths)))


@pytest.mark.e2e
def test_coordinator_that_sends_before_storing_makes_no_key(shards: Shards) -> None:
    """Control: without its log the shards' word is against it, and nothing is made."""
    with running(shards, serving=False):
        words = ("bytewise", "key", "dkg", "--config", settings(shards, "epoch", phase_s=2.0))
        found = command(shards, shards.folder, "forgetful", *words, flaw="forgetful")
    assert found.code == Exit.INCONCLUSIVE and found.moments and not (shards.folder / "epoch.json").exists()
