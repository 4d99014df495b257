"""Replaces compiled contracts of the campaign by contracts with a fault.

The campaign deploys contracts by name from compiled files. Only contracts that contain the faulty file are compiled again, with
the campaign's settings, by a compiler process that stays alive. That takes some seconds for a fault, and a minute with forge.
Forge does not know of these files. It compiles only the campaign itself.

The files that forge compiled without a fault are kept, and put back after each fault. Each fault begins and ends with exactly
these files, and the campaign must run on changed ones. Otherwise the program stops, because then nobody knows which fault was
tried.
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
    """The source texts of a copy of `chain/contracts`, and the contracts that contain each of them."""

    def __init__(self, root: Path) -> None:
        """`root` is the folder of the copy."""
        self.root = root
        self._text: dict[str, str] = {}

    def is_of_the_campaign(self, path: str) -> bool:
        """Returns whether the campaign itself may contain code of `path`. Then forge must compile the campaign again."""
        return path in self.closure("campaign/Everybody.sol", {}, without="campaign/Artifacts.sol")

    def deployed_with(self, path: str, text: str) -> dict[str, dict[str, str]]:
        """Returns the contracts of the campaign that contain `path`, each with all its files, if `path` has this `text`."""
        made = MADE.findall((self.root / "campaign" / "Deployment.sol").read_text())
        closures = {name: self.closure(self.file_of(name), {path: text}) for name in made}
        return {name: files for name, files in closures.items() if path in files}

    def file_of(self, name: str) -> str:
        """Returns the path of a contract's source, which is a file of its name."""
        (path,) = (self.root / "src").rglob(f"{name}.sol")
        return path.relative_to(self.root).as_posix()

    def closure(self, path: str, changed: Mapping[str, str], without: str = "") -> dict[str, str]:
        """Returns a file and all files that it imports, except `without`, by path. Each has its text, or the text in
        `changed`."""
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
        """Returns the path, from the root, of the file that `where` imports as `given`."""
        if given.startswith("."):
            return os.path.normpath(Path(where).parent / given)
        return f"node_modules/{given}"


class Compiled:
    """The files that forge compiled from a copy of `chain/contracts` without a fault. A second copy of these files makes it
    possible to put them back and to compare."""

    FOLDERS = ("out-campaign", "cache-campaign")

    def __init__(self, root: Path) -> None:
        """`root` is the folder of the compiled copy. The second copy of its compiled files is in `root/kept`."""
        self.root, self._kept = root, root / "kept"
        shutil.rmtree(self._kept, ignore_errors=True)
        for name in self.FOLDERS:
            shutil.copytree(root / name, self._kept / name)
        self._clean = self._digests(root)

    def put_back(self) -> None:
        """Puts back the files and forge's cache. Otherwise forge would use faulty files as clean ones."""
        for name in self.FOLDERS:
            shutil.rmtree(self.root / name)
            shutil.copytree(self._kept / name, self.root / name)

    def changed(self) -> set[str]:
        """Returns the paths of the compiled files that changed."""
        now = self._digests(self.root)
        return {name for name in self._clean.keys() | now.keys() if self._clean.get(name) != now.get(name)}

    def recoded(self) -> set[str]:
        """Returns the contracts whose code changed."""
        return {Path(name).stem for name in self.changed() if self._code(self.root, name) != self._code(self._kept, name)}

    def _code(self, root: Path, name: str) -> str | None:
        file = root / self.FOLDERS[0] / name
        return code_in(file) if file.exists() else None

    def _digests(self, root: Path) -> dict[str, str]:
        out = root / self.FOLDERS[0]
        files = (file for file in out.rglob("*.json") if "build-info" not in file.parts)
        return {file.relative_to(out).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def code_in(file: Path) -> str | None:
    """Returns the creation code in a compiled file, in hexadecimal. Returns None for an interface, which has no code."""
    return str(json.loads(file.read_text()).get("bytecode", {}).get("object", "0x")).removeprefix("0x") or None


def unfinished(root: Path) -> Path:
    """Returns the path of a file that exists while a fault is planted. If it exists at the start, the compiled files may be
    faulty."""
    return root / "planted"


class Planting:
    """A copy of `chain/contracts` that forge has compiled without a fault, with a compiler for faults."""

    def __init__(self, root: Path) -> None:
        """`root` is the folder of the copy."""
        # The path is absolute because the compiler is started in the copy.
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
        """Context manager in which the campaign runs with `text` as the file `path`.

        Raises `SystemExit` if the compiled code is not the expected code in the context, before it or after it.
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
        """Lets forge compile the campaign, because it may contain code of the file."""
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
        """Compiles the contracts that contain the file, without forge."""
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
        """Raises `SystemExit` unless forge and the compiler give the same code without the fault, and the fault changes code."""
        if not codes.keys() <= self._clean_codes.keys():
            self._clean_codes |= self._codes(path, (self.root / path).read_text())
        others = [name for name in codes if self._clean_codes[name] != compiled[name]]
        if others:
            raise SystemExit(f"{path}: forge makes other code than the compiler does, without any fault: {', '.join(others)}")
        if all(code == self._clean_codes[name] for name, code in codes.items()):
            raise SystemExit(f"{path}: the contracts have the same code with the fault as without it: {', '.join(codes)}")

    def _codes(self, path: str, text: str) -> dict[str, str]:
        """Returns the creation code, in hexadecimal, of every deployed contract that contains `path`."""
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
        """Returns the settings with which forge compiled the campaign."""
        cache = json.loads((self.root / "cache-campaign" / "solidity-files-cache.json").read_text())
        return cache["profiles"]["default"]["solc"] | {"remappings": ["@openzeppelin/=node_modules/@openzeppelin/"]}

    def _asked(self, standard: Mapping[str, Any]) -> dict[str, Any]:
        """Sends standard JSON to the compiler and returns its answer."""
        stdin, stdout = self._compiler.stdin, self._compiler.stdout
        if stdin is None or stdout is None:
            raise SystemExit("the compiler has no pipes")
        stdin.write(json.dumps(standard) + "\n")
        stdin.flush()
        return dict(json.loads(stdout.readline()))
