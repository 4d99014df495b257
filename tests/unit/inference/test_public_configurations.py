"""Checkpoints as they are published and as transformers saves them: members of config.json that change nothing are read past."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from bytewise.inference.artifact import artifact
from bytewise.inference.artifact.families import FAMILIES
from bytewise.inference.convert import checkpoint
from bytewise.inference.convert.convert import ConversionOptions, convert
from bytewise.inference.exact.matmul import MAX_KEYS
from bytewise.protocol.errors.actors import ConfigurationError, UnsupportedModel
from cli.__main__ import main
from tests.fixtures.inference.tiny import COMMON, VARIANTS, write_checkpoint

SIZES = COMMON.keys() - {"rms_norm_eps", "rope_theta", "tie_word_embeddings", "torch_dtype"} | {
    "head_dim", "num_experts", "num_experts_per_tok", "moe_intermediate_size",
}  # fmt: skip
"""Members that a small checkpoint has other values of."""

PUBLIC: dict[str, tuple[str, dict[str, Any]]] = {
    "Qwen3-30B-A3B": ("qwen3_moe", {
        "architectures": ["Qwen3MoeForCausalLM"], "attention_bias": False, "attention_dropout": 0.0, "bos_token_id": 151643,
        "decoder_sparse_step": 1, "eos_token_id": 151645, "head_dim": 128, "hidden_act": "silu", "hidden_size": 2048,
        "initializer_range": 0.02, "intermediate_size": 6144, "max_position_embeddings": 40960, "max_window_layers": 48,
        "mlp_only_layers": [], "model_type": "qwen3_moe", "moe_intermediate_size": 768, "norm_topk_prob": True,
        "num_attention_heads": 32, "num_experts": 128, "num_experts_per_tok": 8, "num_hidden_layers": 48,
        "num_key_value_heads": 4, "output_router_logits": False, "rms_norm_eps": 1e-06, "rope_scaling": None,
        "rope_theta": 1000000.0, "router_aux_loss_coef": 0.001, "sliding_window": None, "tie_word_embeddings": False,
        "torch_dtype": "bfloat16", "transformers_version": "4.51.0", "use_cache": True, "use_sliding_window": False,
        "vocab_size": 151936,
    }),
    "Qwen3-Coder-30B-A3B": ("qwen3_moe", {
        "architectures": ["Qwen3MoeForCausalLM"], "attention_dropout": 0.0, "decoder_sparse_step": 1, "eos_token_id": 151645,
        "head_dim": 128, "hidden_act": "silu", "hidden_size": 2048, "initializer_range": 0.02, "intermediate_size": 5472,
        "max_position_embeddings": 262144, "max_window_layers": 28, "mlp_only_layers": [], "model_type": "qwen3_moe",
        "moe_intermediate_size": 768, "norm_topk_prob": True, "num_attention_heads": 32, "num_experts": 128,
        "num_experts_per_tok": 8, "num_hidden_layers": 48, "num_key_value_heads": 4, "output_router_logits": False,
        "qkv_bias": False, "rms_norm_eps": 1e-06, "rope_scaling": None, "rope_theta": 10000000, "router_aux_loss_coef": 0.0,
        "shared_expert_intermediate_size": 0, "sliding_window": None, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
        "transformers_version": "4.51.0", "use_cache": True, "use_qk_norm": True, "use_sliding_window": False,
        "vocab_size": 151936,
    }),
    "SmolLM2-135M-Instruct": ("llama", {
        "architectures": ["LlamaForCausalLM"], "attention_bias": False, "attention_dropout": 0.0, "bos_token_id": 1,
        "eos_token_id": 2, "hidden_act": "silu", "hidden_size": 576, "initializer_range": 0.041666666666666664,
        "intermediate_size": 1536, "is_llama_config": True, "max_position_embeddings": 8192, "mlp_bias": False,
        "model_type": "llama", "num_attention_heads": 9, "num_hidden_layers": 30, "num_key_value_heads": 3, "pad_token_id": 2,
        "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_interleaved": False, "rope_scaling": None, "rope_theta": 100000,
        "tie_word_embeddings": True, "torch_dtype": "bfloat16",
        "transformers.js_config": {"kv_cache_dtype": {"q4f16": "float16", "fp16": "float16"}},
        "transformers_version": "4.42.3", "use_cache": True, "vocab_size": 49152,
    }),
    "Falcon3-1B-Instruct": ("llama", {
        "activation": "swiglu", "architectures": ["LlamaForCausalLM"], "attention_bias": False, "attention_dropout": 0.0,
        "eos_token_id": 11, "head_dim": 256, "hidden_act": "silu", "hidden_size": 2048, "initializer_range": 0.02,
        "intermediate_size": 8192, "max_position_embeddings": 8192, "mlp_bias": False, "model_type": "llama",
        "num_attention_heads": 8, "num_hidden_layers": 18, "num_key_value_heads": 4, "pretraining_tp": 1,
        "rms_norm_eps": 1e-06, "rope_scaling": None, "rope_theta": 1000042, "tie_word_embeddings": False,
        "torch_dtype": "bfloat16", "transformers_version": "4.46.1", "use_cache": True, "vocab_size": 131072,
    }),
}  # fmt: skip
"""Members of published config.json; the sizes are not used."""


def written(name: str, folder: Path) -> Path:
    """A small checkpoint whose config.json has the members of a published one."""
    variant, members = PUBLIC[name]
    sizes = {"head_dim": 4} | COMMON | VARIANTS[variant]
    write_checkpoint(
        variant, folder / name, torch.bfloat16, **{each: sizes[each] if each in SIZES else members[each] for each in members}
    )
    assert members_of(folder / name).keys() >= members.keys()
    return folder / name


def members_of(folder: Path) -> dict[str, Any]:
    """config.json of a checkpoint."""
    found: dict[str, Any] = json.loads((folder / "config.json").read_text())
    return found


@pytest.mark.parametrize("name", PUBLIC)
def test_published_members_convert_to_the_model_without_them(name: str, tmp_path: Path) -> None:
    folder = written(name, tmp_path)
    with_them = convert(folder, tmp_path / "artifact", options=ConversionOptions(equalise=False))
    assert artifact.load(tmp_path / "artifact").model_id == with_them
    plain = members_of(folder).keys() & (COMMON.keys() | VARIANTS[PUBLIC[name][0]].keys() | {"architectures"})
    (folder / "config.json").write_text(json.dumps({member: members_of(folder)[member] for member in plain}))
    assert convert(folder, tmp_path / "plain", options=ConversionOptions(equalise=False)) == with_them


@pytest.mark.parametrize("variant", VARIANTS)
def test_checkpoint_that_transformers_saved_again_is_the_same_model(variant: str, tmp_path: Path) -> None:
    write_checkpoint(variant, tmp_path / "ours")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "ours", dtype=torch.float32)
    model.save_pretrained(tmp_path / "theirs")
    for name in ("tokenizer.json", "chat_template.jinja", "generation_config.json"):
        shutil.copyfile(tmp_path / "ours" / name, tmp_path / "theirs" / name)
    ours, theirs = (
        convert(tmp_path / name, tmp_path / f"{name}-artifact", options=ConversionOptions(equalise=False))
        for name in ("ours", "theirs")
    )
    assert ours == theirs


def test_every_family_has_a_public_variant() -> None:
    assert {members["model_type"] for members in VARIANTS.values()} == FAMILIES.keys()


@pytest.mark.parametrize(
    ("name", "changes", "named"),
    [
        ("Qwen3-30B-A3B", {"use_sliding_window": True, "sliding_window": 64}, "max_window_layers is 48"),
        ("Qwen3-30B-A3B", {"num_local_experts": 4}, "num_local_experts is 4"),
        ("Qwen3-30B-A3B", {"num_local_experts": "5"}, "num_local_experts is 5"),
        ("Qwen3-30B-A3B", {"activation": "swiglu"}, "unknown member activation"),
        ("Qwen3-Coder-30B-A3B", {"shared_expert_intermediate_size": 5632}, "shared_expert_intermediate_size is 5632"),
        ("Qwen3-Coder-30B-A3B", {"use_qk_norm": "no"}, "use_qk_norm is no"),
        ("Qwen3-Coder-30B-A3B", {"qkv_bias": True}, "unknown member qkv_bias"),
        ("SmolLM2-135M-Instruct", {"is_llama_config": "no"}, "is_llama_config is no"),
        ("SmolLM2-135M-Instruct", {"rope_interleaved": True}, "unknown member rope_interleaved"),
        ("SmolLM2-135M-Instruct", {"max_window_layers": 4}, "unknown member max_window_layers"),
        ("Falcon3-1B-Instruct", {"activation": "relu"}, "activation is relu"),
        ("Falcon3-1B-Instruct", {"hidden_act": "gelu_pytorch_tanh"}, "activation is swiglu"),
    ],
)
def test_member_neutral_for_one_value_is_refused_for_another(
    name: str, changes: dict[str, Any], named: str, tmp_path: Path
) -> None:
    folder = written(name, tmp_path)
    (folder / "config.json").write_text(json.dumps(members_of(folder) | changes))
    with pytest.raises(UnsupportedModel, match=f"config.json: {named}"):
        checkpoint.read(folder)


def test_long_context_converts_with_a_shorter_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_checkpoint("mistral", tmp_path / "checkpoint", sliding_window=700)
    short = tmp_path / "checkpoint"
    long = shutil.copytree(short, tmp_path / "long")
    (long / "config.json").write_text(json.dumps(members_of(short) | {"max_position_embeddings": 2 * MAX_KEYS}))
    with pytest.raises(UnsupportedModel, match=r"context of 262144 tokens: attention is exact up to 131072; .*--context"):
        convert(long, tmp_path / "refused", options=ConversionOptions(equalise=False))
    assert main(["model", "convert", str(long), str(tmp_path / "long-artifact"), "--context", "512"]) == 0
    # 512 tokens are what the other says of itself: the same model. Its window of 700 is none in either.
    assert capsys.readouterr().out.split()[-1] == f"0x{convert(short, tmp_path / 'artifact').hex()}"
    shape = artifact.load(tmp_path / "long-artifact").manifest.architecture
    assert (shape.max_context, shape.windows) == (512, ())


def test_largest_context_converts(tmp_path: Path) -> None:
    write_checkpoint("llama", tmp_path / "checkpoint")
    config = members_of(tmp_path / "checkpoint") | {"max_position_embeddings": 1_048_576}
    (tmp_path / "checkpoint" / "config.json").write_text(json.dumps(config))
    convert(tmp_path / "checkpoint", tmp_path / "artifact", options=ConversionOptions(equalise=False, context=MAX_KEYS))
    assert artifact.load(tmp_path / "artifact").manifest.architecture.max_context == MAX_KEYS


@pytest.mark.parametrize("context", [0, 513])
def test_context_longer_than_the_checkpoint_has_is_refused(context: int, tmp_path: Path) -> None:
    write_checkpoint("llama", tmp_path / "checkpoint")
    with pytest.raises(ConfigurationError, match=f"--context: {context} tokens, the checkpoint has 1 to 512"):
        convert(tmp_path / "checkpoint", tmp_path / "artifact", options=ConversionOptions(context=context))
    assert not (tmp_path / "artifact").exists()
