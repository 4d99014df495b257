"""Writes the generated pages of `docs` from the source code that they describe.

python docs/tools/reference_pages.py           # write
python docs/tools/reference_pages.py --check   # compare with the committed pages; exit 1 if one differs
"""

import ast
import dataclasses
import inspect
import itertools
import re
import sys
import tomllib
import typing
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import typer

from bytewise.da.settings import StoreSettings
from bytewise.protocol.errors.branches import Bug, BytewiseError, Fault, Unavailable
from bytewise.protocol.errors.catalogue import CLASSES
from bytewise.protocol.errors.records import Defect
from bytewise.service.exit_codes import Exit
from bytewise.service.metrics import DECLARED, Actor, DeclaredMetric
from bytewise.service.settings import field_texts
from bytewise.tee.renewal import CollateralSettings
from cli.__main__ import app
from cli.tree import LazyCommand
from dashboard.monitor.settings import MonitorSettings
from dashboard.settings import DashboardSettings
from enclave.settings import EnclaveSettings
from gossip.settings import GossipProcessSettings
from kms.settings import ApproveSettings, CeremonySettings, ShardSettings
from serving.settings import OperatorSettings
from verifier.cluster.settings import BridgeSettings
from verifier.settings import NodeSettings

FOLDER = Path(__file__).resolve().parents[1]
FAULTS = FOLDER.parent / "chain" / "contracts" / "tools" / "faults.toml"
ACTOR_FOLDERS = ("bytewise", "bytewise_client", "chain", "serving", "verifier", "committee", "kms", "enclave", "dashboard")
HEAD = "<!-- Written by docs/tools/reference_pages.py (`make reference`). Do not edit. -->\n"


def main() -> int:
    """Writes the pages. With `--check` it compares them instead, and returns 1 if one differs."""
    stale = [name for name, make in PAGES.items() if _text_of(FOLDER / name) != make()]
    if "--check" in sys.argv:
        for name in stale:
            print(f"docs/{name} is not what the program says: run `make reference`", file=sys.stderr)
        return int(bool(stale))
    for name in stale:
        (FOLDER / name).write_text(PAGES[name]())
    return 0


def _text_of(path: Path) -> str:
    return path.read_text() if path.exists() else ""


# --- settings ---

ACTORS: Mapping[str, tuple[type, str]] = {
    "Operator": (OperatorSettings, "serving/settings.py"),
    "Verifier, watchtower and committee member": (NodeSettings, "verifier/settings.py"),
    "Bridge to a Ray cluster": (BridgeSettings, "verifier/cluster/settings.py"),
    "Gossip process": (GossipProcessSettings, "gossip/settings.py"),
    "Enclave": (EnclaveSettings, "enclave/settings.py"),
    "Collateral": (CollateralSettings, "bytewise/tee/renewal.py"),
    "Key shard": (ShardSettings, "kms/settings.py"),
    "Key ceremony": (CeremonySettings, "kms/settings.py"),
    "Approval of an appraisal policy": (ApproveSettings, "kms/settings.py"),
    "DA store": (StoreSettings, "bytewise/da/settings.py"),
    "Dashboard": (DashboardSettings, "dashboard/settings.py"),
    "Monitor": (MonitorSettings, "dashboard/monitor/settings.py"),
}
"""For each actor the class of its settings file, and the file with this class."""


_SETTINGS = """Each actor reads one file: TOML, or canonical JSON if the name ends in `.json`. A setting without a default is
required. An environment variable `BYTEWISE__SECTION__KEY` wins over the file; outside a section it is `BYTEWISE__KEY`.
Relative paths are beside the settings file. A secret is never a setting: a setting names its file. An unknown setting is an
error, and every problem of a file is reported at once.

The settings of a key shard are in the table `[shard]`, those of an enclave in `[enclave]`, those of the bridge in `[bridge]`.
Their variables begin with `BYTEWISE__SHARD__` and so on, and a section of a shard is `[shard.metrics]`. Such a process ignores
everything outside its table. If the file's `role` is `shard`, no other process reads it, and the shard refuses everything outside
the table. An enclave or bridge with a file of its own needs no table. The process that renews the collateral of an enclave's
quotes reads `[collateral]` beside `[enclave]`. The gossip process reads only TOML, and no variables. A required setting
of an optional section is required only if the section is there.
"""


def settings() -> str:
    """Returns the page of settings: a table for each settings file, and a table for each of its sections."""
    parts = [HEAD, "# Settings\n", _SETTINGS]
    for actor, (cls, source) in ACTORS.items():
        parts += [f"## {actor}\n", f"Defined in `{source}`.\n", *_tables(cls, "")]
    return "\n".join(parts)


def _tables(cls: type, section: str) -> Iterator[str]:
    texts, kinds = _field_texts(cls), typing.get_type_hints(cls)
    rows, inner = [], []
    for field in dataclasses.fields(cls):
        nested = [kind for kind in (kinds[field.name], *typing.get_args(kinds[field.name])) if dataclasses.is_dataclass(kind)]
        if nested:
            inner.append((field, nested[0]))
        else:
            rows.append(f"| `{field.name}` | {_kind(kinds[field.name])} | {_default(field)} | {texts.get(field.name, '')} |")
    if rows:
        heading = [f"### `[{section}]`\n", f"{_first(cls)}\n"] if section else []
        yield "\n".join([*heading, "| setting | type | default | meaning |", "|---|---|---|---|", *rows, ""])
    for field, kind in inner:
        yield from _tables(typing.cast(type, kind), f"{section}.{field.name}" if section else field.name)


def _field_texts(cls: type) -> dict[str, str]:
    return {name: _cell(text) for name, text in field_texts(cls).items()}


def _body(cls: type) -> list[ast.stmt]:
    # The string below a field documents the field. Python does not keep it at run time, so it is read from the source.
    tree = ast.parse(inspect.cleandoc("\n" + inspect.getsource(cls))).body[0]
    assert isinstance(tree, ast.ClassDef)
    return tree.body


def _kind(kind: Any) -> str:
    inner = [each for each in typing.get_args(kind) if each not in (type(None), ...)]
    if typing.get_origin(kind) is tuple:
        return f"list of {_kind(inner[0])}"
    if inner:
        return _kind(inner[0])
    names = {"str": "text", "int": "integer", "float": "number", "bool": "true or false", "Path": "path", "OtherProcess": "table"}
    return names.get(str(kind.__name__), str(kind.__name__))


def _default(field: "dataclasses.Field[Any]") -> str:
    if field.default is dataclasses.MISSING:
        return "required" if field.default_factory is dataclasses.MISSING else ""
    if field.default in (None, "", ()):
        return "none"
    return f"`{str(field.default).lower() if isinstance(field.default, bool) else field.default}`"


# --- errors ---

_PARTS = {"records": "Values, receipts and envelopes", "actors": "Keys, disputes, the world, inference", "evidence": "Evidence"}
_BRANCHES = {
    Fault: "the other side is provably wrong, and may be challenged",
    Unavailable: "retry within a bound, and never accuse of wrong bytes",
    Bug: "this process is wrong, and stops",
}


def errors() -> str:
    """Returns the page of errors: each rule with class, branch and meaning, then the reasons of rules with several reasons."""
    parts = [HEAD, "# Errors\n", "An error has a rule number, a class and a branch. The branch decides what a process does.\n"]
    parts.append(
        "\n".join(["| branch | what follows |", "|---|---|", *(f"| {b.__name__} | {t} |" for b, t in _BRANCHES.items()), ""])
    )
    parts.append("A code is the number in a vote of INVALID.\n")
    known = sorted((cls for cls in CLASSES.values() if cls.rule), key=lambda cls: cls.rule)
    for module, title in _PARTS.items():
        rows = [_error(cls) for cls in known if cls.__module__.endswith(f".{module}")]
        parts += [f"## {title}\n", "\n".join(["| rule | class | branch | what it means |", "|---|---|---|---|", *rows, ""])]
    parts += ["## Reasons\n", _REASONS]
    rows = [f"| {cls.rule} | {', '.join(f'`{each}`' for each in cls.reasons)} |" for cls in known if cls.reasons]
    return "\n".join([*parts, "\n".join(["| rule | reasons |", "|---|---|", *rows, ""])])


_REASONS = """A rule with several causes names the cause by a fixed word (`bytewise/protocol/errors/branches.py`). The error
and its log line carry it as `reason`. Shards and enclaves tell each other class and rule only. A vote never depends on a reason.
"""


def _error(cls: type[BytewiseError]) -> str:
    branch = next(branch.__name__ for branch in _BRANCHES if issubclass(cls, branch))
    code = f", code {cls.code}" if issubclass(cls, Defect) else ""
    return f"| {cls.rule} | `{cls.__name__}` | {branch}{code} | {_first(cls)} |"


# --- exit codes ---

_EXITS = """`bytewise` and every process that it starts end with one of these codes (`bytewise/service/exit_codes.py`).
Only the gossip process has its own: 0 after a signal or when its supervisor must start it again, and 2 for wrong settings.
`bytewise demo` also ends with 1 if it stopped or if one of its processes failed.
"""


def exit_codes() -> str:
    """Returns the page of exit codes with their meanings."""
    texts = _member_texts(Exit)
    rows = [f"| {int(each)} | {each.name} | {texts[each.name]} |" for each in Exit]
    return "\n".join([HEAD, "# Exit codes\n", _EXITS, "| code | name | meaning |", "|---|---|---|", *rows, ""])


def _member_texts(cls: type) -> dict[str, str]:
    body = _body(cls)
    return {
        node.targets[0].id: _cell(ast.literal_eval(below.value))
        for node, below in itertools.pairwise(body)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and isinstance(below, ast.Expr)
    }


# --- commands ---


def commands() -> str:
    """Returns the page of commands: each command with its help, arguments and options."""
    root: Any = typer.main.get_command(app)
    parts = [HEAD, "# Commands\n", "`bytewise --help` and `bytewise COMMAND --help` show the same.\n"]
    return "\n".join([*parts, *_command(root, "bytewise")])


def _command(command: Any, name: str) -> Iterator[str]:
    inner = {
        key: each.load() if isinstance(each, LazyCommand) else each for key, each in getattr(command, "commands", {}).items()
    }
    if inner:
        if " " in name:
            yield f"## `{name}`\n"
        yield _plain(command.help or "") + "\n"
        for each in sorted(inner):
            yield from _command(inner[each], f"{name} {each}")
        return
    yield f"### `{name}`\n"
    yield _plain(command.help or "") + "\n"
    rows = [_parameter(each) for each in command.params if each.name != "help" and not getattr(each, "hidden", False)]
    if rows:
        yield "\n".join(["| parameter | meaning |", "|---|---|", *rows, ""])


def _parameter(each: Any) -> str:
    if each.param_type_name == "argument":
        name = each.metavar or str(each.name).upper()
    else:
        name = ", ".join([*each.opts, *each.secondary_opts])
    return f"| `{name}` | {_cell(getattr(each, 'help', None) or '')} |"


def _plain(text: str) -> str:
    return re.sub(r"\n{3,}", "\n\n", inspect.cleandoc(text.replace("\b", "").split("\f")[0]))


# --- metrics and log events ---

_METRICS = """A process with a section `[metrics]` in its settings serves its metrics at `/metrics` in Prometheus' text format.
Beside it are `/livez`, `/readyz` and `/version` (`bytewise/service/listener.py`). `bytewise/service/metrics.py` declares every
metric. A label with listed values has no others. `process_*` and `python_gc_*` are those of the Prometheus client. An enclave
serves none.
"""
_EVENTS = """A log line is one JSON object: the event's name, the component, the time and the fields below. An error adds class,
rule and reason. No field holds a secret or plaintext.
"""


def metrics() -> str:
    """Returns the page of metrics and log events. A metric has its meaning, labels and actors. A log event has its fields and the
    files that log it."""
    parts = [HEAD, "# Metrics and log events\n", "## Metrics\n", _METRICS]
    parts += ["| metric | type | meaning | labels | actors |", "|---|---|---|---|---|", *map(_metric, DECLARED.values()), ""]
    parts += [
        "## Log events\n",
        _EVENTS,
        "| event | fields | file |",
        "|---|---|---|",
        *_told("log", "log_error", "log_foreign_error"),
        "",
    ]
    return "\n".join(parts)


def _metric(each: DeclaredMetric) -> str:
    labels = ", ".join(f"`{name}`" + (f" ({', '.join(values)})" if values else "") for name, values in each.labels.items())
    actors = "all" if each.actors == frozenset(Actor) else ", ".join(sorted(each.actors))
    return f"| `{each.name}` | {each.kind} | {_cell(each.help)} | {labels} | {actors} |"


def _told(*functions: str) -> Iterator[str]:
    found: dict[str, tuple[set[str], set[str]]] = {}
    for path in (each for name in ACTOR_FOLDERS for each in sorted((FOLDER.parent / name).rglob("*.py"))):
        for call in (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)):
            if not (isinstance(call.func, ast.Attribute) and call.func.attr in functions and _is_telemetry(call.func.value)):
                continue
            if call.args and isinstance(call.args[0], ast.Constant):
                fields, files = found.setdefault(str(call.args[0].value), (set(), set()))
                fields |= {each.arg for each in call.keywords if each.arg and each.arg != "by"}
                files.add(path.relative_to(FOLDER.parent).as_posix())
    for name, (fields, files) in sorted(found.items()):
        yield f"| `{name}` | {', '.join(sorted(fields))} | {', '.join(f'`{each}`' for each in sorted(files))} |"


def _is_telemetry(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "telemetry"


# --- planted faults ---

_FAULTS = """`make soak-contracts` plants each fault, one at a time, in one place of one contract. The campaign must find it by
the check that the fault names (`chain/contracts/tools/faults.toml`). `docs/reference/contracts.md` lists the invariants in
section 6 and the rows of the phase table in section 1.
"""


def planted_faults() -> str:
    """Returns the page of planted faults: for each fault the broken rules, and the file in which it is planted."""
    faults = tomllib.loads(FAULTS.read_text())["fault"]
    rows = [f"| {each['name']} | {', '.join(each['rules'])} | `{each['file']}` |" for each in faults]
    table = "\n".join(["| fault | breaks | file |", "|---|---|---|", *rows, ""])
    return "\n".join([HEAD, "# Planted faults of the contracts\n", _FAULTS, table])


# --- text ---


def _first(cls: type) -> str:
    return _cell(inspect.getdoc(cls) or "")


def _cell(text: str) -> str:
    # Puts the first paragraph into one line, and escapes the bar, which would end the cell.
    return " ".join(inspect.cleandoc(text).partition("\n\n")[0].split()).replace("|", "\\|")


PAGES: Mapping[str, Callable[[], str]] = {
    "reference/settings.md": settings,
    "reference/errors.md": errors,
    "reference/exit-codes.md": exit_codes,
    "reference/commands.md": commands,
    "reference/metrics.md": metrics,
    "evidence/planted-faults.md": planted_faults,
}
"""Functions that return the text of a page, by file."""


if __name__ == "__main__":
    sys.exit(main())
