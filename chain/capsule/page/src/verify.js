// The groups of checks in their order (chain/capsule/verification.py), and the conclusion (chain/capsule/conclusion.py).
import { C, ZERO, concat, keccak, labelled, recover, sha256, toBytes, typedDigest, word, addressWord } from "./bytes.js";
import { opening, provenVotes, quotesStating, releases } from "./attachments.js";
import { Rejected, encode, readCapsule } from "./document.js";
import { bits, readFacts } from "./facts.js";
import { headerRoot, verifyFinality } from "./finality.js";
import { headerOf, isKept } from "./header.js";
import { journals } from "./journals.js";
import { ProvenWords, Stop, Storage } from "./storage.js";
import { claimOf, verdictByRule, votesOf } from "./votes.js";

const NEEDS = {
  deployment: [], header: ["deployment"], authenticity: ["header"], receipt: ["header"], state: ["receipt"], batch: ["state"],
  votes: ["batch"], verdict: ["votes"], claim: ["verdict"], opening: ["batch"], logs: ["state"], quotes: ["logs", "votes"], releases: ["batch"],
  journals: ["batch"],
};

// trust: {deployments: [digest], blockHash: digest or null, witnesses: [address], threshold: number,
// checkpoint: beacon block root or null, beacon: its chain if the page does not know it, journals: [digest], journalWitnesses: [vkey]}
// tell: hears how far the signatures of sync committees are, which take seconds (finality.js).
export function verifyCapsule(bytes, trust = {}, tell = () => {}) {
  const report = { digest: sha256(bytes), capsule: null, facts: null, attested: null, checks: [] };
  try {
    report.capsule = readCapsule(bytes);
  } catch (error) {
    if (!(error instanceof Rejected)) throw error;
    report.checks.push({ group: "capsule", result: "FAIL", failure: error.failure, detail: error.message });
    return report;
  }
  report.checks.push({ group: "capsule", result: "PASS", failure: null, detail: `${bytes.length} bytes, ${report.capsule.kind}` });
  const v = { capsule: report.capsule, report, trust: { deployments: [], blockHash: null, witnesses: [], threshold: 1, checkpoint: null, beacon: null, journals: [], journalWitnesses: [], ...trust }, events: [], tell };
  const passes = (group) => {
    const found = report.checks.find((each) => each.group === group);
    return found && found.result !== "FAIL" && found.failure !== "notReached";
  };
  for (const [group, needs] of Object.entries(NEEDS)) {
    const missing = needs.filter((each) => !passes(each));
    if (missing.length) {
      report.checks.push({ group, result: "UNVERIFIABLE", failure: "notReached", detail: `rests on ${missing.join(", ")}` });
      continue;
    }
    try {
      report.checks.push({ group, result: "PASS", failure: null, detail: CHECKS[group](v) });
    } catch (error) {
      if (!(error instanceof Stop)) throw error;
      report.checks.push({ group, result: error.result, failure: error.failure, detail: error.message });
    }
  }
  if (passes("state")) report.facts = v.facts;
  return report;
}

const CHECKS = {
  deployment({ capsule: { deployment }, trust }) {
    const names = deployment.contracts.map((each) => each.name);
    const wanted = [...C.contracts, ...Array(Math.max(0, names.length - C.contracts.length)).fill(C.tree)];
    const distinct = new Set(deployment.contracts.map((each) => each.address)).size === names.length;
    if (names.length <= C.contracts.length || names.join() !== wanted.join() || !distinct) {
      throw new Stop("deployment.incomplete", "contracts are missing, doubled or in another order");
    }
    if (deployment.layout !== C.layout) throw new Stop("deployment.layout", "this page has other storage layouts: use the version that made the capsule");
    const digest = labelled("CAPSULE_DEPLOYMENT", encode(deployment));
    if (!trust.deployments.includes(digest)) throw new Stop("deployment.unknown", `${digest} on chain ${deployment.chain_id}; you named another, or none`, true);
    return `${digest} on chain ${deployment.chain_id} is one that you named`;
  },

  header(v) {
    const { capsule } = v, { claim } = capsule;
    const header = (v.header = headerOf(capsule.header));
    if (header === null) throw new Stop("header.malformed", "the bytes are no block header");
    if (header.hash !== claim.block_hash || header.number !== BigInt(claim.block)) throw new Stop("header.hash", `the header is block ${header.number}, ${header.hash}, not the claim's`);
    if (capsule.deployment.chain_id !== capsule.receipt.chain_id || capsule.receipt.chain_id !== claim.chain_id) {
      throw new Stop("header.chain", "deployment, receipt and claim name different chains");
    }
    const address = (name) => capsule.deployment.contracts.find((each) => each.name === name).address;
    v.domain = (name) => ({ chainId: capsule.deployment.chain_id, contract: address(name) });
    return `block ${header.number}, ${header.hash}`;
  },

  authenticity({ capsule, header, trust, domain, tell }) {
    const { claim } = capsule;
    const signed = typedDigest(domain("Disputes"), "BlockWitness", { number: capsule.claim.block, block_hash: header.hash });
    const found = capsule.witnesses.map((each) => recover(signed, each));
    if (found.includes(null) || new Set(found).size < found.length) throw new Stop("witness.signature", "a witness's signature is broken or doubled");
    const beacon = trust.beacon ?? C.beacon.networks[claim.chain_id] ?? null, proof = capsule.finality;
    const finalized = proof && beacon ? verifyFinality(proof, beacon, header.hash, tell) : "";
    if (trust.blockHash !== null) {
      if (trust.blockHash !== header.hash) throw new Stop("header.declaredOther", `you know ${trust.blockHash}, the capsule has ${header.hash}`);
      return "DECLARED: you know this block hash";
    }
    const known = found.filter((each) => trust.witnesses.includes(each)).sort();
    if (trust.witnesses.length && known.length >= trust.threshold) return `WITNESSED: ${known.length} of your ${trust.witnesses.length} witnesses signed: ${known.join(", ")}`;
    if (trust.checkpoint !== null) {
      if (!beacon) throw new Stop("finality.unknownNetwork", `this page knows no beacon chain of chain ${claim.chain_id}`, true);
      if (!proof) throw new Stop("finality.absent", "the capsule has no signatures of sync committees", true);
      const begin = headerRoot(proof.checkpoint);
      if (begin !== trust.checkpoint) throw new Stop("finality.checkpoint", `you trust beacon block ${trust.checkpoint}, the signatures begin at ${begin}`, true);
      return `SYNC COMMITTEE: from the checkpoint that you trust, ${finalized}`;
    }
    if (trust.witnesses.length) throw new Stop("witness.tooFew", `${known.length} of ${trust.threshold} witnesses signed the block`, true);
    throw new Stop("header.undeclared", `everything rests on the block hash ${header.hash}: compare it with a source that you trust`, true);
  },

  receipt(v) {
    const { capsule, domain } = v, { receipt, claim, environment } = capsule;
    const identifier = (v.identifier = typedDigest(domain("ReceiptAnchor"), "Receipt", receipt));
    v.dispute = keccak(concat(word(receipt.chain_id), addressWord(domain("Disputes").contract), toBytes(identifier)));
    if (identifier !== claim.receipt_id || receipt.out_hash !== claim.out_hash) throw new Stop("receipt.digest", `the receipt is ${identifier}, not the claim's`);
    if (recover(identifier, capsule.signature) !== receipt.operator) throw new Stop("receipt.signature", "the signature is not the operator's");
    const { mode, enclave_key: key, client_mode: client } = receipt;
    if (mode !== C.modes.plain || key !== C.modes.enclaveKey || !C.modes.client.includes(client)) {
      throw new Stop("receipt.mode", `the chain never accepts mode ${mode} with enclave key ${key} and client mode ${client} for good`);
    }
    if (environment !== null && labelled("ENVIRONMENT", encode(environment)) !== receipt.environment) {
      throw new Stop("receipt.environment", "the environment is not the one that the receipt names");
    }
    return `signed by operator ${receipt.operator}`;
  },

  state(v) {
    const { capsule, header } = v, { deployment } = capsule;
    const code = new Map(deployment.contracts.map((each) => [each.address, each.code]));
    const words = new ProvenWords(header.stateRoot, capsule.state, code.set(C.history.address, C.history.code));
    v.storage = new Storage(deployment, header.timestamp, words);
    v.facts = readFacts(v.storage, v.dispute, v.identifier, BigInt(capsule.membership.batch_id));
    v.kept = new Map();
    for (const raw of capsule.log_headers) {
      const earlier = headerOf(raw);
      if (earlier === null || !isKept(earlier.number, header.number)) continue;
      const kept = words.word(C.history.address, earlier.number % BigInt(C.history.blocks));
      v.kept.set(earlier.number, "0x" + [...kept].map((each) => each.toString(16).padStart(2, "0")).join(""));
    }
    if (words.surplus) throw new Stop("state.surplus", `${words.surplus} nodes that no read needs`);
    return `${words.known.size} words of ${words.contracts.size} contracts are proven against the state root`;
  },

  batch({ capsule, header, facts: { batch, case: found } }) {
    const { receipt, membership, claim } = capsule, where = `batch ${membership.batch_id}`, seq = BigInt(receipt.seq);
    if (!batch.size) throw new Stop("batch.unknown", `the chain has no ${where}`);
    if (seq < batch.firstSeq || seq >= batch.firstSeq + batch.size) throw new Stop("batch.sequence", `number ${seq} is not in ${where}`);
    const same = receipt.operator === batch.operator && receipt.environment === batch.environment && receipt.model_id === batch.modelId;
    if (!same || BigInt(receipt.key_epoch) !== batch.keyEpoch) throw new Stop("batch.header", `${where} is of another operator, environment, model or key epoch`);
    if (found.phase !== "NONE" && found.batchId !== BigInt(membership.batch_id)) throw new Stop("batch.header", "the dispute is about a receipt of another batch");
    let node = keccak(toBytes(keccak(concat(toBytes(claim.receipt_id), word(seq)))));
    for (const each of membership.proof) node = keccak(node < each ? concat(toBytes(node), toBytes(each)) : concat(toBytes(each), toBytes(node)));
    if (membership.proof.length > Math.ceil(Math.log2(Number(batch.size))) || node !== batch.root) {
      throw new Stop("batch.membership", `the path does not lead to the root of ${where}`);
    }
    if (batch.anchoredAt > header.timestamp || batch.block > header.number) throw new Stop("header.time", `${where} was anchored after the capsule's block`);
    return `number ${seq} of ${where}, anchored in block ${batch.block}`;
  },

  votes(v) {
    const { capsule: { receipt, rounds }, facts } = v;
    const claim = facts.case.phase === "NONE" ? ZERO : claimOf(receipt.tokens_hash, receipt.out_hash);
    if (facts.case.claim !== claim) throw new Stop("votes.claim", "the dispute is about another claim than the receipt's");
    v.said = votesOf(facts, rounds);
    return `${v.said.length} votes for ${v.said.reduce((sum, each) => sum + bits(each.mask), 0)} seats are those of the state`;
  },

  verdict({ capsule: { claim, receipt }, facts, said }) {
    if (facts.case.phase === "NONE") return "the receipt was never disputed";
    if (facts.case.phase !== "FINAL") throw new Stop("verdict.notFinal", `the dispute is in phase ${facts.case.phase}`);
    const found = verdictByRule(facts, said, receipt);
    if (facts.verdict === "OVERTURNED" && found.replacement !== facts.replacement) throw new Stop("verdict.replaced", "the votes give another replacement than the state");
    if (claim.replaced_by !== facts.replacement) throw new Stop("verdict.replaced", "the claim names another replacement than the state");
    if (facts.verdict === "REFUNDED") return "REFUNDED: the guardian ended the dispute; no votes give that";
    return facts.decidedIn ? `${facts.verdict}, by the rule from the votes of round ${facts.decidedIn}` : "DRAW";
  },

  claim({ capsule, header, facts, identifier, dispute }) {
    const { claim, kind, receipt } = capsule;
    if ((kind === "finality") !== (facts.case.phase === "NONE")) throw new Stop("claim.kind", `a capsule of kind ${kind}, and the dispute is ${facts.case.phase}`);
    const derived = {
      receipt_id: identifier, out_hash: receipt.out_hash, dispute, verdict: facts.verdict.toLowerCase(), decided_in: facts.decidedIn,
      replaced_by: facts.replacement, accepted: !facts.openReason, assurance: facts.assurance, chain_id: receipt.chain_id,
      block: String(header.number), block_hash: header.hash,
    };
    const wrong = Object.keys(derived).filter((name) => derived[name] !== claim[name]);
    if (wrong.length) throw new Stop("claim.differs", `the proofs give another ${wrong.join(", ")}`);
    return `${Object.keys(derived).length} fields are what the proofs give`;
  },

  opening: ({ capsule, facts }) => opening(capsule, facts),

  logs(v) {
    v.events = provenVotes(v.capsule, v.header, v.kept, v.storage);
    return `${v.events.length} events of votes are proven, in ${v.capsule.log_headers.length} earlier blocks`;
  },

  quotes({ capsule, said, events, storage, report }) {
    if (!events.length) throw new Stop("quote.noLog", "no event with a quote is included", true);
    const stating = quotesStating(capsule, said, events, storage);
    report.attested = stating > 0;
    throw new Stop("quote.notAppraised", `${stating} of ${events.length} quotes state what their votes say; their platforms' signatures are not checked here`, true);
  },

  releases: ({ capsule, facts, storage }) => releases(capsule, facts, storage),

  journals: ({ capsule, trust }) => journals(capsule, trust),
};

export function conclude(report) {
  const failed = report.checks.find((each) => each.result === "FAIL");
  const open = report.checks.filter((each) => each.result === "UNVERIFIABLE" && C.required.includes(each.group));
  const word = failed ? "INVALID" : open.length ? "UNVERIFIABLE" : "VALID";
  if (failed || !report.facts) {
    const wrong = failed ?? report.checks.find((each) => each.result !== "PASS");
    return { word, shows: [], conditions: [`The capsule shows nothing: ${wrong.failure}: ${wrong.detail}.`], limits: [] };
  }
  const { capsule, facts } = report, shows = [verdictSentence(capsule, facts)];
  shows.push(facts.openReason ? `The receipt is not accepted for good in this block: ${facts.openReason}.` : "The receipt is accepted for good: its window is over, and nobody can question it any more.");
  if (facts.assurance !== "hardware") shows.push(`Evidence of the machines is ${C.simulated}.`);
  return { word, shows, conditions: open.map((each) => condition(capsule, each.failure)), limits: C.limits };
}

function verdictSentence(capsule, facts) {
  const decided = facts.rounds.find((each) => each.number === facts.decidedIn);
  if (!decided) {
    if (facts.verdict === "REFUNDED") return "REFUNDED: the guardian ended the dispute; the receipt is void.";
    if (facts.verdict === "DRAW") return `DRAW: ${facts.rounds.length} committees gave no verdict; the receipt is void.`;
    return "Nobody disputed the receipt up to this block.";
  }
  const { count } = decided, needed = `${decided.quorum} were needed.`;
  const head = `${facts.verdict}: a committee of ${decided.seats} seats judged the receipt in round ${decided.number};`;
  if (facts.verdict === "UPHELD") return `${head} ${count.equal} found exactly the operator's answer; ${needed}`;
  if (facts.verdict === "OVERTURNED") return `${head} ${count.lead} found one identical other answer, ${capsule.claim.replaced_by}; ${needed}`;
  if (facts.verdict === "INVALID") return `${head} ${count.lead} found the same defect of the record, code ${decided.lead[1]}; ${needed}`;
  if (facts.case.isMixed) return `${head} ${count.unavailable} found no bytes to judge and ${count.lead} one identical fault; ${needed}`;
  return `${head} ${count.unavailable} found no bytes to judge; ${needed}`;
}

function condition({ claim, deployment, finality }, failure) {
  if (failure === "finality.checkpoint") return `It holds if the beacon block ${headerRoot(finality.checkpoint)} is one that you trust.`;
  if (failure === "finality.absent" || failure === "finality.unknownNetwork") return `No sync committee shows block ${claim.block}, ${claim.block_hash}: name its hash or witnesses.`;
  if (failure === "deployment.unknown") return `It holds if you mean the deployment ${labelled("CAPSULE_DEPLOYMENT", encode(deployment))} on chain ${claim.chain_id}.`;
  if (failure === "header.undeclared") return `It holds if block ${claim.block} of chain ${claim.chain_id} has the hash ${claim.block_hash}.`;
  if (failure === "witness.tooFew") return `Too few of your witnesses signed block ${claim.block}, ${claim.block_hash}.`;
  return "Something that it rests on was not verified.";
}
