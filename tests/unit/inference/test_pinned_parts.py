"""What `pinned-1` is made of: artifacts that are checked, machines that are read, verbs."""

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from bytewise.inference.pinned import checkpoint, fingerprint
from bytewise.inference.pinned.engine import PinnedEngine
from bytewise.inference.profiles import model_id_of, open_engine
from bytewise.inference.tokenizer import Tokenizer
from bytewise.protocol.encoding import decode
from bytewise.protocol.errors.actors import ArtifactMismatch, CannotExecute, ConfigurationError, UnsupportedModel
from bytewise.protocol.records.environment import PROFILE_PINNED_1, Environment
from bytewise.protocol.records.statements import CannotReason
from bytewise.service.exit_codes import Exit
from cli.__main__ import main
from tests.fixtures.inference.pinned_artifact import PinnedModel, make_place


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> PinnedModel:
    return make_place(tmp_path_factory.mktemp("pinned"))


@pytest.fixture
def copied(place: PinnedModel, tmp_path: Path) -> Path:
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
def test_tensors_of_another_model_are_refused(place: PinnedModel, tmp_path: Path, change: Any, said: str) -> None:
    source = Path(shutil.copytree(place.source, tmp_path / "checkpoint"))
    tensors = load_file(source / "model.safetensors")
    change(tensors)
    save_file(tensors, source / "model.safetensors")
    checkpoint.pin(source, tmp_path / "artifact")
    with pytest.raises(ArtifactMismatch, match=said):
        PinnedEngine(checkpoint.load(tmp_path / "artifact"), place.environment)


def test_folder_without_a_checkpoint_is_not_pinned(place: PinnedModel, tmp_path: Path) -> None:
    source = Path(shutil.copytree(place.source, tmp_path / "checkpoint"))
    with pytest.raises(ConfigurationError):
        checkpoint.pin(source, tmp_path / "checkpoint")
    words = (source / "tokenizer.json").read_bytes()
    (source / "tokenizer.json").write_text(json.dumps(json.loads(words) | {"decoder": {"type": "CTC"}}))
    with pytest.raises(UnsupportedModel, match="tokenizer decoder CTC"):
        checkpoint.pin(source, tmp_path / "out")
    (source / "tokenizer.json").write_bytes(words)
    (source / "chat_template.jinja").unlink()
    with pytest.raises(UnsupportedModel, match="chat_template"):
        checkpoint.pin(source, tmp_path / "out")
    (source / "model.safetensors").unlink()
    with pytest.raises(UnsupportedModel, match="safetensors"):
        checkpoint.pin(source, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("config", [b"[]", b"{", b"[" * 200_000])
def test_config_that_is_no_object_is_refused(place: PinnedModel, config: bytes) -> None:
    artifact = dataclasses.replace(place.artifact, content={**place.artifact.content, "config.json": config})
    with pytest.raises(ArtifactMismatch, match=r"config.json: not a JSON object"):
        _ = artifact.config


def test_an_artifact_chooses_its_engine(place: PinnedModel) -> None:
    path = place.artifact.path
    assert open_engine(path, place.environment).profile == PROFILE_PINNED_1
    assert model_id_of(path) == place.artifact.model_id
    with pytest.raises(ConfigurationError, match="environment"):
        open_engine(path, None)
    with pytest.raises(ConfigurationError, match="tpu"):
        open_engine(path, place.environment, device="tpu")
    with pytest.raises(CannotExecute, match="exact-1"):
        open_engine(path, dataclasses.replace(place.environment, profile="exact-1"))


def test_the_tokenizer_reads_a_pinned_artifact(place: PinnedModel) -> None:
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


def test_processor_is_read_from_the_kernel(tmp_path: Path) -> None:
    file = tmp_path / "cpuinfo"
    file.write_text(X86)
    found = fingerprint.read_cpu(file)
    assert (found.arch, found.driver) == ("cpu-GenuineIntel-6-143", "none")
    assert found.facts == ("cpu=A Processor", "isa=amx_int8,avx2,avx512f,fma,sse2")
    file.write_text(ARM)
    assert fingerprint.read_cpu(file).arch == "cpu-0x41-8-0xd4f"


@pytest.mark.parametrize("text", ["", "processor: 0\n", X86.replace("flags", "bugs"), None])
def test_an_unknown_processor_cannot_execute(tmp_path: Path, text: str | None) -> None:
    file = tmp_path / "cpuinfo"
    if text is not None:
        file.write_text(text)
    with pytest.raises(CannotExecute) as caught:
        fingerprint.read_cpu(file)
    assert caught.value.values[1] is CannotReason.ENVIRONMENT


def tool(folder: Path, prints: str, code: int = 0) -> str:
    """A program that stands where the driver's tool would, and prints what such a tool printed."""
    path = folder / "nvidia-smi"
    path.write_text(f"#!/bin/sh\ncat <<'END'\n{prints}\nEND\nexit {code}\n")
    path.chmod(0o755)
    return str(path)


def test_gpu_is_read_from_its_driver(tmp_path: Path) -> None:
    command = tool(tmp_path, "NVIDIA H100 80GB HBM3, 9.0, 580.65.06, Enabled, Enabled, 96.00.5E.00.01")
    found = fingerprint.read_gpu(0, command)
    assert (found.arch, found.driver) == ("sm_90", "580.65.06")
    assert found.facts == (
        "ecc=Enabled", "gpu=NVIDIA H100 80GB HBM3", "persistence-mode=Enabled", "vbios=96.00.5E.00.01"
    )  # fmt: skip


@pytest.mark.parametrize(("prints", "code"), [("No devices were found", 0), ("", 0), ("a, b, c, d, e, f", 9), ("a,,c,d,e,f", 0)])
def test_gpu_that_is_not_reported_cannot_execute(tmp_path: Path, prints: str, code: int) -> None:
    for command in (tool(tmp_path, prints, code), str(tmp_path / "missing")):
        with pytest.raises(CannotExecute) as caught:
            fingerprint.read_gpu(0, command)
        assert caught.value.values[1] is CannotReason.ENVIRONMENT


def test_commands_pin_and_fingerprint(place: PinnedModel, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["model", "pin", str(place.source), str(tmp_path / "artifact")]) == Exit.OK
    assert capsys.readouterr().out.strip() == "0x" + place.artifact.model_id.hex()
    out = tmp_path / "environment.json"
    assert main(["model", "fingerprint", str(tmp_path / "artifact"), "--out", str(out)]) == Exit.OK
    told = json.loads(capsys.readouterr().out)
    assert decode(Environment, out.read_bytes()) == place.environment
    assert told["environment"] == "0x" + place.environment.digest.hex()
    assert main(["model", "fingerprint", str(tmp_path / "artifact"), "--out", str(out)]) == Exit.USAGE
    assert main(["model", "fingerprint", str(tmp_path / "artifact"), "--container", "0x12"]) == Exit.USAGE
