"""`bytewise gate` against a real operator, one that cheats, and small servers that each do one thing wrong; readiness."""

import copy
import json
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2
import pytest

from bytewise.service.clock import monotonic_s
from bytewise.service.exit_codes import Exit
from bytewise_client import endpoint as endpoints
from bytewise_client.endpoint import MAX_ANSWER_BYTES, Plan, comparable, first_difference
from cli.__main__ import main
from cli.demo.facts import gate_fact
from tests.fixtures.serving.operator_site import READY_S, Operator, make_artifact, process, running_operator_site

SHORT = ("--runs", "2", "--traffic", "2", "--tokens", "12")
Reply = dict[str, Any]


def fired(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Reply]:
    code = main(["gate", *arguments, *SHORT, "--output", "json"])
    printed = capsys.readouterr().out
    return code, json.loads(printed) if printed else {}


def at(operator: Operator) -> tuple[str, ...]:
    return (operator.url, "--certificate", str(operator.folder / "tls.pem"))


CHEAT = "adversaries.dishonest_operator"
"""`serving` with a wrapped engine: an altered token, another artifact, a false trace, another text, then honest answers."""


def test_gate_passes_a_warm_honest_operator_and_names_a_cheating_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with running_operator_site(tmp_path) as site:
        settings = ("--config", str(site.folder / "operator.toml"), "--other", str(make_artifact(site.folder, seed=2)))
        with process(site.folder, CHEAT, *settings) as child, site.http() as http:
            wait_warm(site, http, child)
            code, told = fired(capsys, *at(site))
            assert (code, told["identical"], set(gate_fact(told).values())) == (Exit.MISMATCH, False, {False})
            where = told["difference"]
            assert (where["request"], where["answer"]) == ("greedy", "2 (alone)") and where["expected"] != where["found"]
            code, told = fired(capsys, *at(site))
            assert (code, told["identical"]) == (Exit.MISMATCH, False), "the last fraud: another text under the true output hash"
            code, told = fired(capsys, *at(site))
        assert (code, told["identical"], told["difference"], told["replayed"]) == (Exit.OK, True, None, False)
        assert (told["answers"], told["compared"]) == (16, 6) and told["bytes"] > 6 * 500
        assert set(gate_fact(told).values()) == {True}


def wait_warm(site: Operator, http: httpx2.Client, child: "subprocess.Popen[bytes]") -> None:
    """Polls readiness from the first moment: 503 before the operator is warm, at least once, and 200 only after it."""
    log, early = site.folder / f"{CHEAT}.log", 0
    deadline, pause = monotonic_s() + READY_S, threading.Event()
    while True:
        before = log.read_text()
        status = probe(http, site.url)
        if status == 200:
            assert "operator.warmed_up" in log.read_text()
            break
        early += status == 503 and "operator.warmed_up" not in before
        assert child.poll() is None and monotonic_s() < deadline, log.read_text()[-2000:]
        pause.wait(0.02)
    assert early > 0, "no probe was answered before the operator was warm"


def probe(http: httpx2.Client, url: str) -> int:
    try:
        return http.get(f"{url}/health", timeout=5.0).status_code
    except httpx2.TransportError:
        return 0


REPLY: Reply = {
    "id": "x", "model": "m", "system_fingerprint": "f", "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3},
    "choices": [
        {"index": 0, "message": {"role": "assistant", "content": "fair wind"}, "finish_reason": "stop", "logprobs": None},
    ],
    "determinism": {"seed": 1}, "opening": {"output": {"token_ids": [4, 5]}, "request": {"nonce": "0x1"}},
}  # fmt: skip


class Trickle(bytes):
    """An answer of which each byte comes by itself."""


@contextmanager
def endpoint(reply: Callable[[int], Reply | bytes]) -> Iterator[str]:
    """An endpoint that answers the n-th chat request (from 0) with `reply(n)`, after refusing one as busy."""
    numbers, lock, refusals = iter(range(10_000)), threading.Lock(), [503]

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._say(200, {"data": [{"id": "m"}]})

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            with lock:
                status = refusals.pop() if refusals else 200
                answer = reply(next(numbers)) if status == 200 else {}
            self._say(status, answer)

        def log_message(self, *args: Any) -> None:
            """Says nothing on the test's standard error."""

        def _say(self, status: int, value: Reply | bytes) -> None:
            data = value if isinstance(value, bytes) else json.dumps(value).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            pieces = [data[i : i + 1] for i in range(len(data))] if isinstance(value, Trickle) else [data]
            with suppress(ConnectionError):  # who asked has read enough
                for piece in pieces:
                    self.wfile.write(piece)
                    threading.Event().wait(0.2 if len(pieces) > 1 else 0)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def changed(where: Callable[[Reply], object], receipt: str | None = None) -> Reply:
    reply = copy.deepcopy(REPLY)
    where(reply)
    return reply if receipt is None else {**reply, "receipt": {"receipt_id": receipt}}


def test_values_that_must_be_new_each_time_are_not_compared() -> None:
    new = changed(lambda r: (r.update(id="y", created=7), r["opening"]["request"].update(nonce="0x2")), receipt="0x3")
    assert first_difference("greedy", "2", comparable(REPLY), comparable(new)) is None


@pytest.mark.parametrize(
    ("where", "part", "byte"),
    [
        (lambda r: r["choices"][0]["message"].update(content="fair wine"), "choices[0].message.content", 8),
        (lambda r: r["choices"][0]["message"].update(content="fair winds"), "choices[0].message.content", 9),
        (lambda r: r["choices"][0].update(finish_reason="length"), "choices[0]", 18),
        (lambda r: r["choices"].append({"message": {"content": "more"}}), "choices[1].message.content", 0),
        (lambda r: r["usage"].update(completion_tokens=3), "usage", 21),
        (lambda r: r["opening"]["output"].update(token_ids=[4, 6]), "opening.output.token_ids", 3),
        (lambda r: r["determinism"].update(seed=2), "determinism", 8),
        (lambda r: r.update(system_fingerprint="g"), "system_fingerprint", 1),
    ],
)
def test_one_byte_is_named_with_its_place(where: Callable[[Reply], object], part: str, byte: int) -> None:
    found = first_difference("greedy", "2", comparable(REPLY), comparable(changed(where)))
    assert found is not None and (found.part, found.byte) == (part, byte)


def choices(receipts: str = "ab") -> Reply:
    """A reply with two choices, each with a receipt and an opening of its own."""
    answers = [changed(lambda r: None, receipt) for receipt in receipts]
    answers[1]["opening"]["output"]["token_ids"] = [4, 6]
    return {**copy.deepcopy(answers[0]), "choices": [answer["choices"][0] for answer in answers], "answers": answers}


@pytest.mark.parametrize(
    ("where", "part"),
    [
        (lambda r: r["answers"][1]["opening"]["output"].update(token_ids=[4, 9]), "answers[1].opening.output.token_ids"),
        (lambda r: r["answers"][1]["determinism"].update(seed=2), "answers[1].determinism"),
        (lambda r: r["answers"].append({}), "answers[2].opening.output.token_ids"),
    ],
)
def test_every_choice_is_compared(where: Callable[[Reply], object], part: str) -> None:
    first, other = comparable(choices()), choices("cd")
    assert first_difference("sampled", "2", first, comparable(other)) is None
    where(other)
    found = first_difference("sampled", "2", first, comparable(other))
    assert found is not None and found.part == part


def test_repeated_choice_proves_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with endpoint(lambda n: choices(f"{chr(200 + n)}b")) as url:
        code, told = fired(capsys, url)
    assert (code, told["replayed"]) == (Exit.INCONCLUSIVE, True)


def test_the_sampled_probe_asks_for_two_choices() -> None:
    assert {name: body.get("n", 1) for name, body in Plan("m", 2, 3, 8, 1).probes.items()} == {"greedy": 1, "sampled": 2}


def test_one_changed_byte_in_traffic_ends_the_gate(capsys: pytest.CaptureFixture[str]) -> None:
    other = changed(lambda r: r["choices"][0]["message"].update(content="fair wine"))
    with endpoint(lambda n: other if n >= 10 else REPLY) as url:
        code, told = fired(capsys, url)
    assert code == Exit.MISMATCH
    assert told["difference"]["answer"].endswith("(among traffic)") and told["difference"]["byte"] == 8


def test_report_shows_the_byte_and_its_context(capsys: pytest.CaptureFixture[str]) -> None:
    other = changed(lambda r: r["choices"][0]["message"].update(content="fair wine"))
    with endpoint(lambda n: other if n == 1 else REPLY) as url:
        assert main(["gate", url, *SHORT]) == Exit.MISMATCH
    told = capsys.readouterr().out
    assert "DIFFERENT: greedy request, answer 2 (alone), choices[0].message.content, byte 8" in told
    assert "'fair wind'" in told and "'fair wine'" in told


def test_an_endpoint_that_repeats_an_answer_proves_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with endpoint(lambda _: changed(lambda r: None, receipt="0x1")) as url:
        code, told = fired(capsys, url)
    assert (code, told["identical"], told["replayed"]) == (Exit.INCONCLUSIVE, False, True)
    assert set(gate_fact(told).values()) == {False} == set(gate_fact({}).values())


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("ftp://127.0.0.1",), Exit.USAGE),
        (("https://127.0.0.1:1", "--certificate", "missing.pem"), Exit.USAGE),
        (("http://127.0.0.1:1",), Exit.UNAVAILABLE),
        (("http://127.0.0.1:1", "--runs", "1"), Exit.USAGE),
    ],
)
def test_probe_that_cannot_be_sent_is_reported(arguments: tuple[str, ...], code: Exit) -> None:
    assert main(["gate", *arguments]) == code


def test_malformed_answer_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with endpoint(lambda _: {"choices": []}) as url:
        assert main(["gate", url, *SHORT]) == Exit.USAGE
    assert "no choices" in capsys.readouterr().err


def said(where: Callable[[Reply], object]) -> bytes:
    return json.dumps(changed(where)).encode()


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b'{"choices": ' + b"[" * 200_000, "nested deeper"),
        (b'{"choices": ' + b"[" * 40 + b"]" * 40 + b"}", "nested deeper"),
        (b"\xff", "no JSON"),
        (b'{"id": 1, "id": 2}', "repeated key"),
        (b'{"id": "' + b"x" * MAX_ANSWER_BYTES + b'"}', "larger than"),
        (b"[]", "no JSON object"),
        (said(lambda r: r["choices"][0].update(message=[1])), "message"),
        (said(lambda r: r.update(usage="much")), "usage"),
    ],
    ids=["deep", "deep and whole", "no text", "a key twice", "large", "a list", "a message that is none", "usage that is none"],
)
def test_arbitrary_endpoint_answer_is_refused_by_name(answer: bytes, why: str, capsys: pytest.CaptureFixture[str]) -> None:
    with endpoint(lambda _: answer) as url:
        assert main(["gate", url, *SHORT]) == Exit.USAGE
    assert why in capsys.readouterr().err


def test_half_a_character_is_compared_like_other_text(capsys: pytest.CaptureFixture[str]) -> None:
    first = said(lambda r: r["choices"][0]["message"].update(content="\ud800"))
    other = said(lambda r: r["choices"][0]["message"].update(content="\ud801"))
    with endpoint(lambda n: other if n == 1 else first) as url:
        code, told = fired(capsys, url)
    assert (code, told["difference"]["byte"]) == (Exit.MISMATCH, 2)


def test_slowly_sent_answer_is_cut_off(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Each byte comes in time; all together would take an hour."""
    monkeypatch.setattr(endpoints, "TIMEOUT_S", 0.5)
    with endpoint(lambda _: Trickle(b" " * 20_000)) as url:
        assert main(["gate", url, *SHORT]) == Exit.UNAVAILABLE
    assert "no whole answer" in capsys.readouterr().err


def test_the_traffic_differs_from_the_probes_and_within_itself() -> None:
    plan = Plan("m", runs=2, traffic=3, tokens=8, seed=1)
    bodies = [json.dumps(body) for body in [*plan.probes.values(), *(plan.different(i) for i in range(12))]]
    assert len(set(bodies)) == len(bodies) == 14
