// Parts of nodes' journals (journals_text in chain/capsule/attachments.py): notes of c2sp.org/signed-note, the tree of RFC 9162.
import { ml_dsa65 } from "@noble/post-quantum/ml-dsa.js";
import { C, ZERO, concat, labelled, sha256, toBytes, toHex, utf8 } from "./bytes.js";
import { Rejected, parse } from "./document.js";
import { isSignedBy } from "./ed25519.js";
import { Stop } from "./storage.js";

const TEXT = /^(bytewise\/journal\/[0-9a-f]{64})\n(0|[1-9][0-9]{0,15})\n([A-Za-z0-9+/]{43}=)\ntime (0|[1-9][0-9]{0,15})\n$/;
const LINE = /^— ([^\s+]+) ([A-Za-z0-9+/]+={0,2})$/;
const KINDS = { ed25519: Uint8Array.of(1), cosignature: Uint8Array.of(4), mldsa: Uint8Array.from(C.journal.mldsaType, (each) => each.charCodeAt(0)) };
const fingerprint = (keys) => labelled("JOURNAL_KEYS", toBytes(keys.ed25519), toBytes(keys.ml_dsa_65));
const toBase64 = (bytes) => btoa(String.fromCharCode(...bytes));

function fromBase64(text) {
  try {
    const bytes = Uint8Array.from(atob(text), (each) => each.charCodeAt(0));
    return toBase64(bytes) === text ? bytes : null;
  } catch {
    return null;
  }
}

const idOf = (name, kind, raw) => sha256(concat(utf8(name + "\n"), KINDS[kind], raw)).slice(2, 10);

// A witness's key NAME+ID+BASE64 (a vkey), or null.
export function witnessKey(text) {
  const [, name, id, raw] = /^([^\s+]+)\+([0-9a-f]{8})\+(.+)$/.exec(text) ?? [], bytes = raw ? fromBase64(raw) : null;
  if (!bytes || bytes.length !== 33 || bytes[0] !== 4 || idOf(name, "cosignature", bytes.slice(1)) !== id) return null;
  return { name, kind: "cosignature", raw: bytes.slice(1) };
}

// The note, or null.
function noteOf(data) {
  const gap = data.lastIndexOf("\n\n");
  if (utf8(data).length > C.journal.maxNote || gap < 1 || !data.slice(gap + 2).endsWith("\n") || /[\x00-\x09\x0b-\x1f]/.test(data)) return null;
  const lines = data.slice(gap + 2, -1).split("\n").map((line) => {
    const found = LINE.exec(line), value = found && fromBase64(found[2]);
    return value && value.length > 4 ? { name: found[1], value } : null;
  });
  return lines.includes(null) ? null : { text: data.slice(0, gap + 1), lines };
}

function checkpointOf(data) {
  const note = noteOf(data), found = note && TEXT.exec(note.text);
  const [size, at] = found ? [Number(found[2]), Number(found[4])] : [];
  const root = found && fromBase64(found[3]);
  return found && root && Number.isSafeInteger(size) && Number.isSafeInteger(at) ? { note, origin: found[1], size, root: toHex(root), at } : null;
}

// Whether a key signed a note; null if it has several lines of the key.
function signedBy({ text, lines }, { name, kind, raw }) {
  const id = idOf(name, kind, raw);
  const found = lines.filter((each) => each.name === name && toHex(each.value.slice(0, 4)).slice(2) === id).map((each) => each.value.slice(4));
  if (found.length !== 1) return found.length ? null : false;
  try {
    if (kind === "mldsa") return ml_dsa65.verify(found[0], utf8(text), raw, { context: utf8(C.journal.mldsaContext) });
    if (kind === "ed25519") return isSignedBy(raw, found[0], utf8(text));
    const at = new DataView(found[0].buffer).getBigUint64(0);
    return isSignedBy(raw, found[0].slice(8), utf8(`cosignature/v1\ntime ${at}\n${text}`));
  } catch {
    return false;
  }
}

function split(width) {
  let half = 1;
  while (half * 2 < width) half *= 2;
  return half;
}

const nodeHash = (left, right) => sha256(concat(Uint8Array.of(1), toBytes(left), toBytes(right)));

// Root of a tree of `size` leaves one of which is this; null if the proof has another number of hashes.
function rootOf(leaf, index, size, proof) {
  const rest = [...proof];
  const root = (low, high) => {
    if (index < low || high <= index) return rest.shift() ?? null;
    if (high - low === 1) return leaf;
    const middle = low + split(high - low), left = root(low, middle), right = root(middle, high);
    return left && right && nodeHash(left, right);
  };
  const found = index < size ? root(0, size) : null;
  return rest.length ? null : found;
}

function checkpoint({ keys, checkpoint: data }) {
  const origin = C.journal.origin + fingerprint(keys).slice(2), where = `the checkpoint of ${origin}`;
  const found = checkpointOf(data);
  if (!found) throw new Stop("journal.checkpoint", `${where} is no checkpoint`);
  if (found.origin !== origin) throw new Stop("journal.keys", `${where} is of other keys`);
  const [classic, later] = ["ed25519", "mldsa"].map((kind) => signedBy(found.note, { name: origin, kind, raw: toBytes(kind === "mldsa" ? keys.ml_dsa_65 : keys.ed25519) }));
  if (!classic || later === null) throw new Stop("journal.checkpoint", `${where} has no valid Ed25519 signature`);
  if (!later) throw new Stop("journal.pq", `${where} has no valid ML-DSA-65 signature`);
  return found;
}

function verifyEntries({ claim }, { keys, entries }, point) {
  if (!entries.length) throw new Stop("journal.chain", "a journal has no entries");
  let before = -1n, following = ZERO;
  for (const each of entries) {
    const where = `entry ${each.number} of a journal`, number = BigInt(each.number);
    if (each.subject !== claim.receipt_id && each.subject !== claim.dispute) throw new Stop("journal.subject", `${where} is about another subject`);
    const parts = [number, BigInt(each.at), utf8(each.kind), toBytes(each.subject), utf8(each.body), toBytes(each.previous)];
    const digest = labelled("JOURNAL", ...parts);
    if (!isSigned(each, digest, keys)) throw new Stop("journal.entry", `${where} is not signed: it or its predecessor was altered`);
    if (number <= before || (number === before + 1n && each.previous !== following)) throw new Stop("journal.chain", `${where} does not follow the entry before it`);
    const leaf = sha256(concat(Uint8Array.of(0), toBytes(digest)));
    if (rootOf(leaf, Number(number), point.size, each.proof) !== point.root) throw new Stop("journal.inclusion", `${where} is not in the checkpoint`);
    [before, following] = [number, digest];
  }
}

function isSigned({ body, signature }, digest, keys) {
  try {
    parse(utf8(body), C.maxMarks);
    return isSignedBy(toBytes(keys.ed25519), toBytes(signature), toBytes(digest));
  } catch (error) {
    if (error instanceof Rejected || error instanceof Error) return false;
    throw error;
  }
}

export function journals(capsule, trust) {
  const parts = capsule.journals, names = parts.map((each) => fingerprint(each.keys));
  if (!parts.length) throw new Stop("journal.absent", "no entries of journals are included", true);
  if (new Set(names).size < names.length) throw new Stop("journal.doubled", "a journal is included twice");
  const points = parts.map(checkpoint);
  parts.forEach((part, i) => verifyEntries(capsule, part, points[i]));
  const open = names.filter((each) => !trust.journals.includes(each));
  if (open.length) throw new Stop("journal.owner", `you did not name the keys of these journals: ${open.join(", ")}`, true);
  const seers = trust.journalWitnesses.map(witnessKey).filter((each) => each);
  const unseen = points.filter((point) => seers.length && !seers.some((key) => signedBy(point.note, key)));
  if (unseen.length) throw new Stop("journal.unwitnessed", `${unseen.length} checkpoints have no signature of a witness that you named`, true);
  const count = parts.reduce((sum, each) => sum + each.entries.length, 0), told = seers.length ? "; a witness signed each" : "";
  return `${count} entries of ${names.length} journals are in their checkpoints${told}; nothing here shows that there are no others`;
}
