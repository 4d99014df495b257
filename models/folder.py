"""The checkpoint folder of the lighthouse model, and the tokenizer in it. `transformers` loads the folder, and `bytewise model
convert` converts it.

The tokenizer is byte-level BPE. It is learnt from the training text, and has the control tokens of
`bytewise.inference.convert.make`.
"""

import json
from collections.abc import Iterable
from pathlib import Path

import torch
from safetensors.torch import save
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM

from bytewise.inference.convert.make import CHAT_TEMPLATE, SPECIAL_TOKENS

VOCABULARY_SIZE = 4096
"""Number of tokens: control tokens, 256 bytes and merges."""


def learn(texts: Iterable[str], size: int = VOCABULARY_SIZE) -> Tokenizer:
    """Returns a tokenizer with `size` tokens. Control tokens have the first ids, in their order."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


CONTEXT = 1024
"""Most tokens of prompt and answer together."""

NOT_OF_THE_MODEL = {
    "_name_or_path", "attention_dropout", "chunk_size_feed_forward", "id2label", "initializer_range", "is_encoder_decoder",
    "label2id", "output_attentions", "output_hidden_states", "pad_token_id", "pretraining_tp", "problem_type", "return_dict",
    "use_cache",
}  # fmt: skip
"""Members of the configuration that are about the library itself, about training or about other tasks. The folder leaves them
out."""


def shape(tokenizer: Tokenizer) -> LlamaConfig:
    """Returns the configuration of a Llama with 3.1 million parameters. It is small enough to train in an hour on one core, and
    deep enough to write sentences."""
    return LlamaConfig(
        hidden_size=192, intermediate_size=512, num_hidden_layers=6, num_attention_heads=6, num_key_value_heads=2,
        vocab_size=tokenizer.get_vocab_size(), max_position_embeddings=CONTEXT, tie_word_embeddings=True, rms_norm_eps=1e-5,
        bos_token_id=tokenizer.token_to_id(SPECIAL_TOKENS[0]), eos_token_id=tokenizer.token_to_id(SPECIAL_TOKENS[1]),
    )  # fmt: skip


def write(model: LlamaForCausalLM, tokenizer: Tokenizer, path: Path) -> None:
    """Writes the folder with weights rounded to bfloat16. Each file is replaced atomically, so an interruption leaves no file
    half-written."""
    begin, end = SPECIAL_TOKENS[:2]
    weights = {
        name: tensor.detach().to(torch.bfloat16).contiguous()
        for name, tensor in model.state_dict().items()
        if name != "lm_head.weight"  # tied to the embedding
    }
    known = {name: value for name, value in model.config.to_dict().items() if name not in NOT_OF_THE_MODEL}
    config = known | {"architectures": ["LlamaForCausalLM"], "dtype": "bfloat16"}
    special = {"bos_token": begin, "eos_token": end}
    files = {
        "config.json": _json(config),
        "generation_config.json": _json({"bos_token_id": model.config.bos_token_id, "eos_token_id": model.config.eos_token_id}),
        "tokenizer.json": tokenizer.to_str(pretty=True).encode() + b"\n",
        "tokenizer_config.json": _json({"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": CONTEXT} | special),
        "chat_template.jinja": CHAT_TEMPLATE.encode(),
        "model.safetensors": save(weights, metadata={"format": "pt"}),
    }
    path.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        partial = path / f".{name}.partial"
        partial.write_bytes(data)
        partial.replace(path / name)


def _json(value: object) -> bytes:
    return json.dumps(value, indent=2, sort_keys=True).encode() + b"\n"
