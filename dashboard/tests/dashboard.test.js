// The dashboard in a real browser, over a real server: every page, and what people do on it.
import assert from "node:assert/strict";
import { after, afterEach, before, test } from "node:test";
import { BENDS, Browser, HOSTILE, NASA, RULES, Server, axe, until } from "./support.js";

let server;
let browser;

before(async () => {
  [server, browser] = await Promise.all([Server.start(), Browser.start()]);
  const calls = [];
  for (let n = 0; n < 30; n++) {
    calls.push({ path: "/cart" }, { login: "mallory" }, { plan: "trial" }, { user_id: "42" });
    calls.push({ path: `/page/${n}` });
  }
  for (const path of HOSTILE.slice(0, 4)) calls.push({ path });
  for (const descriptor of calls) await server.check(descriptor);
});

after(async () => {
  await browser?.end();
  await server?.end();
});

// An open page goes on asking.
afterEach(() => browser.closePages());

/** Opens a page and waits for its content. */
async function open(address, options) {
  const page = await browser.page(server.base, options);
  await page.goto(`${server.base}/#/${address}`);
  await page.locator("main h1").waitFor();
  await page.waitForFunction(() => !document.body.innerText.includes("Loading…"));
  return page;
}

const tile = (page, name) => page.locator(".tile", { hasText: name }).locator("b").first();
const PAGES = ["overview?last=1h&compare=1", "routes?last=1h", "routes/%2Fcart?last=1h", "rules?last=1h", "rules/login?last=1h", "keys?last=1h", "keys/login%3Dmallory?last=1h&domain=shop&rule=login", "health?last=1h&settings=all", "playground", "explain?domain=shop&entries=login%3Dmallory"];

test("a day of the NASA log is shown whole, by a link", async () => {
  const page = await open(`overview?${NASA}`);
  assert.equal(await tile(page, "Requests").innerText(), server.imported.toLocaleString("en"));
  await page.getByText(/one bar: /).waitFor();
  await page.locator("table", { hasText: "/images/NASA-logosmall.gif" }).first().waitFor();
});

test("the overview moves on by itself", async () => {
  const page = await open("overview?last=1h");
  const total = async () => Number((await tile(page, "Requests").innerText()).replaceAll(",", ""));
  const start = await total();
  for (let n = 0; n < 7; n++) await server.check({ path: "/live" });
  await until("seven more are shown", async () => (await total()) >= start + 7);
});

test("the picker, a zoom and the way back are all in the address bar", async () => {
  const page = await open("overview?last=24h");
  await page.getByRole("button", { name: "1 hour", exact: true }).click();
  assert.match(page.url(), /last=1h/);
  let plot;
  await until("the chart of the hour is there", async () => {
    const isHour = (await page.locator("figcaption .when").innerText()) === "one bar: 1 min";
    plot = isHour && (await page.locator(".u-over").boundingBox());
    return plot;
  });
  await page.mouse.move(plot.x + plot.width * 0.2, plot.y + 50);
  await page.mouse.down();
  await page.mouse.move(plot.x + plot.width * 0.7, plot.y + 60, { steps: 5 });
  await page.mouse.up();
  await until("the zoom is in the address", () => /from=\d+&to=\d+|to=\d+/.test(page.url()));
  const zoomed = page.url();
  const [from, to] = ["from", "to"].map((name) => Number(new URLSearchParams(zoomed.split("?")[1]).get(name)));
  assert.ok(Math.abs(to - from - 1800) < 240, `half of the hour, not ${to - from} s`);
  await page.goBack();
  assert.match(page.url(), /last=1h/);
  await page.goForward();
  assert.equal(page.url(), zoomed);
  const again = await browser.page(server.base);
  await again.goto(zoomed);
  await again.locator(".tile").first().waitFor();
  assert.equal(await again.getByRole("button", { name: /–/ }).first().innerText(), await page.getByRole("button", { name: /–/ }).first().innerText());
});

test("absolute times are taken, and what makes no sense is said", async () => {
  const page = await open("overview?last=1h");
  await page.getByRole("button", { name: "From … to" }).click();
  await page.getByLabel("From", { exact: true }).fill("1995-08-01T06:00");
  await page.getByLabel("To", { exact: true }).fill("1995-08-01T05:00");
  await page.getByText("The end must be at least a minute after").waitFor();
  await page.getByLabel("To", { exact: true }).fill("1995-08-03T06:00");
  await page.getByRole("button", { name: "Show" }).click();
  await until("the day is shown", async () => (await tile(page, "Requests").innerText()) !== "0");
  assert.match(page.url(), /from=80\d+/);
});

test("routes are sorted, filtered, paged and opened", async () => {
  const page = await open("routes?last=1h");
  await page.getByText(/\d+ routes/).first().waitFor();
  await page.getByRole("button", { name: "Next" }).click();
  assert.match(page.url(), /page=2/);
  await page.getByLabel("Filter routes").fill("/page/7");
  await page.getByText(/1 of \d+ routes/).waitFor();
  await page.getByRole("link", { name: "/page/7" }).click();
  await page.getByRole("link", { name: "All routes" }).waitFor();
  assert.equal(await tile(page, "Requests").innerText(), "1");
  await page.getByRole("region", { name: "Rules about this route" }).getByRole("link", { name: "per-path" }).waitFor();
  await page.getByRole("region", { name: "Keys of this route" }).getByRole("link", { name: "path=/page/7" }).waitFor();
  await page.getByRole("link", { name: "sustained" }).waitFor();
});

test("names from strangers are text, and never more", async () => {
  const page = await open("routes?last=1h&filter=script");
  await page.getByText("/<script>window.hacked=1</script>").waitFor();
  await page.getByLabel("Filter routes").fill("gnp");
  await page.getByText("/\\u{202e}gnp.exe").waitFor();
  await page.goto(`${server.base}/#/routes/${encodeURIComponent(HOSTILE[0])}?last=1h`);
  await page.getByRole("region", { name: "Keys of this route" }).getByText("path=/<script>window.hacked=1</script>").waitFor();
  await page.goto(`${server.base}/#/keys/${encodeURIComponent(`path=${HOSTILE[4]}`)}?domain=shop`);
  await page.getByText("What its limits hold now").waitFor();
  assert.ok((await page.locator("h2 bdi").first().innerText()).length < 200, "10 kB are cut");
  assert.equal(await page.evaluate(() => window.hacked), undefined);
  assert.equal(await page.locator("main script, main img[onerror]").count(), 0);
});

test("rules say what they do", async () => {
  const page = await open("rules?last=1h");
  const row = (name) => page.locator("tr", { hasText: name }).locator("td").nth(3);
  await row("login").getByText(/denies .* %: too strict, or abused\?/).waitFor();
  await row("new-plan").getByText(/shadow: would have denied \d+/).waitFor();
  await row("legacy-import").getByText("never matched").waitFor();
  await row("sustained").getByText("never denied").waitFor();
  await page.getByRole("link", { name: "login", exact: true }).click();
  await page.getByText("algorithm: sliding_log").waitFor();
  await page.getByRole("link", { name: "login=mallory" }).waitFor();
});

test("a key is looked up, and reset after a question", async () => {
  const page = await open("keys?last=1h");
  await page.getByLabel("Entries, in the order of the rules").fill("login=mallory");
  await page.getByRole("button", { name: "Look up" }).click();
  await page.getByText("5 of 5").waitFor();
  await page.getByRole("button", { name: "Reset…" }).click();
  await page.getByRole("button", { name: "Keep" }).click();
  await page.getByText("5 of 5").waitFor();
  await page.getByRole("button", { name: "Reset…" }).click();
  await page.getByRole("button", { name: "Reset", exact: true }).click();
  await page.getByText("1 limit was reset.").waitFor();
  await page.getByText("0 of 5").waitFor();
  assert.match(server.log.join(""), /a key was reset/);
});

test("health tells of store, history and rule files", async () => {
  const page = await open("health?last=1h");
  for (const text of ["All is well.", "in this process' memory", "is written", "6 rules"]) await page.getByText(text).first().waitFor();
  const settings = page.getByRole("region", { name: "Settings" });
  await settings.getByText("TOLLGATE_DATA", { exact: true }).waitFor();
  const some = await settings.locator("tbody tr").count();
  await page.getByRole("button", { name: "Defaults, too" }).click();
  await until("all settings are listed", async () => (await settings.locator("tbody tr").count()) > some + 20);
});

test("a rule shows its limit of then, how close keys come to it, and how it came to be", async () => {
  const page = await open("rules/burst?last=1h");
  await page.getByText("the limit of one key then").waitFor();
  await until("the key that asked 30 times is over the limit", async () => (await page.locator(".histogram tbody tr").last().textContent()) === "more than 100 %1");
  assert.equal(await tile(page, "Keys that hit it").innerText(), "1");
  server.write(RULES.replace("name: burst, requests_per_unit: 20", "name: burst, requests_per_unit: 25"));
  const past = page.locator(".card", { hasText: "How it came to be" });
  await past.getByText("25 per minute, sliding log").waitFor();
  await past.getByText("20 per minute, sliding log").waitFor();
  await past.getByText(/loads of all rules/).click();
  await past.getByText("6 rules, 1 changed").waitFor();
});

test("what is wrong with a rule file is shown in place, and the rules from before stay", async () => {
  const page = await open("health?last=1h");
  server.write(RULES.replace("requests_per_unit: 100, unit: day", "requests_per_unit: lots, unit: day"));
  await page.getByText("The newest files were refused").waitFor();
  await page.getByText(/\d+ \|.*requests_per_unit: lots/).waitFor();
  server.write(RULES);
  await page.getByText("The newest files were refused").waitFor({ state: "detached" });
});

test("the playground has the server decide, and a drawing is a link", async () => {
  const page = await open("playground?limit=10&window=60&shape=edge");
  assert.equal(await page.locator(".lane").count(), 6);
  const most = (name) => page.locator("tbody tr", { hasText: name }).locator("td").last().innerText();
  assert.equal(await most("fixed window"), "20 of 10");
  assert.equal(await most("sliding log"), "10");
  const strip = page.getByRole("slider");
  await strip.focus();
  for (const key of ["ArrowRight", "ArrowUp", "ArrowUp", "ArrowUp"]) await page.keyboard.press(key);
  assert.match(page.url(), /shape=drawn&draw=03|draw=03/);
  await page.getByText("23 requests in 3 min").waitFor();
  await page.getByRole("button", { name: "An access log" }).click();
  await page.getByLabel(/Lines of an access log/).fill('a - - [01/Aug/1995:02:00:00 -0400] "GET / HTTP/1.0" 200 1\nb - - [01/Aug/1995:02:00:04 -0400] "GET / HTTP/1.0" 200 1\nnonsense');
  await page.getByText("1 of 3 lines have no time").waitFor();
  await page.getByText("2 requests in").waitFor();
});

test("periods without the store are listed, those next to each other as one", async () => {
  const page = await browser.page(server.base);
  const from = Math.floor(Date.now() / 60_000) * 60 - 3_600;
  const points = [0, 5, 7, 0, 0, 0, 3].map((n, i) => [from + i * 60, n]);
  // A Redis that goes away is no part of this test; what the server would say then is.
  const answer = { from, to: from + 3_600, step_s: 60, total: 15, partial_last: false, series: [{ name: "*", outcome: "degraded", total: 15, points }] };
  await page.route(/outcome=degraded/, (route) => route.fulfill({ json: answer }));
  await page.goto(`${server.base}/#/health?last=1h`);
  const rows = page.getByRole("region", { name: "Degraded periods" }).locator("tbody tr");
  await rows.first().waitFor();
  assert.deepEqual(await rows.evaluateAll((own) => own.map((row) => [...row.cells].slice(2).map((cell) => cell.innerText).join(" "))), ["1 min 3", "2 min 12"]);
  assert.equal(await page.locator(".timeline i").count(), 2);
});

test("nodes that share the store are listed, and calls are counted once", async () => {
  const page = await browser.page(server.base);
  await page.route(/v1\/health/, async (route) => {
    const answer = await (await route.fetch()).json();
    const node_list = [{ name: "web-2-0000beef", age_ms: 3_200, this: false }, { name: "web-1-0000cafe", age_ms: 0, this: true }];
    // Each bucket counts those before it, too: 98 of 100 calls within 256 µs, 99 within 512.
    const remote = { breaker_open: false, breaker_opened: 0, nodes: 2, node_list, requests: 100, degraded: 0, denials_remembered: 0, mean_us: 200, round_trips: [[256, 98], [512, 99], [null, 100]], failures: [] };
    await route.fulfill({ json: { ...answer, store: { ...answer.store, kind: "redis", remote } } });
  });
  await page.goto(`${server.base}/#/health?last=1h`);
  await page.getByText("2 nodes share the store").waitFor();
  const rows = page.getByRole("region", { name: "Nodes" }).locator("tbody tr");
  assert.deepEqual(await rows.allInnerTexts(), ["web-1-0000cafe this one\tnow", "web-2-0000beef\t3 s ago"]);
  await page.getByText("within 512 µs").waitFor();
});

test("penalties, lists and elastic limits are told where they matter", async () => {
  const own = await Server.start({ TOLLGATE_LOAD_HOST: "false" });
  try {
    own.write(BENDS);
    const page = await browser.page(own.base);
    await page.goto(`${own.base}/#/rules?last=1h`);
    const tags = (name) => page.locator("tr", { hasText: name }).locator(".tag").allInnerTexts();
    await page.getByText("3 rules").first().waitFor();
    assert.deepEqual([await tags("guesses"), await tags("renderings"), await tags("users")], [["penalty"], ["elastic"], ["allow list", "deny list"]]);
    await page.getByText("1 item meets no limit, 2 are always denied").waitFor();
    for (let n = 0; n < 6; n++) await own.check({ address: "192.0.2.7" }, "bends");
    await page.goto(`${own.base}/#/keys/address%3D192.0.2.7?domain=bends&last=1h`);
    await page.getByText("is blocked for").waitFor();
    await page.goto(`${own.base}/#/keys/user%3Dbot-1?domain=bends&last=1h`);
    await page.getByText("is denied: it is on a deny list").waitFor();
    await page.goto(`${own.base}/#/rules/guesses?last=1h`);
    await page.getByText("penalty: { after: 2, within: 1m, block: 10m, factor: 2, max: 1d }").waitFor();
    // The link takes the key that was denied most, once the history has it.
    await page.getByRole("link", { name: "address=192.0.2.7" }).waitFor();
    await page.getByRole("link", { name: "Explain a request" }).click();
    await page.getByText("It is denied; it passes in").waitFor();
    await page.getByText("Blocks: it was denied too often").waitFor();
    await page.getByLabel("Entries, in the order of the rules").fill("user=boss");
    await page.getByRole("button", { name: "Explain" }).click();
    await page.getByText("Not asked: an allow list has it.").waitFor();
    assert.deepEqual(await axe(page), []);
    await page.goto(`${own.base}/#/health?last=1h`);
    await page.getByText("Nothing reports a load").waitFor();
    await fetch(`${own.base}/v1/load`, { method: "POST", body: '{"load":0.25,"source":"autoscaler"}', headers: { "content-type": "application/json" } });
    await page.getByRole("region", { name: "Who reports the load" }).getByText("autoscaler").waitFor();
    assert.deepEqual(await axe(page), []);
  } finally {
    await own.end();
  }
});

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
    const page = await open(address);
    for (const scheme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme: scheme });
      await page.waitForFunction((wanted) => document.documentElement.dataset.theme === wanted, scheme);
      assert.deepEqual(await axe(page), [], scheme);
    }
    const bare = await page.locator("figure:not(:has(details table))").count();
    assert.equal(bare, 0, "every chart has its table");
    await page.setViewportSize({ width: 390, height: 900 });
    await page.waitForFunction(() => document.documentElement.scrollWidth <= innerWidth);
  });
}

test("a server that is gone and comes back is noticed", async () => {
  const page = await open("overview?last=1h", { mayFail: true });
  await server.stop();
  await page.getByText("The server does not answer.").waitFor();
  assert.ok((await tile(page, "Requests").innerText()) !== "", "what was there stays");
  await server.run();
  await page.getByText("The server does not answer.").waitFor({ state: "detached" });
});

test("with a token, nothing is shown before the sign-in", async () => {
  const closed = await Server.start({ TOLLGATE_ADMIN_TOKEN: "open sesame" });
  try {
    const page = await browser.page(closed.base, { mayFail: true });
    await page.goto(`${closed.base}/#/rules`);
    await page.getByLabel("Token").fill("guess");
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByText("this is not the token").waitFor();
    assert.deepEqual(await axe(page), []);
    await page.getByLabel("Token").fill("open sesame");
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByText("legacy-import").first().waitFor();
    assert.equal(await page.evaluate(() => document.cookie), "", "no script reads the cookie");
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByLabel("Token").waitFor();
  } finally {
    await closed.end();
  }
});

test("no page complained, and none asked another server", () => assert.deepEqual(browser.complaints, []));
