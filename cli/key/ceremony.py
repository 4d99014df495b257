"""`bytewise key`: runs key ceremonies, puts their results in force, and retires key epochs."""

import json
import secrets
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from bytewise.protocol.errors.actors import CeremonyFailed, ChainReverted, ConfigurationError
from bytewise.protocol.units import hex0x
from bytewise.service.settings import load_settings
from cli.options import NETWORK_FILE, RPC_URLS, NetworkOption, PasswordFileOption, RpcOption

if TYPE_CHECKING:
    from bytewise.protocol.address_book import Network
    from bytewise.protocol.keys.ceremony import CeremonyPlan, CeremonyPurpose, CeremonySeat
    from bytewise.protocol.keys.epochs import EpochDocument, EpochOnChain
    from bytewise.protocol.signing import LocalSigner
    from bytewise.protocol.units import Digest
    from chain.acts.epochs import CeremonySignatures
    from chain.client.access import Chain
    from chain.deployment.calls import ContractCall
    from kms.ceremony.state import CeremonyState

    Calls = tuple[ContractCall, ...]

ConfigOption = Annotated[Path, typer.Option("--config", help="Settings of the ceremony (kms.settings.CeremonySettings).")]
CuratorOption = Annotated[
    Path | None, typer.Option("--key", help="Key file of the curator. Without it the calls are printed, for another signer.")
]
WithoutOption = Annotated[
    list[int] | None,
    typer.Option("--without", metavar="INDEX", min=1, help="A shard that did not prove its share; repeat it for each of them."),
]
DryOption = Annotated[bool, typer.Option("--plan", help="Write and show the plan, and begin nothing.")]


def dkg(config: ConfigOption, plan: DryOption = False) -> None:
    """Make a key with the shards of the settings; no machine ever holds the whole key.

    After a crash, the same command continues.

    The number of the epoch selects its kind. An epoch 2 · 2^32 + k (8589934593 is the first) is hybrid: its envelopes need the
    key and the shards' ML-KEM-768 keys, which the ceremony makes together with the key. A hybrid epoch needs 2t - 1 shards, and
    its shares cannot be dealt again. An epoch 3 · 2^32 + k (12884901889 is the first) has a key that enclaves rebuild. Every
    shard must allow that (`release_shares`).

    Exit codes: 0 made, 3 it failed and nothing changed, 64 wrong input.
    """
    from bytewise.protocol.keys.ceremony import CeremonyPurpose

    _ceremony(config, CeremonyPurpose.GENERATE, plan)


def reshare(config: ConfigOption, plan: DryOption = False) -> None:
    """Deal the shares of an epoch's key again; the key stays the same.

    The shares go to the same shards, or to the entries of the settings.

    Exit codes: 0 done, 3 it failed and the old shares stay, 64 wrong input.
    """
    from bytewise.protocol.keys.ceremony import CeremonyPurpose

    _ceremony(config, CeremonyPurpose.RESHARE, plan)


def repair(config: ConfigOption, plan: DryOption = False) -> None:
    """Give a shard its lost share again, made from the shares of the others.

    The setting `repair_index` is the index of that shard. All other shares stay the same.

    Exit codes: 0 done, 3 it failed, 64 wrong input.
    """
    from bytewise.protocol.keys.ceremony import CeremonyPurpose

    _ceremony(config, CeremonyPurpose.REPAIR, plan)


def plan(
    file: Annotated[Path, typer.Argument(metavar="PLAN", help="A ceremony's plan file, as its coordinator wrote it.")],
) -> None:
    """Show what the plan of a ceremony says, with the digest that a shard approves.

    The command needs no key and no network. It computes the digest from the file, so trust no digest that somebody sends. Put it
    into `approved_plans` of the shard's settings only if purpose, epoch, threshold, every receiver and `repair_target` are as
    agreed. A repair that needs an approval gives a share to an account that the chain does not name for it.

    Exit codes: 0 shown, 64 no plan, or its coordinator did not sign it.

    Example: bytewise key plan plan-3.json
    """
    from kms.ceremony.coordinator import read_plan

    found = read_plan(file)
    print(json.dumps({"plan": hex0x(found.digest), **_plan_facts(found)}, indent=2))


def open_(
    config: ConfigOption, key: CuratorOption = None,
    network: NetworkOption = NETWORK_FILE, rpc: RpcOption = RPC_URLS,
    without: WithoutOption = None, password_file: PasswordFileOption = None,
) -> None:  # fmt: skip
    """Put the result of a ceremony in force: a new epoch, or new shares of one.

    Enough shards must have signed the result in the ceremony's log. The contract checks this, too.

    Every shard that gets a share must have proved the share on the canary. `--without` must name exactly the shards that did not
    prove their share. Otherwise nothing is sent. Give each of these shards its share before it is needed (`bytewise key repair`).

    Without `--key` the command prints the calls that the curator must still make, for a multisignature. Once the chain has them,
    the same command writes the address book.

    Exit codes: 0 in force, or the calls are printed, 3 the ceremony has not ended, or shards that proved no share are not named,
    5 the node does not answer, or what was sent is in no block yet (look before you repeat the command), 6 a running node uses
    the key, 64 wrong input (for example, a shard that proved its share is named).
    """
    from bytewise.protocol.keys.epochs import EpochState
    from bytewise_client.connection import chain_of
    from chain.client.address_book import read_network, verify_code, write_network
    from chain.reads.reader import SnapshotReader
    from kms.ceremony.coordinator import finished_ceremony
    from kms.settings import CeremonySettings

    state, book = finished_ceremony(load_settings(CeremonySettings, config)), read_network(network)
    client = chain_of(rpc, book.chain_id)
    curator, book = _curator(key, book, password_file), verify_code(client, book)
    if curator is None and _print_calls(client, book, _missing_calls(client, book, state, without or ())):
        print("once the chain has them, give this command again: it writes the address book")
        return
    opened = put_in_force(client, book, curator, state, without or ())
    write_network(network, opened)
    reader, epoch = SnapshotReader(client, opened), state.plan.epoch
    now = reader.epoch_on_chain(epoch, reader.head())
    stands = "in force" if now.state is EpochState.ACTIVE else now.state.name
    print(f"key epoch {epoch}, shares of version {state.plan.version}, is {stands} and in {network}; assurance: {now.assurance}")


def put_in_force(
    client: "Chain", book: "Network", curator: "LocalSigner | None", state: "CeremonyState", without: Collection[int] = ()
) -> "Network":
    """Sends the result of a ceremony, with the shards' signatures, to the chain, and returns the new address book.

    The function does not send what the chain has already: an announced epoch, the same shares, an epoch in force. It may send one
    call twice: the confirmation of an epoch that is not yet in force. `curator` may be None if the chain has everything.

    `without` has the indices of the shards that did not prove their share. If another shard did not prove its share, the function
    sends nothing (`kms.ceremony.coordinator.verify_shares_proven`).
    """
    from bytewise.protocol.keys.ceremony import CeremonyPurpose
    from chain.acts.epochs import open_epoch, reshare_epoch

    made = _result_of(client, book, state, without)
    if state.plan.purpose is CeremonyPurpose.GENERATE:
        return open_epoch(client, book, curator, made.document, made.policy, made.signed, made.found)
    return reshare_epoch(client, book, curator, made.document, made.signed, made.found)


class _Result(NamedTuple):
    """The result of a ceremony, and the key epoch as the chain has it now."""

    document: "EpochDocument"
    policy: "Digest"
    signed: "CeremonySignatures"
    found: "EpochOnChain"


def _result_of(client: "Chain", book: "Network", state: "CeremonyState", without: Collection[int]) -> _Result:
    """Checks that a ceremony is of this network and that every shard proved its share, except those that `without` names. Returns
    the ceremony's result, and the key epoch as the chain has it."""
    from bytewise.protocol.units import ZERO_ADDRESS
    from chain.acts.epochs import CeremonySignatures
    from chain.reads.reader import SnapshotReader
    from kms.ceremony.coordinator import epoch_document, share_consents, share_signatures, transcript_of, verify_shares_proven

    if (state.plan.chain_id, state.plan.key_epochs) != (book.contracts.chain_id, book.contracts.key_epochs):
        raise ConfigurationError("--network", "is of another network than the ceremony: name its book. Nothing was sent")
    verify_shares_proven(state, without)
    document, reader = epoch_document(state), SnapshotReader(client, book)
    signed = CeremonySignatures(transcript_of(state), share_signatures(state), share_consents(state))
    head = reader.head()
    policy, found = reader.snapshot(ZERO_ADDRESS, head).policy, reader.epoch_on_chain(document.record.epoch, head)
    return _Result(document, policy, signed, found)


def _missing_calls(client: "Chain", book: "Network", state: "CeremonyState", without: Collection[int]) -> "Calls":
    """Returns the calls that the curator must still make to put the result of a ceremony in force."""
    from bytewise.protocol.keys.ceremony import CeremonyPurpose
    from chain.acts.epochs import opening_calls, resharing_calls

    made = _result_of(client, book, state, without)
    if state.plan.purpose is CeremonyPurpose.GENERATE:
        return opening_calls(made.document, made.policy, made.signed, made.found)
    return resharing_calls(made.document, made.signed, made.found)


def _curator(key: Path | None, book: "Network", password_file: Path | None) -> "LocalSigner | None":
    """Returns the signer of the curator's key file, or None if the user gave no key file. Raises `KeyInUse` if a running node
    uses the key."""
    from bytewise.service.node_files.key_lock import verify_unused
    from cli.chain.privileged_call import signer_of

    if key is None:
        if password_file is not None:
            raise ConfigurationError("--password-file", "goes with --key. Nothing was sent")
        return None
    verify_unused(key)
    return signer_of(book.chain_id, key, None, password_file)


def _print_calls(client: "Chain", book: "Network", calls: "Calls") -> bool:
    """Prints the calls that the curator must make. Returns False, and prints nothing, if there is no such call.

    The function first tries the first call as the curator, and raises an error if the contract refuses it. It also raises
    `ConfigurationError` if the network has no curator.
    """
    from chain.acts.epochs import refusal_error
    from chain.deployment.calls import dry_run
    from chain.reads.reader import SnapshotReader
    from chain.reads.roles import holders

    if not calls:
        return False
    reader = SnapshotReader(client, book)
    curators = holders(reader, reader.head()).get("CURATOR", ())
    if not curators:
        raise ConfigurationError("curator", "this network has none: a vote names one (`bytewise chain proposal create`)")
    first = next(iter(calls))
    try:
        dry_run(client, book, curators[0], first)
    except ChainReverted as error:
        raise refusal_error(first, error) from None
    for number, call in enumerate(calls, start=1):
        print(f"{number} of {len(calls)}, by the curator {' or '.join(curators)}: {call}")
        print(f"target {call.target(book)}\nvalue {call.value_wei}\ncalldata 0x{call.calldata.hex()}")
    return True


def rotate(
    config: ConfigOption,
    key: CuratorOption = None,
    network: NetworkOption = NETWORK_FILE,
    rpc: RpcOption = RPC_URLS,
    without: WithoutOption = None,
    password_file: PasswordFileOption = None,
) -> None:
    """Make the key of the next epoch and put it in force: `dkg`, then `open`.

    After a crash, the same command continues.

    The previous epoch drains: its shards still serve it until `bytewise key retire`. If some shards did not prove their share,
    the previous epoch stays in force, unless this command names exactly these shards with `--without` (see `open`).

    Exit codes: 0 in force, or the calls are printed (see `open`), 3 nothing changed: the ceremony failed, or shards that proved
    no share are not named, 5 the node does not answer, or what was sent is in no block yet (look before you repeat the command),
    6 a running node uses the key, 64 wrong input.
    """
    from bytewise.protocol.keys.ceremony import CeremonyPurpose

    _ceremony(config, CeremonyPurpose.GENERATE, dry=False)
    open_(config, key, network, rpc, without, password_file)


def retire(
    epoch: Annotated[int, typer.Argument(metavar="EPOCH", min=1, max=2**64 - 1, help="A key epoch that drains.")],
    key: CuratorOption = None,
    network: NetworkOption = NETWORK_FILE,
    rpc: RpcOption = RPC_URLS,
    password_file: PasswordFileOption = None,
) -> None:
    """End a key epoch for good, once no dispute can need its key any more.

    Its shards then erase their shares. Without `--key` the command prints the call that the curator must make.

    Exit codes: 0 retired, or the call is printed, 5 too early, the node does not answer, or what was sent is in no block yet
    (look before you repeat the command), 6 a running node uses the key, 64 wrong input (for example, the epoch is in force).
    """
    from bytewise_client.connection import chain_of
    from chain.acts.epochs import retire_epoch, retiring_calls
    from chain.client.address_book import read_network, verify_code
    from chain.reads.reader import SnapshotReader

    book = read_network(network)
    client = chain_of(rpc, book.chain_id)
    curator, reader = _curator(key, book, password_file), SnapshotReader(client, verify_code(client, book))
    found = reader.epoch_on_chain(epoch, reader.head())
    if curator is None and _print_calls(client, book, retiring_calls(epoch, found.state)):
        return
    retire_epoch(client, book, curator, epoch, found.state)
    now = "each of its shards is stopped and runs `bytewise shard erase --config bytewise.toml` now"
    print(f"key epoch {epoch} ({found.assurance}) is retired; {now}")


def _ceremony(config: Path, purpose: "CeremonyPurpose", dry: bool) -> None:
    """Makes or reads the plan of a ceremony, prints the plan's digest, and runs the ceremony. If `dry` is true, prints the plan
    instead of running it."""
    from bytewise.service import telemetry
    from bytewise.storage.migrations.migrate import migrate
    from chain.client.address_book import read_network
    from cli.chain.privileged_call import signer_of
    from kms.ceremony.coordinator import load_or_make_plan, run_ceremony
    from kms.settings import CeremonySettings

    settings = load_settings(CeremonySettings, config)
    network = read_network(settings.network_file)
    coordinator = settings.coordinator_key_file, None, settings.coordinator_password_file
    signer = signer_of(network.chain_id, *coordinator, option="coordinator_password_file")
    signed = load_or_make_plan(settings, purpose, network.contracts, signer, secrets.token_bytes)
    print(f"plan {hex0x(signed.plan.digest)} in {settings.plan_file}")
    if dry:
        print(json.dumps(_plan_facts(signed.plan), indent=2))
        return
    telemetry.configure("kms-coordinator")
    migrate(settings.database_url)
    state = run_ceremony(settings, signed, signer)
    print(json.dumps(public_facts(state), indent=2))
    if state.result is None:
        raise CeremonyFailed(state.id.hex()[:16], state.reason)


def _plan_facts(plan: "CeremonyPlan") -> dict[str, object]:
    """Returns the facts of a ceremony plan that the person who runs a shard must read before approving the plan."""
    return {
        "purpose": plan.purpose.name,
        "epoch": plan.epoch,
        "opened_by": _opened_by(plan),
        "quorum": plan.quorum,
        "reveal_budget": plan.reveal_budget,
        "assurance": plan.assurance,
        "coordinator": plan.coordinator,
        "dealers": [_seat(each) for each in plan.dealers],
        "receivers": [_seat(each) for each in plan.receivers],
        "repair_target": _seat(plan.repair_target) if plan.repair_target else None,
    }


def _opened_by(plan: "CeremonyPlan") -> str:
    """Returns, as text, how many shards can open an envelope after the ceremony. The text for a repair lacks the number of all
    shards, because the plan of a repair does not name all shards."""
    return f"{plan.threshold} shards" if plan.repair_target else f"{plan.threshold} of {len(plan.receivers)}"


def _seat(seat: "CeremonySeat") -> dict[str, object]:
    from bytewise.protocol.digests import sha256

    certificate = hex0x(sha256(seat.certificate.encode()))
    return {**dict(index=seat.index, account=seat.address, url=seat.url, channel=seat.channel), "certificate_sha256": certificate}


def public_facts(state: "CeremonyState") -> dict[str, object]:
    """Returns the public facts of a ceremony that has ended, as plain JSON data. Raises `ConfigurationError` if the ceremony has
    not ended."""
    from kms.ceremony.coordinator import unproven_shares

    result = state.result
    if result is None and not state.reason:
        raise ConfigurationError("ceremony", f"stands in {state.phase.name}")
    return {
        "ceremony": hex0x(state.id),
        "assurance": state.plan.assurance,
        "phase": state.phase.name,
        "reason": state.reason,
        "messages": state.length,
        "head": hex0x(state.head),
        "transcript": hex0x(result.transcript) if result else None,
        "public_key": hex0x(result.public_key) if result else None,
        "dealers": list(result.qualified) if result else [],
        "confirmed": sorted(state.partials),
        "unproven": list(unproven_shares(state)),
        "liars": dict(state.faults),
    }
