"""Settings of a duty process: a value with which it could not work, or without its limits, is refused at the start."""

from pathlib import Path
from typing import Any

import pytest

from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.service.sections import DaSettings
from bytewise.service.settings import load_settings
from serving.settings import LimitSettings
from tests.fixtures.verifier.node_file import node_file
from verifier.settings import NodeSettings

LEAST = {
    "watch": {"mismatches": 1, "margin_s": 0, "budget_wei": 0, "budget_blocks": 1},
    "demand": {"budget_wei": 0, "dispute_budget_wei": 0, "budget_s": 1, "margin_s": 0, "tries": 1},
    "moves": {
        "turns": 1, "turn_blocks": 1, "overdue": 0, "seats_per_draw": 1, "seats_per_settlement": 1, "collect_above_wei": 0,
    },
    "votes": {"job_margin_s": 0, "seed_depth": 0},
}  # fmt: skip
URL = "https://tower:8300"


def settings(folder: Path, **changes: Any) -> NodeSettings:
    return load_settings(NodeSettings, node_file(folder, "sqlite:///x", **changes))


def test_smallest_values_of_the_policies_are_accepted(tmp_path: Path) -> None:
    assert settings(tmp_path, **LEAST).moves.turns == 1


@pytest.mark.parametrize(("section", "name"), [(section, name) for section, names in LEAST.items() for name in names])
def test_value_below_its_bound_is_refused(tmp_path: Path, section: str, name: str) -> None:
    below = LEAST[section][name] - 1
    with pytest.raises(ConfigurationError, match=rf"{section}\..*{name}: {below}: must be at least {below + 1}"):
        settings(tmp_path, **{section: {name: below}})


def test_call_without_time_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"executor.*prepare_timeout_s: 0: must be above 0"):
        settings(tmp_path, executor={"prepare_timeout_s": 0})
    with pytest.raises(ConfigurationError, match=r"timeout_s: 0: must be above 0"):
        DaSettings(("https://proxy",), 0.0)
    with pytest.raises(ConfigurationError, match="must be positive"):
        LimitSettings(answer_timeout_s=0.0)


@pytest.mark.parametrize("url", ["http://tower:8300", "tower:8300", "https://", "https://tower:port", "https://to wer", ""])
def test_hints_need_an_https_address(tmp_path: Path, url: str) -> None:
    assert settings(tmp_path, hints={"urls": [URL], "certificate_file": "tower.pem"}).hints is not None
    with pytest.raises(ConfigurationError, match=r"hints\.urls"):
        settings(tmp_path, hints={"urls": [URL, url], "certificate_file": "tower.pem"})
