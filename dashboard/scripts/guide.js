// Takes the pictures of docs/guide/dashboard.md from a running demo: `node scripts/guide.js http://127.0.0.1:PORT ../docs/guide/images`.
// Fails if one is larger than 200 kB: git keeps every version of it.
import { mkdirSync, statSync } from "node:fs";
import { chromium } from "playwright-core";

const BYTES_MAX = 200_000;
const PICTURES = [
  { name: "overview", address: "overview?last=24h&compare=1", scheme: "light" },
  { name: "rules", address: "rules?last=24h", scheme: "light" },
  { name: "playground", address: "playground?limit=10&window=60&shape=edge", scheme: "dark" },
];

const [base, folder] = process.argv.slice(2);
mkdirSync(folder, { recursive: true });
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
for (const { name, address, scheme } of PICTURES) {
  const page = await browser.newPage({ viewport: { width: 1200, height: 800 }, colorScheme: scheme });
  await page.goto(`${base}/#/${address}`);
  await page.waitForLoadState("networkidle");
  await page.waitForTimeout(500);
  const path = `${folder}/dashboard-${name}.png`;
  await page.screenshot({ path, fullPage: true });
  const { size } = statSync(path);
  console.log(path, size);
  if (size > BYTES_MAX) process.exitCode = 1;
  await page.close();
}
await browser.close();
