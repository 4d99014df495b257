"""What a shard says when it refuses, over HTTPS and over attested channels alike: the error's class and rule, nothing else."""

from bytewise.protocol.errors import BytewiseError, Unavailable
from bytewise.protocol.keys import Refusal
from bytewise.service import telemetry


def refusal(error: BytewiseError) -> Refusal:
    """The refusal that tells of an error, which is logged and counted here."""
    telemetry.log_error("kms.refused", error)
    telemetry.count("bytewise_kms_refusals_total", rule=error.rule)
    return Refusal(type(error).__name__, error.rule, isinstance(error, Unavailable))
