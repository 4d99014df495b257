"""`docs/reference/exact-arithmetic.md` says what the code does: names, labels and hashes, so that an engine needs no look at
the source."""

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import pytest

from bytewise.inference.artifact.artifact import Artifact
from bytewise.inference.convert import checkpoint
from bytewise.inference.convert.convert import hashed_tokens
from bytewise.inference.engine import ExactEngine
from bytewise.inference.manifest import (
    Architecture,
    ArtifactFile,
    Equalisation,
    FilePiece,
    Generation,
    Manifest,
    Precision,
    ScaledPair,
)
from bytewise.inference.sampling.sampler import choose
from bytewise.protocol import digests
from bytewise.protocol.digests import Label
from bytewise.protocol.encoding import encode, from_json
from bytewise.protocol.records.request import DecodePolicy, Output, Request, TokenLogprobs, choice_seed, execution_hash
from bytewise.protocol.units import U64, Digest
from tests.fixtures.inference.models import policy, request
from tests.fixtures.inference.tiny import tiny
from tests.reference.engine import hashes
from tests.reference.engine.hashes import LABELS, TEXT

RECORDS = (
    Manifest, ArtifactFile, FilePiece, Architecture, Precision, Generation, Equalisation, ScaledPair, DecodePolicy, Request,
    Output, TokenLogprobs,
)  # fmt: skip
"""Records whose canonical bytes enter a hash of the text."""


def section(number: str) -> str:
    """A section of the text."""
    found = re.search(rf"^###? {re.escape(number)}\.? .*?(?=^##|\Z)", TEXT, re.MULTILINE | re.DOTALL)
    assert found is not None, number
    return found[0]


def members_of(record: str) -> list[str]:
    """The members that the text's table of records names, in its order."""
    found = re.search(rf"^\| {record} \| (.*?) \|$", TEXT, re.MULTILINE)
    assert found is not None, f"no row of {record}"
    return re.findall(r"`([a-z_0-9]+)`", re.sub(r"\([^()]*\)", "", found[1]))


def test_labels_of_the_specification_are_those_of_the_code() -> None:
    used = set(re.findall(r"\b(?:H|HKDF)\(([A-Z_]+)", TEXT)) - {"LABEL"}
    assert len(used) >= 12
    assert used == LABELS.keys()
    assert LABELS == {name: Label[name].value for name in LABELS}


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.__name__)
def test_record_members_of_the_specification_are_those_of_the_code(record: type[Any]) -> None:
    assert sorted(members_of(record.__name__)) == sorted(field.name for field in dataclasses.fields(record))


def test_policy_of_the_specification_is_canonical() -> None:
    (example,) = re.findall(r"^    (\{.*temperature.*\})$", TEXT, re.MULTILINE)
    record = from_json(DecodePolicy, json.loads(example))
    assert encode(record).decode() == example
    # Every kind of value is in it.
    assert record.logit_bias and record.stop_strings and record.stop_tokens


def test_neutral_members_of_the_specification_are_those_of_the_code() -> None:
    text = section("3.2")
    sentence = text[text.index("members of published checkpoints that change nothing:") : text.index("With other values")]
    named = {name for name in re.findall(r"`([a-z_.]+)`", sentence)}
    ours = checkpoint.INERT_MEMBERS.keys() | {name for names in checkpoint.INERT_MEMBERS_OF.values() for name in names}
    assert named - {"llama", "qwen3_moe", "hidden_act", "use_sliding_window", "num_experts"} == ours
    assert set(re.findall(r"of `([a-z0-9_]+)`\s", sentence)) == checkpoint.INERT_MEMBERS_OF.keys()


def test_skipped_pairs_of_the_specification_are_those_of_the_code(tmp_path: Path) -> None:
    equalisation = tiny("qwen3_moe", tmp_path).manifest.equalisation
    assert equalisation is not None
    for name in equalisation.skipped:
        assert f"`{re.sub(r'[.][0-9]+[.]', '.i.', name)}`" in section("3.5")


def test_hashes_of_the_specification_are_reproduced(model: Artifact) -> None:
    asked = request(model, b"hashed", policy(3, "0.8", "0.9", 5), seed=2**40 + 1)
    answer = ExactEngine(model).generate(asked)
    assert hashes.model_id(model.path) == model.model_id
    decode = json.loads(encode(asked.decode))
    execution = hashes.execution(model.model_id, decode, asked.prompt)
    assert execution == execution_hash(model.model_id, "exact-1", asked.decode, asked.prompt)
    shape = model.manifest.architecture
    assert hashes.calibration_tokens(shape.vocabulary, shape.max_context) == list(hashed_tokens(shape))
    equalisation = model.manifest.equalisation
    assert equalisation is not None
    assert hashes.labelled("CALIBRATION", *hashed_tokens(shape)) == equalisation.calibration
    assert hashes.labelled("TOKENIZER", model.content["tokenizer.json"]) == model.tokenizer_digest
    assert hashes.labelled("TEMPLATE", model.content["chat_template.jinja"]) == model.template_digest
    seed = int.from_bytes(hashes.labelled("CHOICE", 7, 2), "big") >> 256 - 53
    assert seed == choice_seed(U64(7), 2)
    assert hashes.trace_root(answer.leaves) == answer.trace_root
    assert hashes.labelled("REQUEST", encode(asked)) == asked.req_hash
    assert hashes.derived("OUTPUT_BLIND", asked.nonce) == answer.output.blind
    written = json.loads(encode(answer.output))
    assert hashes.labelled("TOKENS", hashes.canonical(written)) == answer.output.tokens_hash
    assert digests.keccak256(answer.output.tokens_hash + answer.trace_root) == answer.out_hash


def test_leaves_and_draws_of_the_specification_are_reproduced(engine: ExactEngine) -> None:
    asked = request(engine.artifact, b"drawn", policy(4, "1"), seed=5)
    answer = engine.generate(asked)
    execution = hashes.execution(engine.artifact.model_id, json.loads(encode(asked.decode)), asked.prompt)
    tokens = [*asked.prompt, *answer.output.token_ids]
    path = engine.path
    rows = path.teacher_force(path.cache(1, len(tokens)), [tokens[:-1]], [len(asked.prompt) - 1], len(tokens))[0]
    for i, (row, token) in enumerate(zip(rows, answer.output.token_ids, strict=True)):
        assert hashes.leaf(asked.nonce, i, row.row, row.exponent, token) == answer.leaves[i]
        key = hashes.labelled("SAMPLER", 5, execution, i)
        assert key == digests.labelled(Label.SAMPLER, 5, Digest(execution), i)
        assert row.logits is not None
        assert choose(row.logits, asked.decode, 5, Digest(execution), i) == token
