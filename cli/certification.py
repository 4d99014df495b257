"""`bytewise model vectors` computes the known answers of a model. `bytewise member certify` lets a member state on the chain that
its engine gives the same answers."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer
from rich.console import Console

from bytewise.protocol.errors.actors import CannotExecute, ChainReverted, ConfigurationError, NotExact
from bytewise.protocol.errors.branches import Fault
from bytewise.protocol.errors.records import MalformedValue, UnknownEnvironment
from bytewise.protocol.units import ZERO_DIGEST, Digest, digest, hex0x, unhex
from bytewise.service.exit_codes import Exit
from bytewise.service.files import create_file
from bytewise.service.settings import load_settings
from cli.options import asked_password
from cli.output import bar_of, progress_bars

if TYPE_CHECKING:
    from bytewise.protocol.records.environment import Environment
    from bytewise.protocol.records.model_vectors import Vectors
    from chain.reads.reader import SnapshotReader
    from chain.reads.records import RegistryItem
    from chain.sending.keys import AccountSigner
    from verifier.settings import NodeSettings


ArtifactArgument = Annotated[Path, typer.Argument(help="Folder of the model's artifact.")]
EnvironmentOption = Annotated[
    Path | None, typer.Option("--environment", help="File of the environment that this machine is; for profile pinned-1.")
]
DeviceOption = Annotated[str, typer.Option("--device", help="cpu or cuda.")]
ThreadsOption = Annotated[int, typer.Option("--threads", min=1, max=1024, help="Threads of the engine.")]


def vectors(
    artifact: ArtifactArgument,
    out: Annotated[Path, typer.Argument(help="New file for the vectors, canonical JSON.")],
    environment: EnvironmentOption = None,
    device: DeviceOption = "cpu",
    threads: ThreadsOption = 1,
) -> None:
    """Compute the vectors with which a model and its environments are proposed.

    Vectors are fixed questions with the answers of the model. The questions follow from the model id. The command prints the
    digest of the vectors. Publish the file, so that a verifier whose engine gives other answers can see which answers differ.

    Exit codes: 0 written, 3 this machine cannot compute the vectors, 64 wrong input.
    """
    from bytewise.protocol.encoding import encode

    if out.exists():
        raise ConfigurationError(out.name, "exists already")
    if not out.parent.is_dir():
        raise ConfigurationError(str(out), "there is no folder for it")
    found = _computed(artifact, _environment(environment), device, threads)
    create_file(out, encode(found))
    print(hex0x(found.digest))


def certify(
    item: Annotated[str, typer.Argument(metavar="ITEM", help="Model id, or digest of an environment, 0x-hex; it is proposed.")],
    artifact: ArtifactArgument,
    config: Annotated[Path, typer.Option("--config", help="Settings file of the member (`bytewise member run`).")],
    published: Annotated[
        Path | None, typer.Option("--vectors", help="The proposer's vectors: to be told which differ, if any do.")
    ] = None,
    environment: EnvironmentOption = None,
    device: DeviceOption = "cpu",
    threads: ThreadsOption = 1,
    dry: Annotated[bool, typer.Option("--dry-run", help="Only compute and compare; order nothing.")] = False,
) -> None:
    """Certify a proposed model or environment, if your engine gives its vectors.

    Vectors are fixed questions with the answers of a model. The questions follow from the model id, so the proposer cannot choose
    them. This machine computes all answers, and the vectors of the profile. If they equal the proposed vectors, the running
    member sends the certificate. To certify an environment, give the artifact of a model that is served in this environment.

    Exit codes: 0 all vectors are equal (and the certificate is ordered), 2 a vector differs, 3 this machine cannot compute them,
    5 the node does not answer, 64 wrong input, or refused by the contract (not proposed, too late, no weight, certified before).
    """
    member = _member(config)
    name = _digest(item)
    proposed = _proposed(member, name)
    theirs = None if published is None else _published(published, proposed)
    found = _computed(artifact, _place(member, name, proposed, environment), device, threads)
    if proposed.pool == ZERO_DIGEST and found.model_id != name:
        raise ConfigurationError("ARTIFACT", f"is model {hex0x(found.model_id)}, not {hex0x(name)}")
    if found.digest != proposed.vectors:
        _tell_differences(found, proposed, theirs)
        raise typer.Exit(Exit.MISMATCH)
    print(f"all vectors are the same: {hex0x(found.digest)}")
    if not dry:
        _order(member, name, proposed)
        print("ordered; the running member sends it")


class Member(NamedTuple):
    """The member that certifies: its settings, the signer of its account, and a reader of the chain."""

    settings: "NodeSettings"
    signer: "AccountSigner"
    reader: "SnapshotReader"


def _member(config: Path) -> Member:
    from chain.client.access import open_chain
    from chain.client.address_book import read_network, verify_code
    from chain.reads.reader import SnapshotReader
    from chain.sending.keys import open_signer
    from verifier.settings import NodeSettings

    settings = load_settings(NodeSettings, config)
    network = read_network(settings.network_file)
    client = open_chain(*settings.chain.rpc, network.chain_id, settings.chain.timeout_s)
    password = asked_password(settings.signer.key_file, settings.signer.password_file)
    signer = open_signer(settings.signer, network, password)
    return Member(settings, signer, SnapshotReader(client, verify_code(client, network)))


def _proposed(member: Member, name: Digest) -> "RegistryItem":
    """Returns the proposed item. Raises `ConfigurationError` if the contract would refuse a certificate of this member for it
    now. The verb checks this first, because computing the vectors may take long."""
    from chain.deployment.calls import ContractCall, dry_run
    from chain.reads.records import Status

    reader = member.reader
    proposed = reader.item(name, reader.head())
    if proposed.status is not Status.PROPOSED:
        raise ConfigurationError("ITEM", f"{hex0x(name)} is {proposed.status.name}, not PROPOSED")
    try:
        dry_run(
            reader.client, reader.network, member.signer.address, ContractCall("Registry", "certify", (name, proposed.vectors))
        )
    except Fault as error:
        text = f"cannot be certified by {member.signer.address} now: {error}{_advice(member, error)}"
        raise ConfigurationError("ITEM", text) from None
    return proposed


def _advice(member: Member, error: Fault) -> str:
    """Returns advice about the contract's refusal as the end of a sentence. Returns an empty text if the refusal needs no
    advice."""
    from chain.client.artifacts import Reason

    reason = error.values[2] if isinstance(error, ChainReverted) and len(error.values) > 2 else None
    if not isinstance(reason, Reason) or reason.name != "NoUnit":
        return ""
    reader, who = member.reader, member.signer.address
    block = reader.head()
    joined = reader.membership(who, block)
    pool = reader.pool(joined.pool, block)
    if pool is None or not reader.next_units(who, pool, block):
        return "; too little stake, or a measurement that is not allowed any more, counts nothing: see `bytewise doctor`"
    return "; stake counts from the stake epoch after its registration on: wait for it, and give the command again"


def _published(file: Path, proposed: "RegistryItem") -> "Vectors":
    from bytewise.protocol.encoding import decode
    from bytewise.protocol.records.model_vectors import Vectors

    try:
        theirs = decode(Vectors, file.read_bytes())
    except OSError as error:
        raise ConfigurationError(file.name, str(error.strerror)) from None
    except Fault as error:
        raise ConfigurationError(file.name, f"are no vectors: {error}") from None
    if theirs.digest != proposed.vectors:
        raise ConfigurationError(file.name, f"are {hex0x(theirs.digest)}, proposed is {hex0x(proposed.vectors)}")
    return theirs


def _place(member: Member, name: Digest, proposed: "RegistryItem", file: Path | None) -> "Environment | None":
    """Returns the environment in which the vectors are computed. If the item is an environment, the function reads that
    environment from the chain. If the item is a model, the function reads the environment from `file`, and returns None if no
    file is given."""
    from chain.reads.reader import RegistryDocuments

    if proposed.pool == ZERO_DIGEST:
        return _environment(file)
    if file is not None:
        raise ConfigurationError("--environment", "is for models: an environment is read from the chain")
    try:
        return RegistryDocuments(member.reader).environment(name, member.reader.head())
    except UnknownEnvironment as error:
        raise ConfigurationError("ITEM", str(error)) from None


def _computed(artifact: Path, environment: "Environment | None", device: str, threads: int) -> "Vectors":
    # Imported here because few verbs need torch, whose import takes seconds.
    from bytewise.inference.manifest import MANIFEST_FILE, profile_of
    from bytewise.inference.profiles import open_engine, vectors_of

    if not (artifact / MANIFEST_FILE).is_file():
        raise ConfigurationError("ARTIFACT", f"{artifact} is no folder of an artifact: {MANIFEST_FILE} is not there")
    if environment is not None and environment.profile != profile_of(artifact):
        said = f"is of profile {profile_of(artifact)[:40]}, the environment of {environment.profile[:40]}"
        raise ConfigurationError("ARTIFACT", said)
    try:
        with progress_bars() as bars:
            engine = open_engine(artifact, environment, threads=threads, device=device, progress=bar_of(bars, "reading"))
            return vectors_of(engine, bar_of(bars, "computing"))
    except (CannotExecute, NotExact) as error:
        Console(stderr=True).print(f"this machine cannot tell: {error}", style="red", markup=False)
        raise typer.Exit(Exit.INCONCLUSIVE) from None


def _tell_differences(found: "Vectors", proposed: "RegistryItem", theirs: "Vectors | None") -> None:
    errors = Console(stderr=True)
    other = "" if proposed.pool == ZERO_DIGEST else ", or ARTIFACT is another model than the proposer's"
    said = f"this engine gives {hex0x(found.digest)}, proposed is {hex0x(proposed.vectors)}{other}"
    errors.print(f"not certified: {said}", markup=False)
    for line in ("--vectors FILE of the proposer shows which",) if theirs is None else found.differences(theirs):
        errors.print(line, style="red", markup=False)


def _order(member: Member, name: Digest, proposed: "RegistryItem") -> None:
    from bytewise.service.clock import SystemClock
    from bytewise.storage.duties import Duties
    from bytewise.storage.engine import check_revision, open_database
    from verifier.orders import CERTIFY, certification_subject

    database = open_database(member.settings.db.location)
    check_revision(database)
    # The command stores an order and no entry of the outbox, because only the member's process decides which transactions its
    # account sends.
    subject = certification_subject(name, proposed.vectors, proposed.certify_until)
    Duties(database, SystemClock()).order(CERTIFY, subject, proposed.certify_until)


def _environment(file: Path | None) -> "Environment | None":
    from bytewise.protocol.encoding import decode
    from bytewise.protocol.records.environment import Environment

    try:
        return None if file is None else decode(Environment, file.read_bytes())
    except OSError as error:
        raise ConfigurationError(str(file), str(error.strerror)) from None
    except Fault as error:
        raise ConfigurationError(str(file), f"is no environment: {error}") from None


def _digest(text: str) -> Digest:
    try:
        return digest(unhex(text.lower()))
    except MalformedValue:
        raise ConfigurationError("ITEM", "must be 0x and 64 hex digits") from None
