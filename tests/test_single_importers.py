"""A module that exactly one other imports belongs into it, unless it is a boundary or a whole concept of its own."""

import ast

from cli.tree import verbs
from tests.source import name_of, product_files, tree_of

BOUNDARIES = {
    "bytewise.protocol.economics.coverage": "formulas without I/O; the command reads the chain",
    "bytewise.crypto.reconstruction": "cryptography",
    "bytewise.da.store": "HTTP, disk",
    "bytewise.inference.cuda.runner": "a device",
    "bytewise.inference.native.path": "C",
    "bytewise.inference.pinned.engine": "floats of transformers",
    "bytewise.tee.gpu": "a foreign format",
    "bytewise.tee.snp": "a foreign format",
    "bytewise.storage.index.period_sums": "SQL",
    "bytewise.storage.backups.database_copy": "programs of PostgreSQL, files",
    "bytewise_client.attention": "chain, lists on DA",
    "chain.acts.epochs": "chain",
    "chain.capsule.keeper": "files",
    "chain.acts.proposals": "chain",
    "chain.fork_pack.maker": "chain",
    "chain.client.quorum": "JSON-RPC",
    "chain.deployment.draft": "a file",
    "chain.sending.remote_signer": "HTTPS",
    "cli.drill.relay": "HTTP",
    "cli.node.folder": "files",
    "dashboard.monitor.sources": "chain, HTTPS to shards",
    "dashboard.web.api": "HTTP",
    "dashboard.web.app": "HTTP",
    "dashboard.web.pages": "HTTP",
    "dashboard.web.stream": "HTTP",
    "enclave.key_rebuilder": "cryptography",
    "enclave.release_client": "channels to shards",
    "enclave.supervisor": "a process",
    "gossip.admission": "bytes of peers, without libp2p",
    "gossip.envelopes": "files, without libp2p",
    "gossip.node": "libp2p",
    "kms.backup": "a file, cryptography",
    "kms.shard.api": "HTTP",
    "kms.shard.http_limits": "HTTP, TLS",
    "kms.shard.listener": "sockets",
    "serving.api": "HTTP",
    "verifier.audits.hint_server": "HTTP",
    "verifier.disputes.strategy_process": "a process",
    "verifier.cluster.agent": "runs on another machine",
    "verifier.cluster.bridge": "a socket",
    "verifier.gossip": "a socket, files",
    "verifier.jobs.enclave_pool": "threads",
    "verifier.jobs.enclave_readiness": "a socket",
}
"""Modules that one other imports, and what each keeps apart."""

CONCEPTS = {
    "bytewise.inference.convert.convert": "a conversion; the command imports no other part of the engine",
    "bytewise.inference.convert.equalise": "equalisation of channels",
    "bytewise.inference.convert.make": "small models from a seed",
    "bytewise.inference.dispatch_guard": "which torch operations may run",
    "bytewise.protocol.decisions.stake": "a pure decision",
    "bytewise.protocol.errors.catalogue": "all errors by name, which also the reference pages list",
    "bytewise_client.verification": "what applications import",
    "chain.acts.state_check": "what the refusals of contracts mean",
    "chain.capsule.attachments": "what a capsule has beside the proofs of its verdict",
    "cli.evidence.capsule_report": "the report on a capsule, without the commands",
    "cli.demo.run": "the demo, without its options",
    "cli.drill.penalty": "the steps of a drill, without the command",
    "cli.key.log_table": "tables of release logs, without their audit",
    "cli.node.registration": "the calls of a registration, without the command",
    "cli.node.state": "what a node or monitor is and did, without its table",
    "committee.maintenance": "what a person does to a stopped member",
    "dashboard.index.court": "facts of disputes",
    "dashboard.monitor.checks": "checks of the invariants, without their names",
    "dashboard.views.console_sections": "what parameters are worth, in sentences and tables",
    "dashboard.views.next_acts": "what anybody may do in a dispute",
    "enclave.cross_check": "the second backend",
    "enclave.wiring": "how an enclave is put together",
    "kms.ceremony.responses": "what a participant says, as pure functions",
    "serving.batcher": "batches",
    "verifier.attention": "scores of attention tests as a periodic job",
    "verifier.audits.bounties": "payment of audits",
    "verifier.executor": "actions carried out",
}
"""Modules that one other imports, and of what whole concept each is."""

MOST_CONCEPTS = 30


def importers() -> dict[str, set[str]]:
    """Of each module of the product, but packages and programs, those that import it; `cli.tree` names what it imports later."""
    modules = {name_of(path)[:-3].replace("/", "."): path for path in product_files()}
    found: dict[str, set[str]] = {name: set() for name in modules if not name.endswith(("__init__", "__main__"))}
    for name, path in modules.items():
        for imported in _imports(tree_of(path), found):
            found[imported].add(name)
    for _, verb in verbs():
        found[verb.function.partition(":")[0]].add("cli.tree")
    return found


def _imports(tree: ast.Module, known: dict[str, set[str]]) -> set[str]:
    names = set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {node.module or "", *(f"{node.module}.{each.name}" for each in node.names)}
    return names & known.keys()


def test_modules_with_one_importer_are_boundaries_or_concepts() -> None:
    """What the command tree names is a program's entry, which nothing else need import."""
    single = {name for name, users in importers().items() if len(users) == 1 and users != {"cli.tree"}} - {"cli.tree"}
    assert single - BOUNDARIES.keys() - CONCEPTS.keys() == set(), "merge each into its importer, or say what it is"
    assert (BOUNDARIES.keys() | CONCEPTS.keys()) - single == set(), "these have more importers now: remove them here"
    assert BOUNDARIES.keys() & CONCEPTS.keys() == set() and len(CONCEPTS) <= MOST_CONCEPTS
