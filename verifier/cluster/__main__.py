"""`python -m verifier.cluster --config FILE`: the bridge between a duty process and a Ray cluster. It needs `bytewise[ray]`.

Exit codes: `bytewise.service.exit_codes`.
"""

import importlib.util
import sys
from collections.abc import Sequence

from bytewise.protocol.errors.actors import ConfigurationError, TryAgain
from bytewise.service.entry_point import Parser, abandon, is_abandoned, run_entry
from bytewise.service.schedule import stop_on_signals
from bytewise.service.settings import library_variables, load_settings
from verifier.cluster.settings import BridgeSettings


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the bridge until SIGTERM. Returns the exit code of the process."""
    config = Parser("verifier.cluster", __doc__).parse_args(arguments).config

    def work() -> int:
        settings = load_settings(BridgeSettings, config, "bridge")
        if library_variables(("RAY_AUTH_MODE",)).get("RAY_AUTH_MODE") != "token" and not settings.insecure_without_token:
            raise ConfigurationError("RAY_AUTH_MODE", "set it to token on every machine of the cluster, and RAY_AUTH_TOKEN_PATH")
        if importlib.util.find_spec("ray") is None:
            raise ConfigurationError("ray", "is not installed: pip install -c constraints.txt -e '.[ray]'")
        return _serve(settings)

    return run_entry("bridge", work)


def _serve(settings: BridgeSettings) -> int:
    # Imported here: only the bridge has Ray.
    from verifier.cluster.bridge import serve
    from verifier.cluster.ray_agents import RayAgents

    stop = stop_on_signals()
    agents = RayAgents(settings)
    try:
        serve(settings, agents, stop)
    except TryAgain:
        abandon()  # closing the agents would wait for the head that is gone
        raise
    finally:
        if not is_abandoned():
            agents.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
