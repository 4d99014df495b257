"""One table of exit codes for every entry point: what is wrong with the input ends each of them with the same code."""

import errno
import importlib
from pathlib import Path

import pytest

from bytewise.protocol.errors.branches import Fault
from bytewise.protocol.errors.catalogue import CLASSES
from bytewise.service.exit_codes import Exit, advice_of, exit_of
from cli.__main__ import main as cli
from cli.output import OutputFormat, OutputOption

PROCESSES = [
    ("serving", ()), ("verifier", ()), ("committee", ()), ("enclave", ()), ("bytewise.da", ("serve",)), ("kms", ("serve",)),
    ("kms", ("erase",)), ("kms", ("wrap",)), ("kms", ("approve",)),
]  # fmt: skip


@pytest.mark.parametrize(("module", "command"), PROCESSES)
def test_process_ends_with_64_for_wrong_settings(
    tmp_path: Path, module: str, command: tuple[str, ...], capfd: pytest.CaptureFixture[str]
) -> None:
    main = importlib.import_module(f"{module}.__main__").main
    wrong = tmp_path / "wrong.toml"
    wrong.write_text("unheard_of = 1\n")
    for config in (wrong, tmp_path / "nowhere.toml", tmp_path):
        assert main([*command, "--config", str(config)]) == Exit.USAGE
        said = capfd.readouterr().err
        assert config.name in said and "Traceback" not in said
    for arguments in (["--nonsense"], [*command], [*command, "--config"]):
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert ended.value.code == Exit.USAGE


def test_storage_process_ends_with_64_for_a_wrong_url(tmp_path: Path) -> None:
    main = importlib.import_module("bytewise.storage.__main__").main
    assert main(["migrate", "--url", f"sqlite:///{tmp_path}/nowhere/a.db"]) == Exit.USAGE


@pytest.mark.parametrize(("error", "code", "said"), [
    (ValueError("a defect"), Exit.INTERNAL, "Traceback"),
    (OSError(errno.ENOSPC, "No space left on device"), Exit.USAGE, "No space left on device"),
    (PermissionError(errno.EACCES, "Permission denied", "/etc/a"), Exit.USAGE, "/etc/a: Permission denied"),
    (ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"), Exit.UNAVAILABLE, "Connection refused"),
])  # fmt: skip
def test_error_that_a_command_does_not_expect_has_a_code(
    error: Exception, code: Exit, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(output: OutputOption = OutputFormat.TABLE) -> None:
        raise error

    monkeypatch.setattr("cli.version.version", fails)
    assert cli(["version"]) == code
    told = capsys.readouterr().err
    assert said in told and ("Traceback" in told) == (code is Exit.INTERNAL)


def test_every_error_has_one_code() -> None:
    found = {each.__name__: exit_of(each(*"abcdef")) for each in CLASSES.values()}
    assert found["ConfigurationError"] == found["ArtifactMismatch"] == Exit.USAGE
    assert found["LeaseTaken"] == Exit.REFUSED and found["TryAgain"] == Exit.UNAVAILABLE and found["Bug"] == Exit.INTERNAL
    assert found["CallerError"] == Exit.UNAVAILABLE, "HTTP 400 of what is no DA store"
    assert exit_of(ValueError()) == Exit.INTERNAL and exit_of(KeyboardInterrupt()) == Exit.INTERRUPTED


PEERS_AND_RECORDS = {
    "MalformedValue", "NotCanonical", "WrongFields", "MerkleProofMismatch", "BadSignature", "MalformedPoint", "TooLarge",
    "ForeignChain", "SequenceBroken", "UnknownKeyEpoch", "UnknownEnvironment", "RootMismatch", "ListMismatch", "AnchoredLate",
    "EnvelopeProofBad", "EnvelopeDoesNotOpen", "PlaintextNotCanonical", "RequestHashMismatch", "TokensHashMismatch",
    "ClientSignatureBad", "RequestDiffers", "OutsideLimits", "RequestExpired", "ShardLied", "EvidenceRefused", "TicketRefused",
    "ReleaseNotRecorded", "EpochClosed", "BudgetSpent", "ShardRefused", "DealerLied", "LogForked", "ReleaseLogBroken",
    "PartDoesNotOpen", "NotAMember", "CommitmentMismatch", "UnknownAuditor", "HintMismatch", "WindowClosed", "BondMismatch",
    "BadCertificate", "ChainReverted", "BadRequest", "EvidenceMalformed", "EvidenceExpired", "EvidenceFromFuture",
    "EvidenceReplayed", "UntrustedRoot", "TcbRefused", "MeasurementRefused", "ChannelRefused", "EvidenceTooLarge",
}  # fmt: skip
"""Faults of records and of other parties. Each verb judges them itself and says what they mean for it, so that one of them at the
end of a process is a defect."""


def test_every_error_that_a_user_can_cause_has_its_own_advice() -> None:
    numbered = {name: each(*"abcdef") for name, each in CLASSES.items() if each.rule}
    defects = {name for name, error in numbered.items() if advice_of(error) == advice_of(ValueError())}
    assert defects == PEERS_AND_RECORDS and all(isinstance(numbered[name], Fault) for name in defects)
    altered, inexact = advice_of(numbered["StoreCorrupt"]), advice_of(numbered["NotExact"])
    assert (altered.code, inexact.code) == (Exit.MISMATCH, Exit.INCONCLUSIVE), "as `journal verify`, and as `model certify`"
    assert "newest copy" in altered.advice and "another machine" in inexact.advice


def test_every_code_but_success_has_advice() -> None:
    assert all(advice_of(each(*"abcdef")).advice for each in CLASSES.values())
    assert "resetBreaker" in advice_of(CLASSES["BreakerHolds"]("0x1")).advice, "no later try succeeds by itself"
