"""Runs llama.cpp as a peer: writes a GGUF file of a checkpoint, or serves one. It needs the environment of `bench/peers.txt`.

`python -m bench.peer_llamacpp convert CHECKPOINT OUT.gguf` or `python -m bench.peer_llamacpp serve FILE.gguf THREADS CONTEXT`.
"""

import ctypes
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import gguf
import llama_cpp
import numpy as np
from numpy.typing import NDArray

from bench.worker import Claim, serve

NAMES = {
    "model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output", "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
}  # fmt: skip
"""Names of tensors in `transformers` and in GGUF. For a tensor of a layer, it is the part of the name after the layer's
number."""

Floats = NDArray[np.float32]


def convert(checkpoint: Path, out: Path) -> None:
    """Writes the checkpoint of a Llama as GGUF, with Q8_0 matrices. The file has no tokenizer, because requests to the peer are
    token ids."""
    config = json.loads((checkpoint / "config.json").read_text())
    writer = gguf.GGUFWriter(out, "llama")
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_rope_dimension_count(config["head_dim"])
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_tokenizer_model("none")
    for name, values in _tensors(checkpoint):
        for part, kind in (("q_proj", "num_attention_heads"), ("k_proj", "num_key_value_heads")):
            if part in name:
                values = _interleave(values, config[kind])
        if values.ndim == 1:
            writer.add_tensor(_renamed(name), values)
        else:
            packed = gguf.quants.quantize(values, gguf.GGMLQuantizationType.Q8_0)
            writer.add_tensor(_renamed(name), packed, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _renamed(name: str) -> str:
    stem = name.removesuffix(".weight")
    prefix = ""
    if stem.startswith("model.layers."):
        _, _, layer, stem = stem.split(".", 3)
        prefix = f"blk.{layer}."
    return f"{prefix}{NAMES[stem]}.weight"


def _interleave(values: Floats, heads: int) -> Floats:
    # In GGUF, Llama's rotation pairs neighbouring elements. In `transformers` it pairs the two halves of a head.
    rows, columns = values.shape
    return values.reshape(heads, 2, rows // heads // 2, columns).swapaxes(1, 2).reshape(rows, columns)


def _tensors(checkpoint: Path) -> Iterator[tuple[str, Floats]]:
    # A safetensors file is a length, a JSON header and the bytes. NumPy has no bfloat16, which is the upper half of a float32.
    for file in sorted(checkpoint.glob("*.safetensors")):
        raw = np.memmap(file, np.uint8, "r")
        length = int(raw[:8].view("<u8")[0])
        for name, entry in json.loads(bytes(raw[8 : 8 + length])).items():
            if name != "__metadata__":
                assert entry["dtype"] == "BF16", f"{name} is {entry['dtype']}: the benchmark writes bfloat16"
                first, last = (8 + length + offset for offset in entry["data_offsets"])
                bits = raw[first:last].view("<u2").astype(np.uint32) << 16
                yield name, bits.view(np.float32).reshape(entry["shape"])


class LlamaCpp:
    """A GGUF file in llama.cpp, called through its C functions, so that the Python wrapper's own layers cost no time."""

    def __init__(self, path: Path, threads: int, context: int) -> None:
        llama_cpp.llama_backend_init()
        self.name = f"llama-cpp-python {llama_cpp.__version__}"
        settings = llama_cpp.llama_context_default_params()
        settings.n_ctx = context
        settings.n_threads = settings.n_threads_batch = threads
        settings.no_perf = True
        self._model = llama_cpp.llama_model_load_from_file(str(path).encode(), llama_cpp.llama_model_default_params())
        assert self._model, f"llama.cpp does not load {path.name}"
        self._context = llama_cpp.llama_init_from_model(self._model, settings)
        self._vocabulary = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(self._model))
        self._step = int(settings.n_batch)

    def _feed(self, tokens: Sequence[int]) -> Floats:
        # Returns the logits of the last token only, as llama.cpp computes them by default.
        for start in range(0, len(tokens), self._step):
            part = tokens[start : start + self._step]
            array = (llama_cpp.llama_token * len(part))(*part)
            failed = llama_cpp.llama_decode(self._context, llama_cpp.llama_batch_get_one(array, len(part)))
            assert not failed, f"llama_decode gave {failed}"
        pointer = llama_cpp.llama_get_logits_ith(self._context, -1)
        return np.ctypeslib.as_array(ctypes.cast(pointer, ctypes.POINTER(ctypes.c_float)), (self._vocabulary,))

    def _start(self, tokens: Sequence[int]) -> Floats:
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self._context), False)
        return self._feed(tokens)

    def generate(self, prompt: Sequence[int], count: int) -> list[int]:
        """Generates `count` tokens greedily."""
        tokens = [int(self._start(prompt).argmax())]
        while len(tokens) < count:
            tokens.append(int(self._feed(tokens[-1:]).argmax()))
        return tokens

    def prepare(self, claims: Sequence[Claim]) -> None:
        """Does nothing, because a prefill does not depend on an answer."""

    def judge(self, claims: Sequence[Claim], together: bool) -> None:
        """Prefills as many tokens as a verifier feeds: prompt and answer without its last token."""
        assert not together, "one sequence at a time"
        for prompt, count in claims:
            self._start([*prompt, *[prompt[0]] * (count - 1)])

    def logits(self, tokens: Sequence[int]) -> Sequence[float]:
        """Returns the logits after the last token."""
        return list(self._start(tokens))


def main(arguments: list[str]) -> None:
    """Converts a checkpoint or serves a file, as the arguments say."""
    match arguments:
        case ["convert", checkpoint, out]:
            convert(Path(checkpoint), Path(out))
        case ["serve", path, threads, context]:
            serve(lambda: LlamaCpp(Path(path), int(threads), int(context)))
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
