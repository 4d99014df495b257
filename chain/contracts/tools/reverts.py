"""Checks that every revert of the contracts is a custom error with data that a test names, and that most tests have fuzzed
arguments.

python chain/contracts/tools/reverts.py    # prints the figures; exit 1 with one line for each finding

The program reads the text of the sources without comments. Names are enough to find which errors are declared, raised and tested.
"""

import itertools
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

BARE: Mapping[str, str] = {
    "Wired.AlreadyWired": "a contract is wired or not",
    "Wired.ZeroAddress": "which of a deployment's arguments is zero shows in its one transaction",
    "Charter.ZeroAddress": "the same",
    "IDisputes.EmptyAltCommit": "the one argument of this name is zero",
    "IRounds.EmptyCommitment": "the one argument of this name is zero",
    "IStakeSource.ZeroAmount": "the one amount is zero",
    "IKeyEpochs.BadAssurance": "the only value that is refused so is NONE",
    "IDemands.NoEquivocation": "two statements are compared whole; no field of theirs is at fault",
    "EigenLayerStake.StakedElsewhere": "no call of the function is right",
}
"""Errors without parameters, with the reason why data would not help."""

FUZZED_PERCENT = 80

COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:[^\"\\\n]|\\.)*\"", re.DOTALL)
CONTRACT = re.compile(r"\b(?:abstract\s+)?(?:contract|interface|library)\s+(\w+)(?:\s+is\s+([^{]+))?\s*\{")
DECLARED = re.compile(r"\berror\s+(\w+)\s*\(([^)]*)\)\s*;")
RAISED = re.compile(r"\b(?:revert\s+|require\([^;]*?,\s*)((?:\w+\.)*)(\w+)\s*\(")
NAMED = re.compile(r"((?:\w+\.)*)(\w+)\.selector\b")
NAMELESS = re.compile(r"\brevert\s*\(|\bassert\s*\(|\brequire\s*\([^;]*?\)\s*;")
TEST = re.compile(r"\bfunction\s+test\w*\s*\(([^)]*)\)")


@dataclass(frozen=True, slots=True)
class Source:
    """The contracts under a folder, by name."""

    bases: Mapping[str, tuple[str, ...]]
    """Direct bases of each contract."""
    bodies: Mapping[str, str]
    """Text of each contract, without comments and string literals."""

    def lineage(self, contract: str) -> list[str]:
        """Returns the contract and all its bases, nearest first."""
        found = [contract]
        for name in found:
            found += [base for base in self.bases.get(name, ()) if base not in found]
        return found


def main() -> int:
    """Prints the figures. Returns 0, or 1 after printing one line for each finding."""
    src, tests = read(ROOT / "src"), read(ROOT / "test")
    total, fuzzed = fuzzed_tests(tests)
    print(f"{len(declared(src))} errors; {fuzzed} of {total} tests have fuzzed arguments ({100 * fuzzed // max(total, 1)} %)")
    found = findings(src, tests)
    if 100 * fuzzed < FUZZED_PERCENT * total:
        found.append(f"fewer than {FUZZED_PERCENT} % of all tests have fuzzed arguments")
    print("\n".join(found), file=sys.stderr, end="\n" if found else "")
    return int(bool(found))


def read(folder: Path) -> Source:
    """Reads the contracts under a folder."""
    bases: dict[str, tuple[str, ...]] = {}
    bodies: dict[str, str] = {}
    for path in sorted(folder.rglob("*.sol")):
        text = COMMENT.sub(lambda match: '""' if match[0].startswith('"') else " ", path.read_text())
        heads = list(CONTRACT.finditer(text))
        for head, after in itertools.zip_longest(heads, heads[1:]):
            # Helper contracts of two test files may share a name.
            bases[head[1]] = bases.get(head[1], ()) + tuple(_names(head[2] or ""))
            bodies[head[1]] = bodies.get(head[1], "") + text[head.end() : after.start() if after else len(text)]
    return Source(bases, bodies)


def declared(src: Source) -> dict[str, str]:
    """Returns the parameters of every error, by `Contract.Name`."""
    return {f"{where}.{name}": " ".join(given.split()) for where, body in src.bodies.items() for name, given in DECLARED.findall(body)}


def findings(src: Source, tests: Source, bare: Mapping[str, str] = BARE) -> list[str]:
    """Returns the findings, one line each."""
    errors = declared(src)
    raised = _meant(src, src, errors, RAISED)
    named = _meant(tests, Source({**src.bases, **tests.bases}, {**src.bodies, **tests.bodies}), errors, NAMED)
    lines = [f"{where}: `{hit}` has no custom error" for where, body in src.bodies.items() for hit in _nameless(body)]
    lines += [f"{name}: carries no data, and BARE says no reason" for name, given in errors.items() if not given and name not in bare]
    lines += [f"{name}: in BARE, but it carries data or is not declared" for name in bare if errors.get(name) != ""]
    lines += [f"{name}: never raised" for name in errors if name not in raised]
    return lines + [f"{name}: no test names it" for name in errors if name not in named]


def fuzzed_tests(tests: Source) -> tuple[int, int]:
    """Returns the number of test functions, and the number of test functions with arguments. Invariants do not count."""
    given = [arguments.strip() for body in tests.bodies.values() for arguments in TEST.findall(body)]
    return len(given), sum(bool(arguments) for arguments in given)


def _meant(users: Source, scope: Source, errors: Mapping[str, str], pattern: re.Pattern[str]) -> set[str]:
    """Returns the declared errors that the pattern finds. The declaration of a found name is the nearest one in the lineage of
    its qualifier or, without qualifier, of the contract that uses the name."""
    found = set()
    for user, body in users.bodies.items():
        for qualifier, name in pattern.findall(body):
            start = qualifier.split(".")[0] or user
            known = (f"{each}.{name}" for each in scope.lineage(start))
            found |= set(next(([each] for each in known if each in errors), []))
    return found


def _nameless(body: str) -> list[str]:
    """Returns the statements that would revert without a custom error."""
    return [" ".join(hit.split()) for hit in NAMELESS.findall(body) if not re.search(r",\s*[\w.]+\s*\(", hit)]


def _names(bases: str) -> list[str]:
    return re.findall(r"\w+", re.sub(r"\([^)]*\)", "", bases))


if __name__ == "__main__":
    sys.exit(main())
