"""`bytewise key`: runs key ceremonies and puts their results in force."""

import json
import secrets
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bytewise.protocol.errors.actors import CeremonyFailed, ConfigurationError
from bytewise.protocol.units import hex0x
from bytewise.service.settings import load_settings
from cli.options import NETWORK_FILE, RPC_URLS, NetworkOption, RpcOption

if TYPE_CHECKING:
    from bytewise.protocol.address_book import Network
    from bytewise.protocol.keys.ceremony import CeremonyPlan, CeremonyPurpose
    from bytewise.protocol.signing import LocalSigner
    from chain.client.access import Chain
    from kms.ceremony.state import CeremonyState


ConfigOption = Annotated[Path, typer.Option("--config", help="Settings of the ceremony (kms.settings.CeremonySettings).")]
CuratorOption = Annotated[Path, typer.Option("--key", help="Key file of the curator.")]
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


def open_(
    config: ConfigOption,
    key: CuratorOption,
    network: NetworkOption = NETWORK_FILE,
    rpc: RpcOption = RPC_URLS,
    without: WithoutOption = None,
) -> None:
    """Put the result of a ceremony in force: a new epoch, or new shares of one.

    Enough shards must have signed the result in the ceremony's log. The contract checks this, too.

    Every shard that gets a share must have proved the share on the canary. `--without` must name exactly the shards that did not
    prove their share. Otherwise nothing is sent. Give each of these shards its share before it is needed (`bytewise key repair`).

    Exit codes: 0 in force, 3 the ceremony has not ended, or shards that proved no share are not named, 5 the node does not
    answer, 64 wrong input (for example, a shard that proved its share is named).
    """
    from bytewise.protocol.keys.epochs import EpochState
    from bytewise_client.connection import chain_of
    from chain.client.address_book import read_network, verify_code, write_network
    from chain.reads.reader import SnapshotReader
    from chain.sending.keys import load_signer
    from kms.ceremony.session import finished_ceremony
    from kms.settings import CeremonySettings

    state, book = finished_ceremony(load_settings(CeremonySettings, config)), read_network(network)
    client = chain_of(rpc, book.chain_id)
    opened = put_in_force(client, verify_code(client, book), load_signer(key), state, without or ())
    write_network(network, opened)
    reader, epoch = SnapshotReader(client, opened), state.plan.epoch
    now = reader.epoch_on_chain(epoch, reader.head())
    stands = "in force" if now.state is EpochState.ACTIVE else now.state.name
    print(f"key epoch {epoch}, shares of version {state.plan.version}, is {stands} and in {network}; assurance: {now.assurance}")


def put_in_force(
    client: "Chain", book: "Network", curator: "LocalSigner", state: "CeremonyState", without: Collection[int] = ()
) -> "Network":
    """Sends the result of a ceremony, with its signatures, to the chain, and returns the new address book. What the chain shows
    already is not sent again: an announced epoch, the same shares, an epoch in force. Only the confirmation of an epoch that is
    not yet in force may be sent twice.

    `without` has the indices of the shards that did not prove their share. If another shard did not prove its share, nothing is
    sent (`kms.ceremony.coordinator.verify_shares_proven`).
    """
    from bytewise.protocol.keys.ceremony import CeremonyPurpose
    from chain.acts.epochs import CeremonySignatures, open_epoch, reshare_epoch
    from chain.reads.reader import SnapshotReader
    from kms.ceremony.coordinator import epoch_document, share_consents, share_signatures, transcript_of, verify_shares_proven

    verify_shares_proven(state, without)
    document, reader = epoch_document(state), SnapshotReader(client, book)
    signed = CeremonySignatures(transcript_of(state), share_signatures(state), share_consents(state))
    head = reader.head()
    policy, found = reader.snapshot(curator.address, head).policy, reader.epoch_on_chain(document.record.epoch, head)
    if state.plan.purpose is CeremonyPurpose.GENERATE:
        return open_epoch(client, book, curator, document, policy, signed, found)
    return reshare_epoch(client, book, curator, document, signed, found)


def rotate(
    config: ConfigOption,
    key: CuratorOption,
    network: NetworkOption = NETWORK_FILE,
    rpc: RpcOption = RPC_URLS,
    without: WithoutOption = None,
) -> None:
    """Make the key of the next epoch and put it in force: `dkg`, then `open`.

    After a crash, the same command continues.

    The previous epoch drains: its shards still serve it until `bytewise key retire`. If some shards did not prove their share,
    the previous epoch stays in force, unless this command names exactly these shards with `--without` (see `open`).

    Exit codes: 0 in force, 3 nothing changed: the ceremony failed, or shards that proved no share are not named, 5 the node does
    not answer, 64 wrong input.
    """
    from bytewise.protocol.keys.ceremony import CeremonyPurpose

    _ceremony(config, CeremonyPurpose.GENERATE, dry=False)
    open_(config, key, network, rpc, without)


def retire(
    epoch: Annotated[int, typer.Argument(metavar="EPOCH", min=1, max=2**64 - 1, help="A key epoch that drains.")],
    key: CuratorOption,
    network: NetworkOption = NETWORK_FILE,
    rpc: RpcOption = RPC_URLS,
) -> None:
    """End a key epoch for good, once no dispute can need its key any more.

    Its shards then erase their shares.

    Exit codes: 0 retired, 5 too early or the node does not answer, 64 wrong input (for example, the epoch is in force).
    """
    from bytewise_client.connection import chain_of
    from chain.acts.epochs import retire_epoch
    from chain.client.address_book import read_network, verify_code
    from chain.reads.reader import SnapshotReader
    from chain.sending.keys import load_signer

    book, curator = read_network(network), load_signer(key)
    client = chain_of(rpc, book.chain_id)
    reader = SnapshotReader(client, verify_code(client, book))
    found = reader.epoch_on_chain(epoch, reader.head())
    retire_epoch(client, book, curator, epoch, found.state)
    now = "each of its shards is stopped and runs `bytewise shard erase --config bytewise.toml` now"
    print(f"key epoch {epoch} ({found.assurance}) is retired; {now}")


def _ceremony(config: Path, purpose: "CeremonyPurpose", dry: bool) -> None:
    from bytewise.service import telemetry
    from bytewise.storage.migrate import migrate
    from chain.client.address_book import read_network
    from chain.sending.keys import load_signer
    from kms.ceremony.session import load_or_make_plan, run_ceremony
    from kms.settings import CeremonySettings

    settings = load_settings(CeremonySettings, config)
    signer, network = load_signer(settings.coordinator_key_file), read_network(settings.network_file)
    signed = load_or_make_plan(settings, purpose, network.contracts, signer, secrets.token_bytes)
    print(f"plan {hex0x(signed.plan.digest)} in {settings.plan_file}")
    if dry:
        print(json.dumps(_agreed(signed.plan), indent=2))
        return
    telemetry.configure("kms-coordinator")
    migrate(settings.database_url)
    state = run_ceremony(settings, signed, signer)
    print(json.dumps(public_facts(state), indent=2))
    if state.result is None:
        raise CeremonyFailed(state.id.hex()[:16], state.reason)


def _agreed(plan: "CeremonyPlan") -> dict[str, object]:
    """Returns the facts of a ceremony plan that the person who runs a shard must read before approving the plan."""
    return {
        "purpose": plan.purpose.name,
        "epoch": plan.epoch,
        "opened_by": f"{plan.threshold} of {len(plan.receivers)}",
        "quorum": plan.quorum,
        "reveal_budget": plan.reveal_budget,
        "assurance": plan.assurance,
        "coordinator": plan.coordinator,
        "dealers": {seat.index: f"{seat.address} at {seat.url}" for seat in plan.dealers},
        "receivers": {seat.index: f"{seat.address} at {seat.url}" for seat in plan.receivers},
        "repair_target": plan.repair_target.address if plan.repair_target else None,
    }


def public_facts(state: "CeremonyState") -> dict[str, object]:
    """Returns the public facts of a ceremony that has ended, as plain JSON data. Raises `ConfigurationError` if the ceremony
    still runs."""
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
