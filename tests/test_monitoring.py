"""Alert rules, runbooks and dashboards: each alert is silent, fires and resolves; every metric and page that is named exists."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import prometheus_client.parser
import promql_parser
import pytest
import yaml

from bytewise.service.metrics import DECLARED, Actor
from dashboard.monitor.findings import Severity
from dashboard.monitor.invariants import INVARIANTS
from tests.fixtures import promql
from tests.source import ROOT

FOLDER = ROOT / "deploy" / "monitoring"
RUNBOOKS = ROOT / "docs" / "runbooks"
RULES: dict[str, dict[str, Any]] = {
    rule["alert"]: rule for group in yaml.safe_load((FOLDER / "alerts.yml").read_text())["groups"] for rule in group["rules"]
}
TESTS: dict[str, Any] = yaml.safe_load((FOLDER / "alerts_test.yml").read_text())
DASHBOARDS = sorted((FOLDER / "grafana" / "dashboards").glob("*.json"))
FOREIGN = frozenset({
    "up", "process_resident_memory_bytes", "process_cpu_seconds_total", "process_open_fds", "python_gc_objects_collected_total",
})  # fmt: skip
"""Metrics of Prometheus and of its client."""
TARGET_LABELS = {"instance", "job", "le"}


def unknown(expression: str) -> list[str]:
    """Metrics and labels of an expression that the product does not have."""
    found = []
    for name, labels in promql.metric_names(promql_parser.parse(expression)).items():
        declared = DECLARED.get(name) or DECLARED.get(re.sub(r"_(bucket|sum|count)$", "", name))
        if declared is None and name not in FOREIGN:
            found.append(name)
        elif declared is not None:
            found += [f"{name}.{label}" for label in sorted(labels - set(declared.labels) - TARGET_LABELS)]
    return found


@pytest.mark.parametrize("name", sorted(RULES))
def test_alert_names_metrics_that_exist_and_its_runbook(name: str) -> None:
    rule = RULES[name]
    assert unknown(rule["expr"]) == []
    assert rule["labels"]["severity"] in ("critical", "warning") and "for" in rule and rule["annotations"]["summary"]
    assert rule["annotations"]["runbook_url"] == f"docs/runbooks/{name}.md"
    page = (RUNBOOKS / f"{name}.md").read_text()
    headings = ["Meaning", "What to look at", "What to do", "What it may cost"]
    assert page.startswith(f"# {name}\n") and re.findall(r"^## (.+)$", page, re.MULTILINE) == headings
    assert f"Severity: {rule['labels']['severity']}." in page


def test_every_runbook_has_its_alert() -> None:
    assert {path.stem for path in RUNBOOKS.glob("*.md")} == RULES.keys()


def test_every_metric_that_a_runbook_names_exists() -> None:
    names = {name for path in RUNBOOKS.glob("*.md") for name in re.findall(r"`(bytewise_\w+)", path.read_text())}
    assert {name for name in names if name not in DECLARED} == set() and len(names) > 10


@pytest.mark.parametrize("expression", ["bytewise_moon_phase > 0", 'bytewise_da_bytes_total{url="a"} > 0', "moon > 0"])
def test_unknown_metric_or_label_is_found(expression: str) -> None:
    assert len(unknown(expression)) == 1


def test_no_alert_fires_on_a_process_that_does_nothing_yet() -> None:
    """Every figure as it is when a process of any actor starts: counters are 0, and unknown gauges are no number."""
    program = "import sys; from bytewise.service import metrics; sys.stdout.buffer.write(metrics.exposition(sys.argv[1]))"
    for actor in Actor:
        command = [sys.executable, "-c", program, actor.value]
        text = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True).stdout
        store = [
            promql.Series(
                frozenset((sample.labels | {promql.NAME: sample.name, "instance": "n1"}).items()),
                tuple((float(at), sample.value) for at in range(0, 2 * 86_400 + 1, 300)),
            )
            for family in prometheus_client.parser.text_string_to_metric_families(text)
            for sample in family.samples
        ]
        assert len(store) > 10, actor
        fires = [name for name, rule in RULES.items() if promql.evaluate(promql_parser.parse(rule["expr"]), store, 2 * 86_400.0)]
        assert fires == [], actor


def test_each_alert_is_tested_silent_firing_and_resolved() -> None:
    cases: dict[str, list[bool]] = {}
    for test in TESTS["tests"]:
        for case in sorted(test["alert_rule_test"], key=lambda each: promql.seconds(each["eval_time"])):
            cases.setdefault(case["alertname"], []).append(bool(case["exp_alerts"]))
    assert {name: fired for name, fired in cases.items() if fired != [False, True, False]} == {}
    assert cases.keys() == RULES.keys()


def test_alerts_fire_as_their_tests_say() -> None:
    assert promql.failures(RULES, TESTS) == []


@pytest.mark.parametrize("name", sorted(RULES))
def test_alert_that_is_gone_or_wrong_fails_its_test(name: str) -> None:
    own = TESTS | {"tests": [test for test in TESTS["tests"] if test["name"] == name]}
    assert promql.failures(RULES, own) == []
    assert promql.failures({}, own) != []
    later = RULES[name] | {"for": "30d"}
    assert promql.failures({name: later}, own) != []


PROMTOOL = shutil.which("promtool")
"""In Debian's package `prometheus`. CI has none; there the evaluator of `tests/fixtures/promql.py` runs the same tests."""


def promtool(*arguments: str, folder: Path = FOLDER) -> str:
    command = [str(PROMTOOL), *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.skipif(PROMTOOL is None, reason="no promtool")
def test_promtool_accepts_rules_tests_and_configuration() -> None:
    promtool("check", "config", "prometheus.yml")
    promtool("check", "rules", "alerts.yml")
    promtool("test", "rules", "alerts_test.yml")


@pytest.mark.skipif(PROMTOOL is None, reason="no promtool")
def test_evaluator_computes_what_promtool_computes(tmp_path: Path) -> None:
    """Each rule's selectors and functions without the last comparison, at many moments of its test."""
    document: dict[str, Any] = {"rule_files": [], "evaluation_interval": "1m", "tests": []}
    for test in TESTS["tests"]:
        parsed = promql_parser.parse(RULES[test["name"]]["expr"])
        interval = promql.seconds(test["interval"])
        store = [promql.parse_series(each["series"], str(each["values"]), interval) for each in test["input_series"]]
        moments = [interval * step + 7 for step in (0, 3, 8, 11, 16, 29, 44)]
        cases = [_expected(part, store, at) for part in _operands(parsed) for at in moments]
        series = [each | {"values": str(each["values"])} for each in test["input_series"]]
        document["tests"].append({"interval": test["interval"], "input_series": series, "promql_expr_test": cases})
    (tmp_path / "values.yml").write_text(yaml.safe_dump(document))
    promtool("test", "rules", "values.yml", folder=tmp_path)


def _operands(expression: Any) -> Iterator[Any]:
    """The sides of an expression, each as long as it is about series."""
    if isinstance(expression, promql_parser.BinaryExpr):
        yield from _operands(expression.lhs)
        yield from _operands(expression.rhs)
    elif isinstance(expression, promql_parser.ParenExpr):
        yield from _operands(expression.expr)
    elif not isinstance(expression, promql_parser.NumberLiteral) and str(expression) != "time()":
        yield expression


def _expected(expression: Any, store: promql.Store, at: float) -> dict[str, Any]:
    value = promql.evaluate(expression, store, at)
    assert isinstance(value, dict)
    samples = []
    for key, number in value.items():
        labels = dict(key)
        name = labels.pop(promql.NAME, "")
        inner = ",".join(f'{label}="{text}"' for label, text in sorted(labels.items()))
        samples.append({"labels": f"{name}{{{inner}}}", "value": number})
    return {"expr": str(expression), "eval_time": f"{at:.0f}s", "exp_samples": samples}


# --- dashboards ---


def test_dashboards_are_what_their_program_writes() -> None:
    command = [sys.executable, "deploy/monitoring/dashboards.py", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert [path.name for path in DASHBOARDS] == ["node.json", "overview.json"]


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_every_panel_has_a_unit_a_description_and_known_metrics(path: Path) -> None:
    panels = [each for each in json.loads(path.read_text())["panels"] if each["type"] != "row"]
    for panel in panels:
        assert panel["description"].endswith(".") and panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        assert panel["targets"] and panel["datasource"]["uid"] == "bytewise-prom", panel["title"]
        for target in panel["targets"]:
            assert unknown(target["expr"].replace("$instance", "n1")) == [], panel["title"]
    assert len(panels) >= 15


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_panels_have_ids_and_places_of_their_own(path: Path) -> None:
    document = json.loads(path.read_text())
    panels = document["panels"]
    assert len({each["id"] for each in panels}) == len(panels) and document["uid"] == f"bytewise-{path.stem}"
    cells = [
        (x, y)
        for place in (each["gridPos"] for each in panels)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells)) and max(x for x, _ in cells) < 24


def test_datasource_of_the_dashboards_is_provisioned() -> None:
    (source,) = yaml.safe_load((FOLDER / "grafana" / "provisioning" / "datasources" / "bytewise.yml").read_text())["datasources"]
    assert (source["uid"], source["type"]) == ("bytewise-prom", "prometheus")


def test_configuration_scrapes_the_default_port_and_sends_to_a_webhook() -> None:
    prometheus = yaml.safe_load((FOLDER / "prometheus.yml").read_text())
    jobs = {job["job_name"]: job["static_configs"][0]["targets"] for job in prometheus["scrape_configs"]}
    assert jobs["bytewise"] == ["127.0.0.1:9464"] and prometheus["rule_files"] == ["alerts.yml"]
    manager = yaml.safe_load((FOLDER / "alertmanager.yml").read_text())
    assert manager["receivers"][0]["webhook_configs"][0]["send_resolved"] is True
    quiet = {name for rule in manager["inhibit_rules"] for name in re.findall(r'^alertname="(\w+)"$', rule["source_matchers"][0])}
    assert quiet <= RULES.keys()


def test_alerts_of_invariants_name_each_by_its_severity() -> None:
    alerts = {Severity.CRITICAL: "BytewiseInvariantBroken", Severity.WARNING: "BytewiseInvariantAtRisk"}
    for severity, alert in alerts.items():
        found = re.search(r'invariant=~"([^"]+)"', RULES[alert]["expr"])
        assert found is not None and RULES[alert]["labels"]["severity"] == severity
        assert found[1].split("|") == [each.name for each in INVARIANTS if each.severity is severity]
