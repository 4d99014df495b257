"""Opens the quoter that a program's settings name: the machine's own, or the simulator."""

import atexit
from collections.abc import Callable
from pathlib import Path

from bytewise.ports import Quoter
from bytewise.protocol.errors import ConfigurationError
from bytewise.protocol.evidence.appraisal_policy import TEST_CHAIN_IDS, EvidenceType
from bytewise.tee import mode
from bytewise.tee.configfs import ConfigfsQuoter


def verify_attestation(
    evidence: EvidenceType, platform_file: Path | None, endorsements: Path | None, insecure_accept_simulated: bool, chain_id: int
) -> EvidenceType:
    """The kind of evidence, if its settings are complete and it is allowed on this chain; `ConfigurationError` otherwise."""
    simulated = evidence is EvidenceType.SIMULATED
    if simulated and not (insecure_accept_simulated and platform_file):
        raise ConfigurationError("evidence", "simulated needs insecure_accept_simulated and platform_file")
    if simulated and chain_id not in TEST_CHAIN_IDS:
        raise ConfigurationError("evidence", f"simulated on chain {chain_id}, which is no test chain")
    if not simulated and endorsements is None:
        raise ConfigurationError("evidence", f"{evidence.value} needs a folder of endorsements")
    return evidence


def open_quoter(
    evidence: EvidenceType, platform_file: Path | None, endorsements: Path | None, simulator: Callable[[Path], Quoter]
) -> Quoter:
    """This process's quoter; `ConfigurationError` if this machine gives other evidence.

    For settings that `verify_attestation` let pass. Hardware closes the door to the simulator for as long as the process lives;
    `simulator` is called otherwise, and not imported before: production must not hold it (fence 3, research/kms.md 6).
    """
    if evidence is not EvidenceType.SIMULATED:
        assert endorsements is not None
        mode.enter_production()
        hardware = ConfigfsQuoter(endorsements)
        if hardware.type is not evidence:
            hardware.close()
            raise ConfigurationError("evidence", f"this machine attests by {hardware.type.value}, not {evidence.value}")
        atexit.register(hardware.close)
        return hardware
    assert platform_file is not None
    return simulator(platform_file)
