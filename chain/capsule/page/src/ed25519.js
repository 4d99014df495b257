// Ed25519 by the rule of bytewise/crypto/ed25519.py: canonical keys, none of small order, no cofactor. The library's own
// verification multiplies by the cofactor, and so takes signatures that OpenSSL refuses.
import { ed25519 } from "@noble/curves/ed25519.js";
import { sha512 } from "@noble/hashes/sha2.js";
import { concat } from "./bytes.js";

const Point = ed25519.Point;

function little(bytes) {
  return bytes.reduceRight((sum, each) => (sum << 8n) | BigInt(each), 0n);
}

// Whether the key signed the message. All three are bytes.
export function isSignedBy(key, signature, message) {
  if (signature.length !== 64) return false;
  const r = signature.slice(0, 32), s = little(signature.slice(32));
  if (s >= Point.Fn.ORDER) return false;
  try {
    const point = Point.fromBytes(key);
    if (point.isSmallOrder()) return false;
    const k = Point.Fn.create(little(sha512(concat(r, key, message))));
    const found = Point.BASE.multiplyUnsafe(s).subtract(point.multiplyUnsafe(k)).toBytes();
    return found.every((each, i) => each === r[i]);
  } catch {
    return false;
  }
}
