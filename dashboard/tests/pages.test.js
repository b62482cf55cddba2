// Everybody can read every page: by keyboard, as tables, light and dark, on a phone.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Browser, Server, axe, opener, traffic, until } from "./support.js";

let server;
let browser;
let open;

before(async () => {
  [server, browser] = await Promise.all([Server.start({}, null), Browser.start()]);
  open = opener(browser, server);
  await traffic(server);
});

after(async () => {
  await browser?.end();
  await server?.end();
});

const PAGES = ["overview?last=1h&compare=1", "routes?last=1h", "routes/%2Fcart?last=1h", "rules?last=1h", "rules/login?last=1h", "keys?last=1h", "keys/login%3Dmallory?last=1h&domain=shop&rule=login", "health?last=1h&settings=all", "playground", "explain?domain=shop&entries=login%3Dmallory"];

test("everything can be reached by keyboard", async () => {
  const page = await open("overview?last=1h");
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.className), "skip");
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate(() => document.activeElement.id), "main");
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.innerText), "15 min");
  await page.keyboard.press("Enter");
  await until("the range is another", () => /last=15m/.test(page.url()));
  const lost = await page.evaluate(() => [...document.querySelectorAll("main a, main button, main input, main select, main summary")].filter((own) => own.tabIndex < 0).length);
  assert.equal(lost, 0);
});

test("every chart has its table, and times are UTC on demand", async () => {
  const page = await open("overview?last=1h");
  await page.getByText("Table of this chart").click();
  const rows = await page.locator("details table tbody tr").count();
  assert.ok(rows > 0);
  const local = await page.locator("details table tbody tr td").first().innerText();
  await page.getByRole("button", { name: "UTC" }).click();
  await until("the zone is another", async () => (await page.locator("details table tbody tr td").first().innerText()) !== local);
  assert.match(page.url(), /utc=1/);
});

for (const address of PAGES) {
  test(`axe-core has no complaint about ${address}, light or dark, and a phone shows all of it`, async () => {
    const page = await open(address, { scheme: "light" });
    assert.deepEqual(await axe(page), []);
    await page.emulateMedia({ colorScheme: "dark" });
    await page.waitForFunction(() => document.documentElement.dataset.theme === "dark");
    // Nothing but the colours is another now.
    assert.deepEqual(await axe(page, ["color-contrast", "link-in-text-block"]), []);
    const bare = await page.locator("figure:not(:has(details table))").count();
    assert.equal(bare, 0, "every chart has its table");
    await page.setViewportSize({ width: 390, height: 900 });
    await page.waitForFunction(() => document.documentElement.scrollWidth <= innerWidth);
    await page.context().close();
  });
}

test("no page complained, and none asked another server", () => assert.deepEqual(browser.complaints, []));
