// Bytes, hashes and signatures. Digests and addresses are lower-case 0x-hex everywhere, integers are BigInt.
import { sha256 as sha } from "@noble/hashes/sha2.js";
import { keccak_256 } from "@noble/hashes/sha3.js";
import { secp256k1 } from "@noble/curves/secp256k1.js";

export const C = CONSTANTS;
export const ZERO = "0x" + "00".repeat(32);

export function toBytes(hex) {
  const out = new Uint8Array((hex.length - 2) / 2);
  for (let i = 0; i < out.length; i++) out[i] = parseInt(hex.substr(2 + 2 * i, 2), 16);
  return out;
}

export function toHex(bytes) {
  let text = "0x";
  for (const each of bytes) text += each.toString(16).padStart(2, "0");
  return text;
}

export function concat(...parts) {
  const out = new Uint8Array(parts.reduce((sum, each) => sum + each.length, 0));
  let at = 0;
  for (const each of parts) {
    out.set(each, at);
    at += each.length;
  }
  return out;
}

export const utf8 = (text) => new TextEncoder().encode(text);
export const sha256 = (bytes) => toHex(sha(bytes));
export const keccak = (bytes) => toHex(keccak_256(bytes));
export const word = (number) => toBytes("0x" + BigInt(number).toString(16).padStart(64, "0"));
export const addressWord = (address) => concat(new Uint8Array(12), toBytes(address));
export const toInteger = (bytes) => (bytes.length ? BigInt(toHex(bytes)) : 0n);

export function length8(size) {
  const out = new Uint8Array(8);
  new DataView(out.buffer).setBigUint64(0, BigInt(size));
  return out;
}

// SHA-256 under a label (bytewise/protocol/digests.py): every part after its length; an integer is 8 bytes.
export function labelled(name, ...parts) {
  const all = [utf8(C.labels[name]), ...parts.map((each) => (typeof each === "bigint" ? length8(each) : each))];
  return sha256(concat(...all.flatMap((each) => [length8(each.length), each])));
}

export function domainSeparator(domain) {
  const head = keccak(utf8("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"));
  const fixed = [head, keccak(utf8("Bytewise")), keccak(utf8("1"))].map(toBytes);
  return toBytes(keccak(concat(...fixed, word(domain.chainId), addressWord(domain.contract))));
}

// EIP-712 digest of a record whose members are named in snake case.
export function typedDigest(domain, type, record) {
  const text = C.types[type];
  const members = text.slice(text.indexOf("(") + 1, -1).split(",");
  const words = members.map((member) => {
    const [kind, camel] = member.split(" ");
    const value = record[camel.replace(/[A-Z]/g, (letter) => "_" + letter.toLowerCase())];
    if (kind === "bytes32") return toBytes(value);
    return kind === "address" ? addressWord(value) : word(value);
  });
  const struct = keccak(concat(toBytes(keccak(utf8(text))), ...words));
  return keccak(concat(Uint8Array.of(0x19, 0x01), domainSeparator(domain), toBytes(struct)));
}

const HALF_ORDER = 0x7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a0n;

// The account that signed, or null for a malformed or malleable signature.
export function recover(digest, signature) {
  const raw = toBytes(signature);
  if (raw.length !== 65 || (raw[64] !== 27 && raw[64] !== 28) || toInteger(raw.slice(32, 64)) > HALF_ORDER) return null;
  try {
    const form = concat(Uint8Array.of(raw[64] - 27), raw.slice(0, 64));
    const compressed = secp256k1.recoverPublicKey(form, toBytes(digest), { prehash: false });
    const key = secp256k1.Point.fromBytes(compressed).toBytes(false);
    return "0x" + keccak(key.slice(1)).slice(26);
  } catch {
    return null;
  }
}
