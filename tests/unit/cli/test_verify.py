"""`bytewise` as a user runs it, against a real chain, DA store and operator."""

import json
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from bytewise.inference.profiles import open_engine
from bytewise.inference.tokenizer import Tokenizer
from bytewise.protocol.encoding import from_json, to_json
from bytewise.protocol.records.receipt import SignedReceipt, receipt_id
from bytewise.protocol.records.seal import Payload
from bytewise.protocol.units import U64, ZERO_DIGEST, Digest, hex0x, unhex
from bytewise.service.settings import child_environment
from bytewise_client.checks import Standing, conclude
from bytewise_client.connection import connected
from bytewise_client.saved_answer import parse_answer
from bytewise_client.verification import verify_answer, verify_receipt
from cli.__main__ import main
from cli.evidence.verify import LocalModel
from tests.fixtures.serving.kept_answers import Kept, kept_answers
from tests.fixtures.serving.operator_site import ROOT, make_artifact


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Kept, ...]]:
    """Four frauds of a dishonest operator, an honest answer, one with two choices, and one with logprobs, all anchored."""
    with kept_answers(tmp_path_factory.mktemp("verify")) as kept:
        yield kept


@pytest.fixture(scope="module")
def kept(answers: tuple[Kept, ...]) -> Kept:
    """The honest answer."""
    return answers[4]


@pytest.fixture(scope="module")
def scored(answers: tuple[Kept, ...]) -> Kept:
    """An honest answer with logprobs."""
    return answers[6]


Run = Callable[..., "Done"]


class Done(NamedTuple):
    """How a verb ended."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def run(kept: Kept, capfd: pytest.CaptureFixture[str]) -> Run:
    """Runs a verb in this process, where torch and web3 are imported only once."""

    def bytewise(*arguments: str, rpc: str = "", da: str = "") -> Done:
        capfd.readouterr()
        code = main(command(kept, arguments, rpc, da))
        return Done(code, *capfd.readouterr())

    return bytewise


Check = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def check(kept: Kept) -> Iterator[Check]:
    """Verifies an answer as the verb does, through one connection and with one opened model: what it prints as JSON."""
    site = kept.operator
    loaded = open_engine(site.artifact, None)
    model = LocalModel(loaded, Tokenizer(loaded.artifact))

    def checked(answer: dict[str, Any], receipt: str = "") -> dict[str, Any]:
        given = parse_answer(json.dumps(answer).encode())
        if receipt:
            return verify_receipt(connection, Digest(unhex(receipt)), given, lambda _: model).as_json()
        return verify_answer(connection, given, lambda _: model).as_json()

    with connected(site.folder / "network.json", [site.anvil.url], [site.da_url]) as connection:
        yield checked


def command(kept: Kept, arguments: tuple[str, ...], rpc: str = "", da: str = "") -> list[str]:
    """The verb with the options that say where the network is."""
    verb = list(arguments)
    if arguments[0] in ("verify", "receipt", "network"):
        verb += ["--network", str(kept.operator.folder / "network.json"), "--rpc", rpc or kept.operator.anvil.url]
    if arguments[0] in ("verify", "receipt"):
        verb += ["--da", da or kept.operator.da_url]
    return verb


def verified(run: Run, kept: Kept, *more: str, **where: str) -> tuple[int, dict[str, Any]]:
    done = run("verify", kept.receipt_id, "--output", "json", *more, **where)
    assert done.stdout, done.stderr
    told = json.loads(done.stdout)
    assert told["exit_code"] == done.returncode
    # Whatever it comes to, it rests on simulated enclaves, and on shards that open it alone.
    assert not told["checks"] or "assurance: simulated; shards open one receipt at a time" in done.stdout
    return done.returncode, told


def test_opening_and_artifact_verify_the_answer(run: Run, kept: Kept) -> None:
    given = ("--opening", str(kept.file), "--artifact", str(kept.operator.artifact))
    code, told = verified(run, kept, *given)
    assert (code, told["result"], told["divergence"]) == (0, "VERIFIED", None)
    assert all(check["result"] == "PASS" for check in told["checks"])
    done = run("verify", kept.receipt_id, *given)
    assert done.returncode == 0 and "VERIFIED" in done.stdout
    assert "accepted for good" in done.stdout and "not yet: its challenge window is open" in " ".join(done.stdout.split())


FRAUDS = [(0, 5, "token"), (1, 0, "model"), (2, 10, "trace"), (3, 5, "token")]


@pytest.mark.parametrize(
    ("number", "position", "kind"), FRAUDS, ids=["altered token", "other artifact", "forged trace", "other text"]
)
def test_a_fraud_is_named_with_its_first_divergence(
    check: Check, answers: tuple[Kept, ...], number: int, position: int, kind: str
) -> None:
    told = check(answers[number].answer, answers[number].receipt_id)
    assert (told["exit_code"], told["result"], told["divergence"]["kind"]) == (2, "MISMATCH", kind)
    assert told["divergence"]["position"] == position
    assert kind == "trace" or told["divergence"]["expected"] != told["divergence"]["claimed"]


def test_divergence_is_reported_in_plain_words(run: Run, answers: tuple[Kept, ...]) -> None:
    said = []
    for fraud in answers[:4]:
        done = run("verify", str(fraud.file), "--artifact", str(fraud.operator.artifact))
        assert done.returncode == 2 and "None" not in done.stdout
        said.append(" ".join(done.stdout.split()))
    assert "first divergence: token 5 (token)" in said[0] and "tokensHash and outHash of the receipt are not what" in said[0]
    assert "all 10 tokens are equal (trace)" in said[2] and "outHash of the receipt is not what" in said[2]
    assert "tokensHash" not in said[2]
    assert "tokensHash of the receipt is not what" in said[3] and "outHash" not in said[3]


def change(answer: dict[str, Any], member: str, value: Any) -> None:
    """Puts a value in the place of a member of an answer, named as `verify` names it: `choices[0].message.content`."""
    *way, last = (int(name) if name.isdigit() else name for name in re.findall(r"[^.\[\]]+", member))
    place: Any = answer
    for name in way:
        place = place[name]
    place[last] = value


def saved(answer: dict[str, Any], folder: Path) -> str:
    """A file with an answer."""
    file = folder / "answer.json"
    file.write_text(json.dumps(answer))
    return str(file)


LIES: dict[str, Any] = {
    "id": "chatcmpl-" + "0" * 32,
    "object": "text_completion",
    "created": 1,
    "model": "a-better-model",
    "choices[0].index": 1,
    "choices[0].message.role": "system",
    "choices[0].message.content": "Another text.",
    "choices[0].message.refusal": "I refuse.",
    "choices[0].message.tool_calls": [{"id": "a", "type": "function", "function": {"name": "pay", "arguments": "{}"}}],
    "choices[0].message.function_call": {"name": "pay", "arguments": "{}"},
    "choices[0].message.reasoning_content": "Let me think.",
    "choices[0].finish_reason": "stop",
    "choices[0].logprobs.content[0].token": "x",
    "choices[0].logprobs.content[3].logprob": -0.5,
    "choices[0].logprobs.content[2].bytes": [1],
    "choices[0].logprobs.content[1].top_logprobs[1].logprob": 0.0,
    "choices[0].logprobs.content": [],
    "usage.prompt_tokens": 1,
    "usage.completion_tokens": 11,
    "usage.total_tokens": 2,
    "system_fingerprint": "0x00:cpu:none",
    "determinism.seed": 4,
    "determinism.decode.temperature": "0",
    "determinism.model_id": "0x" + "ab" * 32,
    "determinism.libraries": {"torch": "9.9"},
    "receipt.req_hash": "0x" + "ab" * 32,
    "receipt.out_hash": "0x" + "ab" * 32,
    "receipt.tokens_hash": "0x" + "ab" * 32,
    "receipt.sig": "0x" + "ab" * 65,
    "receipt.signed.receipt.seq": "9",
    "receipt.signed.signature": "0x" + "ab" * 65,
    "assurance": "hardware",
}


@pytest.mark.parametrize(("member", "lie"), LIES.items(), ids=LIES)
def test_verify_names_an_altered_shown_member(check: Check, scored: Kept, member: str, lie: Any) -> None:
    answer = json.loads(scored.file.read_text())
    change(answer, member, lie)
    told = check(answer, scored.receipt_id)
    assert (told["exit_code"], told["result"]) == (2, "MISMATCH") and member in told["reason"], told["reason"]
    assert told["shown"]["differences"][0]["member"].startswith(member)


def test_a_saved_answer_is_verified_without_ids(run: Run, kept: Kept, scored: Kept) -> None:
    done = run("verify", str(kept.file), "--artifact", str(kept.operator.artifact))
    assert done.returncode == 0 and "VERIFIED" in done.stdout
    assert "Keep this, please: 4." in done.stdout, "the prompt is printed"
    told = json.loads(run("verify", str(kept.file), "--artifact", str(kept.operator.artifact), "--output", "json").stdout)
    assert told["receipt_id"] == kept.receipt_id and told["shown"]["differences"] == told["shown"]["unchecked"] == []
    with_logprobs = run("verify", str(scored.file), "--artifact", str(kept.operator.artifact), "--output", "json")
    assert with_logprobs.returncode == 0 and json.loads(with_logprobs.stdout)["shown"]["unchecked"] == []
    assert told["shown"]["has_text"] and told["answer"] == kept.answer["choices"][0]["message"]["content"]
    assert "Keep this, please: 4." in told["prompt"]


def test_all_choices_of_a_saved_answer_are_verified_at_once(run: Run, check: Check, answers: tuple[Kept, ...]) -> None:
    several, texts = answers[5], set()
    done = run("verify", str(several.file), "--artifact", str(several.operator.artifact), "--output", "json")
    told = json.loads(done.stdout)
    assert (done.returncode, told["result"]) == (0, "VERIFIED")
    assert [each["result"] for each in told["receipts"]] == ["VERIFIED", "VERIFIED"]
    assert all(each["shown"]["unchecked"] == [] for each in told["receipts"])
    for choice in several.answer["answers"]:
        name = choice["receipt"]["receipt_id"]
        told = check(several.answer, name)
        assert (told["result"], told["receipt_id"]) == ("VERIFIED", name), "each by the same file"
        texts.add(choice["choices"][0]["message"]["content"])
    assert len(texts) == len(several.answer["answers"]) == 2


LIES_ABOUT_CHOICES: dict[str, Any] = {
    "choices[0].text": "Another text.", "answers[0].choices[0].delta": {"content": "Another text."},
    "choices[1].message.parsed": {"text": "Another text."}, "choices[1].message.content": "Another text.", "choices[1].index": 0,
    "choices[0].finish_reason": "stop", "answers[1].choices[0].message.content": "Another text.",
    "answers[1].usage.total_tokens": 1, "answers[0].model": "a-better-model", "usage.completion_tokens": 1,
    "model": "a-better-model", "receipt.req_hash": "0x" + "ab" * 32,
}  # fmt: skip


@pytest.mark.parametrize(("member", "lie"), LIES_ABOUT_CHOICES.items(), ids=LIES_ABOUT_CHOICES)
def test_verify_names_an_altered_member_of_several_choices(
    check: Check, answers: tuple[Kept, ...], member: str, lie: Any
) -> None:
    answer = json.loads(answers[5].file.read_text())
    change(answer, member, lie)
    told = check(answer)
    assert (told["exit_code"], told["result"]) == (2, "MISMATCH") and member in told["reason"], told["reason"]


def test_a_choice_without_a_receipt_is_a_difference(check: Check, answers: tuple[Kept, ...]) -> None:
    for kept in (answers[4], answers[5]):
        answer = json.loads(kept.file.read_text())
        answer["choices"].append({**answer["choices"][0], "index": len(answer["choices"])})
        told = check(answer)
        assert told["exit_code"] == 2 and f"choices[{len(answer['choices']) - 1}]" in told["reason"]


def test_undetermined_members_are_named_as_unchecked(run: Run, kept: Kept, tmp_path: Path) -> None:
    answer = json.loads(kept.file.read_text())
    answer["service_tier"] = "default"
    answer["x\u2800VERIFIED: yes"] = "a blank that is none, before what looks like the report's last line"
    # A locator may change without a new signature.
    answer["eigendalink"] = "eigenda:standard:0x03ab"
    code, told = verified(run, kept, "--opening", saved(answer, tmp_path), "--artifact", str(kept.operator.artifact))
    assert (code, told["result"], told["shown"]["unchecked"]) == (
        0,
        "VERIFIED",
        ["service_tier", r"x\x2800VERIFIED\x3a\x20yes", "eigendalink"],
    )


def test_verify_says_that_an_opening_alone_shows_no_text(run: Run, kept: Kept, tmp_path: Path) -> None:
    bare = saved(kept.answer["opening"], tmp_path)
    code, told = verified(run, kept, "--opening", bare, "--artifact", str(kept.operator.artifact))
    assert (code, told["result"], told["shown"]) == (0, "VERIFIED", None) and "shows no text" in told["reason"]
    assert told["answer"] == kept.answer["choices"][0]["message"]["content"]
    wordless = json.loads(kept.file.read_text())
    del wordless["choices"]
    code, told = verified(run, kept, "--opening", saved(wordless, tmp_path), "--artifact", str(kept.operator.artifact))
    assert (code, told["result"]) == (0, "VERIFIED") and "shows no text" in told["reason"]


def test_shown_members_are_compared_without_a_model_too(run: Run, kept: Kept, tmp_path: Path) -> None:
    code, told = verified(run, kept, "--opening", str(kept.file))
    assert code == 3 and told["shown"]["differences"] == [] and "choices[0].message.content" in told["shown"]["unchecked"]
    answer = json.loads(kept.file.read_text())
    change(answer, "model", "a-better-model")
    code, told = verified(run, kept, "--opening", saved(answer, tmp_path))
    assert code == 2 and "model" in told["reason"]
    change(answer, "created", 7)
    del answer["opening"], answer["model"]
    done = run("verify", saved(answer, tmp_path), "--output", "json")
    assert done.returncode == 2 and "created" in json.loads(done.stdout)["reason"]


def test_foreign_text_is_printed_without_control_characters(run: Run, kept: Kept, tmp_path: Path) -> None:
    answer = json.loads(kept.file.read_text())
    answer["choices"][0]["message"]["content"] = "\x1b[2J\nVERIFIED: the re-execution gives the same bytes\u202e"
    answer["choices"][0]["message"]["\x1b[2J"] = "a name"
    done = run("verify", saved(answer, tmp_path), "--artifact", str(kept.operator.artifact))
    assert done.returncode == 2 and "\x1b" not in done.stdout and "\u202e" not in done.stdout
    assert not any(line.startswith("VERIFIED") for line in done.stdout.splitlines())


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('data: {"object":"chat.completion.chunk"}\n', "is a stream of events"),
        ('{"object":"chat.completion.chunk","choices":[]}', "a piece of a streamed answer"),
        ('{"choices":[],"choices":[]}', "repeated key"),
        ('{"choices":[]}', "names no receipt"),
        ("[]", "neither an answer nor an opening"),
    ],
)
def test_incomplete_answer_file_is_a_usage_error(run: Run, tmp_path: Path, content: str, said: str) -> None:
    file = tmp_path / "answer.json"
    file.write_text(content)
    done = run("verify", str(file))
    assert done.returncode == 64 and said in " ".join(done.stderr.split())


def test_each_hash_that_an_operator_signs_is_compared_by_itself(kept: Kept) -> None:
    payload = from_json(Payload, kept.answer["opening"])
    honest = from_json(SignedReceipt, kept.answer["receipt"]["signed"]).receipt
    tokens = (*payload.output.token_ids[:4], payload.output.token_ids[4] ^ 1, *payload.output.token_ids[5:])
    lie = replace(payload, output=replace(payload.output, token_ids=tokens))
    cases = [
        (payload, honest, ()),
        (lie, replace(honest, tokens_hash=lie.output.tokens_hash), ("tokensHash",)),
        (payload, replace(honest, out_hash=ZERO_DIGEST), ("outHash",)),
        (lie, replace(honest, tokens_hash=lie.output.tokens_hash, out_hash=ZERO_DIGEST), ("tokensHash", "outHash")),
    ]
    loaded = open_engine(kept.operator.artifact, None)
    model = LocalModel(loaded, Tokenizer(loaded.artifact))
    for claimed, receipt, fields in cases:
        outcome = model.rerun(receipt, claimed)
        assert outcome.fields == fields and (outcome.divergence is None) == (fields == ())
        end = conclude([], Standing(True, "", None, {"match": 0, "mismatch": 0}, ""), outcome, None)
        assert (end.exit == 0) == (fields == ()) and all(name in end.reason for name in fields)


def test_altered_opening_accuses_nobody(check: Check, answers: tuple[Kept, ...]) -> None:
    """Of a request, of an answer, and of the second of two choices: the file and not the operator may have changed."""
    honest, several = answers[4], json.loads(answers[5].file.read_text())
    request, output = (json.loads(json.dumps(honest.answer["opening"])) for _ in range(2))
    request["request"].update(seed="4")
    output["output"]["token_ids"].reverse()
    several["answers"][1]["opening"]["output"]["token_ids"].reverse()
    second = several["answers"][1]["receipt"]["receipt_id"]
    for file, receipt in ((request, honest.receipt_id), (output, honest.receipt_id), (several, second)):
        told = check(file, receipt)
        assert told["exit_code"] == 3 and "record_incomplete" in told["reason"]


def test_example_of_the_guide_verifies_a_saved_answer(
    kept: Kept, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    section = (ROOT / "docs/guide/verify-a-receipt.md").read_text().partition("## From Python")[2]
    code = "\n".join(line[4:] for line in section.splitlines() if line.startswith("    ") or not line)
    site = kept.operator
    for there, here in (("http://127.0.0.1:8545", site.anvil.url), ("http://127.0.0.1:3100", site.da_url)):
        assert there in code
        code = code.replace(there, here)
    monkeypatch.chdir(site.folder)
    shutil.copyfile(kept.file, "answer.json")
    exec(code, {})
    told = capsys.readouterr().out
    assert "operator signature PASS" in told and "shown answer UNKNOWN" in told
    assert told.splitlines()[-1].startswith("INCONCLUSIVE model_missing")


def test_missing_artifact_is_a_usage_error(run: Run, kept: Kept) -> None:
    done = run("verify", str(kept.file), "--artifact", "nowhere")
    assert done.returncode == 64 and "nowhere is no folder" in " ".join(done.stderr.split())


def test_verification_without_the_right_to_open_is_inconclusive(run: Run, kept: Kept, tmp_path: Path) -> None:
    code, told = verified(run, kept)
    assert code == 3 and told["result"] == "INCONCLUSIVE" and "no right to open" in told["reason"]
    assert told["chain"] == {"final": False, "verdict": None, "audits": {"match": 0, "mismatch": 0, "none": 0}}
    code, told = verified(run, kept, "--opening", str(kept.file))
    assert code == 3 and "model_missing" in told["reason"]
    code, told = verified(run, kept, "--opening", str(kept.file), "--artifact", str(make_artifact(tmp_path, seed=2)))
    assert code == 3 and "model_missing" in told["reason"]


def test_an_unknown_receipt_is_not_found(run: Run, kept: Kept) -> None:
    assert run("verify", "0x" + "ab" * 32).returncode == 4
    assert run("receipt", "show", "0x" + "ab" * 32).returncode == 4


def test_unavailable_service_is_named(run: Run, kept: Kept) -> None:
    done = run("verify", kept.receipt_id, rpc="http://127.0.0.1:9")
    assert done.returncode == 5 and "chain" in done.stderr
    code, told = verified(run, kept, da="http://127.0.0.1:9")
    assert code == 5 and "da_unavailable" in told["reason"]


@pytest.fixture
def silent_da() -> Iterator[str]:
    """A DA proxy that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def test_verify_reruns_a_saved_answer_while_da_is_unavailable(run: Run, answers: tuple[Kept, ...], silent_da: str) -> None:
    honest, fraud = answers[4], answers[0]
    artifact = ("--artifact", str(honest.operator.artifact))
    code, told = verified(run, honest, "--opening", str(honest.file), *artifact, da=silent_da)
    assert (code, told["result"]) == (5, "UNAVAILABLE") and "brought nothing in 5 s" in told["reason"]
    assert "the re-execution gives the same bytes" in told["reason"] and told["shown"]["differences"] == []
    assert told["chain"]["final"] is None
    results = {each["name"]: each["result"] for each in told["checks"]}
    assert results["anchored"] == results["sealed envelope"] == "UNKNOWN" and results["opening"] == "PASS"
    done = run("verify", str(fraud.file), *artifact, da="http://127.0.0.1:9")
    assert done.returncode == 2 and "first divergence at token 5" in " ".join(done.stdout.split())


def test_saved_receipt_of_no_batch_is_not_taken_as_anchored(run: Run, kept: Kept, tmp_path: Path) -> None:
    answer = json.loads(kept.file.read_text())
    receipt = replace(from_json(SignedReceipt, answer["receipt"]["signed"]).receipt, seq=U64(99))
    name = receipt_id(kept.operator.network.anchor_domain, receipt)
    signed = SignedReceipt(receipt, kept.operator.account.sign(name), "eigenda:standard:0x03ab")
    answer["receipt"] |= {"receipt_id": hex0x(name), "signed": to_json(signed)}
    done = run("verify", saved(answer, tmp_path), "--output", "json", da="http://127.0.0.1:9")
    told = json.loads(done.stdout)
    assert done.returncode == 5 and told["checks"] == [] and "no verdict" in told["reason"]


@pytest.mark.parametrize(
    "arguments",
    [("verify",), ("verify", "0xzz"), ("verify", "zz"), ("nonsense",), ("verify", "0x" + "00" * 32, "--opening", "missing.json")],
)
def test_wrong_usage_is_a_usage_error(run: Run, arguments: tuple[str, ...]) -> None:
    done = run(*arguments)
    assert done.returncode == 64 and done.stderr


def test_a_receipt_is_shown_with_its_batch(run: Run, kept: Kept) -> None:
    done = run("receipt", "show", kept.receipt_id)
    told = json.loads(done.stdout)
    assert told["receipt"] == kept.answer["receipt"]["signed"]["receipt"] and int(told["batch"]["first_seq"]) <= 5


def test_status_is_read_from_the_chain_alone(run: Run, kept: Kept) -> None:
    told = json.loads(run("network", "show", "--output", "json").stdout)
    assert told["money_sums"] is True and sum(batch["count"] for batch in told["batches"]) == 8
    assert (told["key_epoch"], told["assurance"]) == (1, "simulated")
    done = run("network", "show")
    assert done.returncode == 0 and "key epoch 1, assurance simulated, shards open one receipt at a time" in done.stdout


def test_receipts_are_listed_and_named_by_their_first_digits(run: Run, kept: Kept) -> None:
    listed = [json.loads(line) for line in run("receipt", "list", "--output", "jsonl").stdout.splitlines()]
    assert len(listed) == 8 and kept.receipt_id in {each["receipt_id"] for each in listed}
    assert [each["seq"] for each in listed] == sorted((each["seq"] for each in listed), reverse=True), "newest first"
    assert len(json.loads(run("receipt", "list", "--limit", "3", "--output", "json").stdout)) == 3
    assert kept.receipt_id in run("receipt", "list").stdout, "in full"
    assert json.loads(run("receipt", "show", kept.receipt_id[:20]).stdout)["receipt_id"] == kept.receipt_id
    assert run("receipt", "show", "0x" + "ef" * 5).returncode == 4
    assert run("receipt", "show", "0x").returncode == 64 == run("verify", "0x").returncode
    assert kept.receipt_id in run("verify", kept.receipt_id[:20]).stdout


def test_command_is_a_process_with_that_exit_code(kept: Kept) -> None:
    verb = [sys.executable, "-X", "importtime", "-m", "cli", *command(kept, ("verify", kept.receipt_id))]
    done = subprocess.run(verb, cwd=ROOT, env=child_environment(), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 3 and "INCONCLUSIVE" in done.stdout
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "web3" in loaded and not loaded & {"torch", "transformers", "openai"}, "who runs no model waits for none"
