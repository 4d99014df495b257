"""Profile `pinned-1`: answers of the float model, judged only where the whole environment is equal."""

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from bytewise.cli.__main__ import main
from bytewise.cli.exits import Exit
from bytewise.inference.make import make_model
from bytewise.inference.pinned import checkpoint, machine
from bytewise.inference.pinned.checkpoint import PinnedArtifact
from bytewise.inference.pinned.engine import PinnedEngine
from bytewise.inference.pinned.fingerprint import fingerprint
from bytewise.inference.pinned.model import FloatModel, head_row
from bytewise.inference.pinned.switches import pinned
from bytewise.inference.profiles import model_id_of, open_engine
from bytewise.inference.tokenizer import Tokenizer
from bytewise.protocol import digests
from bytewise.protocol.compare import DivergenceClass, Generated
from bytewise.protocol.encoding import decode
from bytewise.protocol.environment import PROFILE_PINNED_1, Environment, Version
from bytewise.protocol.errors import ArtifactMismatch, CannotExecute, ConfigurationError, OutsideLimits, UnsupportedModel
from bytewise.protocol.messages import CannotReason
from bytewise.protocol.request import Request, output_for
from bytewise.protocol.units import U64, U256, ZERO_ADDRESS, ZERO_DIGEST, Digest
from tests.unit.inference.models import policy

NEW = 10


class Place(NamedTuple):
    """A pinned artifact on this machine."""

    source: Path
    artifact: PinnedArtifact
    environment: Environment
    engine: PinnedEngine


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    folder = tmp_path_factory.mktemp("pinned")
    make_model(folder / "checkpoint", 7, layers=2, width=64, heads=4, key_value_heads=2, context=128)
    model_id = checkpoint.pin(folder / "checkpoint", folder / "artifact")
    artifact = checkpoint.load(folder / "artifact")
    assert artifact.model_id == model_id
    here = fingerprint(artifact.manifest.architecture)
    return Place(folder / "checkpoint", artifact, here, PinnedEngine(artifact, here))


def asked(place: Place, temperature: str = "0", new: int = NEW, **changes: object) -> Request:
    artifact = place.artifact
    plain = Request(
        2, artifact.model_id, "test", place.environment.digest, policy(new, temperature), U64(3), tuple(b"a question"),
        artifact.template_digest, artifact.tokenizer_digest, None, Digest(bytes(range(32))), U256(1), U64(2**40), ZERO_ADDRESS,
        None,
    )  # fmt: skip
    return dataclasses.replace(plain, **changes)  # type: ignore[arg-type]


@pytest.fixture(scope="module", params=["0", "0.8"], ids=["greedy", "sampled"])
def request_(place: Place, request: pytest.FixtureRequest) -> Request:
    return asked(place, request.param)


@pytest.fixture(scope="module")
def truth(place: Place, request_: Request) -> Generated:
    return place.engine.generate(request_)


def test_the_answer_is_that_of_transformers_itself(place: Place) -> None:
    request = asked(place)
    with pinned(1):
        library = AutoModelForCausalLM.from_pretrained(place.source, dtype="auto", attn_implementation="eager")
        ids = torch.tensor([request.prompt])
        told = library.generate(
            ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=NEW, pad_token_id=0,
            return_dict_in_generate=True, output_logits=True,
        )  # fmt: skip
        model = FloatModel(place.artifact, "cpu")
        cache, row = model.begin(request.prompt)
        rows = [row, *(model.feed(cache, token) for token in told.sequences[0, len(request.prompt) : -1].tolist())]
    found = place.engine.generate(request)
    assert list(found.output.token_ids) == told.sequences[0, len(request.prompt) :].tolist()
    assert [row.row for row in rows] == [digests.sha256(logits[0].numpy().tobytes()) for logits in told.logits]


def test_a_true_claim_matches_without_any_teacher_forced_pass(place: Place, request_: Request, truth: Generated) -> None:
    again = PinnedEngine(place.artifact, place.environment)
    found = again.verify(request_, truth.output, truth.out_hash)
    assert (found.truth, found.divergence, found.verify_passes) == (truth, None, 0)
    assert again.confirm(request_, found) is found
    assert again.vectors() == place.engine.vectors()


@pytest.mark.parametrize("position", [0, 4, NEW - 1])
def test_an_altered_token_is_found_where_it_is(place: Place, request_: Request, truth: Generated, position: int) -> None:
    tokens = list(truth.output.token_ids)
    tokens[position] = (tokens[position] + 1) % 250
    found = place.engine.verify(request_, output_for(request_, tuple(tokens), "length"), truth.out_hash)
    where = found.divergence
    assert where is not None and found.truth == truth
    assert (where.position, where.kind, where.expected) == (position, DivergenceClass.TOKEN, truth.output.token_ids[position])
    assert place.engine.confirm(request_, found) is found


@pytest.mark.parametrize(
    ("change", "kind", "position"),
    [
        (lambda ids: ids[:4], DivergenceClass.LENGTH, 4),
        (lambda ids: (), DivergenceClass.LENGTH, 0),
        (lambda ids: (*ids, 65, 66), DivergenceClass.LENGTH, NEW),
        (lambda ids: (*ids[:3], 2**31 - 1, *ids[4:]), DivergenceClass.TOKEN, 3),
    ],
)
def test_a_claim_of_another_length_or_vocabulary_is_a_divergence(
    place: Place, request_: Request, truth: Generated, change: Any, kind: DivergenceClass, position: int
) -> None:
    claimed = output_for(request_, change(truth.output.token_ids), "length")
    found = place.engine.verify(request_, claimed, truth.out_hash)
    assert found.divergence is not None and found.truth == truth
    assert (found.divergence.kind, found.divergence.position) == (kind, position)


def test_true_tokens_under_another_trace_are_found(place: Place, request_: Request, truth: Generated) -> None:
    found = place.engine.verify(request_, truth.output, Digest(bytes([7]) * 32))
    assert found.divergence is not None and found.divergence.kind is DivergenceClass.TRACE


def test_a_machine_that_does_not_repeat_itself_accuses_nobody(place: Place) -> None:
    request = asked(place)
    truth = place.engine.generate(request)
    other = place.engine.generate(asked(place, seed=U64(4), prompt=tuple(b"another")))
    found = place.engine.verify(request, output_for(request, other.output.token_ids, "length"), truth.out_hash)
    drifted = dataclasses.replace(found, truth=other)
    with pytest.raises(CannotExecute) as caught:
        place.engine.confirm(request, drifted)
    assert caught.value.values[1] is CannotReason.BACKEND


FOREIGN: dict[str, Any] = {
    "gpu_arch": "sm_90",
    "driver": "580.65.06",
    "libraries": lambda e: (Version("libc", "other"), *e.libraries[1:]),
    "engine_flags": lambda e: tuple(sorted({*e.engine_flags, "persistence-mode=Enabled"})),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_a_machine_that_is_another_environment_cannot_execute(place: Place, name: str) -> None:
    value = FOREIGN[name](place.environment) if callable(FOREIGN[name]) else FOREIGN[name]
    with pytest.raises(CannotExecute, match=name) as caught:
        PinnedEngine(place.artifact, dataclasses.replace(place.environment, **{name: value}))
    assert caught.value.values[1] is CannotReason.ENVIRONMENT


def test_another_thread_count_is_another_environment(place: Place) -> None:
    with pytest.raises(CannotExecute, match="has threads=1, here threads=2"):
        PinnedEngine(place.artifact, place.environment, threads=2)


def test_a_device_that_is_not_here_cannot_execute(place: Place) -> None:
    with pytest.raises(CannotExecute) as caught:
        fingerprint(place.artifact.manifest.architecture, device="tpu")
    assert caught.value.values[1] is CannotReason.ENVIRONMENT


def test_a_request_for_another_environment_cannot_be_executed(place: Place) -> None:
    foreign = asked(place, environment=ZERO_DIGEST)
    for act in (place.engine.generate, lambda r: place.engine.verify(r, output_for(r, (1,), "length"), ZERO_DIGEST)):
        with pytest.raises(CannotExecute) as caught:
            act(foreign)
        assert caught.value.values[1] is CannotReason.ENVIRONMENT


def test_the_container_is_told_by_its_owner_and_part_of_the_environment(place: Place) -> None:
    named = dataclasses.replace(place.environment, container=Digest(bytes([1]) * 32))
    assert named.digest != place.environment.digest
    engine = PinnedEngine(place.artifact, named)
    with pytest.raises(CannotExecute):
        engine.generate(asked(place))
    assert engine.generate(asked(place, environment=named.digest)).output.token_ids


def test_requests_outside_the_model_are_refused(place: Place) -> None:
    for changes in ({"prompt": (10**6,)}, {"decode": policy(1000)}):
        with pytest.raises(OutsideLimits):
            place.engine.generate(asked(place, **changes))
    with pytest.raises(CannotExecute) as caught:
        place.engine.generate(asked(place, model_id=ZERO_DIGEST))
    assert caught.value.values[1] is CannotReason.MODEL_MISSING


def test_logits_that_are_not_finite_end_the_answer() -> None:
    assert head_row(torch.tensor([1.0, float("nan")])).logits is None
    assert head_row(torch.tensor([1.0, float("inf")], dtype=torch.bfloat16)).logits is None
    half = head_row(torch.tensor([1.0, -2.5], dtype=torch.bfloat16))
    assert half.row == digests.sha256(torch.tensor([1.0, -2.5]).numpy().tobytes()) and half.exponent == 0


def test_the_switches_are_put_back_after_an_error() -> None:
    before = (torch.backends.cudnn.benchmark, torch.backends.cuda.matmul.allow_tf32, torch.are_deterministic_algorithms_enabled())
    torch.backends.cudnn.benchmark = True
    try:
        with pytest.raises(KeyError), pinned(1):
            assert not torch.backends.cudnn.benchmark and torch.are_deterministic_algorithms_enabled()
            raise KeyError
        assert torch.backends.cudnn.benchmark
    finally:
        torch.backends.cudnn.benchmark = before[0]
    assert before[1:] == (torch.backends.cuda.matmul.allow_tf32, torch.are_deterministic_algorithms_enabled())


@pytest.fixture
def copied(place: Place, tmp_path: Path) -> Path:
    return Path(shutil.copytree(place.artifact.path, tmp_path / "artifact"))


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json", "chat_template.jinja"])
def test_one_flipped_bit_is_refused_by_name(copied: Path, name: str) -> None:
    raw = bytearray((copied / name).read_bytes())
    raw[len(raw) // 2] ^= 1
    (copied / name).write_bytes(raw)
    with pytest.raises(ArtifactMismatch, match=name):
        checkpoint.load(copied)
    (copied / name).unlink()
    with pytest.raises(ArtifactMismatch, match=name):
        checkpoint.load(copied)


def test_a_folder_without_manifest_is_no_artifact(copied: Path) -> None:
    (copied / "manifest.json").unlink()
    with pytest.raises(CannotExecute):
        checkpoint.load(copied)


def without_a_tensor(tensors: dict[str, torch.Tensor]) -> None:
    del tensors["model.norm.weight"]


def with_a_tensor(tensors: dict[str, torch.Tensor]) -> None:
    tensors["model.more.weight"] = torch.zeros(3)


def with_another_type(tensors: dict[str, torch.Tensor]) -> None:
    tensors["model.norm.weight"] = tensors["model.norm.weight"].to(torch.bfloat16)


@pytest.mark.parametrize(
    ("change", "said"), [(without_a_tensor, "missing"), (with_a_tensor, "unexpected"), (with_another_type, "bfloat16")]
)
def test_tensors_of_another_model_are_refused(place: Place, tmp_path: Path, change: Any, said: str) -> None:
    source = Path(shutil.copytree(place.source, tmp_path / "checkpoint"))
    tensors = load_file(source / "model.safetensors")
    change(tensors)
    save_file(tensors, source / "model.safetensors")
    checkpoint.pin(source, tmp_path / "artifact")
    with pytest.raises(ArtifactMismatch, match=said):
        PinnedEngine(checkpoint.load(tmp_path / "artifact"), place.environment)


def test_what_is_no_checkpoint_is_not_pinned(place: Place, tmp_path: Path) -> None:
    source = Path(shutil.copytree(place.source, tmp_path / "checkpoint"))
    with pytest.raises(ConfigurationError):
        checkpoint.pin(source, tmp_path / "checkpoint")
    (source / "chat_template.jinja").unlink()
    with pytest.raises(UnsupportedModel, match="chat_template"):
        checkpoint.pin(source, tmp_path / "out")
    (source / "model.safetensors").unlink()
    with pytest.raises(UnsupportedModel, match="safetensors"):
        checkpoint.pin(source, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_an_artifact_chooses_its_engine(place: Place) -> None:
    path = place.artifact.path
    assert open_engine(path, place.environment).profile == PROFILE_PINNED_1
    assert model_id_of(path) == place.artifact.model_id
    with pytest.raises(ConfigurationError, match="environment"):
        open_engine(path, None)
    with pytest.raises(CannotExecute, match="exact-1"):
        open_engine(path, dataclasses.replace(place.environment, profile="exact-1"))


def test_the_tokenizer_reads_a_pinned_artifact(place: Place) -> None:
    words = Tokenizer(place.artifact)
    assert words.text(words.encode("plain text")) == "plain text"


X86 = """processor\t: 0
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: 143
model name\t: A Processor
flags\t\t: fpu sse2 avx2 avx512f amx_int8 vmx fma

processor\t: 1
"""
ARM = "processor\t: 0\nFeatures\t: fp asimd sve i8mm\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU part\t: 0xd4f\n"


def test_the_processor_is_read_as_the_kernel_tells_it(tmp_path: Path) -> None:
    file = tmp_path / "cpuinfo"
    file.write_text(X86)
    found = machine.read_cpu(file)
    assert (found.arch, found.driver) == ("cpu-GenuineIntel-6-143", "none")
    assert found.facts == ("cpu=A Processor", "isa=amx_int8,avx2,avx512f,fma,sse2")
    file.write_text(ARM)
    assert machine.read_cpu(file).arch == "cpu-0x41-8-0xd4f"


@pytest.mark.parametrize("text", ["", "processor: 0\n", X86.replace("flags", "bugs"), None])
def test_an_unknown_processor_cannot_execute(tmp_path: Path, text: str | None) -> None:
    file = tmp_path / "cpuinfo"
    if text is not None:
        file.write_text(text)
    with pytest.raises(CannotExecute) as caught:
        machine.read_cpu(file)
    assert caught.value.values[1] is CannotReason.ENVIRONMENT


def tool(folder: Path, prints: str, code: int = 0) -> str:
    """A program that stands where the driver's tool would, and prints what such a tool printed."""
    path = folder / "nvidia-smi"
    path.write_text(f"#!/bin/sh\ncat <<'END'\n{prints}\nEND\nexit {code}\n")
    path.chmod(0o755)
    return str(path)


def test_a_gpu_is_read_as_its_driver_tells_it(tmp_path: Path) -> None:
    command = tool(tmp_path, "NVIDIA H100 80GB HBM3, 9.0, 580.65.06, Enabled, Enabled, 96.00.5E.00.01")
    found = machine.read_gpu(0, command)
    assert (found.arch, found.driver) == ("sm_90", "580.65.06")
    assert found.facts == (
        "ecc=Enabled", "gpu=NVIDIA H100 80GB HBM3", "persistence-mode=Enabled", "vbios=96.00.5E.00.01"
    )  # fmt: skip


@pytest.mark.parametrize(("prints", "code"), [("No devices were found", 0), ("", 0), ("a, b, c, d, e, f", 9), ("a,,c,d,e,f", 0)])
def test_a_gpu_that_is_not_told_cannot_execute(tmp_path: Path, prints: str, code: int) -> None:
    for command in (tool(tmp_path, prints, code), str(tmp_path / "missing")):
        with pytest.raises(CannotExecute) as caught:
            machine.read_gpu(0, command)
        assert caught.value.values[1] is CannotReason.ENVIRONMENT


def test_the_verbs_pin_and_fingerprint(place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["model", "pin", str(place.source), str(tmp_path / "artifact")]) == Exit.OK
    assert capsys.readouterr().out.strip() == "0x" + place.artifact.model_id.hex()
    out = tmp_path / "environment.json"
    assert main(["model", "fingerprint", str(tmp_path / "artifact"), "--out", str(out)]) == Exit.OK
    told = json.loads(capsys.readouterr().out)
    assert decode(Environment, out.read_bytes()) == place.environment
    assert told["environment"] == "0x" + place.environment.digest.hex()
    assert main(["model", "fingerprint", str(tmp_path / "artifact"), "--out", str(out)]) == Exit.USAGE
    assert main(["model", "fingerprint", str(tmp_path / "artifact"), "--container", "0x12"]) == Exit.USAGE
