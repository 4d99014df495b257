"""A command of the operator's that wraps and unwraps a key: a key service, a PKCS#11 token, a TPM. Bytes in, bytes out.

The key is in no argument, no variable, no file and no log line: it goes through pipes. What the command says on stderr is
dropped, for it may hold the key.
"""

import os
import signal
import subprocess
from collections.abc import Sequence

from bytewise.protocol.errors import ConfigurationError, TryAgain
from bytewise.service.settings import child_environment

MAX_OUTPUT_BYTES = 16_384
"""Far above what any key service makes of 32 bytes."""
_BY_HAND = "run it by hand to see why (what it says on stderr is dropped here, for it may hold the key)"


def ask(setting: str, command: Sequence[str], given: bytes, limit_s: float) -> bytes:
    """What the command prints when it reads these bytes. `setting` names it in errors.

    `TryAgain` if it fails, or has not ended after `limit_s` seconds (it is killed then, with what it started);
    `ConfigurationError` if it cannot be started, or prints nothing or too much.
    """
    out, code = _run(setting, command, given, limit_s)
    if code:
        raise TryAgain(_named(setting, command), f"it ended with exit code {code}; {_BY_HAND}")
    if not out:
        raise ConfigurationError(
            _named(setting, command), "it ended well and printed nothing; it must print its result on stdout"
        )
    if len(out) > MAX_OUTPUT_BYTES:
        raise ConfigurationError(
            _named(setting, command), f"it printed {len(out)} bytes; a wrapped key has {MAX_OUTPUT_BYTES} at most"
        )
    return out


def _run(setting: str, command: Sequence[str], given: bytes, limit_s: float) -> tuple[bytes, int]:
    try:
        process = subprocess.Popen(
            list(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=child_environment(),
            start_new_session=True,
        )  # fmt: skip
    except (OSError, ValueError) as error:
        why = (error.strerror or type(error).__name__) if isinstance(error, OSError) else str(error)
        raise ConfigurationError(_named(setting, command), f"it cannot be started: {why}") from None
    with process:
        try:
            out, _ = process.communicate(given, limit_s)
        except subprocess.TimeoutExpired:
            # The whole group: what a shell started would keep the pipe, and the key, for longer.
            os.killpg(process.pid, signal.SIGKILL)
            why = f"no end after {limit_s:g} s, and it was killed; is the key service there? `wrap_limit_s` is the longest wait"
            raise TryAgain(_named(setting, command), why) from None
    return out, process.returncode


def _named(setting: str, command: Sequence[str]) -> str:
    return f"{setting} ({command[0]})"
