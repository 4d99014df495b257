// Verifies in a worker, whose program is this page's own script: the page answers while signatures of sync committees are checked.
import { verifyCapsule } from "./verify.js";

const PROGRAM = globalThis.document?.currentScript.textContent;
const PAINT_MS = 50; // until the browser has shown what the page says
let idle = null, busy = null, isForbidden = false;

function newWorker() {
  const url = URL.createObjectURL(new Blob([PROGRAM], { type: "text/javascript" }));
  const made = new Worker(url);
  URL.revokeObjectURL(url);
  return made;
}

function askWorker(bytes, trust, tell) {
  const worker = (busy = idle ?? newWorker());
  idle = null;
  return new Promise((resolve, reject) => {
    worker.onerror = reject;
    worker.onmessage = ({ data }) => {
      if (data.told) return tell(data.told);
      [idle, busy] = [worker, null];
      resolve(data.report);
    };
    worker.postMessage({ bytes, trust });
  });
}

// The report on a capsule. A call ends the one before it, whose promise then stays open.
export async function verifyAside(bytes, trust, tell) {
  busy?.terminate();
  busy = null;
  try {
    if (!isForbidden) return await askWorker(bytes, trust, tell);
  } catch {
    [isForbidden, busy] = [true, null];
  }
  // A browser without workers shows no more than that it works.
  await new Promise((resolve) => setTimeout(resolve, PAINT_MS));
  return verifyCapsule(bytes, trust);
}

// What the script does in the worker.
export function serve() {
  onmessage = ({ data: { bytes, trust } }) => {
    postMessage({ report: verifyCapsule(bytes, trust, (told) => postMessage({ told })) });
  };
}
