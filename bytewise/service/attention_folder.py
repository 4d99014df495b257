"""The folder of one range of attention tests, which a fund keeps: secret schedule, carrier of the commitment, openings.

Everything in it is secret until the reveal: who reads it knows the tests.
"""

from dataclasses import dataclass
from pathlib import Path

from bytewise.protocol.attention.reveal import RevealedAnswer
from bytewise.protocol.attention.schedule import FraudSchedule
from bytewise.protocol.encoding import decode, encode
from bytewise.protocol.errors.actors import ConfigurationError
from bytewise.protocol.errors.branches import Fault
from bytewise.service.files import replace_file
from bytewise.service.secret import read_secret, write_secret


@dataclass(frozen=True, slots=True)
class AttentionFolder:
    """The files of one range. Methods raise `ConfigurationError` for a file that is missing, readable by others, or no such
    file."""

    path: Path
    """The folder."""

    @property
    def carrier(self) -> Path:
        """The answer to the request that carries the commitment, as the operator gave it."""
        return self.path / "carrier.json"

    def create(self, schedule: FraudSchedule) -> None:
        """Makes the folder with a new schedule."""
        try:
            self.path.mkdir(mode=0o700, parents=True)
        except OSError as error:
            raise ConfigurationError(str(self.path), f"{error.strerror}: name a new folder for each range") from None
        write_secret(self.path / "schedule.json", encode(schedule))

    def schedule(self) -> FraudSchedule:
        """The secret schedule."""
        path = self.path / "schedule.json"
        try:
            return decode(FraudSchedule, read_secret(path).reveal())
        except Fault as error:
            raise ConfigurationError(path.name, f"is no schedule of `bytewise attention commit`: {error}") from None

    def keep_opening(self, seq: int, answer: RevealedAnswer) -> None:
        """Keeps the opening of a false answer. It is on the disk when the method returns; a later one replaces it."""
        opening = self._opening(seq)
        opening.parent.mkdir(mode=0o700, exist_ok=True)
        replace_file(opening, encode(answer))

    def opening(self, seq: int) -> RevealedAnswer | None:
        """The opening of a false answer; None if it was not kept."""
        try:
            return decode(RevealedAnswer, self._opening(seq).read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, Fault) as error:
            raise ConfigurationError(self._opening(seq).name, f"is no opening of an answer: {error}") from None

    def _opening(self, seq: int) -> Path:
        return self.path / "openings" / f"{seq}.json"
