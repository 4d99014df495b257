"""Code of contracts with a fault in it, put where the campaign takes its contracts from, without a word to forge.

The campaign deploys contracts by name from compiled files. Only those that the faulty file is part of are compiled again, with
the settings of the campaign, by a compiler that stays: some seconds a fault, where forge needs a minute.
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


class Sources:
    """The texts of a copy of `chain/contracts`, and which of them are part of which contract."""

    def __init__(self, root: Path) -> None:
        """`root`: the copy."""
        self.root = root
        self._text: dict[str, str] = {}

    def is_of_the_campaign(self, path: str) -> bool:
        """Whether the campaign itself may have code of `path` in it; then forge must compile it."""
        return path in self.closure("campaign/Everybody.sol", {}, without="campaign/Artifacts.sol")

    def deployed_with(self, path: str, text: str) -> dict[str, dict[str, str]]:
        """All files of each contract of the campaign that `path` is part of, if `text` stands in it."""
        made = MADE.findall((self.root / "campaign" / "Deployment.sol").read_text())
        closures = {name: self.closure(self.file_of(name), {path: text}) for name in made}
        return {name: files for name, files in closures.items() if path in files}

    def file_of(self, name: str) -> str:
        """The source of a contract: each is in a file of its name."""
        (path,) = (self.root / "src").rglob(f"{name}.sol")
        return path.relative_to(self.root).as_posix()

    def closure(self, path: str, changed: Mapping[str, str], without: str = "") -> dict[str, str]:
        """A file and all that it imports but `without`, with their texts or those in `changed`."""
        found: dict[str, str] = {}
        todo = [path]
        while todo:
            name = todo.pop()
            if name in found or name == without:
                continue
            found[name] = changed[name] if name in changed else self._read(name)
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


class Planting:
    """A copy of `chain/contracts` that forge has compiled without a fault, and the compiler for faults in it."""

    def __init__(self, root: Path) -> None:
        """`root`: the copy."""
        # The compiler is started in the copy, where a relative path to it would name another place.
        self.root = root.absolute()
        self.sources = Sources(self.root)
        command = [self.root / "tools" / "solc-lines"]
        self._compiler = subprocess.Popen(command, cwd=self.root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> "Planting":
        return self

    def __exit__(self, *_: object) -> None:
        self._compiler.communicate()

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
        deployed = self.sources.deployed_with(path, text)
        wanted = {self.sources.file_of(name): {name: ["evm.bytecode.object"]} for name in deployed}
        texts = {file: {"content": content} for files in deployed.values() for file, content in files.items()}
        out = self._asked({"language": "Solidity", "sources": texts, "settings": self._settings() | {"outputSelection": wanted}})
        errors = [error["formattedMessage"] for error in out.get("errors", []) if error["severity"] == "error"]
        if errors:
            raise SystemExit(f"{path} with its fault does not compile:\n{errors[0]}")
        contracts = {name: out["contracts"][self.sources.file_of(name)][name] for name in deployed}
        return {name: contract["evm"]["bytecode"]["object"] for name, contract in contracts.items()}

    def _settings(self) -> dict[str, Any]:
        """Those that forge compiled the campaign with."""
        cache = json.loads((self.root / "cache-campaign" / "solidity-files-cache.json").read_text())
        return cache["profiles"]["default"]["solc"] | {"remappings": ["@openzeppelin/=node_modules/@openzeppelin/"]}

    def _asked(self, standard: Mapping[str, Any]) -> dict[str, Any]:
        """Standard JSON of the compiler, there and back."""
        stdin, stdout = self._compiler.stdin, self._compiler.stdout
        if stdin is None or stdout is None:
            raise SystemExit("the compiler has no pipes")
        stdin.write(json.dumps(standard) + "\n")
        stdin.flush()
        return dict(json.loads(stdout.readline()))
