// Finality by the beacon chain's sync committees (chain/capsule/beacon.py).
import { bls12_381 } from "@noble/curves/bls12-381.js";
import { C, concat, sha256, toBytes, toHex } from "./bytes.js";
import { Stop } from "./storage.js";

const B = C.beacon;
const Point = bls12_381.G1.Point;
const period = (slot) => BigInt(slot) / BigInt(B.slotsPerPeriod);

function forkAt(network, slot) {
  const found = network.forks.filter((each) => BigInt(each.epoch) * BigInt(B.slotsPerEpoch) <= BigInt(slot));
  if (!found.length) throw new Stop("finality.unknownFork", `slot ${slot} is before the forks that this page reads`);
  return found[found.length - 1];
}

function chunk(number) {
  const out = new Uint8Array(32);
  new DataView(out.buffer).setBigUint64(0, BigInt(number), true);
  return out;
}

const padded = (bytes, length) => concat(bytes, new Uint8Array(length - bytes.length));
const hashed = (left, right) => toBytes(sha256(concat(left, right)));

function treeRoot(chunks) {
  let level = [...chunks];
  while (level.length & (level.length - 1)) level.push(new Uint8Array(32));
  while (level.length > 1) level = level.filter((_, i) => i % 2 === 0).map((each, i) => hashed(each, level[2 * i + 1]));
  return level[0];
}

export const headerRoot = (header) => toHex(treeRoot([chunk(header.slot), chunk(header.proposer_index), ...["parent_root", "state_root", "body_root"].map((name) => toBytes(header[name]))]));

function keysOf(committee) {
  const bytes = toBytes(committee.keys);
  return Array.from({ length: B.committee }, (_, i) => bytes.slice(i * B.keyBytes, (i + 1) * B.keyBytes));
}

const keyRoot = (key) => toBytes(sha256(padded(key, 64)));
const committeeRoot = (committee) => toHex(treeRoot([treeRoot(keysOf(committee).map(keyRoot)), keyRoot(toBytes(committee.aggregate))]));

function signingRoot(header, version, root) {
  const fork = treeRoot([padded(toBytes(version), 32), toBytes(root)]);
  return treeRoot([toBytes(headerRoot(header)), concat(toBytes(B.domain), fork.slice(0, 28))]);
}

function isBranch(leaf, branch, gindex, root) {
  if (branch.length !== Math.floor(Math.log2(gindex))) return false;
  let node = toBytes(leaf), at = gindex;
  for (const each of branch) {
    node = at & 1 ? hashed(toBytes(each), node) : hashed(node, toBytes(each));
    at >>= 1;
  }
  return toHex(node) === root;
}

function verifyCommittee(committee, branch, gindex, header, where) {
  const size = (text) => (text.length - 2) / 2;
  if (size(committee.keys) !== B.committee * B.keyBytes || size(committee.aggregate) !== B.keyBytes) {
    throw new Stop("finality.form", `${where}: a committee has ${B.committee} keys of ${B.keyBytes} bytes`);
  }
  if (!isBranch(committeeRoot(committee), branch, gindex, header.state_root)) throw new Stop("finality.committee", `${where}: its state has another committee`);
}

const TOLD_KEYS = 16; // keys between two calls of `tell`

function isSigned(committee, bits, message, signature, tell) {
  const keys = keysOf(committee), present = keys.filter((_, i) => bits[i]), absent = keys.filter((_, i) => !bits[i]);
  const sum = (parts) => parts.reduce((total, each, i) => {
    if (i % TOLD_KEYS === 0) tell(i / parts.length);
    return total.add(Point.fromBytes(each));
  }, Point.ZERO);
  try {
    const key = present.length < absent.length ? sum(present) : Point.fromBytes(toBytes(committee.aggregate)).subtract(sum(absent));
    const scheme = bls12_381.longSignatures;
    return scheme.verify(scheme.Signature.fromBytes(toBytes(signature)), scheme.hash(message, B.tag), key);
  } catch {
    return false;
  }
}

function verifyStep(step, committee, network, now, tell) {
  const { attested, finalized, following } = step, where = `slot ${step.signature_slot}`, raw = toBytes(step.bits);
  if (raw.length * 8 !== B.committee) throw new Stop("finality.form", `${where}: ${raw.length} bytes of bits`);
  const slots = [step.signature_slot, ...(following ? [attested.slot, finalized.slot] : [])];
  const inOrder = BigInt(step.signature_slot) > BigInt(attested.slot) && BigInt(attested.slot) >= BigInt(finalized.slot);
  if (slots.some((each) => period(each) !== now) || !inOrder) throw new Stop("finality.period", `${where} is not signed by the committee of period ${now}, or its blocks are out of order`);
  const bits = Array.from({ length: B.committee }, (_, i) => (raw[i >> 3] >> (i & 7)) & 1), count = bits.reduce((a, b) => a + b, 0);
  if (3 * count < 2 * B.committee) throw new Stop("finality.participation", `${where}: ${count} of ${B.committee} signed, two thirds are needed`);
  const { layout } = forkAt(network, attested.slot);
  if (!isBranch(headerRoot(finalized), step.finality_branch, layout.finalized, attested.state_root)) throw new Stop("finality.branch", `${where}: the state that was signed has another finalized block`);
  if (following) verifyCommittee(following, step.following_branch, layout.following, attested, where);
  else if (step.following_branch.length) throw new Stop("finality.form", `${where} has a branch without a committee`);
  const signed = BigInt(step.signature_slot), { version } = forkAt(network, signed > 0n ? signed - 1n : 0n);
  if (!isSigned(committee, bits, signingRoot(attested, version, network.root), step.signature, tell)) throw new Stop("finality.signature", `${where}: the committee's signature is wrong`);
  return count;
}

// tell({done, step, steps}) is called while it works: steps are signatures, done is the part of the whole from 0 to 1.
export function verifyFinality(proof, network, blockHash, tell = () => {}) {
  let { committee } = proof, now = period(proof.checkpoint.slot), signers = 0;
  verifyCommittee(committee, proof.committee_branch, forkAt(network, proof.checkpoint.slot).layout.current, proof.checkpoint, "the checkpoint");
  if (!proof.steps.length || proof.steps.some((each, i) => (each.following === null) !== (i === proof.steps.length - 1))) {
    throw new Stop("finality.form", "every step but the last names the next committee");
  }
  const steps = proof.steps.length;
  for (const [i, step] of proof.steps.entries()) {
    signers = verifyStep(step, committee, network, now, (part) => tell({ done: (i + part) / steps, step: i + 1, steps }));
    if (step.following) [committee, now] = [step.following, now + 1n];
  }
  const last = proof.steps[proof.steps.length - 1].finalized;
  if (!isBranch(blockHash, proof.execution_branch, forkAt(network, last.slot).layout.execution, last.body_root)) {
    throw new Stop("finality.execution", `the finalized block of slot ${last.slot} has another execution block`);
  }
  return `${signers} of ${B.committee} members of a sync committee finalized slot ${last.slot}, ${proof.steps.length - 1} periods on`;
}
