"""A key made by real shard processes over HTTPS for an epoch of a real chain; one of them is killed in the middle.

Runs where BYTEWISE_SOAK_KMS is set (`make soak-kms`): it takes a minute of processor time.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from bytewise.crypto.curve import GENERATOR, encode_point
from bytewise.crypto.shares import combine_values
from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.errors.actors import ConfigurationError, StoreCorrupt, TryAgain
from bytewise.protocol.keys.ceremony import SignedPlan
from bytewise.protocol.keys.epochs import EpochDocument, EpochState
from bytewise.service.exit_codes import Exit
from bytewise.service.settings import child_environment, library_variables
from bytewise.storage.ceremonies import Ceremonies
from bytewise.storage.engine import open_database
from chain.client.address_book import read_network
from cli.__main__ import main
from kms.storage import keyring
from tests.fixtures.chain.devnet import reader
from tests.fixtures.kms.ceremony_processes import COUNT, EPOCH, ROOT, Shards, running, shards
from tests.fixtures.kms.release_network import wait_until
from tests.fixtures.memory_search import in_files, in_memory, scalar_forms, sees_closed, verify_closed

__all__ = ["shards"]

pytestmark = pytest.mark.skipif(not library_variables(("BYTEWISE_SOAK_KMS",)), reason="BYTEWISE_SOAK_KMS is not set")


def log_length(folder: Path) -> int:
    """How many messages the coordinator has."""
    try:
        plan = decode(SignedPlan, (folder / "plan.json").read_bytes()).plan
        kept = Ceremonies(open_database(f"sqlite:///{folder / 'coordinator.sqlite'}")).find(plan.digest)
    except (OSError, StoreCorrupt, TryAgain, ConfigurationError):
        return 0
    return len(kept.log) if kept else 0


def bytewise(*words: str) -> "subprocess.Popen[bytes]":
    """The command as a process."""
    return subprocess.Popen([sys.executable, "-m", "cli", *words], cwd=ROOT, env=child_environment())


@pytest.mark.e2e
def test_three_processes_with_one_killed_make_an_epoch_key_nobody_has(shards: Shards) -> None:
    folder = shards.folder
    with running(shards, serving=False):
        conducting = bytewise("key", "dkg", "--config", str(folder / "dkg.toml"))
        wait_until(lambda: log_length(folder) >= 7)  # three joined, three committed, and dealing has begun
        shards.kill(2)
        shards.start(2)
        assert conducting.wait(200) == 0
        document = decode(EpochDocument, (folder / "epoch.json").read_bytes())
        held = {n: keyring.find_share(shards.of(n), EPOCH, document.commitments).scalar() for n in range(1, COUNT + 1)}
        key = combine_values({n: held[n] for n in (1, 3)})
        assert encode_point(GENERATOR * key) == document.record.public_key
        nowhere(shards, held, key)
    put_in_force(shards, "dkg.toml")
    book = read_network(folder / "network.json")
    found = reader(shards.anvil, book).epoch_on_chain(EPOCH, shards.anvil.client.head().number)
    assert (found.state, found.public_key, found.threshold) == (EpochState.ACTIVE, document.record.public_key, 2)
    assert found.commitments == b"".join(document.commitments) and book.epochs[-1] == document
    with running(shards, serving=True):
        forms = scalar_forms(held[1])
        if sees_closed():
            assert in_memory(shards.processes[1].pid, forms), "a scanner that finds nothing proves nothing"
        else:
            # Who may not search closed processes sees at least that they are closed.
            assert [verify_closed(each.pid) for each in shards.processes.values()]
        nowhere(shards, held, key)
        renewed = renew(shards, document)
    (folder / "epoch.json").write_bytes(encode(renewed))
    (folder / "plan.json").unlink()
    with running(shards, serving=True):  # the epoch exists: nobody makes its key again
        (folder / "dkg.toml").write_text((folder / "dkg.toml").read_text().replace("phase_s = 90.0", "phase_s = 1.0"))
        assert main(["key", "dkg", "--config", str(folder / "dkg.toml")]) == Exit.INCONCLUSIVE


def renew(shards: Shards, document: EpochDocument) -> EpochDocument:
    """New shares of the same key, while the old ones are served; then the chain says that the new ones are meant."""
    folder, chain = shards.folder, reader(shards.anvil, read_network(shards.folder / "network.json"))
    text = (folder / "dkg.toml").read_text().replace("plan.json", "plan-2.json").replace("'epoch.json'", "'renewed.json'")
    without = "\n".join(line for line in text.splitlines() if not line.startswith("entries"))
    (folder / "renew.toml").write_text(without + "\nsource_file = 'epoch.json'\n")
    assert main(["key", "reshare", "--config", str(folder / "renew.toml")]) == Exit.OK
    renewed = decode(EpochDocument, (folder / "renewed.json").read_bytes())
    assert renewed.record.public_key == document.record.public_key and renewed.commitments[1:] != document.commitments[1:]
    assert chain.epoch_on_chain(EPOCH, shards.anvil.client.head().number).version == 0
    put_in_force(shards, "renew.toml")
    found = chain.epoch_on_chain(EPOCH, shards.anvil.client.head().number)
    assert (found.version, found.commitments) == (1, b"".join(renewed.commitments))
    for number in range(1, COUNT + 1):
        old, new = (keyring.find_share(shards.of(number), EPOCH, each.commitments) for each in (document, renewed))
        assert old.scalar() != new.scalar()
    return renewed


def put_in_force(shards: Shards, config: str) -> None:
    """`bytewise key open`."""
    folder = shards.folder
    command = ["key", "open", "--config", str(folder / config), "--key", str(folder / "curator.key")]
    assert main([*command, "--network", str(folder / "network.json"), "--rpc", shards.anvil.url]) == Exit.OK


def nowhere(shards: Shards, held: dict[int, int], key: int) -> None:
    """Asserts that no process holds the key or another's share, and that no file holds any of them."""
    for number, process in shards.processes.items():
        others = {f"share {n} {form}": needle for n in held if n != number for form, needle in scalar_forms(held[n]).items()}
        assert in_memory(process.pid, scalar_forms(key) | others) == set()
    shown = {f"{n} {form}": needle for n, value in (*held.items(), (0, key)) for form, needle in scalar_forms(value).items()}
    assert in_files(shards.folder, shown) == {}
