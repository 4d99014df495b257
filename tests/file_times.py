"""The order of test files in a whole run: those that take longest first, so that no process ends long before another.

A whole run ends with the sums of what each file took, longest first; `LONGEST` is copied from there now and then.
"""

from pathlib import Path

import pytest

TESTS = Path(__file__).parent
LONGEST = (
    "unit/serving/test_operator_crash.py", "unit/cli/test_verify.py", "unit/chain/test_whole_system.py",
    "unit/committee/test_lease.py", "unit/inference/test_laws.py", "unit/chain/test_deploy_at_real_eigenlayer.py",
    "unit/kms/test_shard_process.py", "unit/kms/test_on_chain.py", "unit/cli/test_node_init.py", "unit/cli/test_node_checks.py",
    "unit/kms/test_ceremony_crashes.py", "unit/chain/test_lies_on_chain.py", "unit/bad_input/test_answers.py",
    "unit/kms/test_process_hardening.py", "unit/chain/test_eigenlayer_checkout.py", "unit/kms/test_erasure.py",
    "unit/inference/test_convert.py", "unit/bad_input/test_unavailability.py", "unit/tee/test_simulator.py",
    "unit/cli/test_assurance.py", "unit/verifier/test_reorganisations.py", "unit/storage/test_outbox.py", "test_walkthrough.py",
    "unit/da/test_client.py", "unit/inference/test_families.py", "unit/chain/test_court_walk.py", "unit/da/test_conformance.py",
    "unit/cli/test_gate.py", "unit/chain/test_sender_reorganisations.py", "unit/kms/test_ceremony.py",
    "unit/serving/test_operator_process.py", "unit/chain/test_court_on_chain.py", "unit/cli/test_chain_deploy.py",
    "unit/chain/test_eigenlayer_on_chain.py", "unit/chain/test_sender.py", "unit/cli/test_chain.py",
    "unit/protocol/test_encoding.py", "test_layers.py", "unit/chain/test_eigenlayer_real.py", "unit/cli/test_kms.py",
    "unit/cli/test_certify.py", "unit/kms/test_forks.py", "unit/kms/test_ceremony_attacks.py",
    "unit/kms/test_stolen_folders.py", "unit/kms/test_sealing.py", "unit/inference/test_native_refusals.py",
    "unit/cli/test_tree.py", "unit/chain/test_bls.py", "unit/cli/test_deploy_at_eigenlayer.py", "unit/kms/test_participants.py",
    "unit/verifier/test_auditor.py", "test_architecture.py",
)  # fmt: skip
"""Files whose tests take longest together, longest first: by processor time, and by waiting where they wait."""


def turn(file: str) -> int:
    """Place of a file, named from the folder `tests`, among all: a smaller one begins earlier."""
    return LONGEST.index(file) if file in LONGEST else len(LONGEST)


class FileTimes:
    """The pytest plugin of whole runs; prints the sums at their end."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Adds what a test's fixtures and the test itself took to its file."""
        file = report.nodeid.partition("::")[0].removeprefix(f"{TESTS.name}/")
        self.seconds[file] = self.seconds.get(file, 0.0) + report.duration

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """As many files as `LONGEST` has."""
        terminalreporter.section("files that took longest")
        for file, seconds in sorted(self.seconds.items(), key=lambda each: -each[1])[: len(LONGEST)]:
            terminalreporter.write_line(f"{seconds:6.1f} s  {file}{'' if file in LONGEST else '  (not in LONGEST)'}")
