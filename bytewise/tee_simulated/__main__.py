"""`python -m bytewise.tee_simulated make-root | issue | policy`: prepares the evidence of one simulated run."""

import argparse
from pathlib import Path

from cryptography.hazmat.primitives.serialization import Encoding

from bytewise.protocol.encoding import encode
from bytewise.protocol.evidence import AppraisalPolicy, EvidenceType, TrustedMeasurement, TrustRoot
from bytewise.protocol.units import U64, U256, Blob
from bytewise.tee.measurement import COVERS, ENCLAVE_ENTRY, measure
from bytewise.tee_simulated.quoter import source_root
from bytewise.tee_simulated.root import issue, load_root, make_root

MAX_AGE_S = 300
"""Evidence older than the simulator's own lifetime is never needed."""


def simulated_policy(root_folder: Path, chain_id: int, serial: int, entry: str = ENCLAVE_ENTRY) -> AppraisalPolicy:
    """The policy that accepts exactly this run's root and this source tree's enclave, on one test chain."""
    simulated = EvidenceType.SIMULATED
    return AppraisalPolicy(
        serial=U64(serial),
        chain_ids=(U256(chain_id),),
        allowed_types=(simulated,),
        roots=(TrustRoot(simulated, Blob(load_root(root_folder).public_bytes(Encoding.DER))),),
        measurements=(TrustedMeasurement(simulated, measure(source_root(), entry), COVERS),),
        max_age_s=MAX_AGE_S,
        insecure_accept_simulated=True,
    )


def main() -> None:
    """Runs one command; errors end it with a traceback and exit code 1."""
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
    given = parser.parse_args()
    match given.command:
        case "make-root":
            make_root(given.out)
        case "issue":
            issue(given.root, given.out)
        case "policy":
            given.out.write_bytes(encode(simulated_policy(given.root, given.chain_id, given.serial, given.entry)))


if __name__ == "__main__":
    main()
