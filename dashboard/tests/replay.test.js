// The page that `tollgate replay --html` writes, in a real browser: hostile names, sorting, both themes, a phone.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, afterEach, before, test } from "node:test";
import { pathToFileURL } from "node:url";
import { gunzipSync } from "node:zlib";
import { BINARY, Browser, HOSTILE, LOG, axe } from "./support.js";

let browser;
let folder;
let address;

const rules = (limit) => `domain: gateway
descriptors:
  - key: remote_address
    rate_limit: { name: "<i>per-address</i>", algorithm: sliding_log, requests_per_unit: ${limit}, unit: minute }
`;

before(async () => {
  browser = await Browser.start();
  folder = mkdtempSync(join(tmpdir(), "tollgate-replay-"));
  const write = (name, text) => writeFileSync(join(folder, name), text);
  write("new.yaml", rules(10));
  write("old.yaml", rules(20));
  const line = (caller, path) => `${caller} - - [01/Aug/1995:12:00:00 -0400] "GET ${path} HTTP/1.0" 200 1\n`;
  const hostile = HOSTILE.map((name) => line("evil.example", name).repeat(4) + line(`<script>window.hacked=1</script>`, "/").repeat(30)).join("");
  write("access.log", `${gunzipSync(readFileSync(LOG))}${hostile}<img src=x onerror=window.hacked=1>\n`);
  const told = spawnSync(BINARY, ["replay", "--rules", "new.yaml", "--against", "old.yaml", "--algorithms", "--suggest", "0.1%", "--explain", "evil.example", "--html", "report.html", "access.log"], { cwd: folder, encoding: "utf8" });
  assert.equal(told.status, 0, told.stderr);
  address = pathToFileURL(join(folder, "report.html")).href;
});

after(async () => {
  await browser?.end();
  rmSync(folder, { recursive: true, force: true });
});

afterEach(() => browser.closePages());

async function open(options) {
  const page = await browser.page(address, options);
  await page.goto(address);
  return page;
}

test("names of strangers are text, and the policy lets no other script run", async () => {
  const page = await open();
  await page.getByText("<script>window.hacked=1</script>", { exact: false }).first().waitFor();
  await page.getByText("<i>per-address</i>", { exact: false }).first().waitFor();
  await page.getByText("<img src=x onerror=window.hacked=1>", { exact: false }).first().waitFor();
  assert.equal(await page.evaluate(() => window.hacked), undefined);
  assert.equal(await page.locator("main img, main script, main i:not(.dot)").count(), 0);
  const blocked = await page.evaluate(() => {
    const script = document.createElement("script");
    script.textContent = "window.hacked = 2";
    return new Promise((resolve) => {
      document.addEventListener("securitypolicyviolation", (event) => resolve(event.effectiveDirective));
      document.body.append(script);
    });
  });
  assert.match(blocked, /script-src/);
  browser.complaints = browser.complaints.filter((text) => !text.includes("Content Security Policy"));
});

test("a click on a head sorts by its column, and the next the other way", async () => {
  const page = await open();
  const card = page.locator("section.card", { has: page.getByRole("heading", { name: "Most affected keys" }) });
  const numbers = () => card.locator("tbody td:nth-child(2)").evaluateAll((cells) => cells.map((cell) => Number(cell.dataset.value)));
  const sorted = (list, sign) => [...list].sort((a, b) => sign * (a - b));
  const before = await numbers();
  assert.ok(before.length > 5);
  await card.getByRole("button", { name: "Requests" }).click();
  assert.deepEqual(await numbers(), sorted(before, -1));
  assert.equal(await card.locator("th[aria-sort=descending]").innerText(), "Requests");
  await card.getByRole("button", { name: "Requests" }).click();
  assert.deepEqual(await numbers(), sorted(before, 1));
});

for (const scheme of ["light", "dark"]) {
  for (const width of [1440, 390]) {
    test(`it can be read by everybody: ${scheme}, ${width} wide`, async () => {
      const page = await open({ scheme, width });
      assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), scheme);
      await page.getByText("As a table").first().click();
      assert.deepEqual(await axe(page), []);
      assert.equal(await page.locator("figure:not(:has(details table))").count(), 0, "every chart has its table");
      assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "it fits the width");
      await page.getByRole("button", { name: scheme === "dark" ? "Light theme" : "Dark theme" }).click();
      assert.notEqual(await page.evaluate(() => document.documentElement.dataset.theme), scheme);
    });
  }
}

test("no page complained, and none asked anybody", () => assert.deepEqual(browser.complaints, []));
