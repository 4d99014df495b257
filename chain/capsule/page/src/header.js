// Headers of execution blocks (chain/capsule/header.py).
import { C, keccak, toBytes, toHex } from "./bytes.js";
import { BrokenProof, decodeList, rlpInteger } from "./trie.js";

export function headerOf(raw) {
  const bytes = toBytes(raw);
  try {
    const items = decodeList(bytes, 15);
    if ([0, 3, 5].some((place) => items[place].length !== 32)) return null;
    return {
      hash: keccak(bytes), parent: toHex(items[0]), stateRoot: toHex(items[3]), receiptsRoot: toHex(items[5]),
      number: rlpInteger(items[8]), timestamp: rlpInteger(items[11]),
    };
  } catch (error) {
    if (error instanceof BrokenProof) return null;
    throw error;
  }
}

export const isKept = (number, head) => head - BigInt(C.history.blocks) <= number && number < head;
