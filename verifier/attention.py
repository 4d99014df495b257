"""The periodic job that scores how this node behaved in revealed attention tests. It logs one line for each reveal and sets the
results as metrics."""

import stat
from collections.abc import Callable, Sequence
from pathlib import Path

from bytewise.protocol.attention.score import AttentionResult, AttentionScore, ScoredTest, score_tests
from bytewise.protocol.errors.branches import BytewiseError, Unavailable
from bytewise.protocol.units import Address
from bytewise.service import metrics, telemetry
from bytewise.service.schedule import PeriodicJob
from verifier.settings import AttentionSettings

ReadTests = Callable[[Path], Sequence[ScoredTest]]
"""Function that reads the file of a reveal. It returns the tests of the file, each with the actions of this node that the chain
shows. It raises an error if the reveal is too early or proves nothing."""


class AttentionJob:
    """The periodic job that scores this node in revealed attention tests. The folder of the settings has one file for each
    reveal. The job scores a file once, and again if the file changes. It also scores a file again while this node has an audit in
    it whose result is not opened yet. Nothing is stored, so a restart scores all files again."""

    def __init__(self, settings: AttentionSettings, account: Address, read: ReadTests) -> None:
        self._settings, self._account, self._read = settings, account, read
        self._scored: dict[tuple[str, int], Sequence[ScoredTest]] = {}
        self._skipped: set[str] = set()

    def job(self) -> PeriodicJob:
        """Returns the periodic job that calls `run`. `run_ticks` starts it."""
        return PeriodicJob("attention", self.run, self._settings.every_s)

    def run(self) -> None:
        """Scores each reveal that is new or was changed since the last run. Also scores again each reveal in which this node has
        an audit whose result was not opened yet. A reveal that is too early to be scored is tried again at the next run."""
        paths = sorted(self._settings.folder.glob("*.json"))
        self._skipped &= {path.name for path in paths}
        present = {key: path for path in paths for key in [self._key(path)] if key is not None}
        self._scored = {key: records for key, records in self._scored.items() if key in present}
        for key, path in present.items():
            # An audit of the node may be opened after the first run.
            if key not in self._scored or self._score_of(self._scored[key]).audits.unopened:
                self._score(key, path)
        everything = [record for records in self._scored.values() for record in records]
        score = self._score_of(everything)
        for result in AttentionResult:
            count = getattr(score.audits, result.value) + getattr(score.seats, result.value)
            metrics.ATTENTION_RESULTS.labels(result=result.value).set(count)

    def _score_of(self, records: Sequence[ScoredTest]) -> AttentionScore:
        return score_tests(records, [self._account])[self._account]

    def _key(self, path: Path) -> tuple[str, int] | None:
        """Returns the name and the time of change of a regular file. Returns None for a dangling link, a pipe or a file that was
        just removed, and logs that once."""
        try:
            found = path.stat()
            reason = "" if stat.S_ISREG(found.st_mode) else "is no regular file"
        except OSError as error:
            reason = error.strerror or type(error).__name__
        if not reason:
            return path.name, found.st_mtime_ns
        if path.name not in self._skipped:
            telemetry.log("attention.skipped", file=path.name, reason=reason)
            self._skipped.add(path.name)
        return None

    def _score(self, key: tuple[str, int], path: Path) -> None:
        try:
            records = self._read(path)
        except Unavailable as error:
            telemetry.log_error("attention.postponed", error, file=path.name)
            return
        except BytewiseError as error:
            telemetry.log_error("attention.refused", error, file=path.name)
            self._scored[key] = ()
            return
        if records == self._scored.get(key):
            return
        self._scored[key] = records
        score = self._score_of(records)
        telemetry.log(
            "attention.scored", file=path.name, tests=len(records), unproven=sum(each.is_false is None for each in records),
            caught=score.audits.caught + score.seats.caught, unopened=score.audits.unopened,
            missed=score.audits.missed + score.seats.missed,
            silent=score.audits.silent + score.seats.silent, unavailable=score.audits.unavailable + score.seats.unavailable,
            disputed=score.watch.disputed, undisputed=score.watch.missed,
        )  # fmt: skip
