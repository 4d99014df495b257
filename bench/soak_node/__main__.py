"""Runs a real network under traffic, frauds and faults for hours, then checks on the chain what must hold: `make soak-node`.

HOURS or SECONDS, SEED and DATABASE are in the environment of `make`. The exit code is 0 without a violation. Otherwise it is 1,
and the report names the violations.
"""

import argparse
import json
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.machine import describe
from bench.soak_node.campaign import Campaign
from bench.soak_node.network import FAKETIME, SoakNetwork, means
from bench.soak_node.report import Judgement
from bench.soak_node.schedule import KINDS
from bytewise.service.clock import monotonic_s

RESULTS = Path("bench/results/soak-node.json")
_START = monotonic_s()


def say(text: str) -> None:
    """Prints one line with the time since the start."""
    print(f"{monotonic_s() - _START:7.0f} s  {text}", flush=True)


def arguments() -> argparse.Namespace:
    """Reads the options of the command line."""
    parser = argparse.ArgumentParser(prog="make soak-node", description=__doc__.split("\n\n")[0])
    parser.add_argument("--hours", type=float, default=2.0, help="time of traffic and faults (%(default)s)")
    parser.add_argument("--seconds", type=float, default=0.0, help="the same in seconds; counts before --hours")
    parser.add_argument("--seed", type=int, default=1, help="of schedule and questions (%(default)s)")
    parser.add_argument("--database", default="", help="URL of a PostgreSQL server for all actors; without it, SQLite")
    parser.add_argument("--per-minute", type=float, default=6.0, help="questions to the honest operator (%(default)s)")
    parser.add_argument(
        "--cheat-per-minute", type=float, default=6.0, help="questions to the operator that cheats on a third (%(default)s)"
    )
    parser.add_argument(
        "--audit-rate", type=int, default=6_000, help="chance that one verifier audits a receipt, of 10,000 (%(default)s)"
    )
    parser.add_argument(
        "--faketime", type=Path, default=FAKETIME, help="library that gives one process another clock (%(default)s)"
    )
    parser.add_argument(
        "--gossip", type=Path, help="Python of `make gossip-venv`: members make verdict certificates; without it, none"
    )
    parser.add_argument("--only", nargs="+", default=[], choices=sorted(KINDS), help="kinds of faults; all without it")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where the figures are written (%(default)s)")
    return parser.parse_args()


def main() -> int:
    """Runs the network, judges the run and writes the figures. Returns the exit code."""
    options = arguments()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    seconds = options.seconds or options.hours * 3600
    machine, root = describe(), Path.cwd()
    folder = root / "runs" / datetime.now(UTC).strftime("soak-%Y%m%d-%H%M%S")
    network = SoakNetwork(root, folder, means(options.database, options.faketime, options.gossip), options.audit_rate, say)
    with network.running() as built:
        say(f"everybody is ready; {seconds:.0f} s of traffic and faults begin (seed {options.seed})")
        rates = {"honest": options.per_minute, "dishonest": options.cheat_per_minute}
        campaign = Campaign(network, options.seed, seconds, rates, say, frozenset(options.only))
        judged = Judgement(campaign, built, campaign.run(built))
        found = {
            "seconds": round(campaign.ran_s),
            "seed": options.seed,
            "database": "PostgreSQL" if options.database else "SQLite",
            "questions_per_minute": rates,
            "audit_rate_bps": options.audit_rate,
            **judged.figures(),
            "violations": judged.violations(),
        }
    write(options.out, found["database"], {"machine": machine, **found})
    (folder / "report.json").write_text(json.dumps(found, indent=1) + "\n")
    wrong = {name: lines for name, lines in found["violations"].items() if lines}
    for name, lines in wrong.items():
        print("\n".join(f"{name}: {line}" for line in lines), file=sys.stderr)
    say(f"{found['receipts']} receipts, {sum(found['faults'].values())} faults, {sum(map(len, wrong.values()))} violations")
    if not wrong:
        network.clean()
    return 1 if wrong else 0


def write(path: Path, database: str, report: dict[str, Any]) -> None:
    """Replaces the figures of this kind of database in the file, and keeps those of the other kind."""
    kept = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**kept, database: report}, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
