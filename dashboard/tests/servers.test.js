// Servers that are not as usual: with penalties, without their Redis, without traffic or history, behind a token, gone.
import assert from "node:assert/strict";
import { after, afterEach, before, test } from "node:test";
import { BENDS, Browser, RULES, Redis, Server, axe, opener, refreshed, tile, until } from "./support.js";

let browser;

before(async () => {
  browser = await Browser.start();
});

after(() => browser?.end());

afterEach(() => browser.closePages());

/** Runs with a server of its own. */
async function withServer(environment, run, rules) {
  const server = await Server.start(environment, null, rules);
  try {
    await run(server, opener(browser, server));
  } finally {
    await browser.closePages();
    await server.end();
  }
}

test("penalties, lists and elastic limits are told where they matter", () => withServer({ TOLLGATE_LOAD_HOST: "false" }, async (server, open) => {
  for (let n = 0; n < 6; n++) await server.check({ address: "192.0.2.7" }, "bends");
  const page = await open("rules?last=1h");
  const go = (address) => page.goto(`${server.base}/#/${address}`);
  const tags = (name) => page.locator("tr", { hasText: name }).locator(".tag").allInnerTexts();
  await page.getByText("3 rules").first().waitFor();
  assert.deepEqual([await tags("guesses"), await tags("renderings"), await tags("users")], [["penalty"], ["elastic"], ["allow list", "deny list"]]);
  await page.getByText("1 item meets no limit, 2 are always denied").waitFor();
  await go("keys/user%3Dbot-1?domain=bends&last=1h");
  await page.getByText("is denied: it is on a deny list").waitFor();
  await go("rules/guesses?last=1h");
  await page.getByText("penalty: { after: 2, within: 1m, block: 10m, factor: 2, max: 1d }").waitFor();
  // The link takes the key that was denied most, once the history has it.
  await refreshed(page, page.getByRole("link", { name: "address=192.0.2.7" }));
  await page.getByRole("link", { name: "Explain a request" }).click();
  await page.getByText("It is denied; it passes in").waitFor();
  await page.getByText("Blocks: it was denied too often").waitFor();
  await page.getByLabel("Entries, in the order of the rules").fill("user=boss");
  await page.getByRole("button", { name: "Explain" }).click();
  await page.getByText("Not asked: an allow list has it.").waitFor();
  assert.deepEqual(await axe(page), []);
  await go("health?last=1h");
  await page.getByText("Nothing reports a load").waitFor();
  await fetch(`${server.base}/v1/load`, { method: "POST", body: '{"load":0.25,"source":"autoscaler"}', headers: { "content-type": "application/json" } });
  await refreshed(page, page.getByRole("region", { name: "Who reports the load" }).getByText("autoscaler"));
  assert.deepEqual(await axe(page), []);
}, BENDS));

test("who is blocked is listed, until it is reset", () => withServer({}, async (server, open) => {
  const page = await open("keys?last=1h");
  await page.getByText("Nobody, as far as this server has met the penalty of its rules.").waitFor();
  for (let n = 0; n < 5; n++) await server.check({ address: "192.0.2.7" }, "bends");
  const rows = page.getByRole("region", { name: "Blocked keys" }).locator("tbody tr");
  await refreshed(page, rows);
  assert.match(await rows.innerText(), /^address=192\.0\.2\.7\s+guesses\s+bends\s+[\d:]+\s+2\s+([1-9] min( \d+ s)?|10 min)$/);
  assert.deepEqual(await axe(page), []);
  await rows.getByRole("link", { name: "address=192.0.2.7" }).click();
  await page.getByText("is blocked for").waitFor();
  await page.getByRole("button", { name: "Reset…" }).click();
  await page.getByRole("button", { name: "Reset", exact: true }).click();
  // The limit and its penalty.
  await page.getByText("2 counters were reset.").waitFor();
  await page.getByRole("link", { name: "All keys" }).click();
  await page.getByText("Nobody, as far as").waitFor();
  // The rules of the one domain deny this, those of the other that.
  for (let n = 0; n < 7; n++) await server.check({ login: "eve" });
  const keys = page.getByRole("region", { name: "Keys", exact: true }).locator("tbody tr");
  const domains = async (wanted) => (await keys.locator("td:nth-child(3)").allInnerTexts()).sort().join() === wanted;
  await refreshed(page, keys.getByText("login=eve"));
  await until("both domains are listed", () => domains("bends,shop"));
  await page.getByLabel("Only of a domain").selectOption("shop");
  await until("only one domain's keys are listed", () => domains("shop"));
  assert.match(page.url(), /domain=shop/);
  await page.getByText("Blocked now").waitFor({ state: "hidden" });
  assert.deepEqual((await page.getByLabel("Only of a rule").locator("option").allInnerTexts()).slice(0, 3), ["All rules", "burst", "legacy-import"]);
  await page.getByLabel("Only of a domain").selectOption("bends");
  await until("only the other's", () => domains("bends"));
}, [BENDS, RULES]));

test("two servers on one Redis know of each other; without it they say so in red, and when that was", async () => {
  const redis = await Redis.start();
  const environment = { REDIS_URL: `127.0.0.1:${redis.port}`, REDIS_TIMEOUT: "500ms" };
  const first = await Server.start(environment, null);
  await withServer(environment, async (server, open) => {
    await server.check({ user_id: "42" });
    const page = await open("health?last=1h", { mayFail: true });
    await page.getByText("All is well.").waitFor();
    await refreshed(page, page.getByText("2 nodes share the store"));
    await page.getByText("on Redis").waitFor();
    const nodes = page.getByRole("region", { name: "Nodes" }).locator("tbody tr");
    assert.match((await nodes.allInnerTexts()).join("\n"), /^\S+ this one\tnow\n\S+\t(now|\d+ s ago)$/);
    await refreshed(page, page.getByText(/within [\d,]+ µs|more than the longest/));
    await redis.stop();
    const banner = page.locator(".notice.bad[role=alert]").first();
    await refreshed(page, banner.getByText("The store does not answer"));
    await page.getByText("does not answer", { exact: true }).waitFor();
    assert.deepEqual(await axe(page), []);
    for (let n = 0; n < 3; n++) assert.equal(await server.check({ user_id: "42" }), 200, "limiting goes on");
    await redis.run();
    await refreshed(page, page.getByText("All is well."));
    // The history is on that Redis, too, and takes what was decided meanwhile.
    const periods = page.getByRole("region", { name: "Degraded periods" }).locator("tbody tr");
    await refreshed(page, periods);
    const degraded = () => periods.evaluateAll((rows) => rows.reduce((sum, row) => sum + Number(row.cells[3].innerText), 0));
    // On a busy machine a call before the outage may have taken too long, and counts, too.
    await until("all that was decided without the store is counted", async () => {
      await page.clock.fastForward(6_000);
      return (await degraded()) >= 3;
    });
    assert.equal(await page.locator(".timeline i").count(), await periods.count());
  }).finally(() => first.end()).finally(() => redis.stop());
});

test("without traffic there is a command to send some, and without history how to turn it on", () => withServer({}, async (server, open) => {
  const page = await open("overview");
  const command = page.locator("pre", { hasText: "/v1/check" });
  await command.waitFor();
  const [, address, body] = /^curl -i (\S+) -d '(.+)'$/.exec(await command.innerText());
  const answer = await fetch(address, { method: "POST", body, headers: { "content-type": "application/x-www-form-urlencoded" } });
  assert.equal(answer.status, 200, "the command works as it stands");
  await refreshed(page, page.getByText("Busiest routes"));
  assert.equal(await tile(page, "Requests").innerText(), "1");
  await withServer({ TOLLGATE_HISTORY: "false" }, async (off, openOff) => {
    for (const address of ["overview", "routes", "keys", "rules", "keys/user_id%3D42?domain=shop"]) {
      const other = await openOff(address, { mayFail: true });
      await other.getByText("history.enabled: true").first().waitFor();
      assert.deepEqual(await axe(other), [], address);
    }
  });
}));

test("a server that is gone and comes back is noticed", () => withServer({}, async (server, open) => {
  await server.check({ path: "/cart" });
  const page = await open("overview?last=1h", { mayFail: true });
  await refreshed(page, page.getByText("Busiest routes"));
  await server.stop();
  await refreshed(page, page.getByText("The server does not answer."));
  assert.equal(await tile(page, "Requests").innerText(), "1", "what was there stays");
  await server.run();
  await refreshed(page, page.getByText("The server does not answer."), false);
}));

test("with a token, nothing is shown before the sign-in", () => withServer({ TOLLGATE_ADMIN_TOKEN: "open sesame" }, async (server) => {
  const page = await browser.page(server.base, { mayFail: true });
  await page.goto(`${server.base}/#/rules`);
  await page.getByLabel("Token").fill("guess");
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByText("this is not the token").waitFor();
  assert.deepEqual(await axe(page), []);
  await page.getByLabel("Token").fill("open sesame");
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByText("legacy-import").first().waitFor();
  assert.equal(await page.evaluate(() => document.cookie), "", "no script reads the cookie");
  await page.goto(`${server.base}/#/health?settings=all`);
  await page.getByRole("region", { name: "Settings" }).getByText("(hidden)").first().waitFor();
  assert.ok(!(await page.content()).includes("open sesame"), "the token is shown nowhere");
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByLabel("Token").waitFor();
}));

test("no page complained, and none asked another server", () => assert.deepEqual(browser.complaints, []));
