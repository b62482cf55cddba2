// A real server with real history and live traffic, and a browser that watches itself.
import { spawn, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const HERE = dirname(fileURLToPath(import.meta.url));
const ROOT = join(HERE, "../..");
export const BINARY = process.env.TOLLGATE_BIN ?? join(ROOT, "target/debug/tollgate");
export const LOG = join(ROOT, "crates/testkit/data/nasa-1995-08-01.log.gz");
/** The day of that log, in UTC, with room around it. */
export const NASA = "from=807148800&to=807408000";

export const RULES = `
domain: shop
descriptors:
  - key: path
    rate_limit: { name: per-path, requests_per_unit: 600, unit: minute, algorithm: sliding_counter }
  - key: login
    rate_limit: { name: login, requests_per_unit: 5, unit: hour, algorithm: sliding_log }
  - key: user_id
    rate_limits:
      - { name: burst, requests_per_unit: 20, unit: minute, algorithm: sliding_log }
      - { name: sustained, requests_per_unit: 500, unit: hour, algorithm: sliding_buckets, buckets: 60 }
  - key: plan
    shadow_mode: true
    rate_limit: { name: new-plan, requests_per_unit: 3, unit: minute }
  - key: never
    rate_limit: { name: legacy-import, requests_per_unit: 100, unit: day }
`;

/** Limits that do more than count. */
export const BENDS = `
domain: bends
allow: [{ key: user, value: monitor }]
deny: [203.0.113.0/24, 198.51.100.66]
descriptors:
  - key: address
    rate_limit: { name: guesses, requests_per_unit: 2, unit: minute, algorithm: sliding_log, penalty: { after: 2, within: 1m, block: 10m, factor: 2, max: 24h } }
  - key: customer
    rate_limit: { name: renderings, requests_per_unit: 10, unit: minute, throttle: { elastic: { exceed: 100%, below_load: 70% } } }
  - key: user
    rate_limit: { name: users, requests_per_unit: 3, unit: minute, allow: [boss], deny: ["bot-*"] }
`;

/** Names that strangers chose: markup, text turned around, control characters, 10 kB. */
export const HOSTILE = ["/<script>window.hacked=1</script>", "/<img src=x onerror=window.hacked=1>", "/\u202Egnp.exe", "/a\u0007b\u001b[31m", `/${"A".repeat(10_000)}`];

/** Ports that nobody listens on, all different: each is held until all are known. */
async function freePorts(count) {
  const holders = await Promise.all(Array.from({ length: count }, () => new Promise((resolve) => {
    const holder = createServer().listen(0, "127.0.0.1", () => resolve(holder));
  })));
  const ports = holders.map((holder) => holder.address().port);
  await Promise.all(holders.map((holder) => new Promise((resolve) => holder.close(resolve))));
  return ports;
}

export class Server {
  /** A server with the history of an access log, or with none; each of several rules is a file. */
  static async start(environment = {}, log = LOG, rules = RULES) {
    const own = new Server();
    own.folder = mkdtempSync(join(tmpdir(), "tollgate-dashboard-"));
    mkdirSync(join(own.folder, "rules"));
    [rules].flat().forEach((text, i) => writeFileSync(join(own.folder, `rules/${i === 0 ? "shop" : i}.yaml`), text));
    if (log) own.import(log);
    const [http, grpc, admin] = await freePorts(3);
    own.ports = { http, grpc, admin };
    own.environment = environment;
    own.base = `http://127.0.0.1:${own.ports.admin}`;
    await own.run();
    return own;
  }

  import(log) {
    const told = spawnSync(BINARY, ["history", "import", log, "--data", join(this.folder, "data")], { encoding: "utf8" });
    if (told.status !== 0) throw new Error(`no history from ${log}: ${told.stderr ?? told.error}`);
    this.imported = Number(/([\d,]+) imported/.exec(told.stdout + told.stderr)?.[1]?.replaceAll(",", ""));
  }

  async run() {
    const listen = Object.entries(this.ports).flatMap(([name, port]) => [`--${name}`, `127.0.0.1:${port}`]);
    const output = [];
    this.process = spawn(BINARY, ["serve", "--rules", "rules", "--data", "data", ...listen], { cwd: this.folder, env: { ...process.env, ...this.environment } });
    this.log = output;
    for (const stream of [this.process.stdout, this.process.stderr]) stream.on("data", (text) => output.push(String(text)));
    running.add(this);
    const hasEnded = () => this.process.exitCode !== null || this.process.signalCode !== null;
    await until("the server answers", async () => hasEnded() || (await fetch(`http://127.0.0.1:${this.ports.http}/healthcheck`)).ok);
    if (hasEnded()) throw new Error(`the server has ended:${logs()}`);
  }

  /** Changes the rule file, as an editor does: another file takes its name. */
  write(rules) {
    const file = join(this.folder, "rules/shop.yaml");
    writeFileSync(`${file}.new`, rules);
    renameSync(`${file}.new`, file);
  }

  async check(descriptor, domain = "shop") {
    const body = JSON.stringify({ domain, descriptors: [descriptor] });
    const answer = await fetch(`http://127.0.0.1:${this.ports.http}/v1/check`, { method: "POST", body, headers: { "content-type": "application/json" } });
    return answer.status;
  }

  /** Ends the process and keeps the folder; `run` starts it again. */
  async stop() {
    const ended = new Promise((resolve) => this.process.once("exit", resolve));
    this.process.kill("SIGTERM");
    await ended;
    running.delete(this);
  }

  async end() {
    if (this.process.exitCode === null) await this.stop();
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** A real Redis on a port of its own, which can be stopped and started again. */
export class Redis {
  static async start() {
    const own = new Redis();
    [own.port] = await freePorts(1);
    await own.run();
    return own;
  }

  async run() {
    this.process = spawn("redis-server", ["--port", String(this.port), "--save", "", "--appendonly", "no", "--bind", "127.0.0.1"], { cwd: tmpdir(), stdio: ["ignore", "pipe", "ignore"] });
    await new Promise((resolve, reject) => {
      this.process.once("error", reject);
      this.process.stdout.on("data", (text) => String(text).includes("Ready to accept connections") && resolve());
    });
  }

  async stop() {
    const ended = new Promise((resolve) => this.process.once("exit", resolve));
    this.process.kill("SIGKILL");
    await ended;
  }
}

/** How long anything may take on a machine that is busy with other things. A wait that ends early costs nothing. */
const PATIENCE_MS = 30_000;
/** Servers that run: what they logged last explains why something did not happen. */
const running = new Set();

const logs = () => [...running].map((server) => `\nthe log of ${server.base} ends with:\n${server.log.join("").slice(-3_000)}`).join("");

/** Waits until something holds. */
export async function until(what, holds) {
  const end = Date.now() + PATIENCE_MS;
  let last = "";
  for (;;) {
    try {
      if (await holds()) return;
    } catch (error) {
      last = String(error);
    }
    if (Date.now() > end) throw new Error(`not within ${PATIENCE_MS / 1_000} s: ${what} ${last}${logs()}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

/** What many tests look at: some callers, two of them over their limits, and names that strangers chose. */
export async function traffic(server) {
  const minute = () => Math.floor(Date.now() / 60_000);
  // All in one minute, so that it is over the limit of a minute, however busy the machine is. What is sent once more
  // because a minute ended would be denied more often than anybody else.
  if (minute() !== Math.floor((Date.now() + 5_000) / 60_000)) {
    const last = minute();
    await until("a new minute has begun", () => minute() !== last);
  }
  for (let start = NaN; start !== minute(); ) {
    start = minute();
    for (let n = 0; n < 30; n++) await server.check({ user_id: "42" });
  }
  const calls = [];
  for (let n = 0; n < 30; n++) {
    calls.push({ path: "/cart" }, { login: "mallory" }, { plan: "trial" });
    calls.push({ path: `/page/${n}` });
  }
  for (const path of HOSTILE.slice(0, 4)) calls.push({ path });
  for (const descriptor of calls) await server.check(descriptor);
}

/** What opens a page of a server and waits for its content. */
export const opener = (browser, server) => async (address, options) => {
  const page = await browser.page(server.base, options);
  await page.clock.install();
  await page.goto(`${server.base}/#/${address}`);
  await page.locator("main h1").waitFor();
  await page.waitForFunction(() => !document.body.innerText.includes("Loading…"));
  return page;
};

/** Waits until something is shown, or is not; the page refreshes itself at once, and not in some seconds. */
export async function refreshed(page, locator, isThere = true) {
  await until(`${isThere ? "shown" : "gone"}: ${locator}`, async () => {
    await page.clock.fastForward(6_000);
    return (await locator.first().isVisible()) === isThere;
  });
}

export const tile = (page, name) => page.locator(".tile", { hasText: name }).locator("b").first();

export class Browser {
  static async start() {
    const own = new Browser();
    own.browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
    own.complaints = [];
    return own;
  }

  /** A page that notes errors, and requests that leave the origin. */
  async page(base, { width = 1440, scheme = "light", mayFail = false } = {}) {
    const context = await this.browser.newContext({ viewport: { width, height: 900 }, colorScheme: scheme, timezoneId: "Europe/Berlin" });
    const page = await context.newPage();
    page.setDefaultTimeout(PATIENCE_MS);
    page.on("request", (request) => {
      if (!request.url().startsWith(base) && !request.url().startsWith("data:")) this.complaints.push(`left the origin: ${request.url()}`);
    });
    if (!mayFail) {
      page.on("console", (message) => ["error", "warning"].includes(message.type()) && this.complaints.push(`${page.url()}: ${message.text()}`));
    }
    page.on("pageerror", (error) => this.complaints.push(`${page.url()}: ${error}`));
    return page;
  }

  async closePages() {
    await Promise.all(this.browser.contexts().map((context) => context.close()));
  }

  async end() {
    await this.browser.close();
  }
}

const AXE = readFileSync(join(HERE, "../node_modules/axe-core/axe.min.js"), "utf8");

/** What axe-core has to complain about a page, by all rules or by these. */
export async function axe(page, rules) {
  // Evaluated by the debugger, which the content security policy of the page does not bind.
  await page.evaluate(AXE);
  const runOnly = rules ? { type: "rule", values: rules } : ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"];
  const { violations } = await page.evaluate((runOnly) => window.axe.run(document, { runOnly }), runOnly);
  return violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => `${node.target} ${node.failureSummary}`).join("; ").slice(0, 600)}`);
}
