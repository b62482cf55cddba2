// The time that is looked at: the last so long, or from one instant to another.
import { computed } from "@preact/signals";
import { param, setParams } from "./location";

export const PRESETS = ["15m", "1h", "6h", "24h", "7d", "30d", "90d", "1y", "2y"] as const;
const NAMES: Record<string, string> = {
  "15m": "15 min", "1h": "1 hour", "6h": "6 hours", "24h": "24 hours", "7d": "7 days", "30d": "30 days", "90d": "90 days", "1y": "1 year", "2y": "2 years",
};
const LENGTHS: Record<string, number> = { s: 1, m: 60, h: 3_600, d: 86_400, w: 604_800, y: 31_536_000 };
const DEFAULT = "24h";

export const presetName = (preset: string) => NAMES[preset] ?? preset;

export type Range = { last: string; lengthS: number } | { from: number; to: number; lengthS: number };

export function spanSeconds(text: string): number | undefined {
  const match = /^(\d{1,6})([smhdwy])$/.exec(text);
  const unit = match?.[2] && LENGTHS[match[2]];
  return match && unit ? Number(match[1]) * unit : undefined;
}

export const range = computed<Range>(() => {
  const [from, to] = [Number(param("from")), Number(param("to"))];
  if (from > 0 && to > from) return { from, to, lengthS: to - from };
  const last = spanSeconds(param("last")) ? param("last") : DEFAULT;
  return { last, lengthS: spanSeconds(last) ?? 86_400 };
});

/** Whether it ends now, so that it moves on. */
export const isLive = computed(() => "last" in range.value);

/** The parameters of a query to the server; `back` periods earlier. */
export function query(back = 0): Record<string, string> {
  const own = range.value;
  if ("last" in own) {
    if (back === 0) return { last: own.last };
    return { from: `now-${own.lengthS * (back + 1)}s`, to: `now-${own.lengthS * back}s` };
  }
  return { from: String(own.from - back * own.lengthS), to: String(own.to - back * own.lengthS) };
}

export const setLast = (last: string) => setParams({ last, from: "", to: "" });

export function setSpan(from: number, to: number): void {
  const [start, end] = [Math.floor(from), Math.ceil(to)];
  if (end - start >= 60) setParams({ from: String(start), to: String(end), last: "" });
}

/** Moves by a part of the range, or makes it so much longer around its middle. */
export function move(by: number, zoom = 1): void {
  const own = range.value;
  const now = Math.floor(Date.now() / 1000);
  const [from, to] = "last" in own ? [now - own.lengthS, now] : [own.from, own.to];
  const middle = (from + to) / 2 + by * own.lengthS;
  const half = Math.min(own.lengthS * zoom, 2 * LENGTHS.y!) / 2;
  const end = Math.min(middle + half, now);
  setSpan(end - 2 * half, end);
}
