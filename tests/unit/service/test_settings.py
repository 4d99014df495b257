"""Settings: one file, overrides, every problem at once, no secret inside."""

import enum
from dataclasses import dataclass
from pathlib import Path
from typing import get_type_hints

import pytest

from bytewise.protocol.errors.actors import BadRequest, ConfigurationError
from bytewise.protocol.units import U64, Address, Digest
from bytewise.service.secret import Secret, read_secret, write_secret
from bytewise.service.sections import DatabaseSettings
from bytewise.service.settings import DatabaseUrl, load_settings
from kms.settings import CeremonySettings, ShardSettings
from serving.settings import OperatorSettings
from serving.wiring import sender_policy
from verifier.settings import NodeSettings

FIVE = U64(5)


class Role(enum.Enum):
    WATCHTOWER = "watchtower"
    VERIFIER = "verifier"


@dataclass(frozen=True)
class Chain:
    rpc: str
    poll_s: float = 1.0
    depth: int | None = None


@dataclass(frozen=True)
class Actor:
    chain: Chain
    database: Path
    role: Role
    account: Address
    peers: tuple[str, ...] = ()
    limit: U64 = FIVE
    digest: Digest | None = None
    verbose: bool = False
    key_file: Path | None = None

    def __post_init__(self) -> None:
        if self.limit == 666:
            raise BadRequest("limit", "not this one")


ACCOUNT = "0x" + "ab" * 20
GOOD = f'database = "node.db"\nrole = "verifier"\naccount = "{ACCOUNT}"\n[chain]\nrpc = "http://127.0.0.1:8545"\n'


def write(folder: Path, text: str, name: str = "actor.toml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_a_file_becomes_a_frozen_record(tmp_path: Path) -> None:
    actor = load_settings(Actor, write(tmp_path, 'peers = ["a", "b"]\nlimit = "7"\nkey_file = "keys/k"\n' + GOOD))
    assert actor == Actor(
        Chain("http://127.0.0.1:8545"), tmp_path / "node.db", Role.VERIFIER, Address(ACCOUNT), ("a", "b"), U64(7),
        key_file=tmp_path / "keys/k",
    )  # fmt: skip


def test_canonical_json_settings_are_accepted(tmp_path: Path) -> None:
    text = f'{{"account":"{ACCOUNT}","chain":{{"poll_s":2,"rpc":"r"}},"database":"/d","role":"watchtower"}}'
    actor = load_settings(Actor, write(tmp_path, text, "actor.json"))
    assert (actor.chain.poll_s, actor.role, actor.database) == (2.0, Role.WATCHTOWER, Path("/d"))
    with pytest.raises(ConfigurationError):
        load_settings(Actor, write(tmp_path, " " + text, "actor.json"))


def test_every_problem_is_reported_at_once(tmp_path: Path) -> None:
    bad = 'role = "king"\naccount = "0x1"\nsurprise = 1\nverbose = "yes"\n[chain]\npoll_s = "fast"\nodd = 2\n'
    with pytest.raises(ConfigurationError) as caught:
        load_settings(Actor, write(tmp_path, bad))
    named = ("role", "account", "surprise", "verbose", "database: missing", "chain.poll_s", "chain.rpc: missing", "chain.odd")
    assert [word for word in named if word not in str(caught.value)] == []


def test_record_that_rejects_its_values_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="not this one"):
        load_settings(Actor, write(tmp_path, "limit = 666\n" + GOOD))


def test_environment_overrides_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"CHAIN__RPC": "http://other", "CHAIN__DEPTH": "9", "LIMIT": "8", "VERBOSE": "true", "PEERS": '["x"]'}
    for name, value in given.items():
        monkeypatch.setenv(f"BYTEWISE__{name}", value)
    actor = load_settings(Actor, write(tmp_path, GOOD))
    assert actor.chain == Chain("http://other", depth=9)
    assert (actor.limit, actor.verbose, actor.peers) == (8, True, ("x",))


def test_empty_path_is_not_the_folder_of_the_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigurationError, match="key_file: is empty"):
        load_settings(Actor, write(tmp_path, 'key_file = ""\n' + GOOD))
    monkeypatch.setenv("BYTEWISE__KEY_FILE", "")
    with pytest.raises(ConfigurationError, match="key_file: is empty"):
        load_settings(Actor, write(tmp_path, GOOD))


@pytest.mark.parametrize("name", ["CHAIN__NOTHING", "NOTHING__RPC", "NOTHING", "CHAIN__RPC__DEEP"])
def test_an_unknown_override_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(f"BYTEWISE__{name}", "1")
    with pytest.raises(ConfigurationError, match="unknown setting"):
        load_settings(Actor, write(tmp_path, GOOD))


@pytest.mark.parametrize("text", ["not toml", "= 1"])
def test_a_file_that_cannot_be_read_is_a_configuration_error(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigurationError):
        load_settings(Actor, write(tmp_path, text))
    with pytest.raises(ConfigurationError):
        load_settings(Actor, tmp_path / "missing.toml")


def test_secret_is_never_a_setting(tmp_path: Path) -> None:
    @dataclass(frozen=True)
    class Leaky:
        key: Secret

    with pytest.raises(ConfigurationError, match="named by a file"):
        load_settings(Leaky, write(tmp_path, 'key = "deadbeef"'))


def test_key_file_is_for_its_owner_only_and_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "key"
    write_secret(path, b"0123456789abcdef\n")
    assert read_secret(path).reveal() == b"0123456789abcdef"
    with pytest.raises(ConfigurationError):
        write_secret(path, b"other")
    path.chmod(0o640)
    with pytest.raises(ConfigurationError, match="owner"):
        read_secret(path)


def test_secret_is_not_printed() -> None:
    import pickle

    secret = Secret(b"hunter2hunter2")
    assert "hunter" not in f"{secret!r} {secret} {[secret]}"
    assert secret == Secret(b"hunter2hunter2") and secret != Secret(b"x")
    with pytest.raises(ConfigurationError):
        pickle.dumps(secret)


@dataclass(frozen=True)
class Keeper:
    database_url: DatabaseUrl


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("sqlite:///keeper.sqlite", "sqlite:///{folder}/keeper.sqlite"),
        ("sqlite:///../keeper.sqlite", "sqlite:///{folder}/../keeper.sqlite"),
        ("sqlite:////var/keeper.sqlite", "sqlite:////var/keeper.sqlite"),
        ("sqlite:///:memory:", "sqlite:///:memory:"),
        ("sqlite://", "sqlite://"),
        ("postgresql+psycopg://host/keeper", "postgresql+psycopg://host/keeper"),
    ],
)
def test_relative_database_is_beside_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str, meant: str) -> None:
    """From wherever the process is started: another database would be another log."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    loaded = load_settings(Keeper, write(tmp_path, f'database_url = "{given}"'))
    assert loaded.database_url == meant.format(folder=tmp_path)


def test_nothing_may_be_outside_the_table_of_a_file_for_one_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table, outside = '[shard]\ndatabase_url = "postgresql://x"\n', 'database_url = "sqlite:///x"\n'
    alone = write(tmp_path, 'role = "shard"\n' + table, "alone.toml")
    assert load_settings(Keeper, alone, "shard").database_url == "postgresql://x"
    with pytest.raises(ConfigurationError, match=r"database_url: only \[shard\].*; metrics: only"):
        load_settings(Keeper, write(tmp_path, f'role = "shard"\n{outside}{table}[metrics]\nport = 1\n'), "shard")
    monkeypatch.setenv("BYTEWISE__DATABASE_URL", "sqlite:///x")
    with pytest.raises(ConfigurationError, match="BYTEWISE__DATABASE_URL: only"):
        load_settings(Keeper, alone, "shard")
    shared = write(tmp_path, 'role = "member"\n' + outside + table, "shared.toml")
    assert load_settings(Keeper, shared, "shard").database_url == "postgresql://x"


@pytest.mark.parametrize("settings", [ShardSettings, CeremonySettings, DatabaseSettings])
def test_every_database_of_a_settings_file_is_beside_it(settings: type) -> None:
    (kind,) = (kind for name, kind in get_type_hints(settings).items() if name in ("database_url", "url"))
    assert kind in (DatabaseUrl, DatabaseUrl | None)


@pytest.mark.parametrize("settings", [OperatorSettings, NodeSettings])
def test_actors_share_the_section_of_the_database(settings: type) -> None:
    assert get_type_hints(settings)["db"] is DatabaseSettings


def test_operator_sends_with_the_limits_of_its_settings(tmp_path: Path) -> None:
    text = """network_file = "n"\ngateway_key_file = "g"\n[chain]\nrpc_url = "http://n"\nconfirmations = 5
[da]\nurls = ["http://d"]\n[signer]\nkey_file = "k"\nmax_fee_wei = 7\n[db]\nurl = "sqlite:///x"\njournal_key_file = "j"
[listen]\ncertificate_file = "c"\nkey_file = "t"\n[model]\nname = "m"\nartifact = "a"\nenvironment_file = "e"\n"""
    policy = sender_policy(load_settings(OperatorSettings, write(tmp_path, text)), 3)
    assert (policy.confirmations, policy.max_fee_wei, policy.own_nonces) == (5, 7, 3)
