"""An agent on the machine of one cluster enclave. It passes messages between the bridge and the enclave's job socket.

Ray runs the agent as an actor. Every argument and every answer is bytes or a number: the bytes are canonical JSON, and envelopes
stay sealed. The agent connects to the shards of the job's key epoch, as a duty process does for an enclave of its own machine.
The agent has no key.
"""

import fcntl
import glob
import os
from collections.abc import Callable
from pathlib import Path

from bytewise.protocol.encoding import encode
from bytewise.protocol.errors.actors import TryAgain
from bytewise.protocol.errors.branches import BytewiseError, Unavailable
from bytewise.protocol.jobs import JobFailed, RunJob
from bytewise.protocol.units import Digest
from bytewise.service import connections
from verifier.jobs.enclave_client import EnclaveClient

FENCE_BYTES = 8
MODEL_IN_PATTERN = "{model}"
"""Placeholder in the pattern of job sockets. The first 8 hexadecimal digits of the model id replace it."""


class Agent:
    """The agent of one enclave. An agent has one conversation at a time. Each conversation has a fence: a number that grows with
    each lease of the agent."""

    def __init__(self, pattern: str, model_id: bytes, prepare_timeout_s: float) -> None:
        """`pattern` matches the job sockets of enclaves on this machine, for example `/run/bytewise/{model}-*.sock`."""
        self._pattern = pattern.replace(MODEL_IN_PATTERN, model_id[:4].hex())
        self._model_id = model_id
        self._timeout_s = prepare_timeout_s
        self._lock: int | None = None
        self._client: EnclaveClient | None = None
        self._fence = 0
        self.open()  # if Ray started this agent again, the bridge calls `open` only some time later

    def open(self) -> bytes:
        """Takes an enclave of this machine that no other agent uses. Returns empty bytes, or a text that says what is missing."""
        if self._client is not None:
            return b""
        problems: list[str] = []
        for path in sorted(glob.glob(self._pattern)):
            problem = self._take(Path(path))
            if not problem:
                return b""
            problems.append(problem)
        return "; ".join(problems or [f"no job socket fits {self._pattern}"]).encode()

    def claim(self, fence: int, receipt_id: bytes) -> bytes:
        """Begins a conversation about a receipt. Returns the fence, followed by `Prepared` or `JobFailed`."""
        self.release(self._fence)
        self._fence = fence
        problem = self.open()
        if problem:
            return _framed(fence, JobFailed(problem.decode(), True))
        return self._answered(fence, lambda client: client.prepare(Digest(receipt_id)))

    def run(self, fence: int, job: bytes) -> bytes:
        """Runs the job, which ends the conversation. Returns `fence`, followed by `JobResult` or `JobFailed`. If the agent was
        leased again, runs nothing, and returns the fence of the newer lease, followed by `JobFailed`."""
        if fence != self._fence:
            return _framed(self._fence, JobFailed("the lease of this agent is over", True))
        return self._answered(fence, lambda client: client.run(connections.parse_message(job, RunJob)))

    def release(self, fence: int) -> None:
        """Ends the conversation with the enclave, without a job. `fence` is the number of the lease that ends. Does nothing if
        the agent was leased again, because its number is another one then."""
        if fence == self._fence and self._client is not None:
            self._client.close()

    def _answered(self, fence: int, ask: Callable[[EnclaveClient], object]) -> bytes:
        try:
            if self._client is None:
                raise TryAgain("agent", "has no enclave")
            return _framed(fence, ask(self._client))
        except BytewiseError as error:
            return _framed(fence, JobFailed(str(error)[:500], isinstance(error, Unavailable)))

    def _take(self, path: Path) -> str:
        """Locks a job socket and checks the model of its enclave. Returns the problem, or an empty text."""
        lock = os.open(f"{path}.agent", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            client = EnclaveClient(path, self._timeout_s)
            found = client.status(Digest(os.urandom(32))).model_id
            if found != self._model_id:
                raise TryAgain("enclave", f"runs model 0x{found.hex()[:8]}")
        except (OSError, BytewiseError) as error:
            os.close(lock)
            return f"{path.name}: {'another agent has it' if isinstance(error, OSError) else error}"
        self._lock, self._client = lock, client
        return ""


def _framed(fence: int, message: object) -> bytes:
    return fence.to_bytes(FENCE_BYTES, "big") + encode(message)
