"""What keeps clients out of the enclave: models compute the same without them, and what is refused is named."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from bytewise.inference.pinned import checkpoint
from bytewise.service.settings import child_environment
from enclave.import_blocker import ALLOWED
from tests.fixtures.inference.tiny import VARIANTS, tiny
from tests.fixtures.kms.memory_chain import CHAIN_ID
from tests.fixtures.verifier.running_enclave import ROOT

COMPUTED = """
import json, sys
from pathlib import Path
from enclave import import_blocker
if sys.argv[1] == "kept out":
    import_blocker.block_imports()
import torch
from bytewise.inference.artifact import artifact
from bytewise.inference.determinism import fixed
from bytewise.inference.exact.matmul import Float64Backend
from bytewise.inference.pinned import checkpoint
from bytewise.inference.pinned.engine import FloatModel
from bytewise.inference.torch_path import Runner
rows, tokens = {}, list(range(40, 60))
for folder in sorted(Path(sys.argv[2]).iterdir()):
    runner = Runner(artifact.load(folder / "artifact"), Float64Backend())
    with fixed(1):
        exact = runner.teacher_force(runner.cache(1, 64), [tokens], [0])[0]
    with torch.inference_mode():
        pinned = checkpoint.load(folder / "pinned")
        model = FloatModel(pinned, "cpu")
        cache, first = model.begin(tuple(tokens))
        rows[folder.name] = [repr(each.row) for each in (*exact, first, model.feed(cache, 7))]
from huggingface_hub.errors import StrictDataclassError
from transformers import AutoConfig
try:
    AutoConfig.for_model("llama", hidden_size="many")
except StrictDataclassError as error:
    rows["refused"] = str(error)
print(json.dumps([rows, {name: getattr(module, "__file__", None) for name, module in sys.modules.items()}]))
"""

ASKED = """
import json, sys
from enclave import import_blocker
import_blocker.block_imports()
said = {}
for statement in json.load(sys.stdin):
    try:
        said[statement] = repr(exec(statement))
    except Exception as error:
        said[statement] = f"{type(error).__name__}: {error}"
print(json.dumps(said))
"""

REFUSED = {
    "import requests": "requests",
    "import urllib3.util": "urllib3",
    "from urllib import request": "",
    "from urllib.request import urlretrieve": "urllib.request.urlretrieve",
    "import urllib.request; urllib.request.urlopen('file:///etc/hostname')": "urllib.request.urlopen",
    "import http.client": "http.client",
    "import huggingface_hub; huggingface_hub.HfApi(token='t')": "huggingface_hub.HfApi",
    "import huggingface_hub; huggingface_hub.login": "huggingface_hub.login",
    "from huggingface_hub import constants, hf_hub_download": "",
    "from huggingface_hub import list_models": "huggingface_hub.list_models",
    "from huggingface_hub.hf_api import HfApi": "huggingface_hub.hf_api",
    "from huggingface_hub.utils import get_token": "huggingface_hub.utils.get_token",
    "from huggingface_hub.utils import httpx; httpx.get('https://localhost')": "httpx2.get",
    "from huggingface_hub.utils import httpx; httpx.Response(200)": "httpx2.Response",
}
"""What is asked for, and what the refusal names; nothing where it is given."""


def run(script: str, *arguments: str, given: object = None) -> Any:
    """What a script prints, in a process of its own."""
    command, text = [sys.executable, "-c", script, *arguments], json.dumps(given)
    done = subprocess.run(command, cwd=ROOT, env=child_environment(), input=text, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_every_family_computes_the_same_without_a_network_client(tmp_path: Path) -> None:
    variants = {members["model_type"]: variant for variant, members in VARIANTS.items()}.values()
    for variant in variants:
        tiny(variant, tmp_path / variant)
        checkpoint.pin(tmp_path / variant / "checkpoint", tmp_path / variant / "pinned")
    (rows, modules), (free, others) = (run(COMPUTED, how, str(tmp_path)) for how in ("kept out", "let in"))
    assert rows == free and rows.keys() == {*variants, "refused"}
    assert clients(modules) == ALLOWED
    assert {"http.client", "httpx2", "huggingface_hub.hf_api"} <= clients(others), "which are there otherwise (control)"


def clients(modules: dict[str, str | None]) -> set[str]:
    """Modules of clients that are no stand-ins."""
    tops = {"http", "httpcore2", "httpx2", "huggingface_hub", "requests", "urllib3"}
    return {name for name, file in modules.items() if file and (name.split(".")[0] in tops or name == "urllib.request")}


def test_use_of_a_blocked_client_is_refused_by_name() -> None:
    said = run(ASKED, given=list(REFUSED))
    assert said == {
        asked: f"ImportBlocked: {name} is blocked in the enclave" if name else "None" for asked, name in REFUSED.items()
    }


def test_enclave_with_a_network_client_loaded_does_not_start_and_names_it(tmp_path: Path) -> None:
    (tmp_path / "platform.key").touch()
    (tmp_path / "enclave.toml").write_text(
        f'artifact = "m"\nsocket = "s"\nchain_id = {CHAIN_ID}\nevidence = "simulated"\nplatform_file = "platform.key"\n'
        "insecure_accept_simulated = true\n"
    )
    script = "import http.client, sys\nfrom enclave.__main__ import main\nsys.exit(main())"
    command = [sys.executable, "-c", script, "--config", str(tmp_path / "enclave.toml")]
    done = subprocess.run(command, cwd=ROOT, env=child_environment(), capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
    assert '"detail":"http.client, which is loaded already, is blocked in the enclave"' in done.stderr
