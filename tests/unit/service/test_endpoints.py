"""Which chain endpoints settings name: one, or several with a quorum that only one answer can reach."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.service.sections import ChainSettings
from bytewise.service.settings import Endpoints, load_settings, rpc_endpoints
from kms.settings import ShardSettings

URLS = ("http://a", "http://b", "http://c")
SHARD = (
    'host = "h"\nport = 1\nfolder = "."\nepoch_file = "e"\npolicy_file = "p"\nnetwork_file = "n"\n'
    'database_url = "sqlite:///x"\naudits_per_epoch = 1\nchannel_port = 2\nproduction = false\n'
)


def test_one_endpoint_is_a_quorum_of_itself() -> None:
    assert rpc_endpoints("http://a", (), 0) == Endpoints(("http://a",), 1)


def test_majority_of_endpoints_must_agree_unless_more_is_configured() -> None:
    assert [rpc_endpoints("", URLS[:count], 0).quorum for count in (1, 2, 3)] == [1, 2, 2]
    assert rpc_endpoints("", URLS, 3) == Endpoints(URLS, 3)


@given(count=st.integers(1, 9), quorum=st.integers(0, 12))
def test_no_two_answers_reach_a_quorum_that_is_accepted(count: int, quorum: int) -> None:
    urls = tuple(f"http://{place}" for place in range(count))
    try:
        accepted = rpc_endpoints("", urls, quorum).quorum
    except ConfigurationError:
        assert quorum > count or 2 * quorum <= count
    else:
        assert accepted <= count < 2 * accepted and quorum in (0, accepted)


@pytest.mark.parametrize(
    ("url", "urls", "quorum", "why"),
    [
        ("", (), 0, "rpc_url"),
        ("http://a", ("http://b",), 0, "not both"),
        ("", ("http://a", "http://a"), 0, "named twice"),
        ("", ("http://a", "http://a/"), 0, "named twice"),
        ("", ("http://a", ""), 0, "empty"),
        ("", URLS, 1, "more than half"),
        ("", URLS, 4, "at most all"),
        ("http://a", (), 2, "at most all"),
        ("", URLS, -1, "more than half"),
    ],
)
def test_impossible_endpoint_settings_are_refused(url: str, urls: tuple[str, ...], quorum: int, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        rpc_endpoints(url, urls, quorum)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("wss://node.example/v3/hidden", "wss://node.example is no URL"),
        ("wss://hidden:hidden@node.example?key=hidden", "wss://node.example is no URL"),
        ("node.example:8545/hidden", "node.example:8545 is no URL"),
        ("wss://user:hid/den@node.example", "wss:// is no URL"),
        ("hidden@", " is no URL"),
        ("https://:1/hidden#hidden", "https://:1 is no URL"),
    ],
)
def test_refused_url_is_shown_without_its_key(url: str, shown: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        rpc_endpoints(url, (), 0)
    assert shown in str(caught.value) and "hid" not in str(caught.value)


def test_file_names_the_endpoints_and_the_old_setting_stays_valid(tmp_path: Path) -> None:
    file = tmp_path / "shard.toml"
    file.write_text(SHARD + 'rpc_url = "http://a"\n')
    assert load_settings(ShardSettings, file).rpc == Endpoints(("http://a",), 1)
    file.write_text(SHARD + 'rpc_urls = ["http://a", "http://b", "http://c"]\n')
    assert load_settings(ShardSettings, file).rpc == Endpoints(URLS, 2)
    for wrong in ("", 'rpc_url = "http://a"\nrpc_urls = ["http://b"]\n', 'rpc_urls = ["http://a", "http://b"]\nrpc_quorum = 1\n'):
        file.write_text(SHARD + wrong)
        with pytest.raises(ConfigurationError, match=r"rpc_url|rpc_quorum"):
            load_settings(ShardSettings, file)


def test_actors_name_endpoints_in_the_section_of_the_chain() -> None:
    chain = ChainSettings(rpc_url="http://a")
    assert chain.rpc == Endpoints(("http://a",), 1)
    assert replace(chain, rpc_url="", rpc_urls=URLS, rpc_quorum=3).rpc == Endpoints(URLS, 3)
    with pytest.raises(ConfigurationError, match="not both"):
        replace(chain, rpc_urls=URLS)
