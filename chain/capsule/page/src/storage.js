// Variables of contracts by name, each word read through its proof (chain/client/layout.py, chain/capsule/facts.py).
import { C, concat, keccak, toBytes, toHex, toInteger, word } from "./bytes.js";
import { BrokenProof, ProofNodes, decodeList, decodeRlp, rlpInteger } from "./trie.js";

export class Stop extends Error {
  constructor(failure, why, unverifiable = false) {
    super(why);
    this.failure = failure;
    this.result = unverifiable ? "UNVERIFIABLE" : "FAIL";
  }
}

export class ProvenWords {
  constructor(root, state, code) {
    this.root = root;
    this.code = code;
    this.accounts = new ProofNodes(state.accounts.map(toBytes));
    this.storage = new Map(state.storage.map((each) => [each.contract, new ProofNodes(each.nodes.map(toBytes))]));
    this.doubled = state.storage.length - this.storage.size;
    this.contracts = new Map();
    this.known = new Map();
  }

  get surplus() {
    let sum = this.doubled + this.accounts.surplus;
    for (const [contract, nodes] of this.storage) sum += nodes.surplus + (this.contracts.has(contract) ? 0 : 1);
    return sum;
  }

  word(contract, slot) {
    const name = `${contract}.${slot}`;
    if (this.known.has(name)) return this.known.get(name);
    const root = this.storageRoot(contract);
    const nodes = this.storage.get(contract) ?? new ProofNodes([]);
    let number;
    try {
      const value = nodes.value(root, keccak(word(slot)).slice(2));
      number = value === null ? 0n : rlpInteger(decodeRlp(value));
    } catch (error) {
      if (!(error instanceof BrokenProof)) throw error;
      throw new Stop("state.slot", `slot 0x${slot.toString(16)} of ${contract}: ${error.message}`);
    }
    if (number >> 256n) throw new Stop("state.slot", "more than 32 bytes");
    this.known.set(name, word(number));
    return this.known.get(name);
  }

  storageRoot(contract) {
    if (this.contracts.has(contract)) return this.contracts.get(contract);
    let account;
    try {
      const value = this.accounts.value(this.root, keccak(toBytes(contract)).slice(2));
      if (value === null) throw new BrokenProof("the state has no such account");
      account = decodeList(value, 4);
      if (account.length !== 4) throw new BrokenProof("no account");
    } catch (error) {
      if (!(error instanceof BrokenProof)) throw error;
      throw new Stop("state.account", `${contract}: ${error.message}`);
    }
    if (toHex(account[3]) !== this.code.get(contract)) throw new Stop("state.codeHash", `${contract} has other code than the deployment`);
    this.contracts.set(contract, toHex(account[2]));
    return this.contracts.get(contract);
  }
}

export class Storage {
  constructor(deployment, timestamp, words) {
    this.deployment = deployment;
    this.timestamp = timestamp;
    this.words = words;
  }

  address(name) {
    return this.deployment.contracts.find((each) => each.name === name).address;
  }

  get(contract, variable, ...steps) {
    return this.getAt(this.address(contract), contract, variable, ...steps);
  }

  getAt(address, contract, variable, ...steps) {
    const { variables, types } = C.layouts[contract];
    let [slot, offset, kind] = variables[variable];
    slot = BigInt(slot);
    for (const step of steps) {
      const type = types[kind];
      if (type.members) {
        const [more, at, inner] = type.members[step];
        [slot, offset, kind] = [slot + BigInt(more), at, inner];
      } else if (type.encoding === "mapping") {
        const key = typeof step === "string" ? concat(new Uint8Array(32 - toBytes(step).length), toBytes(step)) : word(step);
        [slot, offset, kind] = [toInteger(toBytes(keccak(concat(key, word(slot))))), 0, type.value];
      } else {
        const size = types[type.base].bytes;
        const first = type.encoding === "dynamic_array" ? toInteger(toBytes(keccak(word(slot)))) : slot;
        const each = Math.floor(32 / size), index = Number(step);
        if (size > 16) [slot, offset] = [first + BigInt(index * Math.ceil(size / 32)), 0];
        else [slot, offset] = [first + BigInt(Math.floor(index / each)), (index % each) * size];
        kind = type.base;
      }
    }
    return this.decode(types[kind], offset, this.words.word(address, slot));
  }

  decode(type, offset, raw) {
    if (type.encoding === "dynamic_array") return toInteger(raw);
    const part = raw.slice(32 - offset - type.bytes, 32 - offset);
    if (type.label === "address" || type.label.startsWith("contract ") || type.label.startsWith("bytes")) return toHex(part);
    if (type.label !== "bool") return toInteger(part);
    if (part[0] > 1) throw new Stop("state.value", `a bool of ${part[0]}`);
    return part[0] === 1;
  }
}
