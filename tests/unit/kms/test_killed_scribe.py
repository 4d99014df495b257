"""`bytewise kms dkg` as a process that is killed by SIGKILL now and then. At every moment: `test_killed_commands`."""

from dataclasses import replace
from pathlib import Path

from bytewise.crypto.curve import GENERATOR, encode_point
from bytewise.crypto.shares import combine_values
from bytewise.protocol.encoding import encode
from bytewise.protocol.units import U256
from bytewise.service.exit_codes import Exit
from chain.client.address_book import write_network
from chain.sending.keys import save_signer
from kms.storage import keyring
from tests.unit.kms.ceremonies import KEY_EPOCHS, SCRIBE
from tests.unit.kms.killed_command import killed
from tests.unit.kms.offices import Office
from tests.unit.kms.test_ceremony_served import serving, shards
from tests.unit.verifier.town import NETWORK

__all__ = ["shards"]
STEP = 9


def dkg(folder: Path, offices: list[Office], phase_s: float) -> tuple[object, ...]:
    """The command by which all of these shards make a key that two open; its files are in a folder."""
    network = replace(NETWORK, chain_id=U256(31337), addresses=replace(NETWORK.addresses, key_epochs=KEY_EPOCHS))
    write_network(folder / "network.json", network)
    save_signer(folder / "scribe.key", SCRIBE)
    for each in offices:
        (each.folder / "entry.json").write_bytes(encode(keyring.entry(each.folder, each.url, each.channel)))
    (folder / "dkg.toml").write_text(
        f"epoch = 3\nthreshold = 2\nquorum = {len(offices)}\nreveal_budget = 1\nassurance = 'simulated'\nphase_s = {phase_s}\n"
        "network_file = 'network.json'\nscribe_key_file = 'scribe.key'\nplan_file = 'plan.json'\nout_file = 'epoch.json'\n"
        f"database_url = 'sqlite:///{folder / 'log.sqlite'}'\n"
        f"entries = {[str(each.folder / 'entry.json') for each in offices]}\n"
    )
    return "bytewise", "kms", "dkg", "--config", folder / "dkg.toml"


def test_a_scribe_that_is_killed_goes_on_by_the_same_command(tmp_path: Path, shards: list[Office]) -> None:
    with serving(shards):
        found = killed(tmp_path / "killed", tmp_path, "dkg", *dkg(tmp_path, shards, phase_s=20.0), step=STEP)
    document = keyring.load_document(tmp_path / "epoch.json")
    held = {index: each.share(3, document.commitments) for index, each in enumerate(shards, start=1)}
    assert found.code == Exit.OK and len(found.seen) >= 8
    assert encode_point(GENERATOR * combine_values(held)) == document.record.public_key
