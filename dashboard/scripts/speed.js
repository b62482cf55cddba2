// Measures how long pages take with a large history: `node scripts/speed.js [SERIES] [DAYS]`.
// Makes a history of that many routes with `tollgate history import`, starts a server on it, and opens
// pages and switches ranges in a real browser. A time ends with the frame in which the new chart is painted.
// Beside it stands what does not depend on how busy the machine is: the CPU time of the server, all threads
// (Linux only, in steps of 10 ms, so as a mean), and of the page's main thread.
import { once } from "node:events";
import { createWriteStream, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Browser, Server } from "../tests/support.js";

const SERIES = Number(process.argv[2] ?? 10_000);
const DAYS = Number(process.argv[3] ?? 7);
const PRESETS = ["15 min", "1 hour", "6 hours", "24 hours", "7 days", "30 days", "90 days", "1 year", "2 years"];
const MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(" ");

/** An access log in which every route comes a few times a day. */
async function log(file) {
  const out = createWriteStream(file);
  const two = (n) => String(n).padStart(2, "0");
  const end = Math.floor(Date.now() / 60_000) * 60_000;
  for (let at = end - DAYS * 86_400_000, n = 0; at < end; at += 60_000) {
    const date = new Date(at);
    const stamp = `${two(date.getUTCDate())}/${MONTHS[date.getUTCMonth()]}/${date.getUTCFullYear()}:${two(date.getUTCHours())}:${two(date.getUTCMinutes())}:00 +0000`;
    let lines = "";
    for (let i = 0; i < 60; i++, n++) lines += `192.0.2.1 - - [${stamp}] "GET /route/${(n * 7919) % SERIES} HTTP/1.1" 200 1\n`;
    if (!out.write(lines)) await once(out, "drain");
  }
  out.end();
  await once(out, "finish");
}

/** Runs in the page: counts questions that are not answered yet. */
function watchQuestions() {
  window.asked = 0;
  window.open_questions = 0;
  const own = window.fetch;
  window.fetch = async (...args) => {
    window.asked += 1;
    window.open_questions += 1;
    try {
      const response = await own(...args);
      const text = await response.text();
      return new Response(text, response);
    } finally {
      window.open_questions -= 1;
    }
  };
}

/** Runs in the page: milliseconds from a click until all is answered and painted; from the navigation without one. */
async function painted(button) {
  const start = button === undefined ? 0 : performance.now();
  const asked = button === undefined ? 0 : window.asked;
  if (button !== undefined) [...document.querySelectorAll("button")].find((own) => own.innerText === button).click();
  const frame = () => new Promise(requestAnimationFrame);
  // `innerText` would lay out the page for every look at it. An answer may bring further questions, which are asked a frame later: three quiet frames are the end,
  // and the first of them is the one that shows everything.
  let end = 0;
  for (let quiet = 0; quiet < 3; ) {
    await frame();
    const isQuiet = window.asked > asked && window.open_questions === 0 && !document.body.textContent.includes("Loading…") && document.querySelector("main table");
    if (!isQuiet) quiet = 0;
    else if (++quiet === 1) end = performance.now();
  }
  return Math.round(end - start);
}

/** Milliseconds of CPU so far: of the server, and of the page. */
async function used(server, cdp) {
  const [, fields] = readFileSync(`/proc/${server.process.pid}/stat`, "utf8").split(") ");
  const [user, system] = fields.split(" ").slice(11, 13).map(Number);
  const { metrics } = await cdp.send("Performance.getMetrics");
  return [(user + system) * 10, 1_000 * metrics.find(({ name }) => name === "TaskDuration").value];
}

/** Does it so many times, and tells the times and the mean CPU of each. */
async function measured(times, own, run) {
  const taken = [];
  const cpu = [0, 0];
  for (let n = 0; n < times; n++) {
    await own.prepare();
    const before = await used(own.server, own.cdp);
    taken.push(await run());
    const after = await used(own.server, own.cdp);
    cpu.forEach((_, i) => (cpu[i] += after[i] - before[i]));
  }
  return `${middle([...taken])} ms (${taken.join(", ")}); CPU of the server ${Math.round(cpu[0] / times)} ms, of the page ${Math.round(cpu[1] / times)} ms`;
}

const middle = (times) => times.sort((a, b) => a - b)[Math.floor(times.length / 2)];

const folder = mkdtempSync(join(tmpdir(), "tollgate-speed-"));
const file = join(folder, "access.log");
await log(file);
const server = await Server.start({}, file);
const browser = await Browser.start();
try {
  console.log(`${server.imported.toLocaleString("en")} requests to ${SERIES.toLocaleString("en")} routes in ${DAYS} days`);
  const page = await browser.page(server.base);
  page.setDefaultTimeout(60_000);
  await page.addInitScript(watchQuestions);
  const cdp = await page.context().newCDPSession(page);
  await cdp.send("Performance.enable");
  for (const address of ["overview?last=24h", "routes?last=24h"]) {
    const first = await measured(10, { server, cdp, prepare: () => page.goto("about:blank") }, async () => {
      await page.goto(`${server.base}/#/${address}`);
      return page.evaluate(painted);
    });
    console.log(`${address}: first paint ${first}`);
    for (const preset of PRESETS) {
      const prepare = () => page.evaluate(painted, preset === "1 hour" ? "6 hours" : "1 hour");
      console.log(`${address}: switch to ${preset} ${await measured(5, { server, cdp, prepare }, () => page.evaluate(painted, preset))}`);
    }
  }
} finally {
  await browser.end();
  await server.end();
  rmSync(folder, { recursive: true });
}
