"""Makes everything that the demo's actors need before they start: models, keys, certificates, contracts, stakes, databases."""

import secrets
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives import hashes

from bytewise.inference.artifact import artifact
from bytewise.inference.determinism import environment
from bytewise.inference.profiles import open_engine, vectors_of
from bytewise.protocol import digests
from bytewise.protocol.address_book import Network
from bytewise.protocol.encoding import encode
from bytewise.protocol.errors.branches import Bug
from bytewise.protocol.evidence.appraisal_policy import AppraisalPolicy, MeasurementRole
from bytewise.protocol.records.environment import Environment
from bytewise.protocol.signing import LocalSigner
from bytewise.protocol.units import ZERO_DIGEST, Address, Digest
from bytewise.service.installation import SOURCE_ROOT, own_file
from bytewise.service.node_files.certificates import make_certificate
from bytewise.service.settings import load_settings
from bytewise.storage.migrations.migrate import make_databases, make_empty_database, migrate
from bytewise.tee.measurement import measure
from bytewise.tee_simulated.__main__ import simulated_policy
from bytewise.tee_simulated.authorities import Platform, issue, make_root
from chain.client.address_book import write_network
from chain.client.rpc import ChainClient
from chain.deployment import deploy
from chain.deployment.deploy import Policy, fund
from chain.deployment.plan import GovernanceSettings
from chain.reads.reader import SnapshotReader
from chain.sending.keys import devnet_signer, save_signer
from cli.demo import actors, plan
from cli.demo.plan import CHAIN_ID, MODEL_NAME, OPERATORS, SHARDS, VERIFIERS
from cli.demo.processes import ProcessGroup as Processes
from cli.demo.site import Site, write_toml
from cli.key.ceremony import put_in_force
from kms.ceremony.coordinator import finished_ceremony
from kms.settings import CeremonySettings
from kms.storage import keyring

COORDINATOR = "coordinator"
PHASE_S = 120.0
"""Longest time of each phase of the key ceremony, in seconds. It is many times the usual time, because the shards start at the
same time as many other processes."""
CEREMONY_S = 300.0
CHECKPOINT = own_file(f"models/{MODEL_NAME}")
STAKERS = (*OPERATORS, *VERIFIERS)
ACCOUNTS = (*STAKERS, "watchtower", "challenger")
RPC_TIMEOUT_S = 20.0
BUILD_TIMEOUT_S = 300.0
"""Longest time to wait for each step that ends by itself, for example a conversion or the gate, in seconds. It is several times
what a busy machine needs."""


@dataclass(frozen=True, slots=True)
class Built:
    """The results of `build` that the actors need."""

    network: Network
    """The network's address book."""
    environment: Environment
    """The registered environment in which the operators answer."""
    accounts: dict[str, Address]
    """Account of each actor, by the actor's name."""


def make_models(site: Site, processes: Processes) -> None:
    """Converts the trained checkpoint to an artifact. For the dishonest operator, also converts a copy of the checkpoint without
    the last layer.

    If checkpoint and converter have not changed since the last run, uses the artifacts of that run again.
    """
    checkpoint, thinner = CHECKPOINT, site.folder / "checkpoint-other"
    served, other = site.artifact, site.other_artifact
    python = f"{sys.executable} -m"
    convert = f"{python} cli model convert"
    commands = {
        served: f"{convert} {checkpoint} {served}",
        other: f"{python} adversaries.thinner_model {checkpoint} {thinner} && {convert} {thinner} {other}",
    }
    key, stamp = _conversion(), site.artifact.with_name("key")
    fresh = stamp.exists() and stamp.read_text() == key and all(path.exists() for path in commands)
    if not fresh:
        shutil.rmtree(site.artifact.parent, ignore_errors=True)
        site.artifact.parent.mkdir(parents=True)
        for path, command in commands.items():
            processes.start(f"model-{path.name}", ["sh", "-c", command])
        for path in commands:
            processes.expect_success(f"model-{path.name}", BUILD_TIMEOUT_S)
        stamp.write_text(key)


def _conversion() -> str:
    # The digest covers everything that decides the bytes of the artifacts: the checkpoint, and the converter with its libraries.
    program = measure(SOURCE_ROOT, "bytewise.inference.convert.convert")
    content = [path.read_bytes() for path in sorted(CHECKPOINT.iterdir()) if path.is_file()]
    return digests.sha256(program + b"".join(digests.sha256(data) for data in content)).hex()


def make_keys(site: Site) -> dict[str, LocalSigner]:
    """Makes every account key, the TLS certificates and the simulated platforms of the enclaves. Returns the signers by actor."""
    signers = {name: LocalSigner(secrets.token_bytes(32)) for name in ACCOUNTS}
    for name, signer in signers.items():
        save_signer(site.of(name) / "account.key", signer)
    for name in OPERATORS:
        save_signer(site.of(name) / "gateway.key", LocalSigner(secrets.token_bytes(32)))
    for name in (*OPERATORS, "watchtower"):
        what = "bytewise watchtower" if name == "watchtower" else "bytewise operator"
        make_certificate(site.certificate(name), site.of(name) / "tls.key", site.host(name), what, site.aliases(name))
    make_root(site.of("tee"))
    for name in VERIFIERS:
        issue(site.of("tee"), site.platform_file(name))
    return signers


def make_policy(site: Site) -> AppraisalPolicy:
    """Writes and returns the appraisal policy. The policy accepts this run's simulated root, and the shard and enclave programs
    of this source tree, with the model that the operators serve."""
    policy = simulated_policy(site.of("tee"), CHAIN_ID, 1, model=artifact.model_id_of(site.artifact))
    site.policy_file.write_bytes(encode(policy))
    return policy


def make_environment(site: Site) -> Environment:
    """Writes and returns the environment of every receipt of this run."""
    found = environment(artifact.load(site.artifact), container=measure(SOURCE_ROOT))
    site.environment_file.write_bytes(encode(found))
    return found


def migrate_databases(site: Site) -> None:
    """Makes the database of every actor: migrates one database, and copies this database for each actor, which is faster."""
    actors = [*OPERATORS, *VERIFIERS, "watchtower", "challenger", "kms", *(f"shard{i}" for i in range(1, SHARDS + 1))]
    for actor in actors:
        site.of(actor).mkdir(exist_ok=True)
    if site.database_server:
        make_databases(site.database_server, site.database_name("template"), [site.database_name(actor) for actor in actors])
        make_empty_database(site.database_server, site.database_name("dashboard"))
        return
    template = site.folder / "template.db"
    migrate(f"sqlite:///{template}")
    for actor in actors:
        shutil.copyfile(template, site.of(actor) / "actor.db")


def build(site: Site, processes: Processes, signers: dict[str, LocalSigner], terms: plan.Terms = plan.TERMS) -> Built:
    """Builds the network on the chain: deploys the contracts, puts policy and stakes in force while the shards make the key, and
    makes the verifiers certify model and environment."""
    client = ChainClient(site.rpc_url, CHAIN_ID, RPC_TIMEOUT_S)
    deployer = devnet_signer(CHAIN_ID, 0)
    policy, place = make_policy(site), make_environment(site)
    pool, served = plan.pool_of(place), artifact.load(site.artifact)
    with ThreadPoolExecutor(2) as threads:
        migrating, computing = threads.submit(migrate_databases, site), threads.submit(_vectors, site.artifact)
        fund(client, deployer, {signer.address: terms.funds_wei for signer in signers.values()})
        _mine(client, 2)
        vote = GovernanceSettings(guardian=deployer.address, curator=deployer.address, holder=deployer.address)
        network = deploy.deploy(
            client, deployer, deploy.survey(client, deployer.address, terms.params, terms.shape, [pool], vote)
        )
        migrating.result(BUILD_TIMEOUT_S)
        vectors = computing.result(BUILD_TIMEOUT_S)
    write_network(site.network_file, network)
    _begin_ceremony(site, processes)
    proposals = [
        deploy.environment_proposal(place, pool, vectors),
        deploy.ItemProposal(served.model_id, ZERO_DIGEST, vectors, encode(served.manifest)),
    ]
    measurements = [each.measurement for each in policy.measurements if each.role is MeasurementRole.VERIFIER_ENCLAVE]
    appraisal = Policy(policy.digest, policy.serial, encode(policy))
    deploy.put_in_force(client, network, deployer, measurements, proposals, appraisal)
    deploy.join(
        client, network, [_joiner(site, name, signers[name], terms.stake_wei[name], pool, measurements[0]) for name in STAKERS]
    )
    network = _finish_ceremony(site, processes, client, network, deployer)
    items = dict.fromkeys([place.digest, served.model_id], vectors)
    _certify(client, network, deployer, [signers[name] for name in VERIFIERS], items)
    write_network(site.network_file, network)
    return Built(network, place, {name: signer.address for name, signer in signers.items()})


def _joiner(
    site: Site, name: str, signer: LocalSigner, stake_wei: int, pool: Digest, measurement: Digest
) -> deploy.Joiner:  # fmt: skip
    """Returns the entry of an actor for `deploy.join`: an operator with its URL, or a verifier with its machine and the
    measurement of its enclave."""
    if name in OPERATORS:
        return deploy.Joiner(signer, stake_wei, site.operator_url(name))
    machine = Platform(site.platform_file(name)).pck_ca.certificate.fingerprint(hashes.SHA256())
    return deploy.Joiner(signer, stake_wei, None, pool, Digest(machine), measurement)


def _certify(
    client: ChainClient, network: Network, curator: LocalSigner, verifiers: list[LocalSigner], items: dict[Digest, Digest]
) -> None:
    """Makes the verifiers certify items, and the curator activate the items. `items` maps the digests of model and environment to
    the digest of their test vectors.

    The function first mines blocks until the next stake epoch, because the verifiers' stake counts only from then on.
    """
    reader = SnapshotReader(client, network)
    head = reader.head()
    pool = reader.pool(network.pools[0].digest, head)
    if pool is None:
        raise Bug("the curator has not added the pool")
    _mine(client, pool.epoch_end - head + 1)
    deploy.certify(client, network, verifiers, items)
    deploy.activate(client, network, curator, list(items))


def _vectors(served: Path) -> Digest:
    # All verifiers of the demo are on this machine. So the demo computes once what each verifier computes by `bytewise member
    # certify`.
    return vectors_of(open_engine(served, None)).digest


def _mine(client: ChainClient, blocks: int) -> None:
    """Makes the development chain mine a number of blocks at once. Their times are one second apart."""
    client.rpc("anvil_mine", hex(blocks), hex(1))


# --- the key: three shard processes make it together, as in docs/guide/key-ceremony.md ---


def _begin_ceremony(site: Site, processes: Processes) -> None:
    """Makes the keys of each shard, and starts the shards and the coordinator of the key ceremony. The address book must
    exist."""
    save_signer(site.coordinator_key, LocalSigner(secrets.token_bytes(32)))
    entries = [_make_shard_entry(site, index) for index in range(1, SHARDS + 1)]
    config = {
        "epoch": site.epoch, "threshold": plan.THRESHOLD, "quorum": SHARDS, "reveal_budget": plan.THRESHOLD - 1, "assurance":
        "simulated", "phase_s": PHASE_S, "network_file": site.network_file, "coordinator_key_file": site.coordinator_key,
        "database_url": site.database("kms"), "plan_file": site.of("kms") / "plan.json", "out_file": site.epoch_file, "entries":
        entries,
    }  # fmt: skip
    actors.start_shards(site, processes)
    processes.python(COORDINATOR, "cli", "key", "dkg", "--config", str(write_toml(_ceremony_config(site), config)))


def _finish_ceremony(site: Site, processes: Processes, client: ChainClient, network: Network, curator: LocalSigner) -> Network:
    """Waits for the end of the ceremony, stops the shards, puts the key epoch in force, and returns the address book with this
    key epoch."""
    processes.expect_success(COORDINATOR, CEREMONY_S)
    for index in range(1, SHARDS + 1):
        processes.stop(f"shard{index}")
    return put_in_force(client, network, curator, finished_ceremony(load_settings(CeremonySettings, _ceremony_config(site))))


def _make_shard_entry(site: Site, index: int) -> Path:
    """Makes the keys and the simulated platform of a shard, and writes the shard's entry for the ceremony plan. Returns the path
    of the entry."""
    folder, url = site.of(f"shard{index}"), site.shard_url(index)
    keyring.create_keys(folder, url, secrets.token_bytes)
    entry = folder / "entry.json"
    entry.write_bytes(encode(keyring.shard_entry(folder, url, site.shard_channel(index))))
    issue(site.of("tee"), folder / "platform.pem")
    return entry


def _ceremony_config(site: Site) -> Path:
    return site.of("kms") / "dkg.toml"
