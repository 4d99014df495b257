"""The test files that take longest: `make test` leaves them to `make check`, which begins with them.

So no process of a whole run ends long before another. It ends with the sums of what each file took, longest first; `LONGEST` is
copied from there now and then (ADR-059).
"""

from pathlib import Path

import pytest

TESTS = Path(__file__).parent
LONGEST = (
    "unit/cli/test_node_bad_input.py", "unit/committee/test_certificates.py", "unit/serving/test_operator_crash.py",
    "unit/committee/test_lease.py", "unit/cli/test_drill.py", "unit/cli/test_node_full_disk.py",
    "unit/chain/capsule/test_page.py",
    "unit/dashboard/test_pages.py", "unit/cli/test_verify.py", "unit/chain/test_whole_system.py",
    "unit/verifier/test_upgrade_process.py",
    "unit/verifier/test_auditor.py", "unit/serving/test_attention_operator.py", "unit/cli/test_node_checks.py",
    "unit/storage/test_step_back.py", "unit/verifier/test_envelope_exchange.py",
    "unit/cli/test_member_connect.py", "unit/kms/test_on_chain.py", "unit/cli/test_assurance.py",
    "unit/cli/test_gate.py", "unit/committee/test_killed_member.py", "unit/dashboard/test_process.py",
    "unit/serving/test_operator_process.py", "unit/cli/test_capsule.py", "unit/kms/test_ceremony_over_https.py",
    "unit/serving/test_operator_signer.py",
    "unit/verifier/test_cluster_client.py", "unit/enclave/test_enclave_process.py", "unit/chain/test_remote_signer.py",
    "unit/dashboard/test_invariants.py", "unit/inference/test_laws.py", "unit/chain/capsule/test_rules.py",
    "unit/enclave/test_supervisor.py", "unit/kms/test_ceremony_crashes.py", "unit/kms/test_shard_process.py",
    "unit/chain/test_lies_on_chain.py", "unit/cli/test_node_init.py", "unit/cli/test_remote_signer_node.py",
    "unit/bad_input/test_unavailability.py", "unit/chain/test_deploy_at_real_eigenlayer.py",
    "unit/committee/test_votes_of_many_enclaves.py", "unit/inference/test_convert.py",
    "unit/dashboard/test_index_on_chain.py", "unit/storage/test_nonce_lease.py", "unit/chain/capsule/test_beacon.py",
    "unit/enclave/test_transformers_engine.py", "unit/kms/test_erasure.py", "unit/verifier/test_strategy_process.py",
    "unit/dashboard/test_schemathesis.py", "unit/bad_input/test_answers.py", "unit/bench/test_planted_faults.py",
    "unit/bad_input/test_shards.py", "unit/kms/test_process_hardening.py", "unit/enclave/test_import_blocker.py",
    "unit/cli/test_attention.py", "unit/da/test_conformance.py",
    "unit/enclave/test_reconstruction_process.py", "unit/kms/test_http_limits.py", "unit/chain/capsule/test_corpus.py",
    "unit/chain/test_transactions.py", "unit/tee/test_simulator.py", "unit/chain/test_eigenlayer_on_chain.py",
    "unit/verifier/test_reorganisations.py", "unit/verifier/test_audit_hints.py", "unit/cli/test_node_role_checks.py",
    "unit/cli/test_chain_deploy.py", "unit/client/test_quotes.py", "unit/dashboard/test_indexer.py",
    "unit/kms/test_hybrid_release.py", "unit/chain/test_eigenlayer_real.py", "unit/da/test_client.py",
    "unit/dashboard/test_live_reorganisation.py", "unit/cli/test_kms.py", "unit/dashboard/test_api.py",
    "unit/enclave/test_forked_process.py", "unit/cli/test_certify.py", "unit/protocol/test_encoding.py",
    "unit/dashboard/test_period.py", "unit/chain/test_sender.py", "unit/chain/test_withholding_on_chain.py",
    "unit/dashboard/test_capsules.py", "unit/cli/test_node_password.py", "unit/cli/test_key_log.py",
    "unit/kms/test_release_client.py", "unit/chain/test_court_walk.py", "unit/protocol/test_canonical_bytes.py",
    "unit/chain/capsule/test_keeper.py", "unit/cli/test_key_log_verify.py", "unit/chain/test_sender_reorganisations.py",
    "unit/cli/test_node_supervisor.py", "unit/cli/test_verify_disputed.py",
    "unit/bad_input/test_envelopes.py", "unit/tee/test_renewal.py", "unit/kms/test_sealing.py",
    "unit/chain/test_quorum.py", "unit/cli/test_pool.py", "unit/kms/test_hybrid_keys.py",
    "unit/verifier/test_bounties.py", "unit/dashboard/test_period_sums.py", "unit/verifier/test_bounded_memory.py",
    "unit/protocol/test_economics_draws.py", "unit/chain/test_court_on_chain.py",
    "unit/committee/test_missing_bytes.py", "unit/inference/test_native.py", "unit/kms/test_ceremony.py",
    "unit/committee/test_certificate_messages.py", "unit/cli/test_chain.py", "unit/storage/test_outbox.py",
    "unit/inference/test_native_refusals.py", "unit/kms/test_stolen_folders.py",
    "unit/inference/test_vectors_of_bounds.py", "unit/verifier/test_enclave_presence.py", "unit/kms/test_forks.py",
    "unit/inference/test_mapped_weights_memory.py", "unit/tooling/test_wheel.py",
    "unit/committee/test_restored_member.py", "unit/kms/test_ceremony_attacks.py", "unit/committee/test_ballots.py",
    "unit/inference/test_families.py", "unit/enclave/test_job_socket.py", "unit/storage/test_retention_reasons.py",
    "unit/chain/fork_pack/test_fork_pack.py", "unit/service/test_listener.py", "unit/kms/test_reconstruction_memory.py",
    "unit/inference/test_native_flags.py", "unit/storage/test_retention.py", "unit/service/test_schedule.py",
    "unit/inference/test_mapped_weights.py",
)  # fmt: skip
"""Files whose tests take longest together, longest first: by processor time, and by waiting where they wait."""


def turn(file: str) -> int:
    """Place of a file, named from the folder `tests`, among all: a smaller one begins earlier."""
    return LONGEST.index(file) if file in LONGEST else len(LONGEST)


def is_long(file: Path) -> bool:
    """Whether only `make check` runs a file. The rules for the whole tree, `tests/test_*.py`, always run."""
    return file.is_relative_to(TESTS / "unit") and file.relative_to(TESTS).as_posix() in LONGEST


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
