"""`bytewise chain deploy`: checks a deployment and then sends its transactions, or continues a run that stopped."""

import enum
import os
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bytewise.protocol.errors.actors import ConfigurationError, RpcRefused, TransactionPending, TryAgain
from bytewise.protocol.errors.branches import BytewiseError, Fault
from bytewise.protocol.errors.records import MalformedValue
from bytewise.protocol.units import ZERO_ADDRESS, ZERO_DIGEST, Address, Digest, digest, hex0x, unhex
from cli.chain.privileged_call import account_option, signer_of
from cli.options import NETWORK_FILE, RPC_URLS, PasswordFileOption, RpcOption
from cli.output import Fields, print_entries

if TYPE_CHECKING:
    from bytewise.protocol.court.params import ParamSet
    from bytewise.protocol.signing import LocalSigner
    from chain.client.access import Chain
    from chain.deployment import deploy as deploying
    from chain.deployment.draft import Draft
    from chain.deployment.plan import DeploymentPlan, EigenLayerSettings, GovernanceSettings, Shape


# Options of the stake source. Names and bounds repeat those of `chain.deployment`, which a help page must not import.

_PANEL = "Stake"


class StakeName(enum.StrEnum):
    """The stake source: `native` is a vault of the network, `eigenlayer` is EigenLayer. The values repeat
    `bytewise.protocol.address_book.StakeSource`."""

    NATIVE = "native"
    EIGENLAYER = "eigenlayer"


ParamsOption = Annotated[
    Path | None, typer.Option("--params", help="TOML file of parameters; on a test chain it may leave some out.")
]
StakeOption = Annotated[
    StakeName, typer.Option("--stake", help="Who holds the stake, for good: a vault of the network's own, or EigenLayer.",
                              rich_help_panel=_PANEL)
]  # fmt: skip
ManagerOption = Annotated[
    str | None,
    typer.Option("--allocation-manager", help="EigenLayer's AllocationManager on this chain, 0x-hex.", rich_help_panel=_PANEL),
]
StrategyOption = Annotated[
    str | None, typer.Option("--strategy", help="EigenLayer's strategy of wrapped ether, 0x-hex.", rich_help_panel=_PANEL)
]
SetOption = Annotated[
    str | None,
    typer.Option(
        "--operator-set", metavar="AVS:ID", rich_help_panel=_PANEL,
        help="Operator set: its slasher and recipient must be the stake source, whose address --plan prints.",
    ),
]  # fmt: skip
MaxAgeOption = Annotated[
    int | None,
    typer.Option(
        "--max-age", min=1, max=2**32 - 1, rich_help_panel=_PANEL, show_default="three stake epochs",
        help="Blocks for which a record of stake counts. Processes renew theirs at half of it: less makes more transactions, "
        "more leaves less of EigenLayer's 14 days for a dispute.",
    ),
]  # fmt: skip


def eigenlayer_settings(
    stake: StakeName, manager: str | None, strategy: str | None, operator_set: str | None, max_age: int | None,
    params: "ParamSet", shape: "Shape",
) -> "EigenLayerSettings | None":  # fmt: skip
    """Returns the EigenLayer settings of a deployment, or None if the stake is in a vault of the network. Raises
    `ConfigurationError` if an option is missing, or if an option does not belong to `stake`."""
    from chain.deployment.deployment_check import MANAGER, MAX_AGE, SET, STRATEGY
    from chain.deployment.plan import EigenLayerSettings, default_max_age, longest_for

    given = {MANAGER: manager, STRATEGY: strategy, SET: operator_set, MAX_AGE: max_age}
    if stake is StakeName.NATIVE:
        extra = [option for option, value in given.items() if value is not None]
        if extra:
            raise ConfigurationError(
                "--stake", f"is native, which has no {', '.join(extra)}: give --stake eigenlayer, or leave them out"
            )
        return None
    if manager is None or strategy is None or operator_set is None:
        missing = [option for option, value in given.items() if value is None and option != MAX_AGE]
        raise ConfigurationError("--stake", f"is eigenlayer, which needs {', '.join(missing)} too")
    avs, set_id = _operator_set(operator_set)
    at, of = account_option(MANAGER, manager), account_option(STRATEGY, strategy)
    return EigenLayerSettings(at, of, avs, set_id, max_age or default_max_age(shape), longest_for(params, shape))


def _operator_set(text: str) -> tuple[Address, int]:
    from chain.deployment.deployment_check import SET

    avs, _, number = text.partition(":")
    if not (number.isascii() and number.isdecimal() and int(number) < 2**32):
        raise ConfigurationError(SET, f"{text[:80]} is none: the service's account, a colon, and the set's number (0x…:0)")
    return account_option(SET, avs), int(number)


MAX_POOLS = 128
"""Most pools of verifiers that one registry can have. No vote can change this limit (`Verifiers.MAX_POOLS`)."""


class ShapeName(enum.StrEnum):
    """Name of a shape. A shape is a set of values that a deployment never changes, for example the length of a stake epoch in
    blocks (`chain.deployment.plan.Shape`). `devnet` is for blocks of one second, `main` for blocks of twelve seconds."""

    DEVNET = "devnet"
    MAIN = "main"


AccountOption = Annotated[str | None, typer.Option(help="Account, 0x-hex; the deployer's by default.")]
_SLOW = "Days before what moves stake: with 64 or more all can leave first, whatever a guardian stops."
LongDelayOption = Annotated[int, typer.Option("--long-delay", min=34, max=3_650, help=_SLOW)]


def deploy(
    chain_id: Annotated[int, typer.Option("--chain-id", help="Chain that the node must be on.")],
    rpc: RpcOption = RPC_URLS,
    key: Annotated[Path | None, typer.Option("--key", help="Key file of the deployer: 0x-hex, or a keystore.")] = None,
    password_file: PasswordFileOption = None,
    devnet_account: Annotated[int | None, typer.Option("--devnet-account", min=0, help="Or: this account of anvil.")] = None,
    pool: Annotated[list[str] | None, typer.Option("--pool", help="Digest of a pool of verifiers; repeat it for more.")] = None,
    params: ParamsOption = None,
    shape: Annotated[ShapeName, typer.Option("--shape", help="For blocks of one second, or of twelve.")] = ShapeName.DEVNET,
    guardian: AccountOption = None, curator: AccountOption = None, votes: AccountOption = None,
    long_delay: LongDelayOption = 64,
    stake: StakeOption = StakeName.NATIVE,
    allocation_manager: ManagerOption = None,
    strategy: StrategyOption = None,
    operator_set: SetOption = None,
    max_age: MaxAgeOption = None,
    out: Annotated[Path, typer.Option("--out", help="Address book to write; must not exist.")] = NETWORK_FILE,
    plan: Annotated[bool, typer.Option("--plan", help="Say what would be sent and what it costs, and send nothing.")] = False,
) -> None:  # fmt: skip
    """Deploy and wire all contracts and give all its roles away.

    A run that stops leaves OUT.draft with all addresses. The same command continues from there. With --stake eigenlayer, first
    run the command with --plan. Have the EigenLayer service (AVS) create the operator set for the printed address. Then run the
    command without --plan.

    Exit codes: 0 done, 5 the node does not answer or transactions of the account wait for a block, 6 a running process has the
    key file (nothing was sent), 64 wrong input (for example, a parameter outside its bounds or too little money; nothing was
    sent) or another run of the account deployed at these addresses.
    """
    from bytewise.service.node_files.key_lock import hold_key
    from bytewise_client.connection import chain_of

    _verify_place(out)
    client, deployer = chain_of(rpc, chain_id), signer_of(chain_id, key, devnet_account, password_file)
    governance = _governance(deployer.address, (guardian, curator, votes), long_delay)
    settings = _params_and_shape(chain_id, params, shape)
    restaking = eigenlayer_settings(stake, allocation_manager, strategy, operator_set, max_age, *settings)
    with nullcontext() if key is None or plan else hold_key(key):
        _deploy(client, deployer, (*settings, _pools(pool or []), governance), restaking, out, plan)


def _deploy(
    client: "Chain", deployer: "LocalSigner", settings: "tuple[ParamSet, Shape, list[Digest], GovernanceSettings]",
    restaking: "EigenLayerSettings | None", out: Path, plan: bool,
) -> None:  # fmt: skip
    """Deploys the contracts. If `plan` is true, only prints what it would send.

    The address of each contract follows from a nonce of the deployer's account. So no other program may send transactions of this
    account until all contracts are deployed.
    """
    from chain.deployment import deploy as deploying

    _verify_place(out)  # Another run with the same key may have written the file since the first check.
    draft, nonce = _draft_and_nonce(client, deployer, out)
    site = deploying.survey(client, deployer.address, *settings, nonce, restaking)
    _run(client, deployer, site, draft, nonce, out, plan)


def _draft_and_nonce(client: "Chain", deployer: "LocalSigner", out: Path) -> "tuple[Draft | None, int]":
    """Returns the draft of an earlier run that stopped, and the nonce of the deployment's first transaction.

    A draft is a file beside `out` with the addresses of a deployment that is not finished. The draft is None if no run has begun.
    """
    from chain.deployment.draft import first_nonce, read_draft

    draft = read_draft(out)
    return draft, first_nonce(client, deployer.address) if draft is None else int(draft.nonce)


def _run(
    client: "Chain", deployer: "LocalSigner", site: "DeploymentPlan", draft: "Draft | None", nonce: int, out: Path, plan: bool
) -> None:
    """Checks the deployment. Unless `plan` is true, then sends its transactions and writes the address book. `draft` is None if
    no run has begun."""
    from chain.client.address_book import write_network
    from chain.deployment import deploy as deploying
    from chain.deployment.draft import path_of, write_draft
    from chain.sending.transactions import fee_limit

    taken = 0 if draft is None else _count_taken_steps(client, draft, out, site)
    ceiling_wei = fee_limit(client.head().base_fee_wei)
    _verify(client, site, taken, ceiling_wei, plan)
    if plan:
        return
    if draft is None:
        draft = write_draft(out, site, nonce, deploying.planned_book(client, site))
    _send(client, deployer, site, taken, ceiling_wei, out)
    write_network(out, deploying.verify_deployed(client, site, draft.book))
    path_of(out).unlink(missing_ok=True)
    print(out)


def _count_taken_steps(client: "Chain", draft: "Draft", out: Path, site: "DeploymentPlan") -> int:
    """Returns the number of transactions that an earlier run sent, and prints this number."""
    from chain.deployment.draft import path_of, steps_taken
    from chain.deployment.plan import steps

    taken = steps_taken(client, draft, out, site)
    print(f"{path_of(out)}: goes on after {taken} of {len(steps(site))} transactions")
    return taken


def _governance(
    deployer: Address, accounts: tuple[str | None, str | None, str | None], long_delay_days: int
) -> "GovernanceSettings":
    from chain.deployment.plan import GovernanceSettings

    options = zip(("--guardian", "--curator", "--votes"), accounts, strict=True)
    guardian, curator, holder = (_account(option, text) if text is not None else deployer for option, text in options)
    return GovernanceSettings(guardian, curator, holder, long_delay_s=long_delay_days * 86_400)


def _verify(client: "Chain", site: "DeploymentPlan", taken: int, ceiling_wei: int, plan: bool) -> None:
    """Checks the parameters, the stake source and the deployer's balance on the chain, before the deployer sends anything. Raises
    `ConfigurationError` if one of them is wrong.

    If `plan` is true, the function also prints the transactions. `taken` is the number of transactions that an earlier run sent.
    The balance must be enough at the fee cap `ceiling_wei`, in wei per gas.
    """
    from chain.deployment import deploy as deploying
    from chain.deployment.deployment_check import verify_eigenlayer

    try:
        deploying.verify_parameters(client, site)
    except Fault as error:
        raise ConfigurationError("parameters", str(error)) from None
    if site.restaked:
        verify_eigenlayer(client, site, site.restaked)
    if plan:
        _print_plan(client, deploying.rehearse(client, site, taken))
    if site.restaked:
        _verify_set(client, site, site.restaked, show=plan)
    _verify_money(client, site, taken, ceiling_wei, show=plan)


def _send(
    client: "Chain", deployer: "LocalSigner", site: "DeploymentPlan", taken: int, ceiling_wei: int, out: Path
) -> None:  # fmt: skip
    """Sends the transactions that are missing, with no fee cap above `ceiling_wei` wei per gas. If sending fails, tells the user
    how to continue the run."""
    from chain.deployment import deploy as deploying

    try:
        deploying.send_steps(client, deployer, site, taken, progress=_print_progress, ceiling_wei=ceiling_wei)
    except (RpcRefused, TransactionPending) as error:
        raise TryAgain("chain", f"{error}; {_resume_hint(out)}, once no transaction of the account waits for a block") from None
    except BytewiseError:
        typer.echo(_resume_hint(out), err=True)
        raise


def _print_progress(done: int, total: int) -> None:
    typer.echo(f"{done} of {total} transactions are in blocks", err=True)


def _resume_hint(out: Path) -> str:
    from chain.deployment.draft import path_of

    return f"the deployment has begun, its addresses are in {path_of(out)}: give the same command again to go on"


def _verify_place(out: Path) -> None:
    """Raises `ConfigurationError` if the address book and its draft cannot be written at this path."""
    if os.path.lexists(out):
        raise ConfigurationError("--out", f"{out} exists already: name a new file")
    if not out.parent.is_dir():
        raise ConfigurationError("--out", f"{out.parent} is no folder: make it first, or name a file elsewhere")
    if not os.access(out.parent, os.W_OK | os.X_OK):
        raise ConfigurationError("--out", f"nothing can be written in {out.parent}: name a file elsewhere")


def _verify_set(client: "Chain", site: "DeploymentPlan", stake: "EigenLayerSettings", show: bool) -> None:
    from chain.deployment.deployment_check import verify_operator_set

    if show:
        print(
            f"stake source: {site.at['StakeVault']}, as long as {site.deployer} sends nothing else first; set "
            f"{stake.avs}:{stake.set_id} must name it as slasher and as redistribution recipient"
        )
        print(f"a record of stake counts for {stake.max_age} blocks, and can be slashed for {stake.horizon}")
    verify_operator_set(client, site, stake)


def _verify_money(client: "Chain", site: "DeploymentPlan", taken: int, ceiling_wei: int, show: bool) -> None:
    from chain.deployment import deploy as deploying

    needs, have = deploying.largest_cost_wei(site, ceiling_wei, taken), client.balance(site.deployer, "latest")
    most = f"this may take {_ether(needs)} ETH, at no more than {ceiling_wei / 10**9:.3f} gwei per gas"
    line = f"{site.deployer} has {_ether(have)} ETH, {most}"
    if have < needs:
        raise ConfigurationError("balance", f"{line}: send it the rest first")
    if show:
        print(f"{line}: enough")


def _ether(wei: int) -> str:
    return f"{wei / 10**18:.6f}"


def _params_and_shape(chain_id: int, file: Path | None, shape: ShapeName) -> "tuple[ParamSet, Shape]":
    """Returns the first parameters of the network and its shape. On a test chain, the file may leave out parameters, which then
    have the values for development."""
    from bytewise.protocol.evidence.appraisal_policy import TEST_CHAIN_IDS
    from chain.deployment.params import DEVNET, complete_params, read_changes, with_changes
    from chain.deployment.plan import DEVNET_SHAPE, MAIN_NET

    values = read_changes(file) if file else {}
    params = with_changes(DEVNET, values) if chain_id in TEST_CHAIN_IDS else complete_params(values)
    return params, DEVNET_SHAPE if shape is ShapeName.DEVNET else MAIN_NET


def _account(option: str, text: str) -> Address:
    found = account_option(option, text)
    if found == ZERO_ADDRESS:
        raise ConfigurationError(option, "is the zero address, which nobody can sign for: name an account")
    return found


def _pools(texts: list[str]) -> list[Digest]:
    if len(texts) > MAX_POOLS:
        raise ConfigurationError("--pool", f"is given {len(texts)} times: a registry takes {MAX_POOLS} pools, for good")
    found: list[Digest] = []
    for text in texts:
        try:
            pool = digest(unhex(text.lower()))
        except MalformedValue:
            raise ConfigurationError("--pool", "must be 0x and 64 hex digits") from None
        if pool == ZERO_DIGEST:
            raise ConfigurationError("--pool", "is zero, which means no pool to the contracts: name its digest")
        if pool in found:
            raise ConfigurationError("--pool", f"{hex0x(pool)} is given twice: name each pool once")
        found.append(pool)
    return found


def _print_plan(client: "Chain", plan: "list[deploying.RehearsedStep]") -> None:
    print(f"{len(plan)} transactions")
    print_entries(((each.at, _fields_of(each)) for each in plan), "transactions")
    most = sum(each.limit for each in plan)
    fee = client.head().base_fee_wei
    print(f"at most {most:,} gas, {_ether(most * fee)} ETH at the base fee of now; no estimate: only after others")


def _fields_of(each: "deploying.RehearsedStep") -> Fields:
    contract, _, pool = each.step.contract.partition(" ")
    gas = "none" if each.estimate is None else f"{each.estimate:,}"
    return {
        **({"pool": f"0x{pool}"} if pool else {}), each.step.verb: contract, "bytes": f"{len(each.step.data):,}",
        "estimated gas": gas, "at most": f"{each.limit:,}",
    }  # fmt: skip
