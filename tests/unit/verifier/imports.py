"""What may not be in an enclave's job process, and what `docs/enclave.md` says is."""

import re
from pathlib import Path

FORBIDDEN = {
    "aiohttp", "apscheduler", "fastapi", "h11", "httpcore", "httpcore2", "httpx", "httpx2", "huggingface_hub", "openai",
    "requests", "sqlalchemy", "starlette", "transformers", "urllib3", "uvicorn", "web3", "websockets", "chain", "committee",
    "serving",
}  # fmt: skip

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "enclave.md"


def documented() -> set[str]:
    """Import names in the first column of the table of packages."""
    table = DOCUMENT.read_text().split("## What is imported")[1].split("\n## ")[0]
    return set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE))
