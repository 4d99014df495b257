"""Commands that start the compared engines, and the files that the engines read, made once under `build/bench/`."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from bench import models
from bench.models import Shape
from bytewise.inference.convert.convert import convert
from bytewise.inference.manifest import FORMAT

NATIVE, TORCH, TORCH_ALONE = "bytewise", "bytewise-torch", "bytewise-torch-alone"
LLAMACPP, FLOAT32, BFLOAT16 = "llama.cpp-q8_0", "transformers-fp32", "transformers-bf16"

ROOT = Path("build/bench")
PEER_PYTHON = Path("build/bench-venv/bin/python")
"""Python of the virtual environment with the packages of `bench/peers.txt`, which `make bench-inference` makes."""

Command = list[str | Path]


def commands(shape: Shape, threads: int, context: int, progress: Callable[[str], None]) -> dict[str, Command]:
    """Returns the command that starts each engine on the weights of one model. Makes the files of the model if they are
    missing."""
    progress("checkpoint")
    checkpoint = models.checkpoint(ROOT, shape)
    progress("artifact")
    ours = artifact(shape)
    progress("GGUF file")
    peers = models.cached(ROOT, f"gguf-{shape.name}", checkpoint.name, lambda path: _gguf(checkpoint, path))
    return {
        NATIVE: [sys.executable, "-m", "bench.ours", ours, "native", str(threads)],
        LLAMACPP: [PEER_PYTHON, "-m", "bench.peer_llamacpp", "serve", peers, str(threads), str(context)],
        FLOAT32: [sys.executable, "-m", "bench.peer_transformers", checkpoint, "float32", str(threads)],
        BFLOAT16: [sys.executable, "-m", "bench.peer_transformers", checkpoint, "bfloat16", str(threads)],
        TORCH: [sys.executable, "-m", "bench.ours", ours, "torch", str(threads)],
        TORCH_ALONE: [sys.executable, "-m", "bench.ours", ours, "torch-alone", str(threads)],
    }


def artifact(shape: Shape) -> Path:
    """Returns the folder of our artifact of a model. Makes the artifact if it is missing."""
    checkpoint = models.checkpoint(ROOT, shape)
    return models.cached(ROOT, f"artifact-{shape.name}", [checkpoint.name, FORMAT], lambda path: _convert(checkpoint, path))


def _convert(checkpoint: Path, path: Path) -> None:
    convert(checkpoint, path)


def _gguf(checkpoint: Path, path: Path) -> None:
    subprocess.run([PEER_PYTHON, "-m", "bench.peer_llamacpp", "convert", checkpoint, path], check=True)
