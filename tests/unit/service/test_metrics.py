"""The registry of metrics: each is set somewhere, with its own labels, by the actors that it names; and nothing else exists."""

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

import prometheus_client.parser
import pytest
from prometheus_client import Counter, Gauge, Histogram

from bytewise.service import metrics, telemetry
from bytewise.service.metrics import DECLARED, DUTY, JUDGES, Actor
from tests.fixtures.metric_values import value_of
from tests.source import name_of, product_files, tree_of

FAMILIES = {
    name: each for name, each in vars(metrics).items() if isinstance(each, Counter | Gauge | Histogram) and name.isupper()
}
SETTERS = frozenset({"inc", "set", "observe", "time", "set_function"})
OWN_FOLDERS = {
    "serving/": frozenset({Actor.OPERATOR}),
    "kms/": frozenset({Actor.SHARD}),
    "committee/": frozenset({Actor.MEMBER}),
    "verifier/": DUTY,
    "bytewise/da/store.py": frozenset({Actor.DA}),
}
"""Folder → the actors that run its code. Others, such as `bytewise/storage/`, serve several actors."""


class Use(NamedTuple):
    """A place in the product that sets a metric."""

    constant: str
    file: str
    line: int
    labels: frozenset[str]


def uses() -> Iterator[Use]:
    """Every `metrics.NAME.setter(...)` and `metrics.NAME.labels(...).setter(...)` of the product."""
    for path in product_files():
        if "metrics." not in path.read_text():
            continue
        for node in ast.walk(tree_of(path)):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in SETTERS):
                continue
            target, labels = node.func.value, frozenset[str]()
            if isinstance(target, ast.Call) and isinstance(target.func, ast.Attribute) and target.func.attr == "labels":
                assert not target.args, f"{name_of(path)}:{node.lineno}: name the labels"
                labels, target = frozenset(str(each.arg) for each in target.keywords), target.func.value
            constant = ast.unparse(target).removeprefix("metrics.")
            if constant in FAMILIES:
                yield Use(constant, name_of(path), node.lineno, labels)


USES = tuple(uses())


def name_of_family(family: Counter | Gauge | Histogram) -> str:
    (described,) = family.describe()
    return described.name + ("_total" if described.type == "counter" else "")


@pytest.mark.parametrize("constant", sorted(FAMILIES))
def test_metric_is_set_somewhere_in_the_product(constant: str) -> None:
    assert [use for use in USES if use.constant == constant] != []


@pytest.mark.parametrize("use", USES, ids=lambda use: f"{use.file}:{use.line}")
def test_place_that_sets_a_metric_gives_its_labels(use: Use) -> None:
    assert use.labels == set(DECLARED[name_of_family(FAMILIES[use.constant])].labels)


def test_metric_of_a_folder_belongs_to_its_actors() -> None:
    wrong = []
    for use in USES:
        actors = DECLARED[name_of_family(FAMILIES[use.constant])].actors
        wrong += [use for folder, own in OWN_FOLDERS.items() if use.file.startswith(folder) and not actors & own]
    assert wrong == []
    for constant, family in FAMILIES.items():
        files = [use.file for use in USES if use.constant == constant]
        owners = [own for file in files for folder, own in OWN_FOLDERS.items() if file.startswith(folder)]
        if len(owners) == len(files):  # no shared code sets it
            assert DECLARED[name_of_family(family)].actors <= frozenset[Actor]().union(*owners), constant


def test_every_family_is_declared_and_documented() -> None:
    assert sorted(name_of_family(each) for each in FAMILIES.values()) == sorted(DECLARED)
    for each in DECLARED.values():
        assert re.fullmatch(r"bytewise_[a-z0-9_]+", each.name) and each.help.endswith(".") and each.actors, each.name
        assert each.name.endswith("_total") == (each.kind == "counter"), each.name
        assert all(re.fullmatch(r"[a-z]+", label) for label in each.labels), each.name


def test_no_label_names_an_id() -> None:
    named = {label for each in DECLARED.values() for label in each.labels}
    assert named & {"id", "receipt", "dispute", "account", "address", "block", "url", "host", "subject"} == set()


def test_undeclared_label_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="Incorrect label"):
        metrics.DA_BYTES.labels(op="get", url="http://a")
    with pytest.raises(ValueError, match="missing label"):
        metrics.DA_BYTES.inc()


def test_exposition_has_help_and_type_and_only_the_actors_metrics() -> None:
    for actor in Actor:
        text = metrics.exposition(actor).decode()
        found = {family.name: family for family in prometheus_client.parser.text_string_to_metric_families(text)}
        for each in DECLARED.values():
            name = each.name.removesuffix("_total")
            assert (name in found) is (actor in each.actors), (actor, name)
            if name in found:
                assert (found[name].type, found[name].documentation) == (each.kind, each.help)
        assert "process_resident_memory_bytes" in found and "python_gc_collections" in found
    assert "_created" not in text


def test_series_of_known_label_values_begin_at_zero() -> None:
    """`increase()` sees nothing of a series that begins with its first event."""
    text = metrics.exposition(Actor.MEMBER).decode()
    assert 'bytewise_audits_total{outcome="mismatch"} ' in text
    assert 'bytewise_duties_total{kind="vote",result="missed"} ' in text


def test_unknown_gauge_is_no_number() -> None:
    """Zero would be a balance, or a block."""
    fresh = metrics._gauge("bytewise_test_only", "A test.", JUDGES)
    try:
        assert "bytewise_test_only NaN\n" in metrics.exposition(Actor.MEMBER).decode()
    finally:
        metrics.REGISTRY.unregister(fresh)
        del DECLARED["bytewise_test_only"]


def test_errors_in_the_log_are_counted_by_event() -> None:
    before = value_of("bytewise_log_errors_total", topic="test.failed")
    telemetry.log_error("test.failed", ValueError("x"))
    assert value_of("bytewise_log_errors_total", topic="test.failed") == before + 1


def test_key_epoch_has_one_series() -> None:
    metrics.set_key_epoch(1, "simulated")
    metrics.set_key_epoch(2, "hardware")
    assert value_of("bytewise_key_epoch_info", epoch="2", assurance="hardware") == 1
    assert 'epoch="1"' not in metrics.exposition(Actor.SHARD).decode()
