// What the contracts say about one receipt, read word by word (chain/capsule/facts.py).
import { C, ZERO, concat, keccak, toBytes, addressWord, word } from "./bytes.js";
import { Stop } from "./storage.js";

export const bits = (mask) => {
  let count = 0;
  for (; mask; mask &= mask - 1n) count++;
  return count;
};
export const lowest = (mask) => {
  let seat = 0;
  while (!((mask >> BigInt(seat)) & 1n)) seat++;
  return seat;
};

const NOBODY = 0xffffn;
const CONVICTIONS = ["OVERTURNED", "INVALID", "UNAVAILABLE"];

function named(list, number, what) {
  if (number >= BigInt(list.length)) throw new Stop("state.value", `${number} is no ${what}`);
  return list[Number(number)];
}

const PHASES = ["NONE", "SEED", "DRAWING", "COMMIT", "REVEAL", "APPEAL", "AIRGAP", "FINAL"];

export function listSubject(chainId, demands, batchId) {
  // keccak256(abi.encode("list", chain id, contract, batch id))
  const text = concat(word(4), toBytes("0x6c697374"), new Uint8Array(28));
  return keccak(concat(word(128), word(chainId), addressWord(demands), word(batchId), text));
}

export function readFacts(storage, dispute, receiptId, batchId) {
  const stored = (name) => storage.get("ReceiptAnchor", "_batches", batchId, name);
  const service = stored("service");
  const served = (name) => storage.get("ReceiptAnchor", "_services", service, name);
  const batch = {
    operator: stored("operator"), firstSeq: stored("firstSeq"), size: stored("count"), anchoredAt: stored("anchoredAt"),
    block: stored("blockNumber"), paramsVersion: stored("paramsVersion"), isVoid: stored("isVoid"), root: stored("root"),
    environment: served("environment"), modelId: served("modelId"), keyEpoch: served("keyEpoch"),
  };
  const ofCase = (name) => storage.get("Disputes", "_cases", dispute, name);
  const found = {
    phase: named(PHASES, ofCase("phase"), "phase"), verdict: named(C.verdicts, ofCase("verdict"), "verdict"),
    appealed: named(C.verdicts, ofCase("appealed"), "verdict"), decidedIn: Number(ofCase("decidedIn")), rounds: Number(ofCase("round")),
    isMixed: ofCase("mixed"), batchId: ofCase("batchId"), challenger: ofCase("challenger"),
    claim: storage.get("Rounds", "claimOf", dispute),
  };
  const tree = ofCase("tree");
  const clock = readClock(storage);
  const window = storage.get("Params", "_times", batch.paramsVersion, "window");
  const [held, isDemanded] = readHeld(storage, clock, batchId, receiptId);
  const epoch = (...steps) => storage.get("KeyEpochs", "_epochs", batch.keyEpoch, ...steps);
  const shardCount = epoch("shards"), label = epoch("assurance");
  const facts = {
    batch, case: found, window, clock, isDemanded, assurance: { 1: "simulated", 2: "hardware" }[label] ?? "",
  };
  facts.rounds = readRounds(storage, dispute, found, tree);
  facts.shards = [];
  for (let i = 0n; i < (shardCount < 64n ? shardCount : 64n); i++) facts.shards.push(epoch("shards", i));
  facts.policy = storage.get("Registry", "policyDigest");
  facts.windowEnd = readWindowEnd(storage, batchId, service, window, clock) + held;
  facts.verdict = found.phase === "FINAL" ? found.verdict : "NONE";
  facts.decidedIn = ["UPHELD", ...CONVICTIONS].includes(facts.verdict) ? found.decidedIn : 0;
  facts.replacement = null;
  if (facts.verdict === "OVERTURNED") facts.replacement = facts.rounds.find((each) => each.number === found.decidedIn)?.lead[2] ?? null;
  facts.openReason = openReason(facts);
  return facts;
}

function openReason({ batch, isDemanded, case: found, verdict, clock, windowEnd }) {
  if (batch.isVoid) return "its batch is void";
  if (isDemanded) return "a demand is open";
  if (found.phase !== "NONE" && found.phase !== "FINAL") return "a dispute is running";
  if (found.phase === "FINAL" && verdict !== "UPHELD") return "the receipt is void";
  return clock > windowEnd ? "" : "its challenge window is open";
}

function readRounds(storage, dispute, found, tree) {
  const trees = storage.deployment.contracts.filter((each) => each.name === C.tree).map((each) => each.address);
  if (found.rounds > C.maxRounds) throw new Stop("state.value", `${found.rounds} rounds`);
  if (found.rounds && !trees.includes(tree)) throw new Stop("state.value", `its stake tree ${tree} is not of this deployment`);
  const version = found.rounds ? storage.get("Disputes", "_cases", dispute, "paramsVersion") : 0n;
  const rounds = [];
  for (let number = 1; number <= found.rounds; number++) {
    if (storage.get("Rounds", "_rounds", dispute, BigInt(number), "commitEnd")) rounds.push(readRound(storage, dispute, number, tree, version));
  }
  return rounds;
}

function readRound(storage, dispute, number, tree, version) {
  const stored = (...steps) => storage.get("Rounds", "_rounds", dispute, BigInt(number), ...steps);
  const seats = Number(stored("seats")), everyone = (1n << BigInt(seats)) - 1n;
  const certified = stored("certified") ? stored("certifiedMask") || everyone : 0n;
  const [numerator, denominator] = ["tauNum", "tauDen"].map((name) => storage.get("Params", "_committee", version, name));
  if (!denominator) throw new Stop("state.value", `version ${version} of the parameters is none`);
  const count = Object.fromEntries(["equal", "lead", "unavailable", "noKey", "cannotExecute"].map((name) => [name, Number(stored(name))]));
  return {
    number, seats, quorum: Number((BigInt(seats) * numerator + denominator - 1n) / denominator), isSettled: stored("settled"), count,
    lead: [stored("leadOutcome"), stored("leadCode"), count.lead ? stored("leadOutHash") : ZERO],
    opened: stored("opened"), certified, certifiedGroup: certified ? stored("certifiedGroup") : ZERO,
    members: readMembers(storage, stored, seats, tree),
  };
}

function readMembers(storage, stored, seats, tree) {
  const words = [];
  for (let i = 0; i < Math.ceil(seats / 16); i++) words.push(stored("places", i));
  const masks = new Map();
  for (let seat = 0; seat < seats; seat++) {
    const place = (words[Math.floor(seat / 16)] >> BigInt(16 * (seat % 16))) & NOBODY;
    masks.set(place, (masks.get(place) ?? 0n) | (1n << BigInt(seat)));
  }
  const members = [];
  for (const [place, mask] of masks) {
    if (place === NOBODY) continue;
    const voter = storage.getAt(tree, C.tree, "_accountAt", place);
    members.push({ voter, mask, word: stored("words", mask & -mask) });
  }
  return members;
}

function readClock(storage) {
  const [start, until, before] = ["from", "until", "stoppedBefore"].map((name) => storage.get("Guardian", "_last", name));
  return storage.timestamp < until ? start - before : storage.timestamp - (before + until - start);
}

function readWindowEnd(storage, batchId, service, window, clock) {
  const pool = storage.get("ReceiptAnchor", "_services", service, "pool");
  const since = storage.get("Registry", "_pools", pool, "stoppedSince");
  const stopped = storage.get("Registry", "_pools", pool, "stopped") + (since ? clock - since : 0n);
  const start = storage.get("ReceiptAnchor", "_batches", batchId, "startedAt");
  return start + window + stopped - storage.get("ReceiptAnchor", "_batches", batchId, "stoppedAtStart");
}

function readHeld(storage, clock, batchId, receiptId) {
  if (!storage.get("ReceiptAnchor", "_batches", batchId, "demanded")) return [0n, false];
  let held = 0n, isOpen = false;
  const list = listSubject(storage.deployment.chain_id, storage.address("Demands"), batchId);
  for (const subject of [list, receiptId]) {
    const stored = (name) => storage.get("Demands", "_demands", subject, name);
    const [state, kind, opened, closed] = ["state", "kind", "openedAt", "closedAt"].map(stored);
    if (!state) continue;
    const wait = storage.get("Params", "_times", stored("paramsVersion"), kind === 3n ? "maxAnchorDelay" : "cure");
    const end = opened + wait < clock ? opened + wait : clock;
    held += (state === 1n ? end : closed) - opened;
    isOpen ||= state === 1n;
  }
  return [held, isOpen];
}
