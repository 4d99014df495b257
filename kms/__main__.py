"""`python -m kms serve | erase | wrap | approve --config FILE`.

`serve` runs a shard. `erase` erases the shares of the epoch that nothing needs any more. `wrap` seals the signing key of a folder
from before ADR-041. If the settings have a `wrap_command`, `wrap` also moves the storage key from `storage.key` into wrapped
form. `wrap` refuses a folder without such a signing key if the settings have no `wrap_command`. It wipes the files that contained
these keys in plain. `approve` adds a governor's signature to an appraisal policy, and prints the policy's digest. `bytewise shard
init` makes a shard's folder and settings.

Exit codes: `bytewise.service.exit_codes`.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from bytewise.ports import Quoter
from bytewise.protocol.address_book import Network
from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.units import hex0x
from bytewise.service import telemetry
from bytewise.service.clock import SystemClock
from bytewise.service.entry_point import Parser, run_entry
from bytewise.service.exit_codes import Exit
from bytewise.service.secret import read_secret
from bytewise.service.settings import load_settings
from bytewise.storage.ceremonies import Ceremonies
from bytewise.storage.engine import check_revision, open_database
from bytewise.tee.confinement import harden_process
from bytewise.tee.measurement import SHARD_ENTRY
from bytewise.tee.policy import approve, policy_changes, read_policy
from chain.client.access import open_chain
from chain.client.address_book import read_network, verify_code
from chain.reads.reader import SnapshotReader
from chain.sending.keys import load_signer
from kms.ceremony.erasure import erase_shares, statement_file
from kms.settings import ApproveSettings, ShardSettings
from kms.shard.chain_view import ChainCeremonyView, ChainKeyView
from kms.shard.service import serve_shard
from kms.storage import files, keyring
from kms.storage.sealing import open_sealer, verify_same_key, wrap_folder


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command. Returns the exit code of the process."""
    run = {"erase": _erase, "serve": _serve, "wrap": _wrap, "approve": _approve}
    parsed = Parser("kms", __doc__, tuple(run)).parse_args(arguments)
    return run_entry(f"kms-{parsed.command}", lambda: run[parsed.command](parsed.config))


def _approve(config: Path) -> int:
    settings = load_settings(ApproveSettings, config)
    if settings.before_file is not None:
        before, after = (read_policy(path) for path in (settings.before_file, settings.policy_file))
        for line in policy_changes(before, after):
            telemetry.log("policy.change_listed", change=line)
    password = None if settings.password_file is None else read_secret(settings.password_file)
    signed = approve(settings.policy_file, settings.out_file, load_signer(settings.key_file, password))
    telemetry.log("policy.approved", digest=signed.policy.digest, serial=signed.policy.serial, signatures=len(signed.signatures))
    print(hex0x(signed.policy.digest))
    return Exit.OK


def _erase(config: Path) -> int:
    settings = load_settings(ShardSettings, config, "shard")
    network = read_network(settings.network_file)
    view = ChainCeremonyView(_reader(settings, network))
    engine = open_database(settings.database_url)
    check_revision(engine)
    document = keyring.load_document(settings.epoch_file)
    signed = erase_shares(settings.folder, document, network.contracts, Ceremonies(engine), view, SystemClock(), settings.sealing)
    telemetry.log(
        "share.erased", epoch=signed.statement.epoch, erased=signed.statement.erased, file=statement_file(signed.statement)
    )
    return Exit.OK


def _wrap(config: Path) -> int:
    settings = load_settings(ShardSettings, config, "shard")
    with files.lock_for_change(settings.folder):
        if not settings.wrap_command and not (settings.folder / keyring.PLAIN_KEY).exists():
            raise ConfigurationError("wrap_command", "is missing: without it the storage key stays in plain")
        if settings.wrap_command:
            wrap_folder(settings.folder, settings.sealing)
            telemetry.log("storage_key.wrapped", command=settings.wrap_command[0])
        verify_same_key(settings.folder, settings.sealing)
        sealed = keyring.seal_account(settings.folder, open_sealer(settings.folder, settings.sealing))
    telemetry.log("signing_key.sealed", was_open=sealed)
    return Exit.OK


def _reader(settings: ShardSettings, network: Network) -> SnapshotReader:
    client = open_chain(*settings.rpc, network.chain_id)
    return SnapshotReader(client, verify_code(client, network), settings.finality)


def _serve(config: Path) -> int:
    settings = load_settings(ShardSettings, config, "shard")
    network = read_network(settings.network_file)
    reader = _reader(settings, network)
    view, ceremonies = ChainKeyView(reader, keyring.address_of(settings.folder)), ChainCeremonyView(reader)
    return serve_shard(settings, network.contracts, view, _simulator, ceremonies, ceremonies.dealt_at)


def _simulator(platform_file: Path) -> Quoter:
    # Imported here only, because a shard in production must not load the simulator.
    from bytewise.tee_simulated.quoter import SimulatedQuoter

    return SimulatedQuoter.of_this_program(platform_file, SHARD_ENTRY)


if __name__ == "__main__":
    # Not in `main`: a program that calls `main` decides for its own process.
    harden_process()
    sys.exit(main())
