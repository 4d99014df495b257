"""What may not be in an enclave's job process, and what `docs/reference/enclave.md` says is."""

import re
import sys
import sysconfig
from pathlib import Path

FORBIDDEN = {
    "aiohttp", "apscheduler", "fastapi", "h11", "hf_xet", "httpcore", "httpcore2", "httpx", "httpx2", "huggingface_hub", "openai",
    "requests", "sqlalchemy", "starlette", "transformers", "urllib3", "uvicorn", "web3", "websockets", "chain", "committee",
    "serving",
}  # fmt: skip

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "reference" / "enclave.md"
OURS = {"tests", "bytewise", "verifier", "kms"}
STANDARD = Path(sysconfig.get_path("stdlib")).resolve()


def documented(section: str) -> set[str]:
    """Import names in the first column of the table of packages in a section."""
    table = DOCUMENT.read_text().split(f"# {section}\n")[1].split("\n#")[0]
    return set(re.findall(r"^\| `([\w.]+)` \|", table, re.MULTILINE))


def packages(modules: dict[str, str | None]) -> set[str]:
    """Import packages of modules, besides Python's own and ours; not those whose names stand-ins have.

    Python's own is also what a distribution put among the modules of its Python, as Debian does with a `sitecustomize`.
    """
    foreign = {name: file for name, file in modules.items() if not (file and Path(file).parent.resolve() == STANDARD)}
    real = {name.split(".")[0] for name, file in foreign.items() if file or name.split(".")[0] not in FORBIDDEN}
    return {name for name in real - sys.stdlib_module_names - OURS if not name.startswith("_")}
