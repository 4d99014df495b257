// RLP and Merkle-Patricia proofs (chain/capsule/trie.py).
import { C, keccak, toHex } from "./bytes.js";

export class BrokenProof extends Error {}

const EMPTY_ROOT = keccak(Uint8Array.of(0x80));
const isList = Array.isArray;

function item(data, at, end, depth) {
  if (at >= end) throw new BrokenProof("an RLP item is cut");
  const head = data[at];
  if (head < 0x80) return [data.slice(at, at + 1), at + 1];
  const list = head >= 0xc0;
  let size = head - (list ? 0xc0 : 0x80), start = at + 1;
  if (size > 55) {
    const width = size - 55;
    if (start + width > end || data[start] === 0) throw new BrokenProof("a length of RLP is not canonical");
    size = 0;
    for (const byte of data.slice(start, start + width)) size = size * 256 + byte;
    if (size < 56) throw new BrokenProof("a length of RLP is not canonical");
    start += width;
  }
  const stop = start + size;
  if (stop > end) throw new BrokenProof("an RLP item is cut");
  if (!list) {
    if (size === 1 && data[start] < 0x80) throw new BrokenProof("a byte of RLP is not canonical");
    return [data.slice(start, stop), stop];
  }
  if (depth === C.maxRlpDepth) throw new BrokenProof("RLP lists nested too deep");
  const items = [];
  while (start < stop) {
    const [inner, next] = item(data, start, stop, depth + 1);
    items.push(inner);
    start = next;
  }
  return [items, stop];
}

export function decodeRlp(data) {
  const [found, end] = item(data, 0, data.length, 0);
  if (end !== data.length) throw new BrokenProof("bytes after the end of an RLP item");
  return found;
}

export function decodeList(data, least) {
  const found = decodeRlp(data);
  if (!isList(found) || found.length < least || found.some(isList)) throw new BrokenProof("no RLP list of byte strings");
  return found;
}

export function rlpInteger(data) {
  if (isList(data) || data[0] === 0) throw new BrokenProof("no canonical integer");
  return data.length ? BigInt(toHex(data)) : 0n;
}

// Path of an index in the trie of a list, in nibbles.
export function indexPath(index) {
  if (index === 0) return "80";
  const hex = index.toString(16), even = hex.length % 2 ? "0" + hex : hex;
  return index < 0x80 ? even : (0x80 + even.length / 2).toString(16) + even;
}

function bytes(found) {
  if (isList(found)) throw new BrokenProof("a list in the place of bytes");
  return found;
}

function unpacked(found) {
  const nibbles = toHex(bytes(found)).slice(2), flag = nibbles[0];
  if (!nibbles || !"0123".includes(flag) || ("02".includes(flag) && nibbles[1] !== "0")) throw new BrokenProof("no path of a node");
  return [nibbles.slice("13".includes(flag) ? 1 : 2), "23".includes(flag)];
}

export class ProofNodes {
  constructor(nodes) {
    this.count = nodes.length;
    this.nodes = new Map(nodes.map((node) => [keccak(node), node]));
    this.used = new Set();
  }

  get surplus() {
    return this.count - this.used.size;
  }

  load(digest) {
    if (!this.nodes.has(digest)) throw new BrokenProof("a node of the path is missing");
    this.used.add(digest);
    return decodeRlp(this.nodes.get(digest));
  }

  // The value under a path of nibbles, or null if the nodes prove that there is none.
  value(root, path) {
    if (root === EMPTY_ROOT) return null;
    let node = this.load(root);
    for (;;) {
      if (!isList(node) || (node.length !== 17 && node.length !== 2)) throw new BrokenProof("no node of a trie");
      let following;
      if (node.length === 17) {
        if (path === "") {
          const value = bytes(node[16]);
          return value.length ? value : null;
        }
        following = node[parseInt(path[0], 16)];
        path = path.slice(1);
      } else {
        const [nibbles, leaf] = unpacked(node[0]);
        if (!path.startsWith(nibbles) || (leaf && path !== nibbles)) return null;
        path = path.slice(nibbles.length);
        if (leaf) return bytes(node[1]);
        following = node[1];
      }
      if (!isList(following) && following.length === 0) return null;
      node = isList(following) ? following : this.load(toHex(following));
    }
  }
}
