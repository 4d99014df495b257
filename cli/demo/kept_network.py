"""A demo network that stays up (`KEEP=1`): variables to source, a funded account, and which process ended."""

import secrets
import shlex
import signal
import sys
import time
from dataclasses import fields
from pathlib import Path

from rich.console import Console
from rich.text import Text

from bytewise.protocol.address_book import Network as Book
from bytewise.protocol.signing import LocalSigner
from bytewise.protocol.units import Address
from bytewise.tee_simulated.root import issue
from chain.client.rpc import ChainClient
from chain.deployment.deploy import fund
from chain.sending.keys import devnet_signer, save_signer
from cli.demo import build, plan
from cli.demo.plan import CHAIN_ID, OPERATORS, SHARDS
from cli.demo.processes import ProcessGroup
from cli.demo.site import Site

LOOK_S = 1.0
"""Between two looks at who is still there."""
LATEST = "latest"
"""Link beside the runs' folders to the one that was kept last."""

COMMANDS = (
    f"source runs/{LATEST}/env",
    'SSL_CERT_FILE="$CERTIFICATE" "$PYTHON" -c "import openai; '
    "print(openai.OpenAI(base_url='$OPERATOR', api_key='none').chat.completions.create(model='$MODEL', "
    "messages=[{'role': 'user', 'content': 'What is a generator?'}], max_tokens=64, temperature=0, "
    f'frequency_penalty={plan.FREQUENCY_PENALTY}).model_dump_json())" > answer.json',
    "RECEIPT_ID=$(\"$PYTHON\" -c \"import json; print(json.load(open('answer.json'))['receipt']['receipt_id'])\")",
    '"$PYTHON" -m bytewise verify "$RECEIPT_ID" --network "$NETWORK" --rpc "$RPC" --da "$DA" --artifact "$ARTIFACT" '
    "--opening answer.json",
)
"""To ask with an own client (any of OpenAI's that trusts the certificate), and to check what it kept. One line each."""


def endpoints(site: Site) -> dict[str, str]:
    """Where an own client can go while the network runs."""
    return {
        "chain": site.rpc_url,
        "da": site.da_url,
        **{f"shard {i + 1}": f"https://127.0.0.1:{port}" for i, port in enumerate(site.ports.shards)},
        **{f"operator {name}": f"{site.operator_url(name)}/v1" for name in OPERATORS},
        **{f"certificate of {name}": str((site.of(name) / "tls.pem").relative_to(site.root)) for name in OPERATORS},
        "address book": str(site.network_file.relative_to(site.root)),
    }


def variables(site: Site, book: Book, accounts: dict[str, Address]) -> dict[str, str]:
    """A network by the names that the commands use; accounts as `ACCOUNT_ADA`, contracts as `CONTRACT_LEDGER`, files absolute."""
    addresses = book.addresses
    cheat = site.of("dishonest")
    found: dict[str, str | Path] = {
        "PYTHON": sys.executable,
        "NETWORK": site.network_file,
        "RPC": site.rpc_url,
        "CHAIN_ID": str(CHAIN_ID),
        "DA": site.da_url,
        "MODEL": build.MODEL_NAME,
        "ARTIFACT": site.artifact,
        "OPERATOR": f"{site.operator_url('honest')}/v1",
        "CERTIFICATE": site.of("honest") / "tls.pem",
        "DISHONEST_OPERATOR": f"{site.operator_url('dishonest')}/v1",
        "DISHONEST_CERTIFICATE": cheat / "tls.pem",
        **{f"SHARD_{number}": site.shard_url(number) for number in range(1, SHARDS + 1)},
        "POLICY": site.policy_file,
        "ENVIRONMENT": site.environment_file,
        "EPOCH_FILE": site.epoch_file,
        "SPARE_KEY": site.spare_key,
        "SPARE_PLATFORM": site.spare_platform,
        **{f"ACCOUNT_{name.upper()}": account for name, account in accounts.items()},
        **{f"CONTRACT_{each.name.upper()}": getattr(addresses, each.name) for each in fields(addresses)},
    }
    return {name: str(value) for name, value in found.items()}


def write_variables(site: Site, book: Book, accounts: dict[str, Address]) -> Path:
    """Writes `env` in the run's folder for a shell to source, and has `runs/latest` name that folder."""
    path = site.folder / "env"
    lines = [f"{name}={shlex.quote(value)}" for name, value in variables(site, book, accounts).items()]
    path.write_text("# For `source`: a network that answers until its demo is ended.\n" + "\n".join(lines) + "\n")
    draft = site.folder.with_name(f".{LATEST}.{secrets.token_hex(8)}")
    draft.symlink_to(site.folder.name)
    draft.replace(site.folder.with_name(LATEST))
    return path


def make_spare(site: Site) -> Address:
    """An account that no process uses, with play money; its key is in a file that only its owner reads."""
    signer = LocalSigner(secrets.token_bytes(32))
    site.spare_key.parent.mkdir()
    save_signer(site.spare_key, signer)
    client = ChainClient(site.rpc_url, CHAIN_ID, build.RPC_TIMEOUT_S)
    fund(client, devnet_signer(CHAIN_ID, 0), {signer.address: plan.FUNDS_WEI})
    return signer.address


def make_spare_machine(site: Site) -> None:
    """A simulated machine that no process uses: with it a sixth verifier can join."""
    issue(site.of("tee"), site.spare_platform)


def show(site: Site, console: Console) -> None:
    """Endpoints, and commands to copy: each is one line, however wide the terminal is."""
    console.print("\nThe network stays up until Ctrl-C. Endpoints:")
    for name, where in endpoints(site).items():
        _line(console, f"  {name:24} {where}")
    ether = plan.FUNDS_WEI // plan.ETHER
    _line(console, f"  {'account with ' + str(ether) + ' ETH':24} {site.spare_key.relative_to(site.root)}")
    console.print("\nAsk with your own client, then (within a minute its receipt is on the chain) check what it kept:")
    for command in COMMANDS:
        _line(console, command)


def stay(network: ProcessGroup, console: Console) -> None:
    """Until Ctrl-C; meanwhile it says which process ended, once each."""
    told: set[str] = set()
    while True:
        for sentence in news_of_the_dead(network, told):
            console.print(Text(sentence, style="bold red"), soft_wrap=True)
        time.sleep(LOOK_S)


def news_of_the_dead(network: ProcessGroup, told: set[str]) -> list[str]:
    """Which processes ended since the last time, how, and where each one's log is."""
    fresh = {name: code for name, code in network.ended().items() if name not in told}
    told.update(fresh)
    return [f"{name} {_manner(code)}; its log is {network.log_of(name)}" for name, code in fresh.items()]


def _manner(code: int) -> str:
    return f"ended with exit code {code}" if code >= 0 else f"was ended by {signal.Signals(-code).name}"


def _line(console: Console, text: str) -> None:
    console.print(Text(text), soft_wrap=True)
