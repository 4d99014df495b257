"""An operator that cheats on its first four receipts: an altered token, another artifact, a forged trace, another text.

`python -m adversaries.dishonest_operator --config FILE --other ARTIFACT`: the same settings file as `bytewise operator run`.
"""

import argparse
import sys
from pathlib import Path

from adversaries.engines import AltersOneToken, CheatsInTurn, ForgesTheTrace, RunsAnotherArtifact, ShowsAnotherText
from bytewise.inference.artifact import artifact
from bytewise.inference.engine import ExactEngine
from bytewise.ports import Engine
from bytewise.service.settings import load_settings
from serving.settings import OperatorSettings
from serving.wiring import run


def main() -> int:
    """Serves dishonestly until terminated."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", required=True, type=Path, help="settings of the operator")
    parser.add_argument("--other", required=True, type=Path, help="artifact that runs under the promised one's name")
    arguments = parser.parse_args()

    def cheat(honest: Engine) -> Engine:
        loaded = artifact.load(arguments.other)
        other = RunsAnotherArtifact(honest, ExactEngine(loaded, threads=1), loaded.model_id)
        return CheatsInTurn(honest, (AltersOneToken(honest), other, ForgesTheTrace(honest), ShowsAnotherText(honest)))

    return run(load_settings(OperatorSettings, arguments.config), cheat)


if __name__ == "__main__":
    sys.exit(main())
