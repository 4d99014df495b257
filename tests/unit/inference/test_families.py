"""Every family: the graph is transformers' own, the bytes are the same on every way, and what is not understood is refused."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from bytewise.inference.convert import checkpoint
from bytewise.inference.convert.convert import convert
from bytewise.inference.determinism import fixed
from bytewise.inference.dispatch_guard import guarded
from bytewise.inference.engine_paths import HeadRow
from bytewise.inference.exact import rope
from bytewise.inference.exact.matmul import Float32Backend, Float64Backend
from bytewise.inference.known_answers.operations import integers
from bytewise.inference.torch_path import Runner
from bytewise.protocol.errors.actors import UnsupportedModel
from tests.fixtures.inference.tiny import LLAMA3, VARIANTS, YARN, tiny, write_checkpoint

TOKENS = [abs(n) for n in integers("family", 24, 255)]
SHORTER = TOKENS[3:12]


def logits_of(rows: list[HeadRow]) -> torch.Tensor:
    """All logits, none missing."""
    found = [row.logits for row in rows if row.logits is not None]
    assert len(found) == len(rows)
    return torch.stack(found)


@pytest.mark.parametrize("variant", VARIANTS)
def test_bytes_are_the_same_in_prefill_chunks_batch_and_decode(variant: str, tmp_path: Path) -> None:
    model = tiny(variant, tmp_path)
    runner, other = Runner(model, Float64Backend()), Runner(model, Float32Backend())
    with fixed(1), guarded(True):
        whole = runner.teacher_force(runner.cache(1, 64), [TOKENS], [0])[0]
        batch = other.teacher_force(other.cache(3, 64), [SHORTER, TOKENS, TOKENS[:1]], [0, 0, 0], chunk=7)
    with fixed(1):
        alone = runner.teacher_force(runner.cache(1, 64), [SHORTER], [0])[0]
        cache = runner.cache(1, 64)
        steps = [runner.feed(cache, token, position) for position, token in enumerate(TOKENS)]
    for found, right in ((batch[1], whole), (steps, whole), (batch[0], alone), (batch[2], whole[:1])):
        assert [(row.row, row.exponent) for row in found] == [(row.row, row.exponent) for row in right]
        assert torch.equal(logits_of(found), logits_of(right))


@pytest.mark.parametrize("variant", VARIANTS)
def test_graph_is_the_one_of_transformers(variant: str, tmp_path: Path) -> None:
    model = tiny(variant, tmp_path)
    floats, report = AutoModelForCausalLM.from_pretrained(
        tmp_path / "checkpoint", dtype=torch.float32, attn_implementation="eager", output_loading_info=True
    )
    assert not report["missing_keys"] and not report["unexpected_keys"] and not report["mismatched_keys"]
    runner = Runner(model, Float64Backend())
    exact = logits_of(runner.teacher_force(runner.cache(1, 64), [TOKENS], [0])[0])
    with torch.inference_mode():
        plain = floats.eval()(torch.tensor([TOKENS])).logits[0]
    signal, noise = float((plain * plain).sum()), float(((plain - exact) ** 2).sum())
    # 25 dB: weights of 8 bits on random models of width 16. A part of the graph that is missing or misplaced costs far more.
    assert signal > 316 * noise


def test_plain_graph_without_its_window_or_caps_is_far_from_the_exact_one(tmp_path: Path) -> None:
    # The test above would be worth nothing if these parts did not matter to the logits.
    model = tiny("gemma2", tmp_path)
    runner = Runner(model, Float64Backend())
    exact = logits_of(runner.teacher_force(runner.cache(1, 64), [TOKENS], [0])[0])
    for changes in ({"sliding_window": 512}, {"attn_logit_softcapping": None}, {"query_pre_attn_scalar": 3}):
        floats = AutoModelForCausalLM.from_pretrained(
            tmp_path / "checkpoint", dtype=torch.float32, attn_implementation="eager", **changes
        )
        with torch.inference_mode():
            plain = floats.eval()(torch.tensor([TOKENS])).logits[0]
        assert float((plain * plain).sum()) < 316 * float(((plain - exact) ** 2).sum()), changes


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("llama", {"model_type": "phi3"}, "architecture phi3"),
    ("llama", {"architectures": ["MistralForCausalLM"]}, "architecture llama"),
    ("llama", {"hidden_act": "relu"}, "activation relu"),
    ("gemma2", {"hidden_activation": "gelu"}, "activation gelu"),
    ("llama", {"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}}, "rope type dynamic"),
    ("llama", {"rope_scaling": {"rope_type": "longrope", "factor": 2.0}}, "rope type longrope"),
    ("llama", {"rope_scaling": {"rope_type": "linear"}}, "rope"),
    ("qwen2", {"rope_scaling": YARN | {"mystery": 1}}, "rope type yarn: unknown member mystery"),
    ("qwen2-window", {"rope_parameters": {"full_attention": {"rope_type": "default"}}}, "rope"),
    ("llama", {"partial_rotary_factor": 0.5}, "partial rotary"),
    ("llama", {"qk_clip": 5.0}, "unknown member qk_clip"),
    ("llama", {"sliding_window": 64}, "unknown member sliding_window"),
    ("llama", {"auto_map": {"AutoModel": "mine.Model"}}, "unknown member auto_map"),
    ("llama", {"is_encoder_decoder": True}, "is_encoder_decoder is True"),
    ("mistral", {"attention_bias": True}, "unknown member attention_bias"),
    ("mistral", {"sliding_window": -1}, "sliding_window -1"),
    ("qwen2-window", {"layer_types": ["full_attention", "chunked_attention"]}, "chunked_attention"),
    ("qwen2-window", {"layer_types": ["full_attention"]}, "layer_types"),
    ("qwen2", {"use_sliding_window": False, "layer_types": ["sliding_attention"] * 2}, "sliding_window 0"),
    ("gemma2", {"use_bidirectional_attention": True}, "use_bidirectional_attention is True"),
    ("gemma2", {"attn_logit_softcapping": -1.0}, "attn_logit_softcapping -1"),
    ("gemma2", {"final_logit_softcapping": 1e9}, "final_logit_softcapping 1"),
    ("gemma2", {"query_pre_attn_scalar": 0}, "query_pre_attn_scalar 0"),
    ("mixtral", {"num_experts_per_tok": 5}, "num_experts_per_tok 5 of 4"),
    ("qwen3_moe", {"norm_topk_prob": False}, "norm_topk_prob is False"),
    ("qwen3_moe", {"mlp_only_layers": [1]}, r"mlp_only_layers is \[1\]"),
    ("qwen3_moe", {"decoder_sparse_step": 2}, "decoder_sparse_step is 2"),
    ("qwen3_moe", {"num_experts": 0}, "num_experts_per_tok 3 of 0"),
    ("llama", {"rms_norm_eps": 1e-20}, "rms_norm_eps"),
    ("llama", {"max_position_embeddings": 2**20}, "context of 1048576"),
    ("llama", {"num_hidden_layers": 0}, "a size below 1"),
    ("llama", {"num_hidden_layers": 10**9}, "more than 1024 layers"),
    ("llama", {"rope_scaling": [1]}, "not an object"),
    ("llama", {"rope_theta": 0}, "no angles"),
    ("llama", {"rope_theta": -1.0}, "no angles"),
    ("llama", {"rope_theta": float("nan")}, "no angles"),
    ("qwen2", {"rope_scaling": YARN | {"attention_factor": float("nan")}}, "no angles: attention_factor is nan"),
    ("qwen2", {"rope_scaling": YARN | {"attention_factor": 10**400}}, "no angles"),
    ("qwen2", {"rope_scaling": YARN | {"attention_factor": 0}}, "no angles: attention_factor is 0"),
    ("qwen2", {"rope_scaling": YARN | {"attention_factor": 0.0}}, "no angles: attention_factor is 0.0"),
    ("qwen2", {"rope_scaling": YARN | {"attention_factor": 1e-40}}, "beyond use"),
    ("qwen2", {"rope_scaling": YARN | {"mscale": 1.0, "mscale_all_dim": 1e300}}, "beyond use"),
    ("llama", {"rope_theta": 1e300}, "beyond use"),
    ("qwen2", {"rope_scaling": YARN | {"original_max_position_embeddings": 0}}, "division by zero"),
    ("qwen2", {"rope_scaling": YARN | {"truncate": "false"}}, "no angles: truncate is false"),
    ("qwen2", {"rope_scaling": YARN | {"truncate": 0}}, "no angles: truncate is 0"),
    ("llama", {"rope_scaling": {"rope_type": "linear", "factor": -2.0}}, "no angles: factor is -2"),
    ("llama", {"rope_scaling": {"rope_type": "linear", "factor": 0}}, "no angles: factor is 0"),
    ("llama", {"rope_scaling": {"rope_type": "linear", "factor": "2"}}, "factor"),
    ("llama", {"rope_scaling": {"rope_type": "linear", "factor": True}}, "factor"),
    ("llama", {"eos_token_id": -1}, "eos_token_id is -1, the vocabulary"),
    ("llama", {"eos_token_id": [2, 10**6]}, "eos_token_id is 1000000, the vocabulary"),
    ("llama", {"eos_token_id": True}, "eos_token_id"),
    ("llama", {"eos_token_id": "2"}, "eos_token_id"),
    ("llama", {"eos_token_id": [1] * 1025}, "eos_token_id names 1025 tokens"),
    ("llama", {"bos_token_id": -1}, "bos_token_id is -1, the vocabulary"),
    ("llama", {"bos_token_id": 2.5}, "bos_token_id"),
    ("llama", {"bos_token_id": 10**6}, "bos_token_id is 1000000, the vocabulary"),
    ("llama", {"intermediate_size": 4}, "fewer than 8"),
    ("llama", {"hidden_size": "16"}, "hidden_size"),
    ("qwen3", {"head_dim": 5}, "even rotary dimension"),
]


@pytest.mark.parametrize(("variant", "changes", "named"), REFUSED, ids=[f"{v}-{next(iter(c))}-{n[:12]}" for v, c, n in REFUSED])
def test_member_that_would_change_the_computation_is_refused_by_name(
    variant: str, changes: dict[str, Any], named: str, tmp_path: Path
) -> None:
    write_checkpoint(variant, tmp_path / "checkpoint")
    config = tmp_path / "checkpoint" / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | changes))
    with pytest.raises(UnsupportedModel, match=named):
        convert(tmp_path / "checkpoint", tmp_path / "artifact")
    assert not (tmp_path / "artifact").exists()


def test_members_switched_off_or_for_training_only_change_nothing(tmp_path: Path) -> None:
    write_checkpoint("mixtral", tmp_path / "plain")
    write_checkpoint(
        "mixtral", tmp_path / "noted", router_jitter_noise=0.1, router_aux_loss_coef=0.5, attention_dropout=0.2, qk_clip=None,
        attention_bias=False, transformers_version="4.0.0", sliding_window=4096,
    )  # fmt: skip
    assert checkpoint.read(tmp_path / "plain").architecture == checkpoint.read(tmp_path / "noted").architecture


@pytest.mark.parametrize(
    "parameters",
    [
        {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 512},
        {"rope_type": "yarn", "factor": 40.0, "original_max_position_embeddings": 4096, "mscale": 0.7, "mscale_all_dim": 1.0},
        {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 256, "attention_factor": 1.5, "truncate": False},
        {"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 64, "beta_fast": 1.0, "beta_slow": 1.0},
        {"rope_type": "linear", "factor": 3.0},
        LLAMA3,
    ],
    ids=["yarn", "yarn with mscale", "yarn stated", "yarn of one bound", "linear", "llama3"],
)  # fmt: skip
def test_scaled_frequencies_are_those_of_transformers(parameters: dict[str, Any], tmp_path: Path) -> None:
    write_checkpoint("qwen3", tmp_path / "checkpoint", head_dim=64, rope_scaling=parameters, max_position_embeddings=4096)
    source = checkpoint.read(tmp_path / "checkpoint")
    frequencies, gain = ROPE_INIT_FUNCTIONS[parameters["rope_type"]](AutoConfig.from_pretrained(tmp_path / "checkpoint"), "cpu")
    positions = torch.tensor([0, 1, 255, 256, 1023])
    cos, sin = rope.rows(rope.factor_tables(source.rope, 64, 1024), positions)
    angles = positions[:, None].to(torch.float64) * frequencies.to(torch.float64)
    assert torch.allclose(cos[:, :32].to(torch.float64), angles.cos() * gain, atol=1e-3)
    assert torch.allclose(sin[:, 32:].to(torch.float64), angles.sin() * gain, atol=1e-3)
