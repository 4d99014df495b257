// What a capsule may have beside its proofs (chain/capsule/attachments.py).
import { C, ZERO, keccak, labelled, recover, toBytes, toHex, toInteger, typedDigest, utf8 } from "./bytes.js";
import { checkRecord, encode, parse } from "./document.js";
import { lowest } from "./facts.js";
import { headerOf } from "./header.js";
import { Stop } from "./storage.js";
import { BrokenProof, ProofNodes, decodeRlp, indexPath } from "./trie.js";
import { voteContent } from "./votes.js";

export function opening(capsule, facts) {
  const { opening: payload, receipt, environment } = capsule;
  if (payload === null) throw new Stop("opening.absent", "request and answer are not disclosed", true);
  const { request, output } = payload, reqHash = labelled("REQUEST", encode(request));
  if (reqHash !== receipt.req_hash) throw new Stop("opening.request", "the request does not hash to the receipt");
  if (labelled("TOKENS", encode(output)) !== receipt.tokens_hash) throw new Stop("opening.output", "the answer does not hash to the receipt");
  const signed = labelled("CLIENT_SIGNATURE", toBytes(reqHash), BigInt(receipt.chain_id));
  if (recover(signed, payload.client_signature) !== request.client) throw new Stop("opening.client", "the client's signature is not its own");
  const defect = environment === null ? "" : defectOf(request, receipt, environment, facts);
  if (defect && facts.verdict !== "INVALID") throw new Stop("opening.defect", defect);
  return `${request.prompt.length} tokens of prompt and ${output.token_ids.length} of answer hash to the receipt`;
}

function defectOf(request, receipt, environment, facts) {
  const mode = request.reply_key === null ? "2" : "1";
  const arch = toHex(Uint8Array.from({ length: 32 }, (_, i) => utf8(environment.gpu_arch)[i] ?? 0));
  for (const [what, have, want] of [
    ["model", request.model_id, receipt.model_id], ["environment", request.environment, receipt.environment],
    ["chain", request.chain_id, receipt.chain_id], ["client mode", mode, receipt.client_mode], ["architecture", arch, receipt.gpu_arch],
  ]) if (have !== want) return `another ${what} than the receipt's`;
  const { limits } = environment, most = request.decode.max_new_tokens;
  for (const [what, value, limit] of [
    ["request bytes", encode(request).length, limits.max_request_bytes], ["new tokens", most, limits.max_new_tokens],
    ["context", request.prompt.length + most, limits.max_context], ["largest token id", Math.max(...request.prompt), limits.vocabulary - 1],
  ]) if (value > limit) return `${what} above the limit`;
  return BigInt(request.expiry) < facts.batch.anchoredAt ? "the request had expired" : "";
}

export function provenVotes(capsule, header, kept, storage) {
  if (!capsule.logs.length && !capsule.log_headers.length) throw new Stop("logs.absent", "no events are included", true);
  const headers = new Map([[header.number, header]]);
  for (const raw of capsule.log_headers) {
    const earlier = headerOf(raw);
    if (earlier === null || kept.get(earlier.number) !== earlier.hash) throw new Stop("logs.link", "the header of a log is no earlier block of this chain");
    headers.set(earlier.number, earlier);
  }
  const found = capsule.logs.map((each) => proven(capsule, each, headers, storage));
  const order = (a, b) => (BigInt(a.block) < BigInt(b.block) ? -1 : BigInt(a.block) > BigInt(b.block) ? 1 : a.transaction - b.transaction || a.log - b.log);
  const inOrder = capsule.logs.every((each, i) => i === 0 || order(capsule.logs[i - 1], each) < 0);
  const numbers = [...headers.keys()].filter((each) => each !== header.number);
  const needed = [...new Set(capsule.logs.map((each) => BigInt(each.block)))].filter((each) => each !== header.number);
  if (!inOrder || numbers.join() !== needed.join() || numbers.length !== capsule.log_headers.length) {
    throw new Stop("logs.surplus", "logs or headers are not in order, doubled, or not needed");
  }
  return found;
}

function proven(capsule, proof, headers, storage) {
  const where = `log ${proof.log} of transaction ${proof.transaction} in block ${proof.block}`;
  const header = headers.get(BigInt(proof.block));
  if (!header) throw new Stop("logs.link", `${where}: no header of that block is linked`);
  const nodes = new ProofNodes(proof.nodes.map(toBytes));
  let log;
  try {
    log = logOf(nodes.value(header.receiptsRoot, indexPath(proof.transaction)), proof.log);
  } catch (error) {
    if (!(error instanceof BrokenProof)) throw error;
    throw new Stop("logs.proof", `${where}: ${error.message}`);
  }
  if (nodes.surplus) throw new Stop("logs.surplus", `${where}: nodes that the proof does not need`);
  const [emitter, topics, data] = log;
  const isVote = toHex(emitter) === storage.address("Rounds") && topics.length === 4 && toHex(topics[0]) === C.revealed;
  if (!isVote || toHex(topics[1]) !== capsule.claim.dispute) throw new Stop("logs.emitter", `${where} is no vote of this dispute`);
  return decodeVote(data);
}

function logOf(value, index) {
  if (value === null) throw new BrokenProof("the block has no such transaction");
  const receipt = decodeRlp(value[0] < 0x80 ? value.slice(1) : value);
  const logs = Array.isArray(receipt) && receipt.length === 4 ? receipt[3] : null;
  if (!Array.isArray(logs) || index < 0 || index >= logs.length) throw new BrokenProof("the transaction has no such log");
  const entry = logs[index];
  const sound = Array.isArray(entry) && entry.length === 3 && !Array.isArray(entry[0]) && Array.isArray(entry[1]) && !Array.isArray(entry[2]);
  if (!sound || entry[1].some(Array.isArray)) throw new BrokenProof("no log");
  return entry;
}

// The data of `Revealed`: the eleven words of the vote, then the quote.
function decodeVote(data) {
  const at = (i) => data.slice(32 * i, 32 * i + 32), number = (i) => toInteger(at(i)), digest = (i) => toHex(at(i));
  const start = Number(number(11)), size = Number(toInteger(data.slice(start, start + 32)));
  return {
    dispute: digest(0), round: Number(number(1)), voter: "0x" + digest(2).slice(26), mask: number(3), outcome: number(4), code: number(5),
    tokens_hash: digest(6), trace_root: digest(7), round_digest: digest(8), quoteHash: digest(9), quote: data.slice(start + 32, start + 32 + size),
  };
}

export function quotesStating(capsule, said, events, storage) {
  const groups = new Map(said.filter((each) => !each.isCertified).map((each) => [`${each.round} ${lowest(each.mask)}`, each.content.group]));
  let stating = 0;
  for (const vote of events) {
    const where = `seat ${lowest(vote.mask)} of round ${vote.round}`;
    if (groups.get(`${vote.round} ${lowest(vote.mask)}`) !== voteContent(vote).group) throw new Stop("quote.hash", `the event of ${where} shows another vote`);
    if ((vote.quote.length ? keccak(vote.quote) : ZERO) !== vote.quoteHash) throw new Stop("quote.hash", `the quote of ${where} is not the one of its vote`);
    if (says(capsule, vote, storage)) stating++;
  }
  return stating;
}

function says(capsule, vote, storage) {
  let statement;
  try {
    const document = parse(vote.quote, C.maxQuoteMarks);
    checkRecord("ResultQuote", document);
    statement = document.statement;
  } catch {
    return false;
  }
  const expected = {
    chain_id: capsule.receipt.chain_id, contract: storage.address("Disputes"), subject: vote.dispute, round: String(vote.round),
    receipt_id: capsule.claim.receipt_id, voter: vote.voter, outcome: String(vote.outcome), code: String(vote.code),
    tokens_hash: vote.tokens_hash, trace_root: vote.trace_root, round_digest: vote.round_digest,
  };
  return Object.entries(expected).every(([name, value]) => statement[name] === value);
}

const RELEASED = ["1", "3"];

export function releases(capsule, facts, storage) {
  if (!capsule.releases.length) throw new Stop("releases.absent", "no release records are included", true);
  const domain = { chainId: capsule.deployment.chain_id, contract: storage.address("KeyEpochs") };
  let former = 0;
  for (const signed of capsule.releases) {
    const { record } = signed, where = `record ${record.index} of shard ${record.shard}`;
    if (record.receipt_id !== capsule.claim.receipt_id || record.key_epoch !== capsule.receipt.key_epoch) {
      throw new Stop("releases.receipt", `${where} is about another receipt`);
    }
    const wrong = recordFlaw(signed, domain);
    if (wrong) throw new Stop("releases.record", `${where}: ${wrong}`);
    if (!facts.shards.includes(record.shard)) former++;
  }
  if (former) throw new Stop("releases.shard", `${former} records are by accounts that are no shards of the epoch now`, true);
  return `${capsule.releases.length} signed records; nothing here shows that there are no others`;
}

function recordFlaw({ record, signature, right, grounds }, domain) {
  const digest = typedDigest(domain, "Release", record);
  if (!["1", "2", "3"].includes(record.decision)) return "an unknown decision";
  const rebuilt = BigInt(record.key_epoch) >> 32n === 3n;
  if (RELEASED.includes(record.decision) && record.decision !== (rebuilt ? "3" : "1")) return "a release of another kind than its epoch's";
  if (recover(digest, signature) !== record.shard) return "another signature";
  return (right && ticketFlaw(record, right, domain)) || (grounds && groundsFlaw(record, right, grounds, digest)) || "";
}

function ticketFlaw(record, { ticket, signature }, domain) {
  const digest = typedDigest(domain, "Ticket", ticket);
  if (recover(digest, signature) !== ticket.voter) return "another signature of its ticket";
  if (!["1", "2"].includes(ticket.kind)) return "a ticket of unknown kind";
  const same = record.ticket_hash === digest && ["receipt_id", "voter", "key_epoch", "transport_key_hash"].every((name) => record[name] === ticket[name]);
  return same ? "" : "another ticket";
}

function groundsFlaw(record, right, { grounds, signature }, digest) {
  if (recover(labelled("RELEASE_GROUNDS", toBytes(digest), encode(grounds)), signature) !== record.shard) return "another signature of its grounds";
  const { type, signed, gpu } = grounds.evidence;
  if (labelled("EVIDENCE", utf8(type), toBytes(signed), toBytes(gpu)) !== record.evidence_hash) return "other evidence";
  if ((grounds.refusal !== "") !== (record.decision === "2")) return "the reason of another decision";
  if (grounds.audit !== null && grounds.audit.batch_id < 0) return "an impossible batch";
  return right?.ticket.kind === "2" && RELEASED.includes(record.decision) && grounds.audit === null ? "no path of the audited receipt" : "";
}
