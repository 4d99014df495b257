"""Code of contracts with a fault in it, put where the campaign takes its contracts from, without a word to forge.

The campaign deploys contracts by name from compiled files. Only those that the faulty file is part of are compiled again, with
the settings of the campaign, by a compiler that stays: some seconds a fault, where forge needs minutes.
"""

import json
import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

IMPORT = re.compile(r'^import\s+(?:[^"]*?\s+from\s+)?"([^"]+)";', re.MULTILINE)
MADE = re.compile(r'\bmade\("(\w+)"')


class Planting:
    """A copy of `chain/contracts`, compiled by forge without a fault, and the compiler for faults in it."""

    def __init__(self, root: Path) -> None:
        """`root`: the copy."""
        self.root = root
        self._text: dict[str, str] = {}
        tools = root / "tools"
        self._compiler = subprocess.Popen(
            [tools / "solc-lines"], cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> "Planting":
        return self

    def __exit__(self, *_: object) -> None:
        self._compiler.communicate()

    def is_of_the_campaign(self, path: str) -> bool:
        """Whether the campaign itself has code of `path` in it; then forge must compile it."""
        return path in self._closure("campaign/Everybody.sol", {}, without="campaign/Artifacts.sol")

    @contextmanager
    def planted(self, path: str, text: str) -> Iterator[None]:
        """While it is entered, contracts with the file `path` in them are those with `text` in its place."""
        codes = self._compiled(path, text)
        files = [self.root / "out-campaign" / f"{name}.sol" / f"{name}.json" for name in codes]
        before = [file.read_text() for file in files]
        try:
            for file, was, code in zip(files, before, codes.values(), strict=True):
                artifact = json.loads(was)
                artifact["bytecode"]["object"] = f"0x{code}"
                file.write_text(json.dumps(artifact))
            yield
        finally:
            for file, was in zip(files, before, strict=True):
                file.write_text(was)

    def _compiled(self, path: str, text: str) -> dict[str, str]:
        """Creation code of every deployed contract that `path` is part of, in hexadecimal."""
        sources: dict[str, str] = {}
        wanted: dict[str, dict[str, list[str]]] = {}
        for name in MADE.findall((self.root / "campaign" / "Deployment.sol").read_text()):
            parts = self._closure(f"src/{name}.sol", {path: text})
            if path in parts:
                sources |= parts
                wanted[f"src/{name}.sol"] = {name: ["evm.bytecode.object"]}
        out = self._asked(sources, wanted)
        errors = [error["formattedMessage"] for error in out.get("errors", []) if error["severity"] == "error"]
        if errors:
            raise SystemExit(f"{path} with its fault does not compile:\n{errors[0]}")
        contracts = {name: out["contracts"][file][name] for file in wanted for name in wanted[file]}
        return {name: contract["evm"]["bytecode"]["object"] for name, contract in contracts.items()}

    def _asked(self, sources: Mapping[str, str], wanted: Mapping[str, Any]) -> dict[str, Any]:
        cache = json.loads((self.root / "cache-campaign" / "solidity-files-cache.json").read_text())
        settings = cache["profiles"]["default"]["solc"] | {"remappings": ["@openzeppelin/=node_modules/@openzeppelin/"]}
        contents = {name: {"content": text} for name, text in sources.items()}
        asked = {"language": "Solidity", "sources": contents, "settings": settings | {"outputSelection": wanted}}
        stdin, stdout = self._compiler.stdin, self._compiler.stdout
        if stdin is None or stdout is None:
            raise SystemExit("the compiler has no pipes")
        stdin.write(json.dumps(asked) + "\n")
        stdin.flush()
        return dict(json.loads(stdout.readline()))

    def _closure(self, path: str, changed: Mapping[str, str], without: str = "") -> dict[str, str]:
        """A file and all that it imports, with their texts."""
        found: dict[str, str] = {}
        todo = [path]
        while todo:
            name = todo.pop()
            if name in found or name == without:
                continue
            found[name] = changed.get(name) or self._read(name)
            todo += [self._resolved(name, given) for given in IMPORT.findall(found[name])]
        return found

    def _read(self, name: str) -> str:
        if name not in self._text:
            self._text[name] = (self.root / name).read_text()
        return self._text[name]

    @staticmethod
    def _resolved(where: str, given: str) -> str:
        """`given` as it is called from the root, where `where` imports it."""
        if given.startswith("."):
            return os.path.normpath(Path(where).parent / given)
        return f"node_modules/{given}"
