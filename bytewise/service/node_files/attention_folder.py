"""The folder in which a fund keeps one range of attention tests.

The folder has the secret schedule, the answer to the carrier's request, and the openings of false answers. Until the reveal all
of it is secret, because it shows which answers are tests.
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
    """The files of one range of attention tests.

    Methods raise `ConfigurationError` for a file that cannot be read or is of another kind, and for a schedule that other users
    may read. A missing opening is no error.
    """

    path: Path
    """Path of the folder."""

    @property
    def carrier(self) -> Path:
        """Path of the file with the answer to the carrier's request, as the operator sent it."""
        return self.path / "carrier.json"

    def create(self, schedule: FraudSchedule) -> None:
        """Makes the folder and stores a new schedule in it.

        Raises `ConfigurationError` if the folder exists or cannot be made.
        """
        try:
            self.path.mkdir(mode=0o700, parents=True)
        except OSError as error:
            raise ConfigurationError(str(self.path), f"{error.strerror}: name a new folder for each range") from None
        write_secret(self.path / "schedule.json", encode(schedule))

    def schedule(self) -> FraudSchedule:
        """Reads the secret schedule. Raises `ConfigurationError` if other users may read its file."""
        path = self.path / "schedule.json"
        try:
            return decode(FraudSchedule, read_secret(path).reveal())
        except Fault as error:
            raise ConfigurationError(path.name, f"is no schedule of `bytewise attention commit`: {error}") from None

    def keep_opening(self, seq: int, answer: RevealedAnswer) -> None:
        """Stores the opening of the false answer with number `seq`.

        It is on the disk when the method returns; a later opening replaces it.
        """
        opening = self._opening(seq)
        opening.parent.mkdir(mode=0o700, exist_ok=True)
        replace_file(opening, encode(answer))

    def opening(self, seq: int) -> RevealedAnswer | None:
        """Returns the opening of the false answer with number `seq`, or None if it was not stored."""
        try:
            return decode(RevealedAnswer, self._opening(seq).read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, Fault) as error:
            raise ConfigurationError(self._opening(seq).name, f"is no opening of an answer: {error}") from None

    def _opening(self, seq: int) -> Path:
        return self.path / "openings" / f"{seq}.json"
