// Votes against the committees of the state, and the verdict by the rule (chain/capsule/votes.py, bytewise/protocol/court/tally.py).
import { C, ZERO, concat, keccak, toBytes, word } from "./bytes.js";
import { bits, lowest } from "./facts.js";
import { Stop } from "./storage.js";

const abi = (...words) => keccak(concat(...words));
const keyOf = (outcome, code, outHash) => abi(word(outcome), word(code), toBytes(outHash));
export const outHashOf = (tokens, trace) => abi(toBytes(tokens), toBytes(trace));
export const claimOf = outHashOf;

export function voteContent(vote) {
  const outcome = BigInt(vote.outcome), code = BigInt(vote.code);
  const name = C.outcomes[Number(outcome) - 1];
  const executed = name === "EXECUTED", coded = name === "INVALID" || name === "CANNOT_EXECUTE";
  const bare = [vote.tokens_hash, vote.trace_root, vote.round_digest].every((each) => each === ZERO);
  if (!name || (!executed && !bare) || (!coded && code !== 0n)) throw new Stop("votes.form", `outcome ${outcome}, code ${code}`);
  const group = abi(word(outcome), word(code), toBytes(vote.tokens_hash), toBytes(vote.trace_root), toBytes(vote.round_digest));
  const outHash = executed ? outHashOf(vote.tokens_hash, vote.trace_root) : ZERO;
  return { name, outcome, code, tokensHash: vote.tokens_hash, outHash, group, key: keyOf(outcome, code, outHash) };
}

export function votesOf(facts, listed) {
  const have = listed.map((each) => each.round), want = facts.rounds.map((each) => each.number);
  if (have.join() !== want.join()) throw new Stop("votes.rounds", `votes of rounds ${have}, drawn were ${want}`);
  return facts.rounds.flatMap((drawn, i) => [...revealed(drawn, listed[i].votes), ...certified(drawn, listed[i].certificate)]);
}

function revealed(drawn, votes) {
  const members = new Map(drawn.members.map((each) => [lowest(each.mask), each]));
  const said = [];
  let opened = 0n, before = -1;
  for (const vote of votes) {
    const where = `seat ${vote.seat} of round ${drawn.number}`;
    if (vote.seat <= before) throw new Stop("votes.seatTwice", `${where} comes after seat ${before}`);
    before = vote.seat;
    const member = members.get(vote.seat);
    if (!member || (member.mask & drawn.opened) !== member.mask) throw new Stop("votes.committee", `${where} is not the first of a member that revealed`);
    const content = voteContent(vote);
    if (content.group !== member.word) throw new Stop("votes.group", `the vote of ${where} is not the one in the state`);
    opened |= member.mask;
    said.push({ round: drawn.number, mask: member.mask, content, isCertified: false });
  }
  if (opened !== drawn.opened) throw new Stop("votes.missing", `round ${drawn.number} has more revealed seats`);
  return said;
}

function certified(drawn, vote) {
  const where = `the certificate of round ${drawn.number}`;
  if ((vote === null) !== (drawn.certified === 0n)) throw new Stop(vote === null ? "votes.missing" : "votes.committee", `${where} and the state differ`);
  if (vote === null) return [];
  const content = voteContent(vote);
  if (content.group !== drawn.certifiedGroup) throw new Stop("votes.group", `${where} is not the one in the state`);
  return [{ round: drawn.number, mask: drawn.certified, content, isCertified: true }];
}

// The count of a round: groups that agree in everything, the largest of each kind (`Count.add`).
function count(said, receipt) {
  const tally = { equal: 0, lead: 0, unavailable: 0, noKey: 0, cannotExecute: 0 }, groups = new Map();
  let lead = null;
  for (const { content, mask } of said) {
    const seats = bits(mask), size = (groups.get(content.group) ?? 0) + seats;
    groups.set(content.group, size);
    if (content.name === "UNAVAILABLE") tally.unavailable += seats;
    else if (content.name === "NO_KEY") tally.noKey += seats;
    else if (content.name === "CANNOT_EXECUTE") tally.cannotExecute += seats;
    else if (content.name === "EXECUTED" && content.tokensHash === receipt.tokens_hash && content.outHash === receipt.out_hash) {
      tally.equal = Math.max(tally.equal, size);
    } else if (size > tally.lead) {
      tally.lead = size;
      lead = content;
    }
  }
  return { tally, lead };
}

function judged(drawn, said, receipt) {
  const leading = keyOf(...drawn.lead);
  const { tally, lead } = count([...said].sort((a, b) => (a.content.key !== leading) - (b.content.key !== leading)), receipt);
  const same = Object.keys(tally).every((name) => tally[name] === drawn.count[name]);
  const wrongLead = lead && (lead.outcome !== drawn.lead[0] || lead.code !== drawn.lead[1] || lead.outHash !== drawn.lead[2]);
  if (!same || wrongLead) throw new Stop("verdict.tally", `round ${drawn.number} counts otherwise than the state`);
  const none = { verdict: "NONE", isMixed: false, replacement: null };
  if (!drawn.isSettled) return none;
  if (tally.equal >= drawn.quorum) return { ...none, verdict: "UPHELD" };
  if (lead && tally.lead >= drawn.quorum) {
    return lead.name === "INVALID" ? { ...none, verdict: "INVALID" } : { ...none, verdict: "OVERTURNED", replacement: lead.outHash };
  }
  if (tally.unavailable >= drawn.quorum) return { ...none, verdict: "UNAVAILABLE" };
  return tally.lead + tally.unavailable >= drawn.quorum ? { ...none, verdict: "UNAVAILABLE", isMixed: true } : none;
}

export function verdictByRule(facts, said, receipt) {
  const found = facts.case;
  const byRound = facts.rounds.map((each) => [each.number, judged(each, said.filter((vote) => vote.round === each.number), receipt)]);
  const deciding = byRound.find(([number]) => number === found.decidedIn)?.[1] ?? { verdict: "NONE", isMixed: false, replacement: null };
  if (["UPHELD", "OVERTURNED", "INVALID", "UNAVAILABLE"].includes(found.verdict)) {
    if (deciding.verdict !== found.verdict || deciding.isMixed !== found.isMixed) {
      throw new Stop("verdict.rule", `round ${found.decidedIn} gives ${deciding.verdict}, the state has ${found.verdict}`);
    }
  }
  const others = byRound.filter(([number]) => number !== found.decidedIn).map(([, each]) => each.verdict);
  const drawn = found.verdict === "DRAW" && deciding.verdict !== "NONE";
  if (drawn || others.some((each) => each !== "NONE" && each !== found.appealed)) throw new Stop("verdict.rule", "another round gives a verdict");
  return deciding;
}
