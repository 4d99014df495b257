"""`bytewise enclave collateral`: keeps the collateral of this machine's quotes up to date."""

import contextlib
import functools
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from bytewise.protocol.errors.actors import ConfigurationError, EvidenceRefused
from bytewise.service.exit_codes import Exit
from bytewise.service.settings import load_settings, read_document
from cli.node.roles import JUDGES, verify_role
from cli.options import SETTINGS, NodeConfigOption
from cli.output import plain

if TYPE_CHECKING:
    from bytewise.tee.renewal import CollateralRenewal, CollateralSettings


def collateral(
    config: NodeConfigOption = Path(SETTINGS),
    once: Annotated[bool, typer.Option("--once", help="Renew it now, whatever its age, and end.")] = False,
) -> None:
    """Keep the collateral of this machine's quotes fresh until SIGTERM (TDX).

    The process runs inside the trust domain, beside the enclave, which has no network. `bytewise run` starts it if the settings
    have a section [collateral]. The process asks Intel's service or a cache of that service. It verifies the answer with a quote
    of this machine before it replaces the file `collateral.json` in the enclave's folder of endorsements.

    Exit codes: 0 renewed, or stopped, 64 wrong settings, no trust domain, or the folder cannot be written. With `--once`: 2 the
    answer does not verify this machine's quote, 5 the service does not answer. Without `--once` the process logs such an error
    and tries again later.

    Example: bytewise enclave collateral --once --config bytewise-verifier/bytewise.toml
    """
    from bytewise.service import telemetry
    from bytewise.service.schedule import run_ticks, stop_on_signals
    from bytewise.tee.renewal import LOOK_S

    with _renewal(config) as renewal:
        if once:
            _renew_once(renewal)
            return
        telemetry.configure("collateral")
        raise typer.Exit(run_ticks(renewal.look, LOOK_S, stop_on_signals(), name="collateral"))


def _renew_once(renewal: "CollateralRenewal") -> None:
    """Renews the file now and prints the result. Raises `typer.Exit` if the answer does not verify this machine's quote."""
    try:
        renewed = renewal.renew()
    except EvidenceRefused as error:
        do = "The old file stays. Name another service or cache in [collateral] service_url, or update this machine."
        for line in (str(error), do):
            Console(stderr=True).print(plain(line, "red"), soft_wrap=True)
        raise typer.Exit(int(Exit.MISMATCH)) from None
    print(f"{'replaced' if renewed.replaced else 'kept'}; expires at unix second {renewed.expires_at}")


def _verify_writable(folder: Path) -> None:
    """Raises `ConfigurationError` if no file can be made in the folder of endorsements."""
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise ConfigurationError("endorsements", f"{folder}: {error.strerror}: name a folder that can be written") from None


@contextlib.contextmanager
def _renewal(config: Path) -> "Iterator[CollateralRenewal]":
    from bytewise.protocol.evidence.appraisal_policy import EvidenceType
    from bytewise.protocol.evidence.claims import REPORT_DATA_BYTES
    from bytewise.service.clock import SystemClock
    from bytewise.tee.quoters import ConfigfsQuoter
    from bytewise.tee.renewal import CollateralRenewal
    from enclave.settings import EnclaveSettings

    verify_role(config, *JUDGES)
    enclave = load_settings(EnclaveSettings, config, "enclave")
    if enclave.evidence is not EvidenceType.TDX or enclave.endorsements is None:
        raise ConfigurationError("evidence", f"{enclave.evidence.value} has no collateral that is renewed: only tdx has")
    quoter = ConfigfsQuoter(enclave.endorsements, name="bytewise-collateral")
    try:
        if quoter.type is not EvidenceType.TDX:
            raise ConfigurationError("evidence", f"this machine attests by {quoter.type.value}, not tdx")
        _verify_writable(enclave.endorsements)
        # The quote only names the platform. Nobody checks its report data, so the data is zero.
        quote = functools.partial(quoter.raw_quote, bytes(REPORT_DATA_BYTES))
        yield CollateralRenewal(_settings(config), enclave.endorsements, quote, SystemClock().now)
    finally:
        quoter.close()


def _settings(config: Path) -> "CollateralSettings":
    from bytewise.tee.renewal import CollateralSettings

    return (
        load_settings(CollateralSettings, config, "collateral") if "collateral" in read_document(config) else CollateralSettings()
    )
