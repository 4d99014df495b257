"""The supervisor of a node: what ends it, what is started again, and that it stops cleanly; with real processes."""

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.service import telemetry
from bytewise.service.clock import monotonic_s
from bytewise.service.exit_codes import Exit
from cli.node import run
from cli.node.supervisor import NodeSupervisor, PasswordPipe, Program

LIMIT_S = 30.0


def program(name: str, source: str, *, needs_account: bool = False) -> Program:
    """A process of a few lines."""
    return Program(name, (sys.executable, "-c", source), needs_account)


def lives(folder: Path, name: str) -> str:
    """Source of a process that says so and waits for SIGTERM."""
    return (
        f"import signal, sys, pathlib\npathlib.Path({str(folder / name)!r}).touch()\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\nsignal.pause()"
    )


def run_until(supervisor: NodeSupervisor, done: Path, count: int = 1) -> int:
    """Runs it until a file has so many bytes (or just exists, for 1); its exit code."""
    stop, codes = threading.Event(), []
    thread = threading.Thread(target=lambda: codes.append(supervisor.run(stop)))
    thread.start()
    began = monotonic_s()
    while thread.is_alive() and not (done.exists() and done.stat().st_size >= count - 1):
        assert monotonic_s() - began < LIMIT_S
        threading.Event().wait(0.05)
    stop.set()
    thread.join(LIMIT_S)
    return int(codes[0])


def test_asked_to_stop_it_stops_every_process(tmp_path: Path) -> None:
    supervisor = NodeSupervisor([program("a", lives(tmp_path, "a")), program("b", lives(tmp_path, "b"))])
    assert run_until(supervisor, tmp_path / "b") == Exit.OK


@pytest.mark.parametrize("code", [Exit.USAGE, Exit.REFUSED])
def test_end_that_another_start_would_repeat_ends_the_node(tmp_path: Path, code: Exit) -> None:
    source = f"import sys, pathlib; pathlib.Path({str(tmp_path / 'n')!r}).open('a').write('x'); sys.exit({int(code)})"
    supervisor = NodeSupervisor([program("stays", lives(tmp_path, "a")), program("ends", source)])
    assert run_until(supervisor, tmp_path / "n", 99) == code
    assert (tmp_path / "n").read_text() == "x"


def test_process_that_failed_is_started_again(tmp_path: Path) -> None:
    source = f"import sys, pathlib; pathlib.Path({str(tmp_path / 'n')!r}).open('a').write('x'); sys.exit({int(Exit.INTERNAL)})"
    assert run_until(NodeSupervisor([program("fails", source)]), tmp_path / "n", 4) == Exit.OK
    assert len((tmp_path / "n").read_text()) >= 2


@pytest.mark.parametrize("code", [Exit.OK, Exit.USAGE])
def test_dispensable_process_is_started_again_whatever_its_exit_code(tmp_path: Path, code: Exit) -> None:
    source = f"import sys, pathlib; pathlib.Path({str(tmp_path / 'n')!r}).open('a').write('x'); sys.exit({int(code)})"
    gossip = Program("gossip", (sys.executable, "-c", source), needs_account=False, dispensable=True)
    assert run_until(NodeSupervisor([program("stays", lives(tmp_path, "a")), gossip]), tmp_path / "n", 3) == Exit.OK
    assert len((tmp_path / "n").read_text()) >= 2


def test_missing_program_ends_the_node_only_if_it_is_indispensable(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:  # fmt: skip
    gone = (str(tmp_path / "gossip-venv/bin/python"), "-m", "gossip")
    gossip = Program("gossip", gone, needs_account=False, dispensable=True)
    telemetry.configure("node")
    assert run_until(NodeSupervisor([gossip, program("stays", lives(tmp_path, "a"))]), tmp_path / "a") == Exit.OK
    said = [json.loads(line) for line in capsys.readouterr().err.splitlines() if "process.not_started" in line]
    assert [(each["name"], each["program"], each["error"]) for each in said] == [("gossip", gone[0], "No such file or directory")]
    with pytest.raises(ConfigurationError, match="python cannot be started: No such file"):
        NodeSupervisor([Program("node", gone, needs_account=True)]).run(threading.Event())


def test_process_that_does_not_stop_is_killed_and_named(tmp_path: Path) -> None:
    deaf = (
        f"import signal, pathlib\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\npathlib.Path({str(tmp_path / 'a')!r}).touch()\n"
    )
    supervisor = NodeSupervisor([program("deaf", deaf + "while True: signal.pause()")], stop_s=0.5)
    assert run_until(supervisor, tmp_path / "a") == Exit.HUNG


def test_password_reaches_only_who_needs_the_account_and_by_a_pipe(tmp_path: Path) -> None:
    source = (
        "import os, sys, pathlib\nname = os.environ.get('BYTEWISE__SIGNER__PASSWORD_FILE')\n"
        "got = open(name).read() if name else 'nothing'\nshown = ' '.join(sys.argv) + str(dict(os.environ))\n"
        f"pathlib.Path({str(tmp_path)!r}, sys.argv[1]).write_text(got + ('!' if 'sesame' in shown else ''))\n"
        "sys.exit(64)"
    )
    for name, needs_account, got in (("node", True, "sesame"), ("enclave", False, "nothing")):
        each = Program(name, (sys.executable, "-c", source, name), needs_account)
        assert NodeSupervisor([each], PasswordPipe(b"sesame")).run(threading.Event()) == Exit.USAGE
        assert (tmp_path / name).read_text() == got


def test_variables_of_settings_reach_no_dispensable_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BYTEWISE__CHAIN__RPC", "https://rpc.example/sesame")
    for name, dispensable, expected in (("node", False, "True"), ("gossip", True, "False")):
        source = f"import os, pathlib; pathlib.Path({str(tmp_path / name)!r}).write_text(str('sesame' in str(dict(os.environ))))"
        each = Program(name, (sys.executable, "-c", source), needs_account=False, dispensable=dispensable)
        run_until(NodeSupervisor([program("stays", lives(tmp_path, f"beside-{name}")), each]), tmp_path / name, 5)
        assert (tmp_path / name).read_text() == expected


def start_lines(folder: Path, patch: pytest.MonkeyPatch, settings: str, answer: Any) -> list[dict[str, Any]]:
    """Log lines of the checks before the start of a node. `answer`: what `bytewise status` says, or raises."""
    config, logged = folder / "bytewise.toml", []
    config.write_text(settings)

    def checked(command: tuple[str, ...], **_: Any) -> Any:
        assert command[-6:] == ("status", "--config", str(config), "--health", "--output", "json"), command
        if isinstance(answer, Exception):
            raise answer
        return subprocess.CompletedProcess(command, Exit.NOT_READY, json.dumps(answer).encode(), b"")

    patch.setattr(subprocess, "run", checked)
    patch.setattr(telemetry, "log", lambda event, **facts: logged.append({"event": event} | facts))
    run._tell_problems(config)
    return logged


def lacking(*names: str) -> dict[str, Any]:
    """The health of a member that fails these checks."""
    problems = [{"name": each, "ok": False, "value": "v", "threshold": "t", "advice": "a"} for each in names]
    return {"role": "member", "account": "0x11", "healthy": not names, "problems": problems}


MEMBER, WITH_ENCLAVE = 'role = "member"\n', 'role = "member"\n[enclave]\n'


@pytest.mark.parametrize(
    ("settings", "failing", "named"),
    [
        (MEMBER, (), ()), (MEMBER, ("process",), ()), (MEMBER, ("process", "enclave"), ("enclave",)),
        (WITH_ENCLAVE, ("process", "enclave"), ()), (WITH_ENCLAVE, ("enclave", "stake", "measurement"), ("stake", "measurement")),
    ],
)  # fmt: skip
def test_start_names_each_failed_check_that_the_start_does_not_mend(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: str, failing: tuple[str, ...], named: tuple[str, ...]
) -> None:
    """The node starts an enclave only if its settings have one; else the enclave must answer before."""
    lines = start_lines(tmp_path, monkeypatch, settings, lacking(*failing))
    if not named:
        assert lines == [{"event": "node.ready", "role": "member", "account": "0x11"}]
        return
    assert [(each["event"], each["check"]) for each in lines] == [("node.not_ready", name) for name in named]
    assert all((each["found"], each["must_be"], each["do"]) == ("v", "t", "a") for each in lines)


def test_start_whose_checks_take_too_long_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = start_lines(tmp_path, monkeypatch, MEMBER, subprocess.TimeoutExpired("status", run.LOOK_S))
    assert [each["event"] for each in lines] == ["node.not_checked"] and "doctor" in lines[0]["do"]
