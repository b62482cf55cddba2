// Takes the pictures of README.md and docs/guide/dashboard.md from a running demo:
// `tollgate demo --admin 127.0.0.1:6070` and `node scripts/guide.js http://127.0.0.1:6070 ../docs/images`.
// Fails if one is larger than 200 kB: git keeps every version of it.
import { mkdirSync, statSync } from "node:fs";
import { chromium } from "playwright-core";

const BYTES_MAX = 200_000;
const PICTURES = [
  { name: "overview", address: "overview?last=24h&compare=1", scheme: "light" },
  { name: "rule", address: "rules/login?last=7d", scheme: "light" },
  { name: "playground", address: "playground?limit=10&window=60&shape=edge", scheme: "dark" },
];

const [base, folder] = process.argv.slice(2);
mkdirSync(folder, { recursive: true });
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
for (const { name, address, scheme } of PICTURES) {
  const page = await browser.newPage({ viewport: { width: 1200, height: 800 }, colorScheme: scheme, timezoneId: "UTC" });
  await page.goto(`${base}/#/${address}`);
  await page.waitForLoadState("networkidle");
  await page.waitForTimeout(1_500);
  const path = `${folder}/dashboard-${name}.png`;
  await page.screenshot({ path, fullPage: true });
  const { size } = statSync(path);
  console.log(path, size);
  if (size > BYTES_MAX) process.exitCode = 1;
  await page.close();
}
await browser.close();
