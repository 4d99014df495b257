"""What a client leaves out is in the signed request nevertheless, and no model decides what it is."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from bytewise.inference.artifact import artifact
from bytewise.inference.convert.convert import ConversionOptions, convert
from bytewise.inference.convert.make import make_model
from bytewise.inference.tokenizer import Tokenizer
from bytewise.protocol.encoding import to_json
from bytewise.protocol.records.request import DecodePolicy
from serving.openai import read_chat_request
from serving.request_builder import make_request
from tests.fixtures.serving.least_request import LEAST
from tests.fixtures.serving.offer import OFFER, WORLD

RECOMMENDED: dict[str, Any] = {
    "do_sample": True,
    "temperature": 0.6,
    "top_p": 0.9,
    "top_k": 20,
    "max_new_tokens": 7,
    "eos_token_id": 257,
}


def signed_policy(folder: Path, recommended: dict[str, Any]) -> DecodePolicy:
    """Decode policy of the least request to a model whose makers recommend that."""
    make_model(folder / "checkpoint", 7, layers=1, width=64, heads=4, key_value_heads=2, context=256)
    (folder / "checkpoint" / "generation_config.json").write_text(json.dumps(recommended))
    convert(folder / "checkpoint", folder / "artifact", options=ConversionOptions(equalise=False))
    loaded = artifact.load(folder / "artifact")
    assert loaded.manifest.generation.temperature == ("0.6" if recommended.get("do_sample") else "0")
    limits = replace(OFFER.environment.limits, vocabulary=264)
    offer = replace(OFFER, environment=replace(OFFER.environment, limits=limits))
    request, _ = make_request(read_chat_request(LEAST), offer, Tokenizer(loaded), WORLD.client, lambda count: bytes(count), 0)
    return request.decode


def test_omitted_parameters_are_signed_with_api_defaults_under_every_model(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    (tmp_path / "drawn").mkdir()
    plain = signed_policy(tmp_path / "plain", {"eos_token_id": 257})
    assert plain == signed_policy(tmp_path / "drawn", RECOMMENDED)
    assert (plain.temperature, plain.top_p, plain.top_k, plain.min_p, plain.repetition_penalty) == ("1", "1", 0, "0", "1")
    assert plain.stop_tokens == (257,) and plain.max_new_tokens > 7
    # Nothing is left to be filled in by whoever verifies.
    written = to_json(plain)
    assert {name for name, value in written.items() if value is None} == {"logprobs", "grammar"}
