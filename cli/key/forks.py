"""`bytewise key forks`: finds and shows forks of the logs of key ceremonies.

A fork is the proof that a coordinator signed two different logs of one key ceremony. Forks are found in the logs that shards
stored.
"""

from collections.abc import Iterable, Sequence
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.errors.branches import Fault
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.units import Address, address, hex0x
from bytewise.service.exit_codes import Exit
from bytewise.service.settings import load_settings
from cli.node.shard import ShardOption

if TYPE_CHECKING:
    from bytewise.protocol.keys.ceremony_log import CeremonyLogCopy, Fork


OutOption = Annotated[
    Path | None, typer.Option("--out", help="Folder for one file of each ceremony, which `verify` reads; all of it is public.")
]
FilesArgument = Annotated[list[Path], typer.Argument(metavar="FILE...", help="Files that shards wrote with `show --out`.")]
CoordinatorOption = Annotated[
    str, typer.Option("--coordinator", help="Address of the coordinator; a file of any other is refused.")
]


def show(config: ShardOption, out: OutOption = None) -> None:
    """Show the ceremonies of which this shard saw a second log, and verify it.

    The coordinator's two signatures are the proof. The shard may be running.

    `--out` writes one file for each ceremony, with the log that its coordinator signed and the second log if there is one. With
    the files of two shards, `verify` also finds a fork of which each shard saw only one log.

    Exit codes: 0 no second log is stored, 2 a coordinator provably signed two logs of one ceremony, 64 wrong input.
    """
    from bytewise.storage.ceremonies import Ceremonies
    from bytewise.storage.engine import check_revision, open_database
    from kms.settings import ShardSettings

    settings = load_settings(ShardSettings, config, "shard")
    engine = open_database(settings.database_url)
    check_revision(engine)
    copies = Ceremonies(engine).copies()
    if out is not None:
        _write(out, copies)
    _conclude(f"{len(copies)} logs of this shard", [each.fork for each in copies if each.fork is not None])


def verify(files: FilesArgument, coordinator: CoordinatorOption = "") -> None:
    """Verify logs of ceremonies from several shards, and look for two that contradict each other.

    The command needs no network: the plan in each file names the coordinator, whose signatures cover the plan. A coordinator that
    lost its database and began the same plan again also signed two logs. The command cannot distinguish this from a deliberate
    fork.

    Exit codes: 0 no coordinator provably signed two logs, 2 a coordinator did, 64 a file does not have the form that a shard
    writes, or is of another coordinator.
    """
    from bytewise.protocol.keys.ceremony_log import fork_of_copies

    expected = _coordinator(coordinator)
    copies = [_read(file, expected) for file in files]
    between = (fork_of_copies(one, other) for one, other in combinations(copies, 2))
    found = [each for each in (*(copy.fork for copy in copies), *between) if each is not None]
    _conclude(f"{len(copies)} logs of {len({copy.plan.plan.digest for copy in copies})} ceremonies", found)


def _conclude(what: str, forks: "Sequence[Fork]") -> None:
    """Prints the first fork of each ceremony, and raises `typer.Exit` with `Exit.MISMATCH`. If there are no forks, prints that
    there are none, and returns. `what` describes the checked logs."""
    for fork in {each.plan.plan.digest: each for each in reversed(forks)}.values():
        for line in _fork_lines(fork):
            print(line)
    if forks:
        raise typer.Exit(Exit.MISMATCH)
    print(f"{what}: no coordinator signed two of one ceremony")


def _fork_lines(fork: "Fork") -> Iterable[str]:
    from bytewise.protocol.keys.ceremony_log import verify_fork

    plan, at = verify_fork(fork), fork.shorter.length
    yield f"coordinator {plan.coordinator} signed two logs of ceremony {hex0x(plan.digest)}"
    yield f"  of key epoch {plan.epoch} on chain {plan.chain_id}, KeyEpochs {plan.key_epochs}"
    yield f"  one has head {hex0x(fork.shorter.head)} after {at} messages"
    further = f", which goes on to the signed head {hex0x(fork.longer.head)} of {fork.longer.length}" if fork.between else ""
    yield f"  the other {hex0x(fork.at)}{further}"


def _write(folder: Path, copies: "Iterable[CeremonyLogCopy]") -> None:
    from bytewise.protocol.encoding import encode

    try:
        folder.mkdir(parents=True, exist_ok=True)
        for copy in copies:
            (folder / f"ceremony-{copy.plan.plan.digest.hex()[:16]}.json").write_bytes(encode(copy))
    except OSError as error:
        raise ConfigurationError("--out", f"{folder.name}: {error.strerror}") from None


def _read(file: Path, coordinator: Address | None) -> "CeremonyLogCopy":
    """Reads the log of a ceremony that a shard wrote to a file. Raises `ConfigurationError` if the log is of another coordinator
    than `coordinator`. None stands for every coordinator."""
    from bytewise.protocol.keys.ceremony_log import read_copy

    try:
        copy = read_copy(file.read_bytes())
    except (OSError, Fault) as error:
        raise ConfigurationError(file.name, f"is no log of a ceremony that its coordinator signed: {str(error)[:200]}") from None
    if coordinator not in (None, copy.plan.plan.coordinator):
        raise ConfigurationError(file.name, f"is of coordinator {copy.plan.plan.coordinator}, not of {coordinator}")
    return copy


def _coordinator(given: str) -> Address | None:
    try:
        return address(given) if given else None
    except MalformedValue as error:
        raise ConfigurationError("--coordinator", str(error)) from None
