// What people do on the dashboard, in a real browser over a real server: every page, with the NASA log and live traffic.
import assert from "node:assert/strict";
import { after, afterEach, before, test } from "node:test";
import { Browser, HOSTILE, NASA, RULES, Server, opener, refreshed, tile, traffic, until } from "./support.js";

let server;
let browser;
let open;

before(async () => {
  [server, browser] = await Promise.all([Server.start(), Browser.start()]);
  open = opener(browser, server);
  await traffic(server);
});

after(async () => {
  await browser?.end();
  await server?.end();
});

// An open page goes on asking.
afterEach(() => browser.closePages());

test("a day of the NASA log is shown whole, by a link", async () => {
  const page = await open(`overview?${NASA}`);
  assert.equal(await tile(page, "Requests").innerText(), server.imported.toLocaleString("en"));
  await page.getByText(/one bar: /).waitFor();
  await page.locator("table", { hasText: "/images/NASA-logosmall.gif" }).first().waitFor();
  const bars = (807_408_000 - 807_148_800) / 1_800;
  assert.equal(await page.locator("figcaption .when").innerText(), "one bar: 30 min");
  const counted = await page.locator("figure details tbody tr").count();
  assert.ok(counted > 20 && counted < bars / 2, `nobody counted outside of that day, but ${counted} of ${bars} bars are there`);
  await page.getByRole("button", { name: "Period before" }).click();
  await page.locator("figcaption").getByText("period before").waitFor();
  assert.match(page.url(), /compare=1/);
  await page.goto(`${server.base}/#/routes?${NASA}`);
  await until("every route in sight has its curve", async () => (await page.locator("svg.spark path:not([d=''])").count()) === 20);
});

test("the overview moves on by itself", async () => {
  const page = await open("overview?last=1h");
  const total = async () => Number((await tile(page, "Requests").innerText()).replaceAll(",", ""));
  const start = await total();
  for (let n = 0; n < 7; n++) await server.check({ path: "/live" });
  await until("seven more are shown", async () => {
    await page.clock.fastForward(6_000);
    return (await total()) >= start + 7;
  });
  await page.getByText("the hatched bar is still open").waitFor();
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
  const local = Number(/from=(\d+)/.exec(page.url())[1]);
  // In UTC the same words are another time; the browser is in Berlin.
  await page.getByRole("button", { name: "UTC" }).click();
  await page.getByRole("button", { name: /–/ }).first().click();
  assert.equal(await page.getByLabel("From, UTC").inputValue(), "1995-08-01T04:00");
  await page.getByLabel("From, UTC").fill("1995-08-01T06:00");
  await page.getByRole("button", { name: "Show" }).click();
  assert.equal(Number(/from=(\d+)/.exec(page.url())[1]), local + 7_200);
});

test("routes are sorted, filtered, paged and opened", async () => {
  const page = await open("routes?last=1h");
  await page.getByText(/\d+ routes/).first().waitFor();
  const names = () => page.getByRole("region", { name: "Routes" }).locator("tbody td:first-child").allInnerTexts();
  assert.equal((await names())[0], "/cart", "the busiest first");
  await until("there is room for the curves", async () => (await page.locator("svg.spark").count()) === 20);
  await page.getByRole("button", { name: "Route", exact: true }).click();
  await until("they are sorted by name", async () => (await names())[0] === "/<img src=x onerror=window.hacked=1>");
  await page.locator("th[aria-sort=ascending]").getByText("Route").waitFor();
  await page.getByRole("button", { name: "Requests", exact: true }).click();
  await until("the busiest are first again", async () => (await names())[0] === "/cart");
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
  await page.setViewportSize({ width: 390, height: 900 });
  await page.waitForFunction(() => document.documentElement.scrollWidth <= innerWidth);
  assert.equal(await page.evaluate(() => window.hacked), undefined);
  assert.equal(await page.locator("main script, main img[onerror]").count(), 0);
});

test("rules say what they do", async () => {
  const page = await open("rules?last=1h");
  const row = (name) => page.locator("tr", { hasText: name }).locator("td").nth(3);
  await page.locator("tr", { hasText: "shop.login" }).locator("td").nth(4).getByText("1 of 1").waitFor();
  await row("login").getByText(/denies .*\s%: too strict, or abused\?/).waitFor();
  await row("new-plan").getByText(/shadow: would have denied \d+/).waitFor();
  await row("legacy-import").getByText("never matched").waitFor();
  await row("sustained").getByText("never denied").waitFor();
  await page.getByRole("link", { name: "login", exact: true }).click();
  await page.getByText("algorithm: sliding_log").waitFor();
  await page.getByRole("link", { name: "login=mallory" }).waitFor();
});

test("a key is looked up, and reset after a question", async () => {
  const page = await open("keys?last=1h");
  const rows = page.getByRole("region", { name: "Keys" }).locator("tbody tr");
  await rows.first().getByText("login=mallory").waitFor();
  await page.getByRole("button", { name: "Busiest" }).click();
  // A key under two rules is two rows.
  await until("the busiest keys are listed", async () => (await rows.filter({ hasText: "user_id=42" }).count()) === 2);
  await page.getByLabel("Only of a rule").selectOption("burst");
  await until("only one rule's keys are listed", async () => (await rows.allInnerTexts()).every((text) => text.includes("burst")));
  assert.match(page.url(), /rule=burst/);
  for (let n = 0; n < 7; n++) await server.check({ login: "eve" });
  await page.getByLabel("Entries, in the order of the rules").fill("login=eve");
  await page.getByRole("button", { name: "Look up" }).click();
  await page.getByText("5 of 5").waitFor();
  await page.getByRole("button", { name: "Reset…" }).click();
  await page.getByRole("button", { name: "Keep" }).click();
  await page.getByText("5 of 5").waitFor();
  await page.getByRole("button", { name: "Reset…" }).click();
  await page.getByRole("button", { name: "Reset", exact: true }).click();
  await page.getByText("1 counter was reset.").waitFor();
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
  await refreshed(page, past.getByText("25 per minute, sliding log"));
  await past.getByText("20 per minute, sliding log").waitFor();
  await past.getByText(/loads of all rules/).click();
  await past.getByText("6 rules, 1 changed").waitFor();
});

test("what is wrong with a rule file is shown in place, and the rules from before stay", async () => {
  const page = await open("health?last=1h");
  server.write(RULES.replace("requests_per_unit: 100, unit: day", "requests_per_unit: lots, unit: day"));
  await refreshed(page, page.getByText("The newest files were refused"));
  await page.getByRole("alert").getByText("The newest rule files were refused.").waitFor();
  await page.getByText(/\d+ \|.*requests_per_unit: lots/).waitFor();
  server.write(RULES);
  await refreshed(page, page.getByText("The newest files were refused"), false);
  await page.getByText("All is well.").waitFor();
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
  const box = await strip.boundingBox();
  await page.mouse.move(box.x + box.width * 0.9, box.y + box.height - 2);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.9, box.y + box.height / 2, { steps: 3 });
  await page.mouse.up();
  await page.getByText(/^(2[4-9]|3\d) requests in 3 min$/).waitFor();
  for (const [shape, text] of [["Steady", /^4\d requests/], ["Spikes", /^54 requests/]]) {
    await page.getByRole("button", { name: shape }).click();
    await page.getByText(text).waitFor();
  }
  await page.getByRole("button", { name: "An access log" }).click();
  await page.getByLabel(/Lines of an access log/).fill('a - - [01/Aug/1995:02:00:00 -0400] "GET / HTTP/1.0" 200 1\nb - - [01/Aug/1995:02:00:04 -0400] "GET / HTTP/1.0" 200 1\nnonsense');
  await page.getByText("1 of 3 lines have no time").waitFor();
  await page.getByText("2 requests in").waitFor();
});

test("no page complained, and none asked another server", () => assert.deepEqual(browser.complaints, []));
