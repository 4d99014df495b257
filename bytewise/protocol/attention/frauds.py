"""Makes a true answer false. The false answer is sealed and signed as usual; only a re-execution shows that it is wrong."""

from dataclasses import dataclass, replace

from bytewise.protocol.attention.schedule import FraudKind
from bytewise.protocol.digests import Label, labelled
from bytewise.protocol.records.compare import Generated
from bytewise.protocol.records.request import Request, output_for
from bytewise.protocol.units import Digest


@dataclass(frozen=True, slots=True)
class RelabelledAnswer(Generated):
    """An answer with the `out_hash` of another answer."""

    claimed: Digest
    """The `out_hash` of the other answer."""

    @property
    def out_hash(self) -> Digest:
        """The `out_hash` that the receipt states."""
        return self.claimed


def false_answer(kind: FraudKind, request: Request, true: Generated) -> Generated:
    """Returns a false answer of this kind, made from the true one.

    An answer without tokens gets a false finish reason instead.
    """
    if not true.output.token_ids:
        reason = "length" if true.output.finish_reason == "stop" else "stop"
        return replace(true, output=output_for(request, (), reason, true.output.logprobs))
    if kind is FraudKind.TRACE:
        return forge_trace(true)
    altered = alter_token(request, true)
    return altered if kind is FraudKind.TOKEN else RelabelledAnswer(altered.output, altered.leaves, true.out_hash)


def alter_token(request: Request, true: Generated) -> Generated:
    """Returns the true answer with its middle token replaced by a neighbouring id.

    The trace stays that of the true computation.
    """
    tokens = list(true.output.token_ids)
    middle = len(tokens) // 2
    tokens[middle] = tokens[middle] + 1 if tokens[middle] == 0 else tokens[middle] - 1
    return Generated(output_for(request, tuple(tokens), true.output.finish_reason, true.output.logprobs), true.leaves)


def forge_trace(true: Generated) -> Generated:
    """Returns the true answer with its first trace leaf forged."""
    forged = labelled(Label.TRACE_LEAF, b"forged", true.leaves[0])
    return replace(true, leaves=(forged, *true.leaves[1:]))
