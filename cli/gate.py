"""`bytewise gate`: checks that a running endpoint answers identical seeded requests with identical bytes."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from bytewise.service.exit_codes import Exit
from cli.output import OutputFormat, OutputOption, emit, progress_bars

if TYPE_CHECKING:
    from bytewise_client.endpoint import GateFinding


def gate(
    url: Annotated[str, typer.Argument(metavar="URL", help="Base address of an OpenAI-compatible endpoint.")],
    model: Annotated[str, typer.Option("--model", help="Served model; by default the first that the endpoint lists.")] = "",
    certificate: Annotated[
        Path | None, typer.Option("--certificate", help="TLS certificate to trust, PEM, e.g. the operator's tls.pem.")
    ] = None,
    runs: Annotated[int, typer.Option("--runs", min=2, max=10_000, help="Identical requests alone, and again in traffic.")] = 5,
    traffic: Annotated[int, typer.Option("--traffic", min=1, max=64, help="Different requests in flight beside each.")] = 3,
    tokens: Annotated[int, typer.Option("--tokens", min=1, max=2**20, help="New tokens of each answer.")] = 32,
    seed: Annotated[int, typer.Option("--seed", min=0, max=2**53 - 1, help="Sampler seed of the identical requests.")] = 1,
    api_key: Annotated[str, typer.Option("--api-key", help="Sent as bearer token.", envvar="BYTEWISE_API_KEY")] = "none",
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Send identical requests to an endpoint; fail on the first differing byte.

    The requests are seeded. They are sent alone and among other traffic.

    One greedy and one sampled request are repeated. Text, finish reason, logprobs, token ids, usage and replay recipe of the
    answers must be equal to the byte. Ids, times, nonces and signatures are new in each answer and are not compared. Each request
    has a new idempotency key, so that an endpoint that stores answers computes each of them again.

    Example: bytewise gate https://127.0.0.1:8443 --certificate tls.pem --runs 20

    Exit codes: 0 identical, 2 a byte differs, 3 the endpoint repeated an answer instead of computing it, 5 the endpoint does not
    answer, 64 wrong input.
    """
    from bytewise_client.endpoint import Endpoint, Plan, run

    endpoint = Endpoint(url, certificate, api_key)
    try:
        plan = Plan(model or endpoint.model(), runs, traffic, tokens, seed)
        with progress_bars() as bars:
            task = bars.add_task("asking", total=plan.total)
            found = run(endpoint, plan, lambda done, total: bars.update(task, completed=done, total=total))
    finally:
        endpoint.close()
    emit(output, found.as_json(), lambda: _show(found, Console()))
    raise typer.Exit(_exit(found))


def _exit(found: "GateFinding") -> Exit:
    if found.difference is not None:
        return Exit.MISMATCH
    return Exit.INCONCLUSIVE if found.replayed else Exit.OK


def _show(found: "GateFinding", console: Console) -> None:
    counted = f"{found.answers} answers, {found.compared} comparisons, {found.bytes} bytes"
    where = found.difference
    if where is not None:
        told = f"DIFFERENT: {where.request} request, answer {where.answer}, {where.part}, byte {where.byte} ({counted})"
        console.print(
            f"{told}\n  first answer: {where.expected!r}\n  this answer:  {where.found!r}", markup=False, soft_wrap=True
        )
    elif found.replayed:
        console.print(f"INCONCLUSIVE: two answers carry one receipt, so one was not computed ({counted})", markup=False)
    else:
        console.print(f"IDENTICAL: {counted}", markup=False)
