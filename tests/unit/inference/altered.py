"""Artifacts that no conversion would make: one tensor replaced, every digest made anew, to see what the engine does then."""

import dataclasses
import shutil
from pathlib import Path

from torch import Tensor

from bytewise.inference.artifact import artifact, layout
from bytewise.inference.artifact.artifact import Artifact, model_id_line
from bytewise.inference.convert.tensor_writer import TensorWriter
from bytewise.inference.manifest import MANIFEST_FILE, MODEL_ID_FILE, WEIGHTS_FILE, ArtifactFile
from bytewise.protocol.encoding import encode


def altered(model: Artifact, out: Path, tensors: dict[str, Tensor]) -> Artifact:
    """The model with other tensors of the same type and shape, written to the folder `out` and loaded."""
    shutil.copytree(model.path, out, ignore=shutil.ignore_patterns(WEIGHTS_FILE))
    manifest = model.manifest
    writer = TensorWriter(out / WEIGHTS_FILE, layout.tensor_specs(manifest.architecture, manifest.precision), None)
    for name, tensor in (model.tensors | tensors).items():
        writer.write(name, tensor)
    weights = ArtifactFile(WEIGHTS_FILE, writer.finish())
    files = tuple(weights if file.name == WEIGHTS_FILE else file for file in manifest.files)
    changed = dataclasses.replace(manifest, files=files)
    (out / MANIFEST_FILE).write_bytes(encode(changed))
    (out / MODEL_ID_FILE).write_bytes(model_id_line(changed.model_id))
    return artifact.load(out)
