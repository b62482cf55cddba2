// Takes pictures of pages: `node scripts/shots.js http://127.0.0.1:6070 FOLDER [page …]`, at three widths, dark and light.
import { mkdirSync } from "node:fs";
import { chromium } from "playwright-core";

const [base, folder, ...pages] = process.argv.slice(2);
const WIDTHS = { phone: 390, tablet: 834, desk: 1440 };
mkdirSync(folder, { recursive: true });
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
for (const scheme of ["light", "dark"]) {
  for (const [name, width] of Object.entries(WIDTHS)) {
    const page = await browser.newPage({ viewport: { width, height: 900 }, colorScheme: scheme });
    page.on("console", (message) => message.type() === "error" && console.error(scheme, name, message.text()));
    page.on("pageerror", (error) => console.error(scheme, name, error));
    for (const own of pages.length > 0 ? pages : ["overview"]) {
      await page.goto(`${base}/#/${own}`);
      await page.waitForLoadState("networkidle");
      await page.waitForTimeout(300);
      await page.screenshot({ path: `${folder}/${own.replace(/[^a-z0-9]+/gi, "-")}-${name}-${scheme}.png`, fullPage: true });
    }
    await page.close();
  }
}
await browser.close();
