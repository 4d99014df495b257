"""Making, converting and loading: the same bytes every time, and refusals that name what is wrong."""

import dataclasses
import json
import math
import os
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file
from safetensors.torch import save_file as save_torch

from bytewise.inference.artifact import artifact
from bytewise.inference.artifact.artifact import Artifact, model_id_line
from bytewise.inference.convert.convert import convert
from bytewise.inference.convert.make import make_model
from bytewise.inference.engine import ExactEngine
from bytewise.inference.exact.matmul import Float64Backend
from bytewise.inference.exact.quantise import round_weight
from bytewise.inference.manifest import Manifest
from bytewise.inference.torch_path import build
from bytewise.protocol import digests
from bytewise.protocol.digests import Label
from bytewise.protocol.encoding import encode
from bytewise.protocol.errors.actors import ArtifactMismatch, CannotExecute, ConfigurationError, UnsupportedModel
from tests.fixtures.inference.altered_artifact import altered
from tests.fixtures.inference.models import policy, request

CHECKPOINT_DIGEST = "6de849edc4260bde5ffb811cc79ba145890a2786c15ad643e76a934beaa8b1cf"
MODEL_ID = "d8cdc2f75d510bf2e975ecfa425e0e3d41493c4a7caaa0aa0241334edbdef5b0"


@pytest.fixture
def checkpoint(model: Artifact, tmp_path: Path) -> Path:
    """A copy of the small checkpoint, to be spoiled."""
    return Path(shutil.copytree(model.path.parent / "checkpoint", tmp_path / "checkpoint"))


def configured(checkpoint: Path, **changes: Any) -> Path:
    """The checkpoint with another config.json."""
    config = json.loads((checkpoint / "config.json").read_text()) | changes
    (checkpoint / "config.json").write_text(json.dumps(config))
    return checkpoint


def test_full_size_model_keeps_its_bytes(tmp_path: Path) -> None:
    make_model(tmp_path / "checkpoint", 7)
    weights = (tmp_path / "checkpoint" / "model.safetensors").read_bytes()
    assert digests.sha256(weights).hex() == CHECKPOINT_DIGEST
    assert convert(tmp_path / "checkpoint", tmp_path / "artifact").hex() == MODEL_ID
    shape = artifact.load(tmp_path / "artifact").manifest.architecture
    assert (shape.layers, shape.width, shape.heads, shape.key_value_heads, shape.vocabulary) == (4, 256, 8, 2, 264)


def test_checkpoint_that_is_converted_again_gives_the_same_model_id(model: Artifact, tmp_path: Path) -> None:
    again = convert(model.path.parent / "checkpoint", tmp_path / "elsewhere")
    assert again == model.model_id == artifact.model_id_of(model.path)
    for file in model.path.iterdir():
        assert file.read_bytes() == (tmp_path / "elsewhere" / file.name).read_bytes()


def test_another_seed_is_another_model(model: Artifact, other_model: Artifact) -> None:
    assert model.model_id != other_model.model_id
    assert model.tokenizer_digest == other_model.tokenizer_digest


def test_nothing_is_overwritten(model: Artifact) -> None:
    with pytest.raises(ConfigurationError, match="exists"):
        make_model(model.path.parent / "checkpoint", 1)
    with pytest.raises(ConfigurationError, match="exists"):
        convert(model.path.parent / "checkpoint", model.path)


@pytest.mark.parametrize("name", ["weights.safetensors", "tokenizer.json", "chat_template.jinja"])
@pytest.mark.parametrize("fault", ["flipped", "longer", "shorter", "missing"])
def test_file_with_other_bytes_is_refused_by_name(model: Artifact, tmp_path: Path, name: str, fault: str) -> None:
    folder = Path(shutil.copytree(model.path, tmp_path / "spoiled"))
    raw = (folder / name).read_bytes()
    spoiled = {"flipped": raw[:-1] + bytes([raw[-1] ^ 1]), "longer": raw + b"\0", "shorter": raw[:-1], "missing": None}[fault]
    (folder / name).unlink()
    if spoiled is not None:
        (folder / name).write_bytes(spoiled)
    with pytest.raises(ArtifactMismatch, match=name):
        artifact.load(folder)


def test_manifest_not_canonical_or_of_another_format_is_refused(model: Artifact, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(model.path, tmp_path / "spoiled"))
    raw = (folder / "manifest.json").read_bytes()
    for spoiled in (raw + b"\n", raw.replace(b"exact-1", b"other-1"), b"{}", raw.replace(b"tokenizer.json", b"../../x/y.json")):
        (folder / "manifest.json").write_bytes(spoiled)
        with pytest.raises(ArtifactMismatch):
            artifact.load(folder)
    (folder / "manifest.json").unlink()
    with pytest.raises(CannotExecute, match="no artifact"):
        artifact.load(folder)


def test_flipped_manifest_digit_is_refused_or_is_another_model_by_its_id(model: Artifact, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(model.path, tmp_path / "other"))
    changed = (folder / "manifest.json").read_bytes().replace(b'"stop_tokens":[257]', b'"stop_tokens":[258]')
    (folder / "manifest.json").write_bytes(changed)
    with pytest.raises(ArtifactMismatch, match=r"manifest.json is not the one that model_id names"):
        artifact.load(folder)
    other = digests.labelled(Label.ARTIFACT, changed)
    (folder / "model_id").write_text(f"0x{other.hex()}\n")
    assert artifact.load(folder).model_id == other != model.model_id


def test_flipped_byte_of_a_tensor_is_refused_by_the_name_of_the_tensor(model: Artifact, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(model.path, tmp_path / "spoiled"))
    weights = next(file for file in model.manifest.files if file.name == "weights.safetensors")
    offset, file = 0, folder / "weights.safetensors"
    raw = file.read_bytes()
    assert weights.pieces[0].name == "header" and {piece.name for piece in weights.pieces[1:]} == model.tensors.keys()
    for piece in weights.pieces:
        middle = offset + piece.size // 2
        file.write_bytes(raw[:middle] + bytes([raw[middle] ^ 0x10]) + raw[middle + 1 :])
        with pytest.raises(ArtifactMismatch, match=rf"weights.safetensors: bytes in {re.escape(piece.name)} differ"):
            artifact.load(folder)
        offset += piece.size
    file.write_bytes(raw)
    assert artifact.load(folder).model_id == model.model_id and offset == len(raw)


def test_header_of_other_tensors_is_refused_though_every_digest_fits(model: Artifact, tmp_path: Path) -> None:
    shape = dataclasses.replace(model.manifest.architecture, key_value_heads=4)
    folder = relabelled(model, tmp_path / "heads", dataclasses.replace(model.manifest, architecture=shape))
    with pytest.raises(ArtifactMismatch, match="not the tensors of a llama of this shape"):
        artifact.load(folder)
    endless = dataclasses.replace(model.manifest.architecture, layers=2**50)
    folder = relabelled(model, tmp_path / "layers", dataclasses.replace(model.manifest, architecture=endless))
    with pytest.raises(ArtifactMismatch, match="fewer tensors than layers"):
        artifact.load(folder)


def relabelled(model: Artifact, folder: Path, manifest: Manifest) -> Path:
    """The artifact with another manifest and the model id that belongs to it."""
    shutil.copytree(model.path, folder)
    (folder / "manifest.json").write_bytes(encode(manifest))
    (folder / "model_id").write_bytes(model_id_line(manifest.model_id))
    return folder


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        # The C engine would write before its memory.
        ({"windows": (-100_000, 0)}, "windows"), ({"windows": (5,)}, "windows"), ({"windows": (2**17 + 1, 0)}, "windows"),
        # The C engine would apply these norms, the graph of a Llama would not: one model id, two answers.
        ({"query_key_norm": True}, "norms"), ({"extra_norms": True}, "norms"),
        ({"experts": 2, "experts_per_token": 1}, "experts"),
        ({"family": "mixtral", "experts": 2, "experts_per_token": 5}, "experts"),
        ({"layers": 0}, "size"), ({"key_value_heads": 3}, "heads"), ({"head_width": 15}, "width"),
        # The C engine would run it, the graph of a Llama cannot be built.
        ({"width": 65}, "not a multiple"), ({"max_context": 2**18}, "context"),
    ],
)  # fmt: skip
def test_impossible_shape_is_refused_although_every_digest_fits(
    model: Artifact, tmp_path: Path, changes: dict[str, Any], named: str
) -> None:
    shape = dataclasses.replace(model.manifest.architecture, **changes)
    folder = relabelled(model, tmp_path / "artifact", dataclasses.replace(model.manifest, architecture=shape))
    with pytest.raises(ArtifactMismatch, match=f"manifest.json.*{named}"):
        artifact.load(folder)


@pytest.mark.parametrize(
    "stops", ["264", "258,257", "257,257", "-1", ",".join(map(str, range(1025)))], ids=lambda stops: stops[:12]
)
def test_stop_tokens_no_request_can_carry_are_refused_though_digests_fit(model: Artifact, tmp_path: Path, stops: str) -> None:
    folder = Path(shutil.copytree(model.path, tmp_path / "other"))
    changed = (folder / "manifest.json").read_bytes().replace(b'"stop_tokens":[257]', f'"stop_tokens":[{stops}]'.encode())
    if len(stops) > 1000:
        changed = changed.replace(b'"vocabulary":264', b'"vocabulary":4096')
    (folder / "manifest.json").write_bytes(changed)
    (folder / "model_id").write_bytes(model_id_line(digests.labelled(Label.ARTIFACT, changed)))
    with pytest.raises(ArtifactMismatch, match="malformed stop tokens"):
        artifact.load(folder)


@pytest.mark.parametrize("name", ["epsilon", "attention_scale"])
@pytest.mark.parametrize("number", [0.0, -1.0, math.inf, math.nan])
def test_constant_not_positive_and_finite_is_refused_though_digests_fit(
    model: Artifact, tmp_path: Path, name: str, number: float
) -> None:
    with pytest.raises(ArtifactMismatch, match=f"weights.safetensors: {name} is not positive and finite"):
        altered(model, tmp_path / "artifact", {name: torch.tensor([number])})


def test_graph_that_transformers_refuses_to_build_is_an_artifact_mismatch(model: Artifact) -> None:
    shape = dataclasses.replace(model.manifest.architecture, width=model.manifest.architecture.width + 1)
    odd = dataclasses.replace(model, manifest=dataclasses.replace(model.manifest, architecture=shape))
    with pytest.raises(ArtifactMismatch, match=r"manifest.json: .*not a multiple"):
        build(odd, Float64Backend())


def test_change_to_the_file_of_loaded_weights_is_not_seen(model: Artifact, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(model.path, tmp_path / "overwritten"))
    loaded, weights = artifact.load(folder), folder / "weights.safetensors"
    with weights.open("r+b") as file:
        file.write(bytes(weights.stat().st_size))
    assert all(torch.equal(loaded.tensors[name], tensor) for name, tensor in model.tensors.items())
    with pytest.raises(ArtifactMismatch, match=r"weights.safetensors"):
        artifact.load(folder)


def test_file_that_ends_while_it_is_read_is_refused(model: Artifact, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(model.path, tmp_path / "raced"))

    def tell(name: str, done: int, total: int) -> None:
        if name == "weights.safetensors" and done < total:
            os.truncate(folder / name, 0)

    with pytest.raises(ArtifactMismatch, match=r"weights.safetensors: bytes in .* differ from the manifest"):
        artifact.load(folder, tell)


def test_tensors_begin_at_multiples_of_their_element(model: Artifact) -> None:
    assert all(tensor.data_ptr() % tensor.element_size() == 0 for tensor in model.tensors.values())


def test_loading_reports_progress(model: Artifact) -> None:
    seen: list[tuple[str, int, int]] = []
    artifact.load(model.path, lambda *step: seen.append(step))
    assert {name for name, done, total in seen if done == total} == {file.name for file in model.manifest.files}


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"quantization_config": {"bits": 4}}, "quantised"),
        ({"rope_scaling": {"type": "longrope", "factor": 2.0}}, "rope type longrope"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 2.0, "long_mscale": 2.0}}, "rope type yarn"),
        ({"rms_norm_eps": 0.0}, "rms_norm_eps"),
        ({"num_key_value_heads": 3}, "heads"),
        ({"num_hidden_layers": 1}, "unknown tensors"),
        ({"num_hidden_layers": 3}, "lacks model.layers.2"),
        ({"intermediate_size": 168}, "mlp.gate_proj.weight"),
        ({"mlp_bias": True}, "gate_proj.bias"),
    ],
)
def test_tensor_that_cannot_be_exact_is_refused_by_name(checkpoint: Path, changes: dict[str, Any], named: str) -> None:
    out = checkpoint.parent / "artifact"
    with pytest.raises(UnsupportedModel, match=named):
        convert(configured(checkpoint, **changes), out)
    assert [path.name for path in checkpoint.parent.iterdir()] == ["checkpoint"]


def test_checkpoint_with_a_broken_file_is_refused_by_name(checkpoint: Path) -> None:
    out = checkpoint.parent / "artifact"
    weights = load_file(checkpoint / "model.safetensors")
    weights["model.norm.weight"] = np.full_like(weights["model.norm.weight"], np.nan)
    save_file(weights, checkpoint / "model.safetensors")
    with pytest.raises(UnsupportedModel, match=r"model.norm.weight holds"):
        convert(checkpoint, out)
    (checkpoint / "model.safetensors").write_bytes(b"no tensors")
    with pytest.raises(UnsupportedModel, match=r"model.safetensors"):
        convert(checkpoint, out)
    (checkpoint / "chat_template.jinja").unlink()
    with pytest.raises(UnsupportedModel):
        convert(checkpoint, out)
    assert not out.exists()


def test_bfloat16_biases_tied_heads_and_static_scaling_convert_and_run(checkpoint: Path) -> None:
    tensors = {
        name: torch.from_numpy(array).to(torch.bfloat16) for name, array in load_file(checkpoint / "model.safetensors").items()
    }
    del tensors["lm_head.weight"]
    for layer in range(2):
        for name, size in (("q_proj", 64), ("k_proj", 32), ("v_proj", 32), ("o_proj", 64)):
            tensors[f"model.layers.{layer}.self_attn.{name}.bias"] = torch.full((size,), 0.25, dtype=torch.bfloat16)
    save_torch(tensors, checkpoint / "model.safetensors")
    scaling = {
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    }  # fmt: skip
    configured(checkpoint, tie_word_embeddings=True, attention_bias=True, rope_scaling=scaling)
    convert(checkpoint, checkpoint.parent / "artifact")
    loaded = artifact.load(checkpoint.parent / "artifact")
    asked = request(loaded, b"variants", policy(6))
    answer = ExactEngine(loaded, guard=True).generate(asked)
    assert ExactEngine(loaded, backend="float32").verify(asked, answer.output, answer.out_hash).divergence is None


def test_weights_are_rounded_half_even_under_the_largest_of_their_row() -> None:
    weight = torch.tensor([[127.0, 0.5, 1.5, -2.5], [0.0, 0.0, 0.0, 0.0], [-254.0, 1.0, 3.0, -254.0]])
    rounded = round_weight(weight)
    assert rounded.integers.tolist() == [[127, 0, 2, -2], [0, 0, 0, 0], [-127, 0, 2, -127]]
    assert rounded.scale.tolist() == [1.0, 1.0, 2.0]
