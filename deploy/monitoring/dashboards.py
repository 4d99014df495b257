"""Writes the Grafana dashboards of `deploy/monitoring/grafana/dashboards`.

    python deploy/monitoring/dashboards.py           # write
    python deploy/monitoring/dashboards.py --check   # compare with the committed files; exit 1 if one differs

Every panel has a unit, a description and expressions over metrics of `bytewise/service/metrics.py`.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).resolve().parent / "grafana" / "dashboards"
DATASOURCE = {"type": "prometheus", "uid": "bytewise-prom"}
WIDTH, HEIGHT = 24, 7
SCHEMA_VERSION = 39
"""Version of the dashboard format, that of Grafana 11. Newer versions of Grafana convert a dashboard when they load it."""


class Panel(NamedTuple):
    """One panel of a dashboard."""

    title: str
    description: str
    unit: str
    queries: Mapping[str, str]
    """PromQL expression of each line, by its legend."""
    kind: str = "timeseries"
    width: int = 8


class Dashboard(NamedTuple):
    """One dashboard, with rows of panels."""

    name: str
    title: str
    description: str
    rows: Mapping[str, Sequence[Panel]]
    variable: bool
    """Whether the reader chooses one process, which all panels then show."""


OVERVIEW = Dashboard(
    "overview", "Bytewise: overview", "All processes: what is wrong, and what happens in the network.",
    {
        "Health": (
            Panel("Processes that answer", "Scrapes that succeed, by process.", "short",
                  {"{{instance}}": 'up{job="bytewise"}'}, "stat"),
            Panel("Failing checks", "Readiness checks that fail; `/readyz` of the process says what to do.", "short",
                  {"{{instance}} {{check}}": "bytewise_readiness == 0"}, "table"),
            Panel("Versions", "Version of each process, and what it is.", "short",
                  {"{{instance}} {{version}}": "bytewise_build_info", "{{instance}} {{role}}": "bytewise_config_info"}, "table"),
        ),
        "Invariants": (
            Panel("Broken or unknown", "Invariants of the network that a monitor does not see hold; each has a page.", "short",
                  {"{{instance}} {{invariant}} {{state}}": 'bytewise_invariant_state{state!="holds"} == 1'}, "table"),
            Panel("Findings", "Places where an invariant is broken, by invariant.", "short",
                  {"{{instance}} {{invariant}}": "bytewise_invariant_findings > 0"}),
            Panel("Money drift", "Balance of a contract without what it owes, in wei; below 0: money is missing.", "short",
                  {"{{instance}} {{contract}}": "bytewise_money_drift_wei"}),
        ),
        "Duties": (
            Panel("Open disputes", "Disputes that can still change, by the node's part in them.", "short",
                  {"{{instance}} {{role}}": "bytewise_disputes_open"}, width=6),
            Panel("Time to the next deadline", "Seconds until an own seat must have acted; no line if nothing is due.", "s",
                  {"{{instance}} {{stage}}": "bytewise_dispute_min_seconds_to_deadline < +Inf"}, width=6),
            Panel("Duties that ended", "Duties per hour, by result.", "short",
                  {"{{instance}} {{kind}} {{result}}": "increase(bytewise_duties_total[1h])"}, width=6),
            Panel("Seats that were settled", "Own seats per day, by what the court made of them.", "short",
                  {"{{instance}} {{outcome}}": "increase(bytewise_seats_total[1d])"}, width=6),
        ),
        "Network": (
            Panel("Receipts checked", "Receipts per second, by finding.", "ops",
                  {"{{instance}} {{result}}": "rate(bytewise_receipts_seen_total[5m])"}),
            Panel("Light audits", "Audits per hour, by result.", "short",
                  {"{{instance}} {{outcome}}": "increase(bytewise_audits_total[1h])"}),
            Panel("Withheld data", "Lists and envelopes per hour that DA had not at the deadline.", "short",
                  {"{{instance}} {{what}}": "increase(bytewise_withheld_total[1h])"}),
        ),
        "Chain and data availability": (
            Panel("Age of the head", "Seconds since the block from which a process last decided.", "s",
                  {"{{instance}}": "time() - bytewise_chain_head_timestamp_seconds"}),
            Panel("Chain requests that fail", "Share of JSON-RPC requests, by endpoint.", "percentunit",
                  {"{{instance}} {{provider}}":
                   'sum by (instance, provider) (rate(bytewise_rpc_requests_total{result="failed"}[5m])) / '
                   "sum by (instance, provider) (rate(bytewise_rpc_requests_total[5m]))"}),
            Panel("DA requests", "Requests per second, by result.", "ops",
                  {"{{instance}} {{op}} {{status}}": "rate(bytewise_da_requests_total[5m])"}),
        ),
        "Verdicts and reserves": (
            Panel("Verdicts", "Final verdicts per day, as a monitor or a dashboard indexes them.", "short",
                  {"{{instance}} {{verdict}}": "increase(bytewise_verdicts_total[1d])"}),
            Panel("Slashed stake", "Stake that was taken within a day, in ETH.", "none",
                  {"{{instance}}": "increase(bytewise_slashed_wei_total[1d]) / 1e18"}),
            Panel("Endpoints that fail", "Chain endpoints in whose place others answer.", "short",
                  {"{{instance}} {{provider}}": "bytewise_rpc_using_fallback == 1"}, "table"),
        ),
        "Key shards and operators": (
            Panel("Shards ready", "Shards whose share is in force, and how many are needed.", "short",
                  {"{{instance}} ready": "bytewise_kms_shards_ready", "{{instance}} needed": "bytewise_kms_threshold"}),
            Panel("Releases", "Release requests per second that shards recorded.", "ops",
                  {"{{instance}} {{decision}}": "rate(bytewise_kms_releases_total[5m])"}),
            Panel("Receipts signed", "Receipts per second of operators, and those that wait for a batch.", "short",
                  {"{{instance}} signed": "rate(bytewise_receipts_signed_total[5m])",
                   "{{instance}} not anchored": "bytewise_receipts_unanchored"}),
        ),
    },
    False,
)  # fmt: skip

_ONE = '{instance="$instance"}'

NODE = Dashboard(
    "node", "Bytewise: node", "One process: its account, transactions, enclave, loops and resources.",
    {
        "State": (
            Panel("Checks", "1 passes, 0 fails; `/readyz` of the process says what to do.", "short",
                  {"{{check}}": f"bytewise_readiness{_ONE}"}, "table"),
            Panel("Loops", "Seconds since a loop last succeeded.", "s",
                  {"{{loop}}": f"time() - bytewise_loop_last_success_timestamp_seconds{_ONE}"}),
            Panel("Duration of a pass", "95 of 100 passes of a loop take less.", "s",
                  {"{{loop}}": "histogram_quantile(0.95, sum by (loop, le) "
                   f"(rate(bytewise_loop_seconds_bucket{_ONE}[5m])))"}),
        ),
        "Account": (
            Panel("Balance", "Balance of the account, and what the worst case needs.", "none",
                  {"balance (ETH)": f"bytewise_account_balance_wei{_ONE} / 1e18",
                   "required (ETH)": f"bytewise_account_required_wei{_ONE} / 1e18"}),
            Panel("Stake", "Stake that counts for draws and for posting, in ETH.", "none",
                  {"stake (ETH)": f"bytewise_account_stake_wei{_ONE} / 1e18"}),
            Panel("Fees", "Fees of confirmed transactions in the last day, in ETH.", "none",
                  {"fees (ETH)": f"increase(bytewise_tx_fee_wei_total{_ONE}[1d]) / 1e18"}),
        ),
        "Transactions": (
            Panel("Pending", "Transactions that have not ended.", "short", {"pending": f"bytewise_tx_pending{_ONE}"}),
            Panel("Oldest pending", "Seconds that the oldest signed transaction waits for a block.", "s",
                  {"age": f"bytewise_tx_oldest_pending_seconds{_ONE}"}),
            Panel("Ended", "Transactions per hour, by function and end.", "short",
                  {"{{function}} {{state}}": f"increase(bytewise_tx_total{_ONE}[1h])"}),
        ),
        "Enclave": (
            Panel("Jobs", "Jobs per hour, by kind and result.", "short",
                  {"{{kind}} {{outcome}}": f"increase(bytewise_replay_total{_ONE}[1h])"}),
            Panel("Duration of a job", "95 of 100 jobs take less.", "s",
                  {"{{kind}}": f"histogram_quantile(0.95, sum by (kind, le) (rate(bytewise_replay_seconds_bucket{_ONE}[1h])))"}),
            Panel("Waiting", "Jobs, drawn audits and data that wait.", "short",
                  {"jobs": f"bytewise_jobs_waiting{_ONE}", "audits": f"bytewise_audit_queue_length{_ONE}",
                   "lists and envelopes": f"bytewise_fetch_backlog{_ONE}"}),
        ),
        "Evidence, audits and gossip": (
            Panel("Age of the evidence", "Seconds since the policy last accepted evidence of an own enclave.", "s",
                  {"age": f"bytewise_attestation_age_seconds{_ONE}"}),
            Panel("Audit coverage", "Share of the drawn audits of the last day that have a result.", "percentunit",
                  {"coverage": f"bytewise_audit_coverage_ratio{_ONE}"}),
            Panel("Gossip peers", "Peers that are connected, and those that are registered.", "short",
                  {"connected": f"bytewise_gossip_peers{_ONE}", "registered": f"bytewise_gossip_registered_peers{_ONE}"}),
        ),
        "Errors": (
            Panel("Errors in the log", "Lines about an error per minute, by event.", "short",
                  {"{{topic}}": f"60 * rate(bytewise_log_errors_total{_ONE}[5m])"}, width=12),
            Panel("Failing parts", "Steps per minute that failed and are tried again.", "short",
                  {"{{part}} {{error}}": f"60 * rate(bytewise_part_failures_total{_ONE}[5m])"}, width=12),
        ),
        "Resources": (
            Panel("Memory", "Resident memory of the process.", "bytes", {"memory": f"process_resident_memory_bytes{_ONE}"}),
            Panel("Disk", "Size of the database, and free space beside it.", "bytes",
                  {"database": f"bytewise_db_size_bytes{_ONE}", "free": f"bytewise_disk_free_bytes{_ONE}"}),
            Panel("Processor", "Processor seconds per second.", "short", {"cpu": f"rate(process_cpu_seconds_total{_ONE}[5m])"}),
        ),
    },
    True,
)  # fmt: skip

DASHBOARDS = (OVERVIEW, NODE)


def document(dashboard: Dashboard) -> dict[str, Any]:
    """Returns the dashboard in Grafana's JSON format."""
    panels: list[dict[str, Any]] = []
    top = 0
    for title, row in dashboard.rows.items():
        panels.append(_row(len(panels) + 1, title, top))
        left = 0
        for panel in row:
            panels.append(_panel(len(panels) + 1, panel, left, top + 1))
            left += panel.width
        top += 1 + HEIGHT
    return {
        "uid": f"bytewise-{dashboard.name}", "title": dashboard.title, "description": dashboard.description, "tags": ["bytewise"],
        "schemaVersion": SCHEMA_VERSION, "version": 1, "editable": True, "refresh": "30s", "timezone": "utc",
        "time": {"from": "now-6h", "to": "now"}, "templating": {"list": [_variable()] if dashboard.variable else []},
        "annotations": {"list": []}, "links": [], "panels": panels,
    }  # fmt: skip


def _row(number: int, title: str, top: int) -> dict[str, Any]:
    place = {"h": 1, "w": WIDTH, "x": 0, "y": top}
    return {"id": number, "type": "row", "title": title, "collapsed": False, "gridPos": place, "panels": []}


def _panel(number: int, panel: Panel, left: int, top: int) -> dict[str, Any]:
    targets = [
        {
            "refId": chr(ord("A") + place), "datasource": DATASOURCE, "expr": expression, "legendFormat": legend,
            "instant": panel.kind == "table", "range": panel.kind != "table",
        }
        for place, (legend, expression) in enumerate(panel.queries.items())
    ]  # fmt: skip
    return {
        "id": number, "type": panel.kind, "title": panel.title, "description": panel.description, "datasource": DATASOURCE,
        "gridPos": {"h": HEIGHT, "w": panel.width, "x": left, "y": top}, "targets": targets,
        "fieldConfig": {"defaults": {"unit": panel.unit}, "overrides": []}, "options": {},
    }  # fmt: skip


def _variable() -> dict[str, Any]:
    query = {"query": "label_values(bytewise_up, instance)", "refId": "instance"}
    return {
        "name": "instance", "label": "Process", "type": "query", "datasource": DATASOURCE, "query": query, "refresh": 2,
        "includeAll": False, "multi": False, "sort": 1,
    }  # fmt: skip


def text_of(dashboard: Dashboard) -> str:
    """Returns the text of the dashboard's file."""
    return json.dumps(document(dashboard), indent=1) + "\n"


def main() -> int:
    """Writes the files. With `--check` it compares them instead, and returns 1 if one differs."""
    files = {FOLDER / f"{each.name}.json": text_of(each) for each in DASHBOARDS}
    stale = [path for path, text in files.items() if not path.exists() or path.read_text() != text]
    if "--check" in sys.argv:
        for path in stale:
            print(f"{path.name} is not what dashboards.py says: run it", file=sys.stderr)
        return int(bool(stale))
    for path in stale:
        path.write_text(files[path])
    return 0


if __name__ == "__main__":
    sys.exit(main())
