"""Two enclaves of one node, side by side: the old and the new release during an upgrade, or two models.

A job goes to an enclave that answers, runs the receipt's model, and has evidence that the appraisal policy in force accepts, as
far as there is one. While the policy approves both releases, the first one serves; once it approves only the other, that does.
"""

import functools
from collections.abc import Sequence
from typing import NamedTuple

from bytewise.ports import EnclaveJobs
from bytewise.protocol.errors.actors import TryAgain
from bytewise.protocol.jobs import JobResult, Prepared, RunJob
from bytewise.protocol.units import Digest
from bytewise.service.readiness import Check, ReadinessRegistry
from verifier.jobs.enclave_readiness import CHECKS, EnclaveReadiness


class KnownEnclave(NamedTuple):
    """An enclave, and what is known of it."""

    jobs: EnclaveJobs
    state: EnclaveReadiness


class EnclaveChoice:
    """Implements `bytewise.ports.EnclaveJobs` by the enclave that fits a job best. For the thread that runs jobs."""

    def __init__(self, enclaves: Sequence[KnownEnclave]) -> None:
        self._enclaves = enclaves
        self._chosen: EnclaveJobs | None = None

    def prepare(self, receipt_id: Digest, model_id: Digest) -> Prepared:
        """A fresh transport key of the enclave that fits best; of the next one if that takes no job. `TryAgain` if none does."""
        self._chosen, last = None, TryAgain("enclave", "there is none")
        for each in sorted(self._enclaves, key=lambda known: known.state.rank(model_id)):
            try:
                prepared = each.jobs.prepare(receipt_id, model_id)
            except TryAgain as error:
                last = error
                continue
            self._chosen = each.jobs
            return prepared
        raise last

    def run(self, job: RunJob) -> JobResult:
        """The result of the prepared job; errors of the enclave that was chosen for it."""
        if self._chosen is None:
            raise TryAgain("enclave", "no prepared job")
        return self._chosen.run(job)


def add_enclave_checks(readiness: ReadinessRegistry, states: Sequence[EnclaveReadiness]) -> None:
    """Adds the checks of a node's enclaves. Of two enclaves it is enough that one passes a check: the other comes or goes."""
    for name in CHECKS:
        readiness.add(name, functools.partial(_best, name, states))


def _best(name: str, states: Sequence[EnclaveReadiness]) -> Check:
    found = [each.check(name) for each in states]
    best = next((each for each in found if each.ok), found[0])
    return best._replace(value=", and ".join(each.value for each in found))
