// Figures that the server's numbers make together. Nothing here knows the page or asks for anything, so that
// tests run it on cases that a real Redis does not bring about in seconds (`tests/figures.test.js`).

/** A time in which requests were let through without the store. */
export type Period = { from: number; to: number; requests: number };

/** Buckets next to each other in which there were any, as one period. */
export function periods({ at, total, stepS }: { at: number[]; total: (number | null)[]; stepS: number }): Period[] {
  const found: Period[] = [];
  at.forEach((from, i) => {
    const requests = total[i] ?? 0;
    if (requests === 0) return;
    const last = found.at(-1);
    if (last?.to === from) found[found.length - 1] = { ...last, to: from + stepS, requests: last.requests + requests };
    else found.push({ from, to: from + stepS, requests });
  });
  return found;
}

/** The bound below which that part of all lies: none if there are none, and null if it is beyond the last bound. Each bucket counts those before it, too. */
export function percentile(buckets: [number | null, number][], part: number): number | null | undefined {
  const all = buckets.at(-1)?.[1] ?? 0;
  return all === 0 ? undefined : (buckets.find(([, n]) => n >= all * part)?.[0] ?? null);
}
