// The page: reads files that the reader chooses, verifies them here, and shows the report. It sends nothing anywhere.
import { C, labelled } from "./bytes.js";
import { encode } from "./document.js";
import { lowest, bits } from "./facts.js";
import { verifyFinality } from "./finality.js";
import { witnessKey } from "./journals.js";
import { conclude, verifyCapsule } from "./verify.js";
import { serve, verifyAside } from "./worker.js";

const $ = (id) => document.getElementById(id);
const MEANING = {
  VALID: "Every proof holds.", INVALID: "A proof does not hold.", UNVERIFIABLE: "Every proof holds, under the conditions below.",
};
const DECISIONS = { 1: "released", 2: "refused", 3: "released its share of the key" };
const RESULTS = { PASS: "passes", FAIL: "FAILS", UNVERIFIABLE: "not decided" };
let opened = null, turn = 0, files = 0;

// An element with children; text is never read as markup.
function el(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children.flat());
  return node;
}

const printable = (text) => String(text).replace(/[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}]/gu, "\ufffd");
const hash = (text) => el("code", {}, "0x " + text.slice(2).replace(/(.{4})(?=.)/g, "$1 "));
const LAST_SECOND = 253402300799;
// Whoever signs a record chooses its time, so it may be beyond every calendar.
const moment = (seconds) => Number(seconds) > LAST_SECOND ? `${seconds} s` : new Date(Number(seconds) * 1000).toISOString().replace("T", " ").replace(".000Z", " UTC");

function table(caption, headings, rows) {
  const head = el("thead", {}, el("tr", {}, headings.map((each) => el("th", { scope: "col" }, each))));
  const body = rows.map(([first, ...rest]) => el("tr", {}, el("th", { scope: "row" }, first), rest.map((each) => el("td", {}, each))));
  return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption }, el("table", {}, el("caption", {}, caption), head, el("tbody", {}, body)));
}

function list(title, lines) {
  if (!lines.length) return [];
  return [el("h3", {}, title), el("ul", {}, lines.map((line) => el("li", {}, printable(line))))];
}

function section(title, running, ...children) {
  return el("section", {}, el("h2", {}, title), ...children, el("p", { class: "running" }, running));
}

function facts(report) {
  const { capsule, facts: found } = report, { claim, receipt } = capsule;
  return table("What the proofs give", ["Fact", "Value"], [
    ["Receipt", hash(claim.receipt_id)], ["Operator", hash(receipt.operator)],
    ["Number and batch", `${receipt.seq} in batch ${capsule.membership.batch_id}`],
    ["Anchored", `${moment(found.batch.anchoredAt)}, block ${found.batch.block}`], ["Model", hash(receipt.model_id)],
    ["Environment", hash(receipt.environment)], ["Claimed output", hash(claim.out_hash)], ["Verdict", claim.verdict],
    ["Replaced by", claim.replaced_by ? hash(claim.replaced_by) : "nothing"],
    ["Accepted for good", claim.accepted ? "yes" : `no: ${found.openReason}`],
    ["Evidence of the machines", claim.assurance.toUpperCase()], ["Dispute", capsule.rounds.length ? hash(claim.dispute) : "none"],
    ["Chain and block", `chain ${claim.chain_id}, block ${claim.block}`], ["Block hash", hash(claim.block_hash)],
    ["Deployment", hash(labelled("CAPSULE_DEPLOYMENT", encode(capsule.deployment)))],
  ]);
}

function said(vote) {
  if (!vote) return "not revealed";
  const name = C.outcomes[Number(vote.outcome) - 1].toLowerCase().replace("_", " ");
  if (name !== "executed") return vote.code === "0" ? name : `${name}, code ${vote.code}`;
  return [el("div", {}, "executed"), el("div", {}, "tokens ", hash(vote.tokens_hash)), el("div", {}, "trace ", hash(vote.trace_root))];
}

function votes(report) {
  return report.facts.rounds.map((drawn, i) => {
    const listed = report.capsule.rounds[i], by = new Map(listed.votes.map((each) => [each.seat, each]));
    const members = [...drawn.members].sort((a, b) => lowest(a.mask) - lowest(b.mask));
    const rows = members.map((each) => {
      const vote = by.get(lowest(each.mask)) ?? (each.mask & drawn.certified ? listed.certificate : null);
      return [hash(each.voter), String(bits(each.mask)), said(vote)];
    });
    return table(`Round ${drawn.number}: ${drawn.seats} seats, ${drawn.quorum} make a verdict`, ["Voter", "Seats", "Vote"], rows);
  });
}

function openers({ capsule, facts: found }) {
  const rows = capsule.releases.map(({ record, right }) => {
    const marks = [found.shards.includes(record.shard) ? "" : "no shard of the epoch now: anybody may have signed this", right ? "" : "no ticket"];
    return [hash(record.shard), hash(record.voter), DECISIONS[record.decision], moment(record.decided_at), String(record.index), marks.filter(Boolean).join("; ")];
  });
  return table("Who asked the key shards to open the receipt", ["Shard", "Asked by", "Decision", "Time, by the shard", "Record", "Remark"], rows);
}

function recorded({ capsule }) {
  return capsule.journals.map((part, i) => {
    const rows = part.entries.map((each) => [each.number, moment(each.at), printable(each.kind), el("code", {}, printable(each.body))]);
    return table(`Journal ${i + 1}: ${part.checkpoint.split("\n")[0].split("/").pop()}`, ["Entry", "Time, by the node", "Kind", "What it recorded"], rows);
  });
}

function checks(report) {
  const rows = report.checks.map((each) => {
    const detail = each.failure ? `${each.failure}: ${each.detail}` : each.detail;
    return [each.group, el("span", { class: each.result.toLowerCase() }, RESULTS[each.result]), printable(detail)];
  });
  return table("Checks, in their order", ["Check", "Result", "Detail"], rows);
}

function asText(report, end) {
  const parts = [`${end.word}: ${MEANING[end.word]}`, `capsule SHA-256 ${report.digest}`];
  for (const [title, lines] of [["It shows:", end.shows], ["Conditions:", end.conditions], ["It does not show:", end.limits]]) {
    if (lines.length) parts.push(title, ...lines.map((line) => `  - ${line}`));
  }
  parts.push("Checks:", ...report.checks.map((each) => `  ${each.result} ${each.group}${each.failure ? ` ${each.failure}` : ""}: ${each.detail}`));
  return parts.map(printable).join("\n");
}

function render(report) {
  const end = conclude(report), label = report.facts ? ` · evidence of the machines: ${report.facts.assurance.toUpperCase()}` : "";
  const running = `${end.word}${label} · capsule SHA-256 ${report.digest}`;
  const parts = [el("div", { class: `word ${end.word.toLowerCase()}` }, el("h2", {}, end.word), el("p", {}, MEANING[end.word]),
    list("What it shows", end.shows), list(end.shows.length ? "Conditions" : "Why", end.conditions), list("What it does not show", end.limits))];
  if (report.facts && end.word !== "INVALID") parts.push(section("Facts", running, facts(report)));
  if (report.facts && report.facts.rounds.length && end.word !== "INVALID") parts.push(section("Votes", running, votes(report)));
  if (report.facts && report.capsule.releases.length && end.word !== "INVALID") parts.push(section("Release records", running, openers(report)));
  if (report.facts && report.capsule.journals.length && end.word !== "INVALID") parts.push(section("Journals", running, ...recorded(report)));
  parts.push(section("Checks", running, checks(report)));
  parts.push(el("details", {}, el("summary", {}, "Report as text"), el("pre", { tabindex: "0" }, asText(report, end))));
  $("progress").hidden = true;
  $("report").removeAttribute("aria-busy");
  $("report").replaceChildren(...parts);
  $("status").textContent = `${end.word}: ${MEANING[end.word]}`;
  $("print").hidden = false;
}

function trust() {
  const found = (id, form) => [...new Set($(id).value.toLowerCase().match(form) ?? [])];
  const digest = /0x[0-9a-f]{64}(?![0-9a-f])/g, threshold = Number($("threshold").value);
  const [blockHash = null] = found("block", digest), [checkpoint = null] = found("checkpoint", digest);
  return {
    deployments: found("deployment", digest), blockHash, checkpoint, witnesses: found("witnesses", /0x[0-9a-f]{40}(?![0-9a-f])/g),
    journals: found("journals", digest), journalWitnesses: $("seers").value.match(/\S+/g) ?? [],
    threshold: Number.isSafeInteger(threshold) && threshold > 0 ? threshold : 1,
  };
}

function unread() {
  const fields = [["block", 64, "block hash"], ["deployment", 64, "deployment"], ["witnesses", 40, "witness account"], ["checkpoint", 64, "beacon block"], ["journals", 64, "journal"]];
  const wrong = fields.filter(([id, digits]) => ($(id).value.match(/\S+/g) ?? []).some((each) => !new RegExp(`^0x[0-9a-fA-F]{${digits}}$`).test(each)));
  const told = wrong.map(([, digits, name]) => `${name}: 0x and ${digits} hex digits`);
  if (($("seers").value.match(/\S+/g) ?? []).some((each) => !witnessKey(each))) told.push("witness of journals: NAME+ID+KEY");
  return told.join("; ");
}

function progress({ done, step, steps }) {
  $("report").setAttribute("aria-busy", "true");
  $("progress").hidden = false;
  $("progress").value = done;
  const told = `Verifying signature ${step} of ${steps} by sync committees, some seconds each …`;
  // Or a screen reader would read it again and again.
  if ($("status").textContent !== told) $("status").textContent = told;
}

async function update() {
  const wrong = unread(), own = ++turn;
  $("problem").textContent = wrong && `Not read: ${wrong}.`;
  if (!opened) return;
  const report = await verifyAside(opened, trust(), (told) => own === turn && progress(told));
  if (own === turn) render(report);
}

async function open(file) {
  const own = ++files;
  $("name").textContent = printable(file.name);
  $("status").textContent = "Verifying …";
  $("report").replaceChildren();
  const bytes = file.size > C.maxBytes + 1 ? new Uint8Array(C.maxBytes + 1) : new Uint8Array(await file.arrayBuffer());
  // Or the bytes of an earlier file, read later, would stand under the name of this one.
  if (own !== files) return;
  opened = bytes;
  await update();
}

function start() {
  // Or choosing the same file again, altered meanwhile, would change nothing.
  $("file").addEventListener("click", (event) => (event.target.value = ""));
  $("file").addEventListener("change", (event) => event.target.files[0] && open(event.target.files[0]));
  for (const id of ["block", "deployment", "witnesses", "threshold", "checkpoint", "journals", "seers"]) $(id).addEventListener("input", update);
  $("print").addEventListener("click", () => window.print());
  addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((each) => (each.open = true)));
  const area = $("drop");
  area.addEventListener("dragover", (event) => event.preventDefault());
  area.addEventListener("drop", (event) => {
    event.preventDefault();
    if (event.dataTransfer.files[0]) open(event.dataTransfer.files[0]);
  });
}

globalThis.bytewiseCapsule = { verifyCapsule, conclude, verifyFinality };
if (globalThis.document) start();
else serve();
