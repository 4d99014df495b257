"""Starts one shard. It reads the shard's keys, refuses everything that a production process must refuse, and serves until it is
stopped."""

import contextlib
import functools
import secrets
from collections.abc import Callable
from pathlib import Path

from bytewise.ports import Clock, Quoter
from bytewise.protocol.errors.actors import ConfigurationError, StaleBackup
from bytewise.protocol.evidence.appraisal_policy import TEST_CHAIN_IDS, EvidenceType
from bytewise.protocol.evidence.policy_updates import PolicyState, PolicyTimes, first_policy_state
from bytewise.protocol.jobs import Contracts, EpochRecord, key_domain
from bytewise.protocol.keys.epochs import EpochDocument, EpochState, ShardInfo
from bytewise.protocol.units import Address, address
from bytewise.service import metrics, telemetry
from bytewise.service.clock import ForwardClock, SystemClock
from bytewise.service.exit_codes import Exit
from bytewise.service.listener import listening_socket, serve_metrics
from bytewise.service.metrics import Actor
from bytewise.service.readiness import Check, ReadinessRegistry, watch_disk
from bytewise.service.schedule import stop_on_signals
from bytewise.storage.ceremonies import Ceremonies
from bytewise.storage.engine import check_revision, open_database
from bytewise.storage.releases import ReleaseRecords
from bytewise.tee import quoters
from bytewise.tee.channel import ChannelEndpoint
from bytewise.tee.confinement import harden_process
from bytewise.tee.policy import load_policy, load_policy_state
from bytewise.tee.quoters import open_quoter, verify_attestation
from kms.ceremony.authority import CeremonyView, TrustSettings
from kms.ceremony.participant import Participant, ParticipantConfig
from kms.settings import ShardSettings
from kms.shard.api import build_app, serve
from kms.shard.chain_view import KeyView
from kms.shard.listener import ChannelServer
from kms.shard.refresh import DealtAt, refresh_reminder
from kms.shard.release import Shard
from kms.storage import files, keyring
from kms.storage.files import ShareReporter, ignore_share
from kms.storage.log_position import LogPositionFile
from kms.storage.sealing import Sealer, open_sealer

Simulator = Callable[[Path], Quoter]
"""Function that makes a quoter from the file of a simulated platform."""


def build_shard(
    settings: ShardSettings, contracts: Contracts, view: KeyView, report_share: ShareReporter = ignore_share,
    clock: Clock | None = None, sealer: Sealer | None = None,
) -> Shard:  # fmt: skip
    """Builds the shard of these settings. The shard calls `report_share` with the commitments of the share in memory. `clock` is
    by default the machine's clock. `sealer` is the folder's sealer if the caller has opened it.

    Raises `ConfigurationError` if a file, key or epoch is invalid, and `PolicyRefused` if the signed policy may not come into
    force. Raises `StoreCorrupt` if the release log was altered, and `StaleBackup` if it lacks records that the shard signed.
    """
    if settings.production:
        quoters.enter_production()
    document = keyring.load_document(settings.epoch_file)
    _verify_assurance(document.record.assurance, contracts.chain_id, settings.production)
    _verify_governed(settings, document.record, contracts.chain_id)
    metrics.set_key_epoch(document.record.epoch, document.record.assurance)
    standing = _policy_in_force(settings, contracts.chain_id, view)
    engine = open_database(settings.database_url)
    check_revision(engine)
    marks = LogPositionFile(settings.folder, key_domain(contracts))
    records = ReleaseRecords(engine, key_domain(contracts), marks.recorded)
    sealer = sealer or open_sealer(settings.folder, settings.sealing)
    signer = keyring.open_account(settings.folder, sealer)
    _verify_own_log(records, document.record.epoch, signer.address)
    marks.begin(records)
    return Shard(
        document=document,
        share=keyring.open_share(settings.folder, document, sealer),
        find=functools.partial(keyring.find_share, settings.folder, document.record.epoch, sealer=sealer),
        signer=signer,
        contracts=contracts,
        appraisal=standing,
        view=view,
        records=records,
        rng=secrets.token_bytes,
        clock=clock or ForwardClock(SystemClock()),
        audits_per_epoch=settings.audits_per_epoch,
        release_shares=settings.release_shares,
        report_share=report_share,
    )


def build_participant(settings: ShardSettings, contracts: Contracts, view: CeremonyView) -> Participant:
    """Builds the shard's side of key ceremonies. Raises `ConfigurationError` if folder or database is invalid."""
    engine = open_database(settings.database_url)
    check_revision(engine)
    trust = TrustSettings(
        chain_id=contracts.chain_id,
        key_epochs=contracts.key_epochs,
        coordinator=address(settings.coordinator),
        approved_plans=frozenset(settings.approved_plans),
        simulated=not settings.production and contracts.chain_id in TEST_CHAIN_IDS,
        release_shares=settings.release_shares,
    )
    sealer = open_sealer(settings.folder, settings.sealing)
    holding = ParticipantConfig(settings.folder, keyring.open_account(settings.folder, sealer), trust, sealer)
    return Participant(holding, Ceremonies(engine), view, secrets.token_bytes)


def build_shard_and_participant(
    settings: ShardSettings, contracts: Contracts, view: KeyView, ceremonies: CeremonyView | None = None,
    report_share: ShareReporter = ignore_share, clock: Clock | None = None,
) -> tuple[Shard | None, Participant | None]:  # fmt: skip
    """Builds the shard, and its side of key ceremonies if the settings name a coordinator. The unwrap command runs once for both,
    because it may ask for a PIN. Raises the errors of `build_shard` and `build_participant`.

    The shard is None if there is no epoch file. Without an epoch it may still take part in the ceremony that makes its first key.
    """
    participant = build_participant(settings, contracts, ceremonies) if settings.coordinator and ceremonies is not None else None
    has_epoch = settings.epoch_file.exists()
    if ceremonies is not None and has_epoch:
        verify_epoch_document(keyring.load_document(settings.epoch_file), ceremonies)
    if participant is None:
        return build_shard(settings, contracts, view, report_share, clock), None
    return build_shard(settings, contracts, view, report_share, clock, participant.sealer) if has_epoch else None, participant


def serve_shard(
    settings: ShardSettings, contracts: Contracts, view: KeyView, simulator: Simulator, ceremonies: CeremonyView | None = None,
    dealt_at: DealtAt | None = None,
) -> int:  # fmt: skip
    """Protects the process (`harden_process`) and serves until SIGTERM or SIGINT. Returns the exit code. `simulator` makes the
    quoter of a simulated run. `dealt_at` returns the time at which the shares in force were dealt, for the reminder."""
    harden_process()
    # uvicorn raises the signal again after its shutdown. With this handler the process then exits with code 0.
    stop_on_signals()
    folder: Path = settings.folder
    readiness = ReadinessRegistry()
    with contextlib.ExitStack() as stack:
        stack.enter_context(serve_metrics(settings.metrics, Actor.SHARD, readiness))
        report_share = stack.enter_context(files.lock_for_serving(folder))
        clock = ForwardClock(SystemClock(), _log_clock_regression)
        shard, participant = build_shard_and_participant(settings, contracts, view, ceremonies, report_share, clock)
        if shard is None:
            do = "put the epoch document there after the ceremony, then restart"
            telemetry.log(
                "shard.started_without_epoch", coordinator=settings.coordinator, epoch_file=str(settings.epoch_file), do=do
            )
        else:
            stack.callback(open_channels(settings, shard, contracts.chain_id, simulator, clock).close)
        if dealt_at is not None and settings.refresh_days:
            stack.enter_context(refresh_reminder(settings, dealt_at, SystemClock()))
        _add_checks(readiness, settings, shard, contracts.chain_id)
        serve(
            build_app(shard, participant),
            settings.host,
            settings.port,
            folder / keyring.TLS_CERTIFICATE,
            folder / keyring.TLS_KEY,
        )
    return Exit.OK


def _add_checks(readiness: ReadinessRegistry, settings: ShardSettings, shard: Shard | None, chain_id: int) -> None:
    metrics.CONFIG_INFO.labels(network=str(chain_id), role="shard", strategy="").set(1)
    watch_disk(readiness, settings.folder)
    readiness.add("share", lambda: share_check(None if shard is None else shard.info()))
    readiness.started()


def share_check(info: ShardInfo | None) -> Check:
    """Returns a check for `/readyz`. It passes if the shard has read the chain and answers with the share in force there. `info`
    describes the shard's epoch and share, or is None if the shard serves no key epoch."""
    threshold, do = (
        "in force",
        "Wait for a final block with a new epoch. Else the chain is away or the share is old: see the log.",
    )
    if info is None:
        do = "Put the epoch document there after the ceremony, then restart."
        return Check("share", False, "no key epoch", threshold, do)
    value = {True: "in force", False: "not in force", None: "the chain was not read"}[info.in_force]
    return Check("share", info.in_force is True, f"epoch {info.epoch}, {value}", threshold, do)


def open_channels(settings: ShardSettings, shard: Shard, chain_id: int, simulator: Simulator, clock: Clock) -> ChannelServer:
    """Starts the shard's attested channels, which serve until they are closed. Raises `ConfigurationError` if evidence or port
    cannot be used."""
    if settings.evidence is None:
        raise ConfigurationError(
            "evidence", "missing: name the kind of evidence that attests this shard to enclaves (tdx, snp or simulated)"
        )
    if settings.production and settings.evidence is EvidenceType.SIMULATED:
        raise ConfigurationError("evidence", "simulated in production")
    attestation = settings.evidence, settings.platform_file, settings.endorsements
    verify_attestation(*attestation, settings.insecure_accept_simulated, chain_id)
    end = ChannelEndpoint(shard.terms(), open_quoter(*attestation, simulator), shard.signer, clock, secrets.token_bytes)
    return ChannelServer(shard, end, listening_socket("channel_port", settings.host, settings.channel_port))


def verify_epoch_document(document: EpochDocument, view: CeremonyView) -> EpochDocument:
    """Returns the epoch document if its Feldman commitments are those of the shares in force on the chain, or if the chain does
    not have the epoch yet.

    Raises `StaleBackup` if the commitments differ. The document then describes older shares, for example those before a reshare.
    """
    epoch = document.record.epoch
    on_chain = view.key_epoch(epoch)
    if on_chain.state is not EpochState.NONE and on_chain.commitments != b"".join(document.commitments):
        raise StaleBackup("epoch file", f"the chain has version {on_chain.version} of the shares of key epoch {epoch}")
    return document


def _verify_own_log(records: ReleaseRecords, epoch: int, shard: Address) -> None:
    """Verifies the hash chain and the signatures of the epoch's release log, and that the newest record of each epoch is by this
    shard. Raises `StoreCorrupt` for a broken chain, and `ConfigurationError` if a newest record is by another shard."""
    records.verify_chain(epoch)
    for each in records.epochs():
        for whose in {signed.record.shard for signed in records.page(each, records.head(each).next_index - 1)}:
            if whose != shard:
                why = f"has the release log of {whose}, and the folder is of {shard}: name the database of this folder"
                raise ConfigurationError("database_url", why)


def _policy_in_force(settings: ShardSettings, chain_id: int, view: KeyView) -> PolicyState:
    if not settings.policy_governors:
        telemetry.log("policy.accepted_unsigned", assurance="simulated")
        return first_policy_state(load_policy(settings.policy_file, chain_id, settings.production))
    history = settings.folder / keyring.POLICY_HISTORY
    # Either clock may be wrong. A waiting time ends only when both clocks say so, so a clock that is ahead ends none early.
    times = PolicyTimes(own=SystemClock().now(), chain=view.time())
    return load_policy_state(
        settings.policy_file, history, settings.policy_governors, settings.policy_threshold, chain_id, settings.production, times
    )  # fmt: skip


def _verify_governed(settings: ShardSettings, record: EpochRecord, chain_id: int) -> EpochRecord:
    """Returns the epoch's record. Raises `ConfigurationError` if the shard has no governors, unless it belongs to a simulated run
    (ADR-043)."""
    simulated, evidence = EvidenceType.SIMULATED, settings.evidence
    for real, why in (
        (record.assurance != simulated.value, f"key epoch {record.epoch} is of assurance {record.assurance}"),
        (evidence not in (None, simulated), f"evidence is {evidence.value if evidence else 'none'}"),
        (chain_id not in TEST_CHAIN_IDS, f"chain {chain_id} is no test chain"),
    ):
        if real and not settings.policy_governors:
            do = "name the accounts that sign policies, and policy_threshold; they sign policy_file with `bytewise key approve`"
            raise ConfigurationError("policy_governors", f"missing, and {why}: {do}")
    return record


def _log_clock_regression(seconds: int) -> None:
    # The clock went back: evidence made now counts as expired until the clock reaches the earlier time again. Only a restart
    # helps, and only a person knows which time is right.
    telemetry.log("clock.went_back", seconds=seconds)


def _verify_assurance(assurance: str, chain_id: int, production: bool) -> str:
    simulated = assurance == EvidenceType.SIMULATED.value
    if simulated and (production or chain_id not in TEST_CHAIN_IDS):
        raise ConfigurationError("key epoch", f"simulated on chain {chain_id}")
    return assurance
