"""`python -m bytewise.tee_simulated make-root | issue | policy`: prepares the evidence of one simulated run."""

import argparse
from pathlib import Path

from bytewise.protocol.encoding import encode
from bytewise.protocol.evidence.appraisal_policy import (
    AppraisalPolicy,
    Coverage,
    EvidenceType,
    GpuUse,
    MeasurementRole,
    PlatformKind,
    PlatformRule,
    TcbStatus,
    TrustedMeasurement,
)
from bytewise.protocol.units import U64, U256, ZERO_DIGEST, Blob, Digest
from bytewise.service.installation import SOURCE_ROOT
from bytewise.tee.measurement import COVERS, ENCLAVE_ENTRY, SHARD_ENTRY, measure
from bytewise.tee_simulated.authorities import der, issue, load_root, make_root
from bytewise.tee_simulated.quoter import EVALUATION
from bytewise.tee_simulated.td_quote import measurement_of

MAX_AGE_S = 300
"""Largest age of evidence in seconds. It equals the lifetime of the simulator's evidence."""


def simulated_rule(root_folder: Path) -> PlatformRule:
    """Returns the rule that accepts exactly this run's root."""
    return PlatformRule(
        type=EvidenceType.SIMULATED, root=der(load_root(root_folder)), statuses=(TcbStatus.UP_TO_DATE,), refused_advisories=(),
        min_evaluation=EVALUATION, min_tcb=Blob(b""), smt=False, dynamic_platform=False, cached_keys=False, platforms=(),
        max_age_s=MAX_AGE_S,
    )  # fmt: skip


def simulated_policy(
    root_folder: Path, chain_id: int, serial: int, entry: str = ENCLAVE_ENTRY, model: Digest = ZERO_DIGEST
) -> AppraisalPolicy:
    """Returns a policy for one run on a test chain. The policy accepts exactly this run's root, the shard of this source tree,
    and one enclave of this source tree. That enclave starts at module `entry` and runs `model`."""
    return policy_for(measure(SOURCE_ROOT, entry, model), measure(SOURCE_ROOT, SHARD_ENTRY), root_folder, chain_id, serial)


def policy_for(enclave: Digest, shard: Digest, root_folder: Path, chain_id: int, serial: int) -> AppraisalPolicy:
    """Returns a policy for one run on a test chain. The policy accepts exactly this run's root and the programs with these
    measurements."""
    return AppraisalPolicy(
        serial=U64(serial), chain_ids=(U256(chain_id),), rules=(simulated_rule(root_folder),),
        measurements=(_trusted(enclave, MeasurementRole.VERIFIER_ENCLAVE), _trusted(shard, MeasurementRole.KEY_SHARD)),
        insecure_accept_simulated=True,
    )  # fmt: skip


def _trusted(program: Digest, role: MeasurementRole) -> TrustedMeasurement:
    # The settings choose the device of an enclave; simulated evidence proves no device.
    return TrustedMeasurement(
        PlatformKind.SIMULATED, measurement_of(program), (Coverage.PROGRAM,), COVERS, GpuUse.UNATTESTED, role
    )


def main() -> None:
    """Runs one command. An error ends it with a traceback and exit code 1."""
    parser = argparse.ArgumentParser(prog="python -m bytewise.tee_simulated", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    root = commands.add_parser("make-root", help="draw the root of one run")
    root.add_argument("--out", type=Path, required=True)
    platform = commands.add_parser("issue", help="write one platform key file")
    platform.add_argument("--root", type=Path, required=True)
    platform.add_argument("--out", type=Path, required=True)
    policy = commands.add_parser("policy", help="write the appraisal policy of this run")
    policy.add_argument("--root", type=Path, required=True)
    policy.add_argument("--out", type=Path, required=True)
    policy.add_argument("--chain-id", type=int, required=True)
    policy.add_argument("--serial", type=int, default=1)
    policy.add_argument("--entry", default=ENCLAVE_ENTRY)
    policy.add_argument("--model", type=_digest, default=ZERO_DIGEST, help="model id that the program runs, in hexadecimal")
    arguments = parser.parse_args()
    match arguments.command:
        case "make-root":
            make_root(arguments.out)
        case "issue":
            issue(arguments.root, arguments.out)
        case "policy":
            made = simulated_policy(arguments.root, arguments.chain_id, arguments.serial, arguments.entry, arguments.model)
            arguments.out.write_bytes(encode(made))


def _digest(text: str) -> Digest:
    return Digest(bytes.fromhex(text.removeprefix("0x")))


if __name__ == "__main__":
    main()
