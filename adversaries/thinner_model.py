"""Makes a checkpoint without its last decoder layer, which a dishonest operator serves to save the computation of that layer.

`python -m adversaries.thinner_model CHECKPOINT OUT` keeps tokenizer, template and all other weights as they are.
"""

import argparse
import json
import shutil
import sys
from pathlib import Path
from typing import Any

WEIGHTS = "model.safetensors"


def thin(checkpoint: Path, out: Path) -> None:
    """Writes the thinner checkpoint to `out`, which must not exist. The checkpoint must have a single weights file."""
    shutil.copytree(checkpoint, out, ignore=shutil.ignore_patterns("*.md", "*.txt", "LICENCE"))
    config: dict[str, Any] = json.loads((checkpoint / "config.json").read_bytes())
    config["num_hidden_layers"] -= 1
    (out / "config.json").write_text(json.dumps(config))
    last = f"model.layers.{config['num_hidden_layers']}."
    (out / WEIGHTS).write_bytes(without((checkpoint / WEIGHTS).read_bytes(), last))


def without(data: bytes, prefix: str) -> bytes:
    """Returns a safetensors file without the tensors whose names begin with `prefix`.

    The file is 8 bytes of length, a JSON header with the offsets of each tensor, and the tensors' bytes.
    """
    start = 8 + int.from_bytes(data[:8], "little")
    header: dict[str, dict[str, Any]] = json.loads(data[8:start])
    kept = {name: tensor for name, tensor in header.items() if not name.startswith(prefix)}
    body = b""
    for name, tensor in kept.items():
        if name != "__metadata__":
            first, end = tensor["data_offsets"]
            tensor["data_offsets"] = [len(body), len(body) + end - first]
            body += data[start + first : start + end]
    text = json.dumps(kept).encode()
    text += b" " * (-len(text) % 8)  # keeps the tensors aligned
    return len(text).to_bytes(8, "little") + text + body


def main() -> int:
    """Writes the thinner checkpoint."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkpoint", type=Path, help="checkpoint folder")
    parser.add_argument("out", type=Path, help="folder to write; must not exist")
    arguments = parser.parse_args()
    thin(arguments.checkpoint, arguments.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
