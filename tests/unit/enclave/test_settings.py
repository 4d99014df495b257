"""How an enclave may be attested: settings that cannot be meant are refused; hardware is asked of the kernel."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.evidence.appraisal_policy import EvidenceType
from bytewise.service.settings import child_environment
from enclave.settings import EnclaveSettings
from enclave.wiring import _environment, _require

ROOT = Path(__file__).resolve().parents[3]
HARDWARE = EnclaveSettings(Path("model"), Path("jobs.sock"), 1, EvidenceType.TDX, endorsements=Path("endorsements"))

WRONG: dict[str, tuple[dict[str, object], str]] = {
    "a job without time": ({"job_limit_s": 0}, "above zero"),
    "a job without memory": ({"working_bytes": 0}, "above zero"),
    "a request to a shard without time": ({"key_timeout_s": 0.0}, "above zero"),
    "hardware without endorsements": ({"endorsements": None}, "endorsements"),
    "a GPU without evidence of its own": ({"device": "cuda"}, "simulated"),
    "simulated without the switch": ({"evidence": EvidenceType.SIMULATED, "chain_id": 31337}, "insecure_accept_simulated"),
    "simulated on a real chain": (
        {"evidence": EvidenceType.SIMULATED, "insecure_accept_simulated": True, "platform_file": Path("p")}, "no test chain",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_impossible_enclave_settings_are_refused(name: str) -> None:
    changes, words = WRONG[name]
    with pytest.raises(ConfigurationError, match=words):
        replace(HARDWARE, **changes)  # type: ignore[arg-type]


@pytest.mark.e2e
def test_hardware_needs_its_kernel_and_keeps_the_simulator_out() -> None:
    """On this machine there is no configfs-tsm: the process stops there, as production and without the simulator."""
    assert replace(HARDWARE, evidence=EvidenceType.SNP).endorsements is not None
    code = (
        "import sys\nfrom pathlib import Path\nfrom bytewise.protocol.evidence.appraisal_policy import EvidenceType\n"
        "from bytewise.protocol.errors.actors import ConfigurationError\nfrom enclave.wiring import _simulator, open_quoter\n"
        "from enclave.settings import EnclaveSettings\n"
        "settings = EnclaveSettings(Path('m'), Path('s'), 1, EvidenceType.TDX, endorsements=Path('e'))\n"
        "try:\n    open_quoter(settings.evidence, None, settings.endorsements, _simulator)\n"
        "except ConfigurationError as error:\n    print(error)\n"
        "print([name for name in sys.modules if 'tee_simulated' in name])\n"
        "import bytewise.tee_simulated.quoter\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=child_environment(), capture_output=True, timeout=120, check=False
    )
    said = ended.stdout.splitlines()
    assert said[0].startswith(b"[R-55] configfs-tsm") and said[1] == b"[]", ended.stderr
    assert ended.returncode == 1 and b"imported in a production process" in ended.stderr


def test_required_fence_that_is_missing_stops_the_start() -> None:
    """Control: where it is not required it is told, and no more."""
    _require(HARDWARE, ("no_swap",))
    required = replace(HARDWARE, require_fences=True)
    _require(required, ())
    with pytest.raises(ConfigurationError, match="require_fences: these fences cannot be set up here: no_swap, bounded"):
        _require(required, ("no_swap", "bounded"))


def test_malformed_environment_file_is_named(tmp_path: Path) -> None:
    assert _environment(HARDWARE) is None
    path = tmp_path / "environment.json"
    with pytest.raises(ConfigurationError, match=r"environment\.json: No such file"):
        _environment(replace(HARDWARE, environment_file=path))
    path.write_bytes(b"{}")
    with pytest.raises(ConfigurationError, match="is no environment"):
        _environment(replace(HARDWARE, environment_file=path))
