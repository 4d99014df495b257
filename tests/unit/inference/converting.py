"""Conversions in a process of their own: `python -m tests.unit.inference.converting FOLDER`.

Converts the checkpoints `tiny` and `large` of the folder. Prints the model id of the first; of the second the peak memory above
what imports and the first took, and the size of the largest tensor, in bytes.
"""

import sys
from pathlib import Path

from bytewise.inference.artifact import artifact
from bytewise.inference.convert.convert import convert


def resident(field: str) -> int:
    """A field of what the system says of this process's memory, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


def main() -> None:
    """Converts both."""
    folder = Path(sys.argv[1])
    print("model", convert(folder / "tiny", folder / "tiny-artifact").hex())
    before = resident("VmRSS:")
    convert(folder / "large", folder / "large-artifact")
    print("peak", resident("VmHWM:") - before)
    manifest = artifact.read_manifest(folder / "large-artifact")
    print("tensor", max(piece.size for file in manifest.files for piece in file.pieces))


if __name__ == "__main__":
    main()
