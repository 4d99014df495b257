"""A key service in one file: wraps what it reads under a key of its own, as the command of a shard's settings.

    python wrapper.py KEY_FILE wrap|unwrap [FAULT]

It is a program of its own and imports nothing of ours. FAULT makes it one that goes wrong in the named way.
"""

import base64
import os
import sys
import time
from pathlib import Path

from cryptography.fernet import Fernet


def main() -> int:
    """Reads stdin, writes stdout; the exit code."""
    key_file, verb, *fault = sys.argv[1:]
    given = sys.stdin.buffer.read()
    match fault:
        case ["silent"]:
            return 0
        case ["slow"]:
            time.sleep(600)
            return 0
        case ["failing"]:
            print(f"no such key: {given.hex()}", file=sys.stderr)
            return 3
        case ["short"]:
            os.write(1, b"\0" * 31)
            return 0
        case ["other"]:
            os.write(1, bytes(range(32)))
            return 0
        case ["long"]:
            sys.stdout.write("x" * 20_000)
            return 0
        case ["open", form]:
            print({"hex": given.hex(), "HEX": given.hex().upper(), "base64": base64.b64encode(given).decode()}.get(form, ""))
            sys.stdout.flush()
            os.write(1, given if form == "bytes" else b"")
            return 0
    box = Fernet(Path(key_file).read_bytes())
    sys.stdout.buffer.write(box.encrypt(given) if verb == "wrap" else box.decrypt(given))
    return 0


if __name__ == "__main__":
    sys.exit(main())
