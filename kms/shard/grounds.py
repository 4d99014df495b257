"""What a shard writes down beside a release record: why it decided as it did."""

from bytewise.protocol.errors import Fault
from bytewise.protocol.evidence.release_evidence import AuditPlace, Grounds
from bytewise.protocol.keys.epochs import ReleaseRequest
from bytewise.protocol.records.statements import TicketKind
from bytewise.protocol.units import U64
from bytewise.tee.appraisal import Appraised


def grounds_of(request: ReleaseRequest, shown: Appraised, policy_serial: int, refused: Fault | None) -> Grounds:
    """On what a request was decided; `refused` is why nothing was given.

    Where a refused request says that its receipt is anchored nobody verified, and it can be long.
    """
    is_audit = refused is None and request.ticket.kind == TicketKind.AUDIT.value
    return Grounds(
        evidence=shown.named,
        platform=shown.program.platform,
        measurement=shown.claims.measurement,
        status=shown.claims.status,
        gpu=shown.program.gpu,
        policy=U64(policy_serial),
        refusal="" if refused is None else refused.rule,
        audit=AuditPlace(request.batch_id, request.receipt.seq, request.proof) if is_audit else None,
    )
