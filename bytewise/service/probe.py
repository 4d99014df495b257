"""`python -m bytewise.service.probe URL`: asks a process's `/livez` or `/readyz`; the health check of containers, without curl.

Exit code 0 if the answer is 200, otherwise 1, which is what Docker and Kubernetes expect. The checks that failed are printed, one
a line.
"""

import argparse
import json
import sys
import urllib.error
import urllib.request
from collections.abc import Sequence
from typing import Any

TIMEOUT_S = 10.0
"""Longest wait for an answer, in seconds."""
_MOST_BYTES = 1 << 20


def main(arguments: Sequence[str] | None = None) -> int:
    """Sends one request and returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bytewise.service.probe", description=__doc__)
    parser.add_argument("url", help="for example http://127.0.0.1:9464/readyz")
    parser.add_argument("--timeout", type=float, default=TIMEOUT_S, help="seconds to wait for an answer")
    parsed = parser.parse_args(arguments)
    if not parsed.url.startswith(("http://", "https://")):
        print(f"{parsed.url}: not a URL; write http://HOST:PORT/readyz", file=sys.stderr)
        return 1
    try:
        # The proxies of the environment are for the internet, and the process is on this machine.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(parsed.url, timeout=parsed.timeout) as answer:
            answer.read(_MOST_BYTES)
        return 0
    except urllib.error.HTTPError as error:
        for line in _reasons(error.read(_MOST_BYTES)) or (f"{parsed.url}: HTTP {error.code}",):
            print(line, file=sys.stderr)
    except (OSError, ValueError) as error:
        print(f"{parsed.url}: {getattr(error, 'reason', None) or error}; is the process running?", file=sys.stderr)
    return 1


def _reasons(body: bytes) -> list[str]:
    """Returns one line for each failing check or loop in the body of an answer."""
    try:
        document: Any = json.loads(body)
        failing = [each for each in document.get("checks", ()) if not each["ok"]]
        loops = [name for name, each in document.get("loops", {}).items() if not each["alive"]]
        lines = [f"{each['name']}: {each['value']}, should be {each['threshold']}. {each['advice']}" for each in failing]
        return lines + [f"{name}: this loop does not run" for name in loops]
    except (ValueError, KeyError, TypeError, AttributeError):
        return []


if __name__ == "__main__":
    sys.exit(main())
