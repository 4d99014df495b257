"""Reads the settings of an actor: one file and environment variables give one frozen dataclass.

All problems are reported at once. The file is TOML, or canonical JSON if its name ends in `.json`. A nested dataclass is a
section. The environment variable `BYTEWISE__SECTION__KEY` overrides the file. Settings contain no secrets: a field `…_file`
names the file of a secret (`secret.read_secret`).
"""

import ast
import dataclasses
import enum
import inspect
import itertools
import os
import re
import tomllib
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NewType, TypeVar, cast
from urllib.parse import urlsplit

from bytewise.protocol import encoding, units
from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.errors.branches import BytewiseError, Fault
from bytewise.service.files import shown_name
from bytewise.service.secret import Secret


class Endpoints(NamedTuple):
    """JSON-RPC endpoints of one chain, and how many of them must agree (settings `rpc_url`, or `rpc_urls` and `rpc_quorum`)."""

    urls: tuple[str, ...]
    """JSON-RPC URLs. Errors and logs name an endpoint by its place in this list, because a URL may contain a key."""
    quorum: int
    """Number of endpoints that must give the same answer. It is more than half of them."""


def verify_http_url(name: str, url: str, of: str) -> str:
    """Returns the URL if it is valid. Otherwise raises `ConfigurationError`, because a later try would not help.

    `name` is the setting, and `of` describes the service, for example "a node".
    """
    if any(each.isspace() or not each.isprintable() for each in url):
        # Do not show the text: an invalid URL may contain a key. `urlsplit` silently drops some of these characters.
        raise ConfigurationError(
            name, "has a space, a line end or a control character in it: write http://HOST:PORT or https://…"
        )
    try:
        parts = urlsplit(url)
        sound = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        sound = False
    if not sound:
        raise ConfigurationError(name, f"{public_part(url)} is no URL of {of}: http://HOST:PORT or https://…")
    return url


def public_part(url: str) -> str:
    """Returns the scheme and the host of a URL, of at most 80 characters. The rest may contain a key or a password, and belongs
    in no error and no log."""
    before, separator, rest = url.partition("://")
    scheme, place = (before, rest) if separator else ("", before)
    host = re.split("[/?#]", place)[0]
    if "@" in place[len(host) :]:
        host = ""  # a password with one of these characters, perhaps
    return f"{scheme}{separator}{host.rpartition('@')[2]}"[:80]


def rpc_endpoints(url: str, urls: tuple[str, ...], quorum: int) -> Endpoints:
    """Returns the endpoints in the settings of a process. `quorum` 0 means the smallest majority.

    Raises `ConfigurationError` if none or both of `url` and `urls` are set, or if an endpoint is empty, invalid or named twice.
    Also raises it if two different answers could both reach the quorum, or if the quorum is larger than the number of endpoints.
    """
    if bool(url) == bool(urls):
        raise ConfigurationError("chain endpoints", "set rpc_url, or rpc_urls, and not both")
    given = (url,) if url else urls
    if len({each.rstrip("/") for each in given}) != len(given) or not all(given):
        raise ConfigurationError("rpc_urls", "one is empty, or named twice")
    for each in given:
        verify_http_url("rpc", each, "a node")
    wanted = quorum or len(given) // 2 + 1
    if not len(given) < 2 * wanted <= 2 * len(given):
        raise ConfigurationError("rpc_quorum", f"{wanted} of {len(given)}: must be more than half of them, and at most all")
    return Endpoints(given, wanted)


T = TypeVar("T")

DatabaseUrl = NewType("DatabaseUrl", str)
"""URL of a database. A relative file `sqlite:///name` is in the folder of the settings file, as every relative path is, so the
working folder of the command does not matter."""

OtherProcess = NewType("OtherProcess", dict[str, Any])
"""A table in a settings file that several processes share. Another process reads and checks it."""

LAST_PORT = 65_535
PREFIX = "BYTEWISE__"
"""Prefix of variables that override settings. A variable with this prefix must name a setting; other variables are ignored."""

_DEVELOPER = "BYTEWISE_"


def load_settings(cls: type[T], path: Path, table: str = "") -> T:
    """Reads the settings of class `cls` from a file and the environment.

    Raises `ConfigurationError` with a list of all problems. Several processes may share the file. If the file has a table with
    the name `table`, that table has the settings of this process. Otherwise the whole file has the settings. If `table` is also
    the file's `role`, no other process reads the file, and everything outside the table is a problem.
    """
    problems: list[str] = []
    document = read_document(path)
    prefix = PREFIX
    if table in document:
        prefix = f"{PREFIX}{table.upper()}__"
        if document.get("role") == table:
            outside = sorted(document.keys() - {table, "role"})
            outside += sorted(name for name in setting_variables() if not name.startswith(prefix))
            problems.extend(f"{name}: only [{table}] and variables {prefix}… are read here" for name in outside)
        document = document[table]
    overrides = {name: text for name, text in setting_variables().items() if name.startswith(prefix)}
    for name, text in sorted(overrides.items()):
        _override(cls, document, name.removeprefix(prefix), text, problems)
    settings = _build(cls, document, "", path.parent, problems)
    if problems:
        raise ConfigurationError(path.name, "; ".join(problems))
    return cast(T, settings)


def developer_variable(name: str) -> str | None:
    """Returns the value of the variable `BYTEWISE_<NAME>`, which is a switch for tests and tools. Actors never read it."""
    return os.environ.get(_DEVELOPER + name)


def child_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Returns the environment of a child process: `extra`, and this process's variables for paths, home and locale."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR") if name in os.environ}
    return kept | dict(extra or {})


def setting_variables() -> dict[str, str]:
    """Returns the variables that override settings, for a child process that reads the same file."""
    return {name: text for name, text in os.environ.items() if name.startswith(PREFIX)}


def library_variables(names: Sequence[str]) -> dict[str, str]:
    """Returns the environment variables among `names` that are set. A library reads them itself; the caller only records them."""
    return {name: os.environ[name] for name in names if name in os.environ}


def paths_of(settings: Any) -> Iterator[tuple[str, Path]]:
    """Yields name and value of each path in settings and in their sections."""
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        if isinstance(value, Path):
            yield field.name, value
        elif dataclasses.is_dataclass(value):
            yield from paths_of(value)


def read_document(path: Path) -> dict[str, Any]:
    """Reads the tables of a settings file, TOML or canonical JSON.

    Raises `ConfigurationError` if the file is missing or is neither.
    """
    try:
        raw = path.read_bytes()
        value = encoding.parse(raw) if path.suffix == ".json" else tomllib.loads(raw.decode())
    except OSError as error:
        raise ConfigurationError(shown_name(path), error.strerror) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, Fault) as error:
        raise ConfigurationError(path.name, str(error)[:200]) from None
    if not isinstance(value, dict):
        raise ConfigurationError(path.name, "not a table")
    return value


def _override(cls: type, document: dict[str, Any], name: str, text: str, problems: list[str]) -> None:
    *sections, key = name.lower().split("__")
    table, kind = document, cast(Any, cls)
    for section in sections:
        kind = _field(kind, section)
        if kind is OtherProcess:
            return
        table = table.setdefault(section, {}) if isinstance(table, dict) else {}
    target = _field(kind, key)
    if target is None or not isinstance(table, dict):
        problems.append(f"{PREFIX}…{name}: unknown setting")
        return
    table[key] = _parse_override(target, text)


def _parse_override(kind: Any, text: str) -> Any:
    # Text settings are taken literally. Other values are TOML: 3, true, ["a", "b"].
    if kind not in (int, float, bool) and typing.get_origin(kind) is not tuple:
        return text
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _build(cls: Any, table: Any, where: str, folder: Path, problems: list[str]) -> Any:
    if not isinstance(table, dict):
        problems.append(f"{where or 'file'}: not a table")
        return None
    kinds = encoding.field_types(cls)
    defaults = {field.name for field in dataclasses.fields(cls) if _has_default(field)}
    problems.extend(f"{where}{name}: unknown setting" for name in sorted(table.keys() - kinds.keys()))
    problems.extend(f"{where}{name}: missing" for name in kinds if name not in table and name not in defaults)
    before = len(problems)
    values = {name: _read(kind, table[name], where + name, folder, problems) for name, kind in kinds.items() if name in table}
    if len(problems) > before or (kinds.keys() - defaults) - table.keys():
        return None
    try:
        return cls(**values)
    except BytewiseError as error:
        problems.append(f"{where or 'file'}: {error}")
        return None


def _verify_port(name: str, value: Any) -> None:
    # A setting of this name is a TCP port. The system would refuse another number with an error that names no setting.
    if (name == "port" or name.endswith("_port")) and not 0 <= value <= LAST_PORT:
        raise ValueError(f"{value} is no TCP port: at most {LAST_PORT}, and 0 only where the system may choose")


def _read(kind: Any, value: Any, where: str, folder: Path, problems: list[str]) -> Any:
    kind = _required(kind)
    if kind is OtherProcess:
        return value
    if dataclasses.is_dataclass(kind):
        return _build(kind, value, where + ".", folder, problems)
    if typing.get_origin(kind) is tuple:
        if not isinstance(value, list):
            problems.append(f"{where}: not a list")
            return None
        inner = typing.get_args(kind)[0]
        return tuple(_read(inner, item, f"{where}[{i}]", folder, problems) for i, item in enumerate(value))
    try:
        found = _scalar(kind, value, folder)
        if kind is int:
            _verify_port(where.rpartition(".")[2], found)
        return found
    except (ValueError, BytewiseError) as error:
        problems.append(f"{where}: {error}")
        return None


def _scalar(kind: Any, value: Any, folder: Path) -> Any:
    if kind is Secret:
        raise ConfigurationError("secret", "a secret is named by a file, never written as a setting")
    if kind is float and type(value) is int:
        return float(value)
    if kind in (int, float, bool):
        return _exactly(kind, value)
    if kind in units.WIDTHS:
        number = int(value) if isinstance(value, str) and value.isdigit() else _exactly(int, value)
        return units.bounded(number, units.WIDTHS[kind])
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return kind(value)
    text = _exactly(str, value)
    if kind is Path:
        if not text:  # It would name the folder of the settings file.
            raise ValueError("is empty: name a file or a folder, or leave the setting out")
        return folder / text
    if kind is DatabaseUrl:
        return _database_beside(folder, text)
    if kind is units.Address:
        return units.address(text)
    if kind is units.Digest:
        return units.digest(units.unhex(text))
    return units.unhex(text) if kind is units.Blob else text


def _database_beside(folder: Path, url: str) -> str:
    scheme, slashes, name = url.partition(":///")
    # An empty name and `:memory:` are no files, and SQLite itself reads a name that begins with `file:`.
    if not scheme.startswith("sqlite") or not slashes or not name or name.startswith((":", "file:")):
        return url
    return f"{scheme}{slashes}{folder / name}"


def _exactly(kind: type, value: Any) -> Any:
    if type(value) is not kind:
        raise ValueError(f"not a {kind.__name__}")
    return value


def _field(kind: Any, name: str) -> Any:
    return _required(encoding.field_types(kind).get(name)) if isinstance(kind, type) and dataclasses.is_dataclass(kind) else None


def _required(kind: Any) -> Any:
    # `X | None` is read as X, because a missing key means None.
    if typing.get_origin(kind) in (types.UnionType, typing.Union):
        return next(each for each in typing.get_args(kind) if each is not type(None))
    return kind


def _has_default(field: "dataclasses.Field[Any]") -> bool:
    return field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING


def field_texts(cls: type) -> dict[str, str]:
    """Returns for each field of the dataclass its docstring, on one line. A field without a docstring is left out."""
    tree = ast.parse(inspect.cleandoc("\n" + inspect.getsource(cls))).body[0]
    assert isinstance(tree, ast.ClassDef)
    return {
        node.target.id: " ".join(str(ast.literal_eval(below.value)).split())
        for node, below in itertools.pairwise(tree.body)
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and isinstance(below, ast.Expr)
    }


def first_paragraph(cls: type) -> str:
    """Returns the first paragraph of a class's docstring, on one line."""
    return " ".join((inspect.getdoc(cls) or "").split("\n\n", 1)[0].split())
