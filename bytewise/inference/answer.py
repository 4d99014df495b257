"""How an answer grows: one head row, one token, until a rule of the decode policy ends it (design section 6)."""

from dataclasses import dataclass, field

from torch import Tensor

from bytewise.inference.paths import HeadRow
from bytewise.inference.sampling import choose
from bytewise.protocol.compare import Generated
from bytewise.protocol.request import Request, output_for
from bytewise.protocol.trace import TraceStep, trace_leaves
from bytewise.protocol.units import Digest


@dataclass(slots=True)
class Answer:
    """An answer while it grows: tokens are added until there is a reason to end."""

    request: Request
    """What is answered."""
    execution: Digest
    """Execution hash, which keys the sampler."""
    steps: list[TraceStep] = field(default_factory=list)
    """One for each token chosen."""
    reason: str | None = None
    """Finish reason, or None while it goes on."""
    scores: Tensor | None = None
    """Logits of the newest row, as adjusted by the decode policy: what its token was chosen from. None where there was no row."""

    def add(self, head: HeadRow) -> None:
        """Chooses the token of one more head row, and sees whether the answer ends with it."""
        policy = self.request.decode
        if head.logits is None:
            self.reason, self.scores = "error", None
            return
        self.scores = head.logits
        token = choose(head.logits, policy, self.request.seed, self.execution, len(self.steps))
        self.steps.append(TraceStep(head.row, head.exponent, token))
        if token in policy.stop_tokens:
            self.reason = "stop"
        elif len(self.steps) == policy.max_new_tokens:
            self.reason = "length"

    def finish(self) -> Generated:
        """The complete answer; only once there is a reason."""
        tokens = tuple(step.token for step in self.steps)
        return Generated(output_for(self.request, tokens, str(self.reason)), trace_leaves(self.request.nonce, self.steps))
