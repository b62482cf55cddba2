// Figures that would take minutes of a real outage: periods next to each other, and calls beyond every bound.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { transformWithOxc } from "vite";

const file = new URL("../src/figures.ts", import.meta.url);
const { code } = await transformWithOxc(readFileSync(file, "utf8"), "figures.ts");
const { percentile, periods } = await import(`data:text/javascript,${encodeURIComponent(code)}`);

test("degraded minutes next to each other are one period; a gap and a minute without any end it", () => {
  const at = [0, 60, 120, 180, 300, 360];
  assert.deepEqual(periods({ at, total: [0, 5, 7, null, 1, 2], stepS: 60 }), [{ from: 60, to: 180, requests: 12 }, { from: 300, to: 420, requests: 3 }]);
  assert.deepEqual(periods({ at: [0, 120], total: [1, 1], stepS: 60 }).length, 2, "nobody counted in between");
  assert.deepEqual(periods({ at: [], total: [], stepS: 60 }), []);
});

test("a percentile counts each call once, though each bucket counts those before it", () => {
  const calls = [[256, 98], [512, 99], [null, 100]];
  assert.deepEqual([0.5, 0.98, 0.99, 1].map((part) => percentile(calls, part)), [256, 256, 512, null]);
  assert.equal(percentile([[256, 0], [null, 0]], 0.99), undefined);
});
