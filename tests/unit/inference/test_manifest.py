"""Manifests that no conversion writes are refused, though every digest fits."""

import json
import shutil
from pathlib import Path

import pytest

from bytewise.inference.artifact import artifact
from bytewise.inference.artifact.artifact import Artifact
from bytewise.protocol import digests
from bytewise.protocol.digests import Label
from bytewise.protocol.errors.actors import ArtifactMismatch


@pytest.mark.parametrize("stops", [[264], [258, 257], [257, 257], [-1], list(range(1025))], ids=lambda stops: str(stops)[:12])
def test_stop_tokens_no_request_can_carry_are_refused_though_digests_fit(
    model: Artifact, tmp_path: Path, stops: list[int]
) -> None:
    folder = Path(shutil.copytree(model.path, tmp_path / "other"))
    manifest = (folder / "manifest.json").read_bytes()
    if len(stops) > 264:
        manifest = manifest.replace(b'"vocabulary":264', b'"vocabulary":4096')
    changed = manifest.replace(b'"stop_tokens":[257]', b'"stop_tokens":' + json.dumps(stops, separators=(",", ":")).encode())
    (folder / "manifest.json").write_bytes(changed)
    (folder / "model_id").write_text(f"0x{digests.labelled(Label.ARTIFACT, changed).hex()}\n")
    with pytest.raises(ArtifactMismatch, match="malformed stop tokens"):
        artifact.load(folder)
