"""Starts one shard: reads its keys, refuses what a production process must refuse, serves until told to stop."""

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
from bytewise.protocol.keys.epochs import EpochDocument, EpochState
from bytewise.protocol.units import Address, address
from bytewise.service import telemetry
from bytewise.service.clock import ForwardClock, SystemClock
from bytewise.service.exit_codes import Exit
from bytewise.service.schedule import stop_on_signals
from bytewise.storage.ceremonies import Ceremonies
from bytewise.storage.engine import check_revision, open_database
from bytewise.storage.releases import ReleaseRecords
from bytewise.tee import mode
from bytewise.tee.channel import End
from bytewise.tee.policy import follow_policy, load_policy
from bytewise.tee.quoters import open_quoter, verify_attestation
from kms.ceremony.authority import CeremonyView, Trust
from kms.ceremony.participant import Desk, Holding
from kms.settings import ShardSettings
from kms.shard.api import build_app, serve
from kms.shard.chain_view import KeyView
from kms.shard.http_limits import listening
from kms.shard.listener import ChannelServer
from kms.shard.process_hardening import close_process
from kms.shard.release import Shard
from kms.storage import accounts, folder_lock, keyring
from kms.storage.folder_lock import Held, unsaid
from kms.storage.log_position import MarkFile
from kms.storage.sealing import open_sealer

Simulator = Callable[[Path], Quoter]
"""Makes a quoter from the file of a simulated platform."""


def build_shard(
    settings: ShardSettings, contracts: Contracts, view: KeyView, held: Held = unsaid, clock: Clock | None = None
) -> Shard:
    """The shard of these settings, which tells `held` what share it has in memory. `clock`: by default the machine's.

    `ConfigurationError` for any file, key, policy or epoch that cannot be right, `StaleBackup` for a release log that lacks what
    the shard signed.
    """
    if settings.production:
        mode.enter_production()
    document = keyring.load_document(settings.epoch_file)
    _verify_assurance(document.record.assurance, contracts.chain_id, settings.production)
    _verify_governed(settings, document.record, contracts.chain_id)
    telemetry.key_epoch(document.record.epoch, document.record.assurance)
    standing = _standing(settings, contracts.chain_id, view)
    engine = open_database(settings.database_url)
    check_revision(engine)
    marks = MarkFile(settings.folder, key_domain(contracts))
    records = ReleaseRecords(engine, key_domain(contracts), marks.recorded)
    sealer = open_sealer(settings.folder, settings.sealing)
    signer = accounts.signer(settings.folder, sealer)
    _verify_own(records, document.record.epoch, signer.address)
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
        held=held,
    )


def build_desk(settings: ShardSettings, contracts: Contracts, view: CeremonyView) -> Desk:
    """The shard's side of key ceremonies; `ConfigurationError` for a folder or database that cannot be right."""
    engine = open_database(settings.database_url)
    check_revision(engine)
    trust = Trust(
        chain_id=contracts.chain_id,
        key_epochs=contracts.key_epochs,
        scribe=address(settings.scribe),
        approved=frozenset(settings.approved),
        simulated=not settings.production and contracts.chain_id in TEST_CHAIN_IDS,
        release_shares=settings.release_shares,
    )
    sealer = open_sealer(settings.folder, settings.sealing)
    holding = Holding(settings.folder, accounts.signer(settings.folder, sealer), trust, sealer)
    return Desk(holding, Ceremonies(engine), view, secrets.token_bytes)


def serve_shard(
    settings: ShardSettings, contracts: Contracts, view: KeyView, simulator: Simulator, ceremonies: CeremonyView | None = None
) -> int:
    """Serves until SIGTERM or SIGINT; returns the exit code. `simulator`: makes the quoter of a simulated run.

    First it closes this process for good, whoever started it.
    """
    close_process()
    # uvicorn raises the signal again when it has shut down; with our handler in place that is a clean exit.
    stop_on_signals()
    folder: Path = settings.folder
    with folder_lock.serving(folder) as held, contextlib.ExitStack() as stack:
        desk = build_desk(settings, contracts, ceremonies) if settings.scribe and ceremonies is not None else None
        if ceremonies is not None and settings.epoch_file.exists():
            verify_meant(keyring.load_document(settings.epoch_file), ceremonies)
        clock, has_epoch = ForwardClock(SystemClock(), _went_back), settings.epoch_file.exists()
        # Before its first epoch a shard has nothing to serve and may only help to make a key.
        shard = build_shard(settings, contracts, view, held, clock) if has_epoch or desk is None else None
        if shard is None:
            do = "after the ceremony put its document there, and restart"
            telemetry.log("kms.awaits_epoch", scribe=settings.scribe, epoch_file=str(settings.epoch_file), do=do)
        else:
            stack.callback(open_channels(settings, shard, contracts.chain_id, simulator, clock).close)
        serve(build_app(shard, desk), settings.host, settings.port, folder / keyring.TLS_CERTIFICATE, folder / keyring.TLS_KEY)
    return Exit.OK


def open_channels(settings: ShardSettings, shard: Shard, chain_id: int, simulator: Simulator, clock: Clock) -> ChannelServer:
    """The shard's attested channels, served until closed; `ConfigurationError` for evidence or a port that cannot be had."""
    if settings.evidence is None:
        raise ConfigurationError("evidence", "missing: how is this shard attested to enclaves?")
    if settings.production and settings.evidence is EvidenceType.SIMULATED:
        raise ConfigurationError("evidence", "simulated in production")
    given = settings.evidence, settings.platform_file, settings.endorsements
    verify_attestation(*given, settings.insecure_accept_simulated, chain_id)
    end = End(shard.terms(), open_quoter(*given, simulator), shard.signer, clock, secrets.token_bytes)
    return ChannelServer(shard, end, listening("channel_port", settings.host, settings.channel_port))


def verify_meant(document: EpochDocument, view: CeremonyView) -> EpochDocument:
    """The document, unless the chain means other shares of its epoch: then `StaleBackup`, for it is of before a resharing.

    An epoch that the chain does not have yet is not refused.
    """
    epoch = document.record.epoch
    on_chain = view.key_epoch(epoch)
    if on_chain.state is not EpochState.NONE and on_chain.commitments != b"".join(document.commitments):
        raise StaleBackup("epoch file", f"the chain means version {on_chain.version} of the shares of key epoch {epoch}")
    return document


def _verify_own(records: ReleaseRecords, epoch: int, shard: Address) -> None:
    """That the release log is whole, and all of the database the shard's own: a log that goes on from another's is nobody's."""
    records.verify_chain(epoch)
    for each in records.epochs():
        for whose in {signed.record.shard for signed in records.page(each, records.head(each).next_index - 1)}:
            if whose != shard:
                why = f"has the release log of {whose}, and the folder is of {shard}: name the database of this folder"
                raise ConfigurationError("database_url", why)


def _standing(settings: ShardSettings, chain_id: int, view: KeyView) -> PolicyState:
    if not settings.policy_governors:
        telemetry.log("kms.policy_unsigned", assurance="simulated")
        return first_policy_state(load_policy(settings.policy_file, chain_id, settings.production))
    history = settings.folder / keyring.POLICY_HISTORY
    # Either may be wrong, or a liar's: together they end no wait too early and make none endless.
    times = PolicyTimes(own=SystemClock().now(), chain=view.time())
    return follow_policy(
        settings.policy_file, history, settings.policy_governors, settings.policy_threshold, chain_id, settings.production, times
    )  # fmt: skip


def _verify_governed(settings: ShardSettings, record: EpochRecord, chain_id: int) -> EpochRecord:
    """The epoch's record, unless its shard has no governors where only simulated runs may have none (ADR-044)."""
    simulated, evidence = EvidenceType.SIMULATED, settings.evidence
    for real, why in (
        (record.assurance != simulated.value, f"key epoch {record.epoch} is of assurance {record.assurance}"),
        (evidence not in (None, simulated), f"evidence is {evidence.value if evidence else 'none'}"),
        (chain_id not in TEST_CHAIN_IDS, f"chain {chain_id} is no test chain"),
    ):
        if real and not settings.policy_governors:
            do = "name the accounts that sign policies, and policy_threshold; they sign policy_file by `bytewise key approve`"
            raise ConfigurationError("policy_governors", f"missing, and {why}: {do}")
    return record


def _went_back(seconds: int) -> None:
    # Evidence of now has expired until it is there again: only a restart helps, and only a person knows which time is right.
    telemetry.log("kms.clock_went_back", seconds=seconds)


def _verify_assurance(assurance: str, chain_id: int, production: bool) -> str:
    simulated = assurance == EvidenceType.SIMULATED.value
    if simulated and (production or chain_id not in TEST_CHAIN_IDS):
        raise ConfigurationError("key epoch", f"simulated on chain {chain_id}")
    return assurance
