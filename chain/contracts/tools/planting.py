"""Code of contracts with a fault in it, put where the campaign takes its contracts from.

The campaign deploys contracts by name from compiled files. Only those that the faulty file is part of are compiled again, with
the settings of the campaign, by a compiler that stays: some seconds a fault, where forge needs a minute. Forge is told nothing of
these; it compiles only what the campaign itself has in it.

What forge compiled without a fault is kept, and put back after each. Each fault begins and ends with exactly these files, and the
campaign runs on others: anything else stops the program, for then nobody knows which fault was tried.
"""

import hashlib
import json
import os
import re
import shutil
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


class Compiled:
    """What forge made of a copy of `chain/contracts` without a fault: kept apart, so that it can be put back and compared."""

    FOLDERS = ("out-campaign", "cache-campaign")

    def __init__(self, root: Path) -> None:
        """`root`: the copy, compiled. What is kept lies beside it in `kept`."""
        self.root, self._kept = root, root / "kept"
        shutil.rmtree(self._kept, ignore_errors=True)
        for name in self.FOLDERS:
            shutil.copytree(root / name, self._kept / name)
        self._clean = self._digests(root)

    def put_back(self) -> None:
        """The files as they were, and what forge knows of them: or it would take faults for clean files, and go on with those."""
        for name in self.FOLDERS:
            shutil.rmtree(self.root / name)
            shutil.copytree(self._kept / name, self.root / name)

    def changed(self) -> set[str]:
        """Compiled files that are not as they were, by their paths."""
        now = self._digests(self.root)
        return {name for name in self._clean.keys() | now.keys() if self._clean.get(name) != now.get(name)}

    def recoded(self) -> set[str]:
        """Contracts that have another code than they had."""
        return {Path(name).stem for name in self.changed() if self._code(self.root, name) != self._code(self._kept, name)}

    def _code(self, root: Path, name: str) -> str | None:
        file = root / self.FOLDERS[0] / name
        return code_in(file) if file.exists() else None

    def _digests(self, root: Path) -> dict[str, str]:
        out = root / self.FOLDERS[0]
        files = (file for file in out.rglob("*.json") if "build-info" not in file.parts)
        return {file.relative_to(out).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def code_in(file: Path) -> str | None:
    """Creation code in a compiled file, in hexadecimal; an interface has none."""
    return str(json.loads(file.read_text()).get("bytecode", {}).get("object", "0x")).removeprefix("0x") or None


def unfinished(root: Path) -> Path:
    """Is there while a fault is planted: who finds it knows nothing of the compiled files."""
    return root / "planted"


class Planting:
    """A copy of `chain/contracts` that forge has compiled without a fault, and the compiler for faults in it."""

    def __init__(self, root: Path) -> None:
        """`root`: the copy."""
        # The compiler is started in the copy, where a relative path to it would name another place.
        self.root = root.absolute()
        self.sources = Sources(self.root)
        self._compiled = Compiled(self.root)
        self._clean_codes: dict[str, str] = {}
        command = [self.root / "tools" / "solc-lines"]
        self._compiler = subprocess.Popen(command, cwd=self.root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> "Planting":
        return self

    def __exit__(self, *_: object) -> None:
        self._compiler.communicate()

    @contextmanager
    def planted(self, path: str, text: str) -> Iterator[None]:
        """While it is entered, the campaign runs with `text` in place of the file `path`, and afterwards without it.

        `SystemExit` where a campaign ran on other code than that, before or after it.
        """
        self._must_be_clean("before", path)
        mark = unfinished(self.root)
        mark.write_text(path)
        way = self._recompiled if self.sources.is_of_the_campaign(path) else self._replaced
        with way(path, text):
            yield
        self._must_be_clean("after", path)
        mark.unlink()

    @contextmanager
    def _recompiled(self, path: str, text: str) -> Iterator[None]:
        """By forge: the campaign may have code of the file in it."""
        file = self.root / path
        original = file.read_text()
        file.write_text(text)
        try:
            yield
            if not self._compiled.recoded():
                raise SystemExit(f"{path}: the campaign ran, and no contract has other code than without the fault")
        finally:
            file.write_text(original)
            self._compiled.put_back()

    @contextmanager
    def _replaced(self, path: str, text: str) -> Iterator[None]:
        """Without forge: contracts that have the file in them."""
        codes = self._codes(path, text)
        files = {name: self.root / "out-campaign" / f"{name}.sol" / f"{name}.json" for name in codes}
        before = {name: file.read_text() for name, file in files.items()}
        self._must_change(path, codes, {name: code_in(file) for name, file in files.items()})
        try:
            for name, file in files.items():
                artifact = json.loads(before[name])
                artifact["bytecode"]["object"] = f"0x{codes[name]}"
                file.write_text(json.dumps(artifact))
            yield
            gone = [name for name, file in files.items() if code_in(file) != codes[name]]
            if gone:
                raise SystemExit(f"{path}: forge compiled {', '.join(gone)} anew, and the campaign ran without the fault")
        finally:
            for name, file in files.items():
                file.write_text(before[name])

    def _must_be_clean(self, when: str, path: str) -> None:
        changed = self._compiled.changed()
        if changed:
            raise SystemExit(f"{when} the fault in {path} these are not as forge compiled them: {', '.join(sorted(changed))}")

    def _must_change(self, path: str, codes: Mapping[str, str], compiled: Mapping[str, str | None]) -> None:
        """The fault is in the codes, and nothing else is."""
        if not codes.keys() <= self._clean_codes.keys():
            self._clean_codes |= self._codes(path, (self.root / path).read_text())
        others = [name for name in codes if self._clean_codes[name] != compiled[name]]
        if others:
            raise SystemExit(f"{path}: forge makes other code than the compiler does, without any fault: {', '.join(others)}")
        if all(code == self._clean_codes[name] for name, code in codes.items()):
            raise SystemExit(f"{path}: the contracts have the same code with the fault as without it: {', '.join(codes)}")

    def _codes(self, path: str, text: str) -> dict[str, str]:
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
