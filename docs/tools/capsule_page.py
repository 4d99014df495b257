"""Builds `chain/capsule/capsule.html`, the page that verifies an evidence capsule in a browser.

python docs/tools/capsule_page.py           # build; needs npm
python docs/tools/capsule_page.py --check   # compare the committed page with its sources; exit 1 if it is stale

The page is one file. It contains its styles, its script, and the constants that this program takes from the product. Its content
security policy allows nothing else.
"""

import base64
import dataclasses
import enum
import hashlib
import json
import subprocess
import sys
import types
import typing
from collections.abc import Iterable
from typing import Any

from bytewise.crypto.bls import MESSAGE_TAG
from bytewise.crypto.checkpoint import MAX_NOTE_BYTES, MLDSA_CONTEXT, ORIGIN, SignatureType
from bytewise.protocol.assurance import SIMULATED, warning
from bytewise.protocol.digests import Label
from bytewise.protocol.encoding import LATER, MAX_DEPTH, field_types
from bytewise.protocol.errors.branches import BytewiseError
from bytewise.protocol.evidence.claims import ResultQuote
from bytewise.protocol.records.preflight import PreflightPoint
from bytewise.protocol.records.receipt import ClientMode, Mode, Receipt, plain_enclave_key
from bytewise.protocol.records.statements import Outcome, Release, Ticket, Verdict
from bytewise.protocol.signing import type_string
from bytewise.protocol.units import U8, U16, U32, U64, U256, Address, Blob, Decimal, Digest, hex0x
from chain.capsule.attachments import MAX_QUOTE_MARKS
from chain.capsule.beacon import COMMITTEE, DOMAIN, KEY_BYTES, NETWORKS, SLOTS_PER_EPOCH, SLOTS_PER_PERIOD, BeaconNetwork
from chain.capsule.conclusion import LIMITS
from chain.capsule.facts import CONTRACTS, MAX_ROUNDS, TREE, layout_digest
from chain.capsule.header import HISTORY, HISTORY_BLOCKS, HISTORY_CODE
from chain.capsule.report import REQUIRED, Group
from chain.capsule.schema import FORMAT, MAX_BYTES, MAX_MARKS, BlockWitness, Capsule
from chain.capsule.trie import MAX_RLP_DEPTH
from chain.capsule.verification import PAGE
from chain.client.artifacts import FOLDER, interface

SOURCE = FOLDER.parent / "capsule" / "page"
MAX_PAGE_BYTES = 220_000

_NAMES: dict[Any, str] = {
    U8: "U8", U16: "U16", U32: "U32", U64: "U64", U256: "U256", Digest: "Digest", Blob: "Blob", Address: "Address",
    Decimal: "Decimal", str: "str", int: "int", bool: "bool",
}  # fmt: skip

_VARIABLES = {
    "Disputes": ["_cases"], "Rounds": ["claimOf", "_rounds"], "ReceiptAnchor": ["_batches", "_services"], "Demands": ["_demands"],
    "Params": ["_times", "_committee"], "Guardian": ["_last"], "Registry": ["_pools", "policyDigest"], "KeyEpochs": ["_epochs"],
    TREE: ["_accountAt"],
}  # fmt: skip
"""Storage variables that a verification reads, by contract."""


def constants() -> dict[str, Any]:
    """Returns the constants that the page takes from the product: schema, layouts, labels and limits."""
    records: dict[str, Any] = {}
    _describe(Capsule, records)
    _describe(ResultQuote, records)
    labels = (
        "REQUEST", "TOKENS", "CLIENT_SIGNATURE", "ENVIRONMENT", "CAPSULE_DEPLOYMENT", "TRANSPORT_KEY", "EVIDENCE",
        "RELEASE_GROUNDS", "JOURNAL", "JOURNAL_KEYS",
    )  # fmt: skip
    return {
        "format": FORMAT, "maxBytes": MAX_BYTES, "maxMarks": MAX_MARKS, "maxQuoteMarks": MAX_QUOTE_MARKS, "maxDepth": MAX_DEPTH,
        "maxRlpDepth": MAX_RLP_DEPTH, "maxRounds": MAX_ROUNDS, "records": records,
        "labels": {name: Label[name].value for name in labels},
        "types": {each.__name__: type_string(each) for each in (Receipt, BlockWitness, Release, Ticket)},
        "modes": {
            "plain": str(Mode.PLAIN.value), "enclaveKey": plain_enclave_key(), "client": [str(each.value) for each in ClientMode],
        },
        "contracts": list(CONTRACTS), "tree": TREE, "layout": hex0x(layout_digest()),
        "layouts": {name: _layout(name, used) for name, used in _VARIABLES.items()},
        "history": {"address": HISTORY, "blocks": HISTORY_BLOCKS, "code": hex0x(HISTORY_CODE)},
        "beacon": {
            "committee": COMMITTEE, "slotsPerEpoch": SLOTS_PER_EPOCH, "slotsPerPeriod": SLOTS_PER_PERIOD, "keyBytes": KEY_BYTES,
            "domain": hex0x(DOMAIN), "tag": MESSAGE_TAG.decode(),
            "networks": {str(chain): network_json(each) for chain, each in NETWORKS.items()},
        },
        "journal": {
            "origin": ORIGIN, "maxNote": MAX_NOTE_BYTES, "mldsaContext": MLDSA_CONTEXT.decode(),
            "mldsaType": SignatureType.MLDSA65.value.decode("latin-1"),
        },
        "revealed": hex0x(interface("Rounds").topic("Revealed")),
        "verdicts": [each.name for each in Verdict], "outcomes": [each.name for each in Outcome],
        "groups": [each.value for each in Group], "required": [each.value for each in Group if each in REQUIRED],
        "limits": list(LIMITS), "simulated": warning(SIMULATED), "points": [each.value for each in PreflightPoint],
        "pointNames": [each.name for each in PreflightPoint],
    }  # fmt: skip


def network_json(network: BeaconNetwork) -> dict[str, Any]:
    """Returns a beacon chain in the form that the page reads."""
    forks = [{"epoch": each.epoch, "version": hex0x(each.version), "layout": each.layout._asdict()} for each in network.forks]
    return {"root": hex0x(network.genesis_validators_root), "forks": forks}


def _describe(cls: type, records: dict[str, Any]) -> None:
    """Adds the fields of a record class, and of all record classes inside it, to `records`: the type of each field by name."""
    if cls.__name__ in records:
        return
    later = [field.name for field in dataclasses.fields(cls) if field.metadata == LATER]
    records[cls.__name__] = {"fields": {}, "later": later}
    for name, kind in field_types(cls).items():
        records[cls.__name__]["fields"][name] = _kind(kind, records)


def _kind(kind: Any, records: dict[str, Any]) -> Any:
    arguments = typing.get_args(kind)
    if kind in _NAMES:
        return _NAMES[kind]
    if typing.get_origin(kind) in (types.UnionType, typing.Union):
        (inner,) = [each for each in arguments if each is not type(None)]
        return {"optional": _kind(inner, records)}
    if typing.get_origin(kind) is tuple and arguments[-1] is Ellipsis:
        return {"list": _kind(arguments[0], records)}
    if typing.get_origin(kind) is tuple:
        return {"tuple": [_kind(each, records) for each in arguments]}
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return {"enum": [each.value for each in kind]}
    _describe(kind, records)
    return {"record": kind.__name__}


def _layout(name: str, used: Iterable[str]) -> dict[str, Any]:
    """Returns the part of a contract's storage layout that describes these variables."""
    document = json.loads((FOLDER / "layout" / f"{name}.json").read_text())
    storage = {each["label"]: each for each in document["storage"]}
    kept: dict[str, Any] = {}

    def keep(kind: str) -> str:
        if kind not in kept:
            entry = document["types"][kind]
            kept[kind] = {"label": entry["label"], "encoding": entry["encoding"], "bytes": int(entry["numberOfBytes"])}
            for link in ("key", "value", "base"):
                if link in entry:
                    kept[kind][link] = keep(entry[link])
            if "members" in entry:
                kept[kind]["members"] = {m["label"]: [int(m["slot"]), m["offset"], keep(m["type"])] for m in entry["members"]}
        return kind

    variables = {each: [int(storage[each]["slot"]), storage[each]["offset"], keep(storage[each]["type"])] for each in used}
    return {"variables": variables, "types": kept}


def source_digest() -> str:
    """Returns the SHA-256 over the page's sources and constants. The page contains it, so a stale page is found without npm."""
    state = hashlib.sha256(json.dumps(constants(), sort_keys=True).encode())
    files = [*sorted((SOURCE / "src").iterdir()), SOURCE / "package.json", SOURCE / "package-lock.json"]
    for path in files:
        state.update(path.name.encode() + b"\0" + path.read_bytes())
    return state.hexdigest()


def build() -> str:
    """Builds and returns the page. Runs `npm ci` and esbuild, whose versions and hashes the lock file pins."""
    subprocess.run(["npm", "ci", "--no-audit", "--no-fund", "--silent"], cwd=SOURCE, check=True)
    command = [
        "node_modules/.bin/esbuild", "src/page.js", "--bundle", "--minify", "--format=iife", "--target=es2022", "--charset=utf8",
        f"--define:CONSTANTS={json.dumps(constants(), sort_keys=True, separators=(',', ':'))}", "--legal-comments=inline",
    ]  # fmt: skip
    script = subprocess.run(command, cwd=SOURCE, check=True, capture_output=True, text=True).stdout
    style = (SOURCE / "src" / "page.css").read_text()
    # A script element ends at the first closing tag, even inside a string of the script.
    script = script.replace("</script", "<\\/script").replace("<!--", "<\\!--").strip()
    hashes = [base64.b64encode(hashlib.sha256(each.encode()).digest()).decode() for each in (script, style)]
    allowed = f"script-src 'sha256-{hashes[0]}'; style-src 'sha256-{hashes[1]}'"
    # A worker runs the page's own script from a Blob. The page's policy applies to the worker too, so it has no network either.
    policy = f"default-src 'none'; {allowed}; worker-src blob:; base-uri 'none'; form-action 'none'"
    page = (SOURCE / "src" / "page.html").read_text()
    for name, text in (("DIGEST", source_digest()), ("POLICY", policy), ("STYLE", style), ("SCRIPT", script)):
        page = page.replace(f"@{name}@", text, 1)
    return page


def main() -> int:
    """Builds and writes the page. With `--check` it returns 1 if the committed page is stale."""
    if "--check" in sys.argv:
        is_fresh = PAGE.exists() and source_digest() in PAGE.read_text()
        if not is_fresh:
            print("chain/capsule/capsule.html is stale: run python docs/tools/capsule_page.py", file=sys.stderr)
        return int(not is_fresh)
    page = build()
    if len(page.encode()) > MAX_PAGE_BYTES:
        print(f"the page has {len(page.encode())} bytes, at most {MAX_PAGE_BYTES}", file=sys.stderr)
        return 1
    PAGE.write_text(page)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BytewiseError as error:
        sys.exit(str(error))
