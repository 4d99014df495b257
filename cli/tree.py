"""The command tree: every noun and verb of `bytewise`, with its help line and its function.

A function is imported only when its verb is called, so that help pages and completion do not wait for imports.
"""

import importlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup


class Verb(NamedTuple):
    """A command that does something, for example `show` in `bytewise network show`."""

    function: str
    """Where the verb's function is, as `module:function`."""
    help: str
    """The first line of the function's docstring."""


class Noun(NamedTuple):
    """A group of commands about one object, for example `network` in `bytewise network show`."""

    help: str
    """The noun's meaning in one or two sentences, and an example."""
    entries: Mapping[str, "Noun | Verb"]
    """The verbs and nouns of the group, by name."""


_PROPOSAL = Noun(
    "Calls that only a vote may make: propose, vote, queue, execute.\n\n"
    "Example: bytewise chain proposal list --network network.json",
    {
        "list": Verb("cli.chain.proposal:proposals", "List all proposals: calls, votes so far and the next step of each."),
        "show": Verb("cli.chain.proposal:show", "Show one proposal: its calls, the votes so far and the next step."),
        "create": Verb("cli.chain.proposal:propose", "Propose calls to the vote."),
        "vote": Verb("cli.chain.proposal:vote", "Vote on a proposal; an account votes once."),
        "queue": Verb("cli.chain.proposal:queue", "Start the short timelock of an accepted proposal. Anybody may."),
        "execute": Verb("cli.chain.proposal:execute", "Execute the calls of a proposal after its timelock. Anybody may."),
        "cancel": Verb("cli.chain.proposal:cancel", "Cancel your own proposal before its vote begins."),
    },
)

_CHAIN = Noun(
    "The contracts of a network: deploy them, show a deployment, call them, govern them.\n\n"
    "Example: bytewise chain show --network network.json --rpc http://127.0.0.1:8545",
    {
        "show": Verb(
            "cli.chain.status:status", "Show whether the chain has what the address book says: code, roles, clock, pools, money."
        ),
        "deploy": Verb("cli.chain.deploy:deploy", "Deploy and wire all contracts and give all its roles away."),
        "params": Verb("cli.chain.params:params", "Show a version of the parameters; with --set, check changes on the chain."),
        "call": Verb("cli.chain.call:call", "Try a call as the account that may make it; with --key and --send, send it."),
        "proposal": _PROPOSAL,
    },
)

_KEY = Noun(
    "The keys to which requests are sealed, of which each shard has a share: make, renew and end them; see who used them.\n\n"
    "Example: bytewise key list --network network.json",
    {
        "list": Verb("cli.key.status:list_epochs", "List key epochs as the chain has them, with the state of their shards."),
        "show": Verb("cli.key.status:show_epoch", "Show one key epoch as the chain has it, with the state of its shards."),
        "dkg": Verb("cli.key.ceremony:dkg", "Make a key with the shards of the settings; no machine ever holds the whole key."),
        "open": Verb("cli.key.ceremony:open_", "Put the result of a ceremony in force: a new epoch, or new shares of one."),
        "rotate": Verb("cli.key.ceremony:rotate", "Make the key of the next epoch and put it in force: `dkg`, then `open`."),
        "reshare": Verb("cli.key.ceremony:reshare", "Deal the shares of an epoch's key again; the key stays the same."),
        "repair": Verb("cli.key.ceremony:repair", "Give a shard its lost share again, made from the shares of the others."),
        "plan": Verb("cli.key.ceremony:plan", "Show what the plan of a ceremony says, with the digest that a shard approves."),
        "retire": Verb("cli.key.ceremony:retire", "End a key epoch for good, once no dispute can need its key any more."),
        "approve": Verb("cli.actors:approve", "Sign an appraisal policy as one of its governors."),
        "verify-erasure": Verb(
            "cli.key.erasure:verify_erasure", "Verify erasure statements, and show whether enough shards gave one."
        ),
        "log": Noun(
            "Release logs: who opened which receipt, when, why, and with which evidence.\n\n"
            "Example: bytewise key log verify --network network.json --rpc http://127.0.0.1:8545",
            {
                "verify": Verb("cli.key.log:verify", "Fetch the release log of every shard, check it, and keep what is new."),
                "show": Verb("cli.key.log:show", "Show who asked for the key of a receipt, when, why, and with which evidence."),
            },
        ),
        "forks": Noun(
            "Coordinators that signed two logs of one key ceremony: show and verify the proofs that shards stored.\n\n"
            "Example: bytewise key forks verify shard1/*.json shard2/*.json",
            {
                "show": Verb("cli.key.forks:show", "Show the ceremonies of which this shard saw a second log, and verify it."),
                "verify": Verb(
                    "cli.key.forks:verify",
                    "Verify logs of ceremonies from several shards, and look for two that contradict each other.",
                ),
            },
        ),
    },
)

_SHARD = Noun(
    "A key shard, which holds one share of each key: make its folder, run it, keep its backup.\n\n"
    "Example: bytewise shard run --config shard1/bytewise.toml",
    {
        "init": Verb("cli.node.shard:init", "Make the folder of a new key shard: keys, database and settings."),
        "run": Verb("cli.actors:run_shard", "Run a key shard until SIGTERM."),
        "backup": Verb("cli.node.shard:backup", "Write keys, shares and the position of the release log to one sealed file."),
        "restore": Verb("cli.node.shard:restore", "Put keys and shares back into the folder of a shard that lost them."),
        "erase": Verb("cli.actors:erase_shares", "Erase the shares of the epoch that nothing needs any more."),
        "wrap": Verb("cli.actors:wrap_storage_key", "Keep the storage key wrapped by the command that the settings name."),
    },
)

_MODEL = Noun(
    "Models and the artifacts that engines run: make, convert, pin, show and check them.\n\n"
    "Example: bytewise model convert ./Qwen3-0.6B ./artifact",
    {
        "list": Verb("cli.model:list_models", "List the artifacts of a folder: model id, profile, family, context, size."),
        "show": Verb("cli.model:show", "Show the manifest of an artifact: shape, precision, channels, bound, sizes."),
        "make": Verb("cli.model:make", "Write a small Llama-family checkpoint from a seed: the same bytes on every machine."),
        "convert": Verb("cli.model:convert", "Convert a checkpoint to an artifact and print its model id."),
        "check": Verb("cli.model:check", "Hash every byte of an artifact, prove its bound again, and print its model id."),
        "pin": Verb("cli.model:pin", "Write a manifest for an unconverted checkpoint, for profile pinned-1."),
        "fingerprint": Verb("cli.model:fingerprint", "Show this machine and process as an environment of pinned-1."),
        "environment": Verb(
            "cli.model:environment", "Write the environment in which an artifact is served, and print its digest."
        ),
        "vectors": Verb("cli.certification:vectors", "Compute the vectors with which a model and its environments are proposed."),
    },
)

_MEMBER = Noun(
    "A member of committees: a verifier with stake that votes in disputes.\n\nExample: bytewise member run --config member.toml",
    {
        "list": Verb(
            "cli.member:list_members", "List members of committees, the newest dispute first: seats, vote, pay and charges."
        ),
        "show": Verb("cli.member:show", "Show one member in the newest round of each dispute: seats, vote, pay and charges."),
        "run": Verb("cli.actors:run_member", "Run a staked verifier with seats until SIGTERM."),
        "connect": Verb(
            "cli.node.gossip:connect", "Set up gossip: members that reach each other settle a round by one signature."
        ),
        "decline": Verb("cli.member:decline", "Stay away from one dispute, at the known penalty."),
        "certify": Verb(
            "cli.certification:certify", "Certify a proposed model or environment, if your engine gives its vectors."
        ),
        "export-votes": Verb(
            "cli.member:export_votes", "Write every vote of a stopped member to a new file that only you can read."
        ),
        "import-votes": Verb("cli.member:import_votes", "Add the votes of an export to those of a stopped member."),
        "resume": Verb("cli.member:resume", "Let a stopped account send again, after you found out who else sent with its key."),
    },
)

_AUDIT = Noun(
    "Light audits: verifiers that a public draw chose open a receipt and post what they find.\n\n"
    "Example: bytewise audit show 0x71e0…",
    {
        "list": Verb(
            "cli.receipt.audit:list_audits",
            "List audited receipts, the newest first: results that verifiers posted, and the verdict.",
        ),
        "show": Verb(
            "cli.receipt.audit:show", "Show who is drawn to audit a receipt, what each has posted, and what the bounties lack."
        ),
        "request": Verb(
            "cli.receipt.audit:request",
            "Pay for the audit of a receipt: feed the pool from which its drawn auditors get their bounties.",
        ),
    },
)

_ATTENTION = Noun(
    "Attention tests: a fund gives false answers by a secret schedule and reveals it, and anybody scores who noticed.\n\n"
    "Example: bytewise attention score range-1.reveal.json",
    {
        "plan": Verb(
            "cli.attention.plan:plan",
            "Plan tests of attention: what a rate costs per day, and how soon a member that checks nothing fails.",
        ),
        "commit": Verb(
            "cli.attention.fund:commit",
            "Commit to a secret schedule of false answers, before its range of receipts begins.",
        ),
        "run": Verb(
            "cli.attention.fund:run",
            "Run the operator of a fund until SIGTERM: as `bytewise operator run`, with false answers by the schedule.",
        ),
        "reveal": Verb(
            "cli.attention.fund:reveal",
            "Write the reveal of a range: key, commitment, every test with its proof and its opening.",
        ),
        "score": Verb(
            "cli.attention.score:score",
            "Score who noticed the tests of revealed ranges: auditors, committee members and watchtowers.",
        ),
    },
)

_POOL = Noun(
    "Bond pools: several accounts pay the bond of one challenge together, and share what comes back.\n\n"
    "Example: bytewise pool show 0x5fbd… --from 0x7099…",
    {
        "create": Verb("cli.receipt.pool:create", "Deploy a pool that collects the bond of one challenge."),
        "show": Verb(
            "cli.receipt.pool:show", "Show a pool: receipt, bond, what is missing, its dispute, and your part of it (--from)."
        ),
        "join": Verb("cli.receipt.pool:join", "Pay a part of the pool's bond."),
        "leave": Verb("cli.receipt.pool:leave", "Take your whole part back, as long as the pool has not challenged."),
        "challenge": Verb(
            "cli.receipt.pool:challenge", "Open the dispute with the pool's bond; what the bond still lacks is paid by you."
        ),
        "reveal": Verb(
            "cli.receipt.pool:reveal",
            "Show that the pool knew the answer that won: a conviction then pays it the challenger's share of the slash.",
        ),
        "claim": Verb(
            "cli.receipt.pool:claim",
            "Take your share of what came back, once the dispute is over and the ledger's delay has passed.",
        ),
    },
)

TREE = Noun(
    "Signed receipts for answers of language models, which anybody may question.\n\nExample: bytewise demo",
    {
        "network": Noun(
            "A network as its chain shows it to anybody: receipts, verdicts, accounts and money.\n\n"
            "Example: bytewise network show --network network.json --rpc http://127.0.0.1:8545",
            {
                "list": Verb(
                    "cli.network:list_networks",
                    "List the address books of a folder: chain, key epochs, and whether the chain node has this network.",
                ),
                "show": Verb("cli.network:show", "Show receipts, verdicts and money of a network, read from the chain alone."),
            },
        ),
        "receipt": Noun(
            "Receipts that operators signed and anchored on the chain.\n\n"
            "Example: bytewise receipt show 0x5f1c… --network network.json",
            {
                "list": Verb("cli.receipt.search:list_receipts", "List receipts, the newest first: operator, batch, verdict."),
                "show": Verb(
                    "cli.receipt.search:show", "Print a receipt: its signed record, its batch and the place of its envelope."
                ),
            },
        ),
        "capsule": Noun(
            "Evidence capsules: what a receipt and its verdict rest on, in one file that outlives the network.\n\n"
            "Example: bytewise capsule verify 0x5f1c.capsule.json --network network.json",
            {
                "make": Verb(
                    "cli.evidence.capsule:make",
                    "Write what a receipt and its verdict rest on to one file that needs neither chain nor DA.",
                ),
                "verify": Verb("cli.evidence.capsule:verify", "Verify a capsule offline: neither chain nor DA is asked."),
                "show": Verb(
                    "cli.evidence.capsule:show",
                    "Tell on one screen what a capsule shows, on what that rests, and what it does not show.",
                ),
                "print": Verb(
                    "cli.evidence.capsule:print_",
                    "Write a capsule's report as one HTML page for paper: no scripts, nothing fetched.",
                ),
                "page": Verb(
                    "cli.evidence.capsule:page", "Write the page that verifies capsules in a browser, without a network."
                ),
                "finality": Verb(
                    "cli.evidence.capsule:finality",
                    "Add signatures of sync committees: they show the block as finalized to whoever trusts one beacon block.",
                ),
                "witness": Verb(
                    "cli.evidence.capsule:witness",
                    "Sign that your own node has the capsule's block as finalized, and write the capsule with the signature.",
                ),
            },
        ),
        "dispute": Noun(
            "Disputes about receipts, which committees decide.\n\n"
            "Example: bytewise dispute appeal 0x71e0… --config operator.toml --dry-run",
            {
                "list": Verb(
                    "cli.receipt.dispute:list_disputes",
                    "List disputes, the newest first: operator, phase, verdict and payments.",
                ),
                "show": Verb("cli.receipt.dispute:show", "Show one dispute with the seats and votes of its committee."),
                "open": Verb("cli.receipt.dispute:open_", "Dispute a receipt with the bond of your watchtower."),
                "plan": Verb(
                    "cli.receipt.watch_plan:plan", "Plan a watchtower: bonds, balance and audits that a coverage needs."
                ),
                "appeal": Verb("cli.receipt.dispute:appeal", "Appeal a verdict against your operator, once."),
            },
        ),
        "pool": _POOL,
        "audit": _AUDIT,
        "attention": _ATTENTION,
        "operator": Noun(
            "Operators, which serve a model and sign a receipt for each answer.\n\n"
            "Example: bytewise operator run --config operator.toml",
            {
                "list": Verb(
                    "cli.network:list_operators", "List operators: address, stake, and how many receipts each anchored."
                ),
                "show": Verb(
                    "cli.network:show_operator", "Show one operator: address, stake, and how many receipts it anchored."
                ),
                "register": Verb(
                    "cli.node.register:register_operator",
                    "Deposit stake and register as an operator, or announce another endpoint.",
                ),
                "leave": Verb("cli.node.register:leave_operator", "Withdraw stake and credit, as far as that is possible now."),
                "run": Verb("cli.actors:run_operator", "Run an operator until SIGTERM."),
            },
        ),
        "verifier": Noun(
            "Verifiers, which check every receipt: watchtowers challenge, others audit with an enclave.\n\n"
            "Example: bytewise verifier run --config watchtower.toml",
            {
                "list": Verb(
                    "cli.network:list_verifiers",
                    "List verifiers, also those that left: pool, units of stake that count now, and machine.",
                ),
                "show": Verb("cli.network:show_verifier", "Show one verifier: pool, units of stake that count now, and machine."),
                "register": Verb(
                    "cli.node.register:register_verifier",
                    "Deposit stake, announce this machine, and join a pool as a verifier.",
                ),
                "leave": Verb(
                    "cli.node.register:leave_verifier",
                    "Quit the pool, and withdraw stake and credit, as far as that is possible now.",
                ),
                "run": Verb("cli.actors:run_verifier", "Run a watchtower, or a verifier that audits, until SIGTERM."),
            },
        ),
        "member": _MEMBER,
        "enclave": Noun(
            "The enclave of a verifier, which alone opens envelopes and re-executes answers.\n\n"
            "Example: bytewise enclave run --config enclave.toml",
            {
                "run": Verb("cli.actors:run_enclave", "Run the enclave of a verifier until SIGTERM."),
                "collateral": Verb(
                    "cli.node.collateral:collateral", "Keep the collateral of this machine's quotes fresh until SIGTERM (TDX)."
                ),
            },
        ),
        "shard": _SHARD,
        "key": _KEY,
        "chain": _CHAIN,
        "model": _MODEL,
        "da": Noun(
            "The data availability store of a test network.\n\nExample: bytewise da run --config da.toml",
            {"run": Verb("cli.actors:run_da", "Run the data availability store until SIGTERM.")},
        ),
        "journal": Noun(
            "The journal of a node: what it meant to do before it did it.\n\n"
            "Example: bytewise journal verify --config bytewise-watchtower/bytewise.toml",
            {
                "verify": Verb(
                    "cli.evidence.journal:verify",
                    "Verify the journal of a node, or an export of one, which needs neither node nor database.",
                ),
                "checkpoint": Verb(
                    "cli.evidence.journal:checkpoint", "Sign how many entries the journal has, and the root of their tree."
                ),
                "export": Verb("cli.evidence.journal:export", "Write entries to one file with proofs to a signed checkpoint."),
                "witness": Verb(
                    "cli.evidence.journal:witness",
                    "Sign that a journal continues every checkpoint of it that you have signed before.",
                ),
            },
        ),
        "evidence": Noun(
            "Evidence of the whole network.\n\nExample: bytewise evidence fork-pack --verify fork-pack.zip",
            {
                "fork-pack": Verb(
                    "cli.evidence.fork_pack:fork_pack",
                    "Write what people need who go on without this deployment to one file, or verify such a file.",
                )
            },
        ),
        "dashboard": Noun(
            "Pages and a read API about the verdicts of a network.\n\nExample: bytewise dashboard run --config dashboard.toml",
            {"run": Verb("cli.actors:run_dashboard", "Run a dashboard until SIGTERM: an index of events, a read API and pages.")},
        ),
        "monitor": Noun(
            "A monitor, which checks the invariants of a network; it holds no key and sends nothing.\n\n"
            "Example: bytewise monitor check --once --config bytewise-monitor/bytewise.toml",
            {
                "list": Verb(
                    "cli.monitor:list_invariants",
                    "List the invariants that a monitor checks: severity, purpose, and the page with formula and advice.",
                ),
                "check": Verb(
                    "cli.monitor:check",
                    "Check every invariant of a network at one block, and again after each pause of the settings until Ctrl-C.",
                ),
                "run": Verb("cli.actors:run_monitor", "Run a monitor until SIGTERM: invariants as metrics and log lines."),
            },
        ),
        "drill": Noun(
            "Drills: what would cost money, played on a fork of the chain.\n\n"
            "Example: bytewise drill slash --config bytewise-operator/bytewise.toml",
            {
                "slash": Verb(
                    "cli.drill.command:slash",
                    "Play a slash of your own account on a fork of the chain, and show who would lose and get what.",
                )
            },
        ),
        "init": Verb(
            "cli.node.init:init",
            "Make the folder of a new node: commented settings, an encrypted account key, a migrated database.",
        ),
        "doctor": Verb(
            "cli.node.doctor:doctor",
            "Check everything that this node needs: chain, contracts, account, stake, enclave, model, DA, database, disk.",
        ),
        "run": Verb("cli.node.run:run", "Run all processes of a node until SIGTERM or Ctrl-C."),
        "status": Verb(
            "cli.node.status:status",
            "Show the state of a node: its health with reasons, past and next duties, seats, earnings and losses.",
        ),
        "backup": Noun(
            "Backups of nodes of every role but shards: one file with keys, votes, journal, database and settings.\n\n"
            "Example: bytewise backup make node.tar --config bytewise-member/bytewise.toml",
            {
                "make": Verb(
                    "cli.backup:make",
                    "Write keys, votes, journal, database and settings of a node to one new file that only you can read; it may "
                    "be running.",
                ),
                "verify": Verb(
                    "cli.backup:verify",
                    "Check a backup: every hash, the database, the protection table and the chain of the journal.",
                ),
                "restore": Verb(
                    "cli.backup:restore",
                    "Make the folder of a node from its backup, and set the fence that keeps it from voting twice.",
                ),
            },
        ),
        "verify": Verb("cli.evidence.verify:verify", "Check an answer or a receipt, by re-running it if you hold its opening."),
        "gate": Verb("cli.gate:gate", "Send identical requests to an endpoint; fail on the first differing byte."),
        "demo": Verb("cli.demo.command:demo", "Run a whole network on this machine and watch it catch four frauds."),
        "version": Verb("cli.version:version", "Print the versions of this program, its arithmetic profile and Python."),
    },
)


class LazyCommand(TyperCommand):
    """A placeholder for a verb in help pages and completion. It knows only the verb's help line until `load` makes the real
    command."""

    def __init__(self, name: str, verb: Verb) -> None:
        super().__init__(name, help=verb.help, rich_markup_mode="rich")
        self._function = verb.function

    def load(self) -> Any:
        """Imports the verb's function, and returns the command with the function's parameters."""
        module, _, function = self._function.partition(":")
        app = typer.Typer(add_completion=False)
        app.command(self.name)(getattr(importlib.import_module(module), function))
        return typer.main.get_command(app)


class LazyGroup(TyperGroup):
    """The command group of a noun. It loads a verb only when a user calls the verb."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Finds the command that the first word names, as the base class does, and loads it if it is a verb."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command.load() if isinstance(command, LazyCommand) else command, rest


class Root(LazyGroup):
    """The command group `bytewise` itself, with all nouns and verbs of `TREE`."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands.update(_commands(TREE))


def _commands(noun: Noun) -> dict[str, Any]:
    return {
        name: LazyCommand(name, entry)
        if isinstance(entry, Verb)
        else LazyGroup(name=name, help=entry.help, commands=_commands(entry), no_args_is_help=True, rich_markup_mode="rich")
        for name, entry in noun.entries.items()
    }


def verbs(noun: Noun = TREE, above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Verb]]:
    """Yields every verb below a noun, with the words of its command. `above` has the words before the noun's entries."""
    for name, entry in noun.entries.items():
        if isinstance(entry, Verb):
            yield (*above, name), entry
        else:
            yield from verbs(entry, (*above, name))
