"""`bytewise model`: what convert, show and check print, and how they end when asked wrongly."""

import dataclasses
import json
from pathlib import Path

import pytest

from bytewise.inference.artifact import artifact
from bytewise.inference.determinism import environment
from bytewise.protocol.encoding import encode
from bytewise.service.exit_codes import Exit
from cli.__main__ import main
from serving.settings import read_environment
from tests.fixtures.inference.tiny import write_checkpoint


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A tiny checkpoint."""
    write_checkpoint("llama", tmp_path / "checkpoint")
    return tmp_path / "checkpoint"


def test_model_is_converted_shown_and_checked(checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = checkpoint.parent / "artifact"
    assert main(["model", "convert", str(checkpoint), str(out), "--head-bits", "16"]) == Exit.OK
    model_id = capsys.readouterr().out.strip()
    assert model_id == f"0x{artifact.model_id_of(out).hex()}"
    assert main(["model", "check", str(out)]) == Exit.OK
    assert capsys.readouterr().out.strip() == model_id
    assert main(["model", "show", str(out)]) == Exit.OK
    shown = " ".join(capsys.readouterr().out.split())
    for words in (
        f"model id: {model_id}",
        "llama, 2 layers of 16",
        "8 bits, head 16 bits, embedding float32",
        "proven below 2^",
        "stop tokens 257",
    ):
        assert words in shown
    assert main(["model", "show", str(out), "--output", "json"]) == Exit.OK
    told = json.loads(capsys.readouterr().out)
    assert told["model_id"] == model_id and told["precision"] == {"weight_bits": 8, "head_bits": 16, "embedding": "float32"}
    assert told["equalisation"]["tokens"] == 128 and len(told["equalisation"]["pairs"]) == 9
    command = ["model", "environment", str(out), str(out.parent / "environment.json"), "--context", "64"]
    assert main(command) == Exit.OK
    found = read_environment(out.parent / "environment.json")
    assert capsys.readouterr().out.strip() == f"0x{found.digest.hex()}"
    assert found == environment(artifact.load(out), max_context=64) and found.limits.max_new_tokens == 64
    assert main(command) == Exit.USAGE and "File exists" in capsys.readouterr().err, "nothing is overwritten"


def test_artifacts_of_a_folder_are_listed_and_a_damaged_one_is_named(
    checkpoint: Path, capsys: pytest.CaptureFixture[str]
) -> None:  # fmt: skip
    folder = checkpoint.parent
    for name in ("one", "other"):
        assert main(["model", "convert", str(checkpoint), str(folder / name), "--equalise", "off"]) == Exit.OK
    assert main(["model", "pin", str(checkpoint), str(folder / "pinned")]) == Exit.OK
    ids = capsys.readouterr().out.split()
    assert main(["model", "list", str(folder), "--output", "json"]) == Exit.OK
    rows = json.loads(capsys.readouterr().out)
    assert [each["model_id"] for each in rows] == ids
    assert [each["profile"] for each in rows] == ["exact-1", "exact-1", "pinned-1"]
    assert {Path(each["folder"]).name for each in rows} == {"one", "other", "pinned"} and all(each["bytes"] for each in rows)
    assert main(["model", "list", str(folder / "one")]) == Exit.OK and ids[0] in capsys.readouterr().out
    pinned = str(folder / "pinned")
    assert main(["model", "check", pinned]) == Exit.OK and capsys.readouterr().out.strip() == ids[2]
    assert main(["model", "show", pinned]) == Exit.OK
    assert {"profile: pinned-1", f"model id: {ids[2]}"} <= set(capsys.readouterr().out.splitlines())
    assert main(["model", "show", pinned, "--output", "json"]) == Exit.OK
    assert json.loads(capsys.readouterr().out)["model_id"] == ids[2]
    assert main(["model", "environment", pinned, str(folder / "environment.json")]) == Exit.USAGE
    assert "bytewise model fingerprint" in capsys.readouterr().err and not (folder / "environment.json").exists()
    (folder / "other" / "manifest.json").write_text("{}")
    assert main(["model", "list", str(folder)]) == Exit.MISMATCH
    listed = capsys.readouterr()
    assert ids[2] in listed.out and "other" in listed.err
    assert main(["model", "list", str(checkpoint)]) == Exit.OK and "no artifacts in" in capsys.readouterr().out
    assert main(["model", "list", str(folder / "nowhere")]) == Exit.USAGE


def test_model_is_made_and_converted(tmp_path: Path) -> None:
    made, out = str(tmp_path / "made"), str(tmp_path / "artifact")
    assert main(["model", "make", made, "--layers", "1", "--width", "64"]) == Exit.OK
    assert main(["model", "convert", made, out]) == Exit.OK


def test_bound_that_is_not_proven_ends_check_with_a_mismatch(checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = checkpoint.parent / "artifact"
    assert main(["model", "convert", str(checkpoint), str(out), "--equalise", "off"]) == Exit.OK
    manifest = artifact.read_manifest(out)
    lie = dataclasses.replace(manifest, bound=manifest.bound + 1)
    (out / "manifest.json").write_bytes(encode(lie))
    (out / "model_id").write_bytes(artifact.model_id_line(lie.model_id))
    assert artifact.load(out).manifest == lie
    assert main(["model", "check", str(out)]) == Exit.MISMATCH
    assert f"above {lie.bound}, the weights say {manifest.bound}" in " ".join(capsys.readouterr().err.split())
    weights = bytearray((out / "weights.safetensors").read_bytes())
    weights[-1] ^= 1
    (out / "weights.safetensors").write_bytes(weights)
    assert main(["model", "check", str(out)]) == Exit.MISMATCH
    assert "weights.safetensors: bytes in head differ" in " ".join(capsys.readouterr().err.split()), "a flipped byte is named"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["convert", "nowhere", "out"], Exit.USAGE, "config.json"),
        (["convert", "checkpoint", "checkpoint"], Exit.USAGE, "already exists"),
        (["convert", "checkpoint", "out", "--bits", "4"], Exit.USAGE, "--bits"),
        (["convert", "checkpoint", "out", "--equalise", "off", "--calibration", "text"], Exit.USAGE, "--equalise off"),
        (["convert", "checkpoint", "out", "--calibration", "nowhere.txt"], Exit.USAGE, "nowhere.txt"),
        (["convert", "checkpoint"], Exit.USAGE, "--help"),
        (["show", "nowhere"], Exit.USAGE, "no artifact at nowhere"),
        (["fingerprint", "nowhere"], Exit.USAGE, "no artifact at nowhere"),
        (["fingerprint", "nowhere", "--device", "foo"], Exit.USAGE, "--device: is foo: there are cpu, cuda"),
        (["make", "out", "--width", "40"], Exit.USAGE, "--width: 40 is no multiple of 16"),
        (["environment", "nowhere", "out"], Exit.USAGE, "no artifact at nowhere"),
        (["environment", ".", "out"], Exit.USAGE, "no artifact at .: "),
        (["vectors", "nowhere", "out"], Exit.USAGE, "nowhere is no folder of an artifact"),
        (["pin", "nowhere", "out"], Exit.USAGE, "nowhere"),
        (["make", "checkpoint"], Exit.USAGE, "already exists"),
        (["check", "nowhere"], Exit.USAGE, "no artifact at nowhere"),
        (["show", "checkpoint"], Exit.USAGE, "no artifact at checkpoint"),
    ],
)
def test_wrong_input_to_model_ends_with_a_code_and_a_name(
    arguments: list[str], code: Exit, words: str, checkpoint: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(checkpoint.parent)
    assert main(["model", *arguments]) == code
    assert words in " ".join(capsys.readouterr().err.split())
    assert not Path("out").exists() and not Path("out.partial").exists()
