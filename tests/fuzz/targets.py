"""Every decoder of `kms`, `bytewise.tee` and an enclave's job socket that reads bytes from outside, by name.

`docs/evidence/attacks.md` lists their caps.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from tests.fuzz import of_ceremonies, of_channels, of_envelopes, of_evidence, of_jobs, of_releases
from tests.fuzz.target import Target

TARGETS: Mapping[str, Callable[[Path], Target]] = {
    "points and scalars": of_envelopes.points, "envelope": of_envelopes.envelopes,
    "hybrid envelope": of_envelopes.hybrid_envelopes, "partials": of_envelopes.partials,
    "sealed messages and keys": of_envelopes.sealed, "release request": of_releases.requests, "shard": of_releases.shard,
    "answers of a shard": of_releases.answers, "release log": of_releases.logs, "documents": of_releases.documents,
    "backup": of_releases.backups, "ceremony plan": of_ceremonies.plans, "ceremony messages": of_ceremonies.messages,
    "ceremony exchange": of_ceremonies.exchanges, "ceremony log": of_ceremonies.log_copies,
    "ceremony answers": of_ceremonies.exchange_answers, "evidence": of_evidence.evidence,
    "snp report and certificates": of_evidence.snp_evidence, "dcap quote": of_evidence.quotes,
    "collateral": of_evidence.collateral, "collateral service": of_evidence.services, "gpu claims": of_evidence.gpus,
    "strict json": of_evidence.strict_json, "result quote": of_evidence.result_quotes, "policies": of_evidence.policies,
    "configfs": of_evidence.configfs, "channel hello": of_channels.hellos, "channel proof": of_channels.proofs,
    "channel frames": of_channels.frames, "channel certificate": of_channels.certificates,
    "channel handshake": of_channels.handshakes, "job messages": of_jobs.messages,
}  # fmt: skip
"""How each is made, given a folder of its own."""
