// The file: limits before parsing, RFC 8785, and the schema of the program (bytewise/protocol/encoding.py).
import { C, utf8 } from "./bytes.js";

export class Rejected extends Error {
  constructor(failure, why) {
    super(why);
    this.failure = failure;
  }
}

const MARKS = [0x7b, 0x5b, 0x2c, 0x5c];

export function canonical(value) {
  if (Array.isArray(value)) return "[" + value.map(canonical).join(",") + "]";
  if (value !== null && typeof value === "object") {
    return "{" + Object.keys(value).sort().map((key) => JSON.stringify(key) + ":" + canonical(value[key])).join(",") + "}";
  }
  if (typeof value === "number" && !Number.isSafeInteger(value)) throw new Rejected("capsule.notCanonical", "a number is no integer");
  if (typeof value === "string" && !value.isWellFormed()) throw new Rejected("capsule.notCanonical", "a text is not Unicode");
  return JSON.stringify(value);
}

export const encode = (value) => utf8(canonical(value));

function verifyDepth(bytes) {
  let depth = 0, quoted = false;
  for (let i = 0; i < bytes.length; i++) {
    const byte = bytes[i];
    if (quoted) {
      if (byte === 0x5c) i++;
      else if (byte === 0x22) quoted = false;
    } else if (byte === 0x22) quoted = true;
    else if (byte === 0x5b || byte === 0x7b) depth++;
    else if (byte === 0x5d || byte === 0x7d) depth--;
    if (depth > C.maxDepth) throw new Rejected("capsule.tooLarge", `nested deeper than ${C.maxDepth}`);
  }
}

// Plain JSON data of canonical bytes.
export function parse(bytes, maxMarks) {
  let marks = 0;
  for (const byte of bytes) if (MARKS.includes(byte)) marks++;
  if (marks > maxMarks) throw new Rejected("capsule.tooLarge", `${marks} marks, at most ${maxMarks}`);
  verifyDepth(bytes);
  let text, value;
  try {
    text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    value = JSON.parse(text);
  } catch (error) {
    throw new Rejected("capsule.malformed", error.message);
  }
  if (canonical(value) !== text) throw new Rejected("capsule.notCanonical", "re-encodes to other bytes");
  return value;
}

const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);
const BITS = { U8: 8n, U16: 16n, U32: 32n, U64: 64n, U256: 256n };
const FORMS = {
  Digest: /^0x[0-9a-f]{64}$/, Blob: /^0x([0-9a-f]{2})*$/, Address: /^0x[0-9a-f]{40}$/,
  Decimal: /^(?!-0$)-?(0|[1-9][0-9]{0,30})(\.[0-9]{0,30}[1-9])?$/,
};

function fail(where, why) {
  throw new Rejected("capsule.malformed", `${where}: ${why}`);
}

function check(kind, value, where) {
  if (typeof kind === "string") return checkLeaf(kind, value, where);
  if (kind.optional) return value === null || check(kind.optional, value, where);
  if (kind.record) return checkRecord(kind.record, value, where);
  if (kind.enum) return (typeof value !== "boolean" && kind.enum.includes(value)) || fail(where, "an unknown value");
  if (!Array.isArray(value)) fail(where, "not a list");
  if (kind.tuple && kind.tuple.length !== value.length) fail(where, `${value.length} items instead of ${kind.tuple.length}`);
  value.forEach((each, i) => check(kind.list ?? kind.tuple[i], each, where));
  return true;
}

function checkLeaf(kind, value, where) {
  if (kind === "bool") return typeof value === "boolean" || fail(where, "not a bool");
  if (kind === "int") return Number.isSafeInteger(value) || fail(where, "not an integer below 2^53");
  if (typeof value !== "string") fail(where, "not a text");
  if (kind in BITS) {
    if (!/^(0|[1-9][0-9]{0,77})$/.test(value)) fail(where, "not a decimal integer");
    return BigInt(value) >> BITS[kind] === 0n || fail(where, `not below 2^${BITS[kind]}`);
  }
  return !(kind in FORMS) || FORMS[kind].test(value) || fail(where, `not a ${kind}`);
}

export function checkRecord(name, value, where = name) {
  const { fields, later } = C.records[name];
  if (!isObject(value)) fail(where, "not an object");
  const missing = Object.keys(fields).filter((each) => !(each in value) && !later.includes(each));
  const unknown = Object.keys(value).filter((each) => !Object.hasOwn(fields, each));
  if (missing.length || unknown.length) {
    throw new Rejected("capsule.unknownMember", `${where}: missing fields ${missing}, unknown fields ${unknown.slice(0, 5)}`);
  }
  for (const each of Object.keys(value)) {
    if (later.includes(each) && value[each] === null) fail(`${where}.${each}`, "null, where it is left out instead");
    check(fields[each], value[each], `${where}.${each}`);
  }
  return true;
}

export function readCapsule(bytes) {
  if (bytes.length > C.maxBytes) throw new Rejected("capsule.tooLarge", `${bytes.length} bytes, at most ${C.maxBytes}`);
  const value = parse(bytes, C.maxMarks);
  if (!isObject(value) || typeof value.format !== "string") throw new Rejected("capsule.malformed", "no object with a format");
  if (value.format !== C.format) throw new Rejected("capsule.unknownVersion", `format ${value.format.slice(0, 60)}, this page reads ${C.format}`);
  checkRecord("Capsule", value);
  return value;
}
