"""The state of a monitor that `bytewise status` shows: its process, its problems, and every invariant."""

from dataclasses import replace
from typing import Any

from bytewise.protocol.errors.branches import BytewiseError
from bytewise.service.readiness import Check
from cli.node import chain_checks, host_checks
from cli.node.doctor import checked
from cli.node.view import NodeView
from dashboard.monitor.settings import MonitorSettings
from dashboard.monitor.wiring import Monitor, MonitorReport


def monitor_state(view: NodeView) -> dict[str, Any]:
    """The whole state of a monitor. The index is only read: the running process is its writer."""
    settings = view.settings
    assert isinstance(settings, MonitorSettings), "the role says so"
    problems = [check for check in (checked(each, view) for each in _CHECKS) if not check.ok]
    ports = host_checks.ports(view)
    process = Check("process", "in use" in ports.value, f"ports {ports.value}", "a running process", "Start it: `bytewise run`.")
    if not process.ok:
        problems.insert(0, process)
    report = _report(settings, problems)
    return {
        "role": view.role, "chain_id": view.network.chain_id, "account": None, "process": process.value, "block": report.block,
        "healthy": not problems, "problems": [each.document() for each in problems],
        "invariants": [each.document() for each in report.results],
    }  # fmt: skip


_CHECKS = (host_checks.database, host_checks.disk, chain_checks.head_age)


def _report(settings: MonitorSettings, problems: list[Check]) -> MonitorReport:
    try:
        return Monitor(replace(settings, follow=False)).look()
    except BytewiseError as error:
        problems.append(Check("index", False, str(error), "an index", "Start the monitor, which makes it: `bytewise run`."))
        return MonitorReport(-1, "", ())
