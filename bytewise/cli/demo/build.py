"""Everything that is there before the actors start: models, keys, certificates, contracts, stakes, databases."""

import secrets
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from bytewise.cli.demo import plan
from bytewise.cli.demo.plan import CHAIN_ID, OPERATORS, SHARDS, VERIFIERS
from bytewise.cli.demo.processes import Network as Processes
from bytewise.cli.demo.site import Site, write_toml
from bytewise.inference import artifact
from bytewise.inference.determinism import environment
from bytewise.protocol import digests
from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.environment import Environment
from bytewise.protocol.evidence import AppraisalPolicy
from bytewise.protocol.keys import EpochDocument
from bytewise.protocol.network import Network
from bytewise.protocol.signing import LocalSigner
from bytewise.protocol.units import Address
from bytewise.service.certificates import make_certificate
from bytewise.storage.migrate import migrate
from bytewise.tee.measurement import measure
from bytewise.tee_simulated.__main__ import simulated_policy
from bytewise.tee_simulated.root import issue, make_root
from chain import deploy
from chain.client import ChainClient
from chain.keys import devnet_signer, save_signer

MODEL_NAME = "lighthouse"
CHECKPOINT = Path("models") / MODEL_NAME
STAKERS = (*OPERATORS, *VERIFIERS)
ACCOUNTS = (*STAKERS, "watchtower", "challenger")
RPC_TIMEOUT_S = 20.0
BUILD_TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True)
class Models:
    """Converted artifacts."""

    served: Path
    """What every receipt names."""
    other: Path
    """What the dishonest operator runs once instead."""


@dataclass(frozen=True, slots=True)
class Built:
    """What `build` leaves for the actors."""

    network: Network
    """Address book."""
    environment: Environment
    """Registered environment."""
    accounts: dict[str, Address]
    """Account of each actor."""


def make_models(site: Site, processes: Processes) -> Models:
    """Converts the trained checkpoint, and one without its last layer for who cheats; or takes both from the last run."""
    checkpoint, thinner = site.root / CHECKPOINT, site.folder / "checkpoint-other"
    models = Models(site.artifact, site.artifact.with_name("other"))
    python = f"{sys.executable} -m"
    convert = f"{python} bytewise.cli model convert"
    commands = {
        models.served: f"{convert} {checkpoint} {models.served}",
        models.other: f"{python} adversaries.thinner_model {checkpoint} {thinner} && {convert} {thinner} {models.other}",
    }
    key, stamp = _conversion(site.root), site.artifact.with_name("key")
    fresh = stamp.exists() and stamp.read_text() == key and all(path.exists() for path in commands)
    if not fresh:
        shutil.rmtree(site.artifact.parent, ignore_errors=True)
        site.artifact.parent.mkdir(parents=True)
        for path, command in commands.items():
            processes.start(f"model-{path.name}", ["sh", "-c", command])
        for path in commands:
            processes.expect_success(f"model-{path.name}", BUILD_TIMEOUT_S)
        stamp.write_text(key)
    return models


def _conversion(root: Path) -> str:
    # What the artifacts depend on: the checkpoint, and the converter with its libraries.
    program = measure(root, "bytewise.inference.convert")
    content = [path.read_bytes() for path in sorted((root / CHECKPOINT).iterdir()) if path.is_file()]
    return digests.sha256(program + b"".join(digests.sha256(data) for data in content)).hex()


def make_keys(site: Site) -> dict[str, LocalSigner]:
    """Draws every account key, the operators' certificates and the simulated platforms."""
    signers = {name: LocalSigner(secrets.token_bytes(32)) for name in ACCOUNTS}
    for name, signer in signers.items():
        save_signer(site.of(name) / "account.key", signer)
    for name in OPERATORS:
        save_signer(site.of(name) / "gateway.key", LocalSigner(secrets.token_bytes(32)))
        make_certificate(site.of(name) / "tls.pem", site.of(name) / "tls.key", "127.0.0.1", "bytewise operator")
    make_root(site.of("tee"))
    for name in VERIFIERS:
        issue(site.of("tee"), site.of(name) / "platform.pem")
    return signers


def deal_keys(site: Site, processes: Processes) -> EpochDocument:
    """Runs the dealer ceremony as a process of its own; when it has ended no process holds the key."""
    config = {
        "epoch": 1, "threshold": plan.THRESHOLD, "assurance": "simulated", "out_file": site.epoch_file,
        "shards": [{"folder": site.of(f"shard{i}"), "url": site.shard_url(i)} for i in range(1, SHARDS + 1)],
    }  # fmt: skip
    processes.python("dealer", "kms", "deal", "--config", str(write_toml(site.of("kms") / "deal.toml", config)))
    processes.expect_success("dealer", BUILD_TIMEOUT_S)
    return decode(EpochDocument, site.epoch_file.read_bytes())


def make_policy(site: Site) -> AppraisalPolicy:
    """The policy that accepts this run's simulated root and this source tree's enclave."""
    policy = simulated_policy(site.of("tee"), CHAIN_ID, 1)
    site.policy_file.write_bytes(encode(policy))
    return policy


def make_environment(site: Site, models: Models) -> Environment:
    """The environment of every receipt of this run."""
    found = environment(artifact.load(models.served), container=measure(site.root))
    site.environment_file.write_bytes(encode(found))
    return found


def migrate_databases(site: Site) -> None:
    """Migrates one database and gives every actor its own copy."""
    actors = [*OPERATORS, *VERIFIERS, "watchtower", "challenger", *(f"shard{i}" for i in range(1, SHARDS + 1))]
    template = site.folder / "template.db"
    migrate(f"sqlite:///{template}")
    for actor in actors:
        site.of(actor).mkdir(exist_ok=True)
        shutil.copyfile(template, site.of(actor) / "actor.db")


def build(site: Site, processes: Processes, signers: dict[str, LocalSigner], models: Models) -> Built:
    """Deploys the contracts, puts model, environment, policy and epoch in force, funds and stakes everybody."""
    client = ChainClient(site.rpc_url, CHAIN_ID, RPC_TIMEOUT_S)
    deployer = devnet_signer(CHAIN_ID, 0)
    with ThreadPoolExecutor(1) as pool:
        dealt = pool.submit(deal_keys, site, processes)
        deploy.fund(client, deployer, {signer.address: plan.FUNDS_WEI for signer in signers.values()})
        network = deploy.deploy(client, deployer, plan.PARAMS)
        policy, place = make_policy(site), make_environment(site, models)
        served = artifact.load(models.served)
        model = deploy.Model(served.model_id, encode(served.manifest))
        appraisal = deploy.Policy(policy.digest, policy.serial, encode(policy))
        network = deploy.put_in_force(client, network, deployer, [place], [model], appraisal, [dealt.result(BUILD_TIMEOUT_S)])
    deploy.join(client, network, [
        deploy.Joiner(signers[name], plan.STAKE_WEI[name], site.operator_url(name) if name in OPERATORS else None)
        for name in STAKERS
    ])  # fmt: skip
    deploy.write_network(site.network_file, network)
    return Built(network, place, {name: signer.address for name, signer in signers.items()})
