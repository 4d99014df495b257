"""The alert about a process that ended reaches a webhook: real Prometheus and Alertmanager, with our rules and routes."""

import http.server
import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from bytewise.service.settings import child_environment
from cli.demo.site import free_ports
from tests.fixtures.kms.release_network import wait_until
from tests.source import ROOT

MONITORING = ROOT / "deploy" / "monitoring"
PROMETHEUS, ALERTMANAGER = shutil.which("prometheus"), shutil.which("prometheus-alertmanager")
"""Both under the names of Debian's packages."""

pytestmark = pytest.mark.skipif(ALERTMANAGER is None, reason="no prometheus-alertmanager")


class Webhook(http.server.ThreadingHTTPServer):
    """Keeps each alert that is posted to it."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Posted)
        self.alerts: list[dict[str, Any]] = []

    def states(self, name: str) -> list[str]:
        """What was said about an alert, in order."""
        return [each["status"] for each in self.alerts if each["labels"]["alertname"] == name]


class _Posted(http.server.BaseHTTPRequestHandler):
    server: Webhook

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.alerts += json.loads(body)["alerts"]
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@contextmanager
def webhook() -> Iterator[Webhook]:
    with Webhook() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join(10)


@contextmanager
def program(folder: Path, *command: str) -> Iterator[None]:
    with (folder / f"{Path(command[0]).name}.log").open("ab") as log:
        child = subprocess.Popen(command, cwd=ROOT, env=child_environment(), stdout=log, stderr=log)
    try:
        yield
    finally:
        child.terminate()
        child.wait(30)


def write_configuration(folder: Path, process: int, prometheus: int, alertmanager: int, receiver: int) -> None:
    """Our files with other addresses, and seconds where they have minutes."""
    scraping = yaml.safe_load((MONITORING / "prometheus.yml").read_text())
    scraping["global"] = dict.fromkeys(("scrape_interval", "scrape_timeout", "evaluation_interval"), "1s")
    scraping["alerting"]["alertmanagers"][0]["static_configs"][0]["targets"] = [f"127.0.0.1:{alertmanager}"]
    for job, port in zip(scraping["scrape_configs"], (process, prometheus), strict=True):
        job["static_configs"][0]["targets"] = [f"127.0.0.1:{port}"]
    rules = yaml.safe_load((MONITORING / "alerts.yml").read_text())
    for group in rules["groups"]:
        for rule in group["rules"]:
            rule["for"] = "1s"
    routing = yaml.safe_load((MONITORING / "alertmanager.yml").read_text())
    routing["route"] |= {"group_wait": "0s", "group_interval": "1s"}
    routing["receivers"][0]["webhook_configs"][0]["url"] = f"http://127.0.0.1:{receiver}/alerts"
    for name, document in (("prometheus", scraping), ("alerts", rules), ("alertmanager", routing)):
        (folder / f"{name}.yml").write_text(yaml.safe_dump(document))


def test_alert_about_an_ended_process_reaches_a_webhook_and_is_resolved(tmp_path: Path) -> None:
    assert PROMETHEUS is not None, "beside prometheus-alertmanager, install prometheus"
    process, store, prometheus, alertmanager = free_ports(4)
    (tmp_path / "da.toml").write_text(f'directory = "blobs"\nport = {store}\n[metrics]\nport = {process}\n')
    observed = (sys.executable, "-m", "bytewise.da", "serve", "--config", str(tmp_path / "da.toml"))
    listen = [f"--web.listen-address=127.0.0.1:{port}" for port in (prometheus, alertmanager)]
    with ExitStack() as stack:
        received = stack.enter_context(webhook())
        write_configuration(tmp_path, process, prometheus, alertmanager, received.server_port)
        settings, folder = f"--config.file={tmp_path}/alertmanager.yml", f"--storage.path={tmp_path}/alertmanager"
        stack.enter_context(program(tmp_path, str(ALERTMANAGER), settings, folder, "--cluster.listen-address=", listen[1]))
        settings, folder = f"--config.file={tmp_path}/prometheus.yml", f"--storage.tsdb.path={tmp_path}/prometheus"
        stack.enter_context(program(tmp_path, PROMETHEUS, settings, folder, listen[0]))
        wait_until(lambda: received.states("BytewiseDown") == ["firing"])
        with program(tmp_path, *observed):
            wait_until(lambda: received.states("BytewiseDown") == ["firing", "resolved"])
        wait_until(lambda: received.states("BytewiseDown") == ["firing", "resolved", "firing"])
    (alert,) = [each for each in received.alerts if each["labels"]["alertname"] == "BytewiseDown"][-1:]
    assert alert["labels"]["severity"] == "critical" and alert["labels"]["instance"] == f"127.0.0.1:{process}"
    assert alert["annotations"] == {
        "summary": f"127.0.0.1:{process} does not answer", "runbook_url": "docs/runbooks/BytewiseDown.md",
    }  # fmt: skip
    assert (ROOT / alert["annotations"]["runbook_url"]).is_file()
