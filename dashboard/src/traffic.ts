// Traffic for the playground: when requests come. Only that; what becomes of them the server says.

/** The strip that people draw on: this many columns over this many windows. */
export const COLUMNS = 60;
export const WINDOWS = 3;
/** The most requests that one column can have, and that the server takes in all. */
export const COLUMN_MAX = 35;
export const REQUESTS_MAX = 2_000;

export const SHAPES = {
  edge: "Burst at a window's edge",
  steady: "Steady",
  spikes: "Spikes",
  ramp: "Growing",
  drawn: "Drawn by hand",
  log: "An access log",
} as const;
export type ShapeName = keyof typeof SHAPES;

const fill = (of: (column: number) => number) => Array.from({ length: COLUMNS }, (_, i) => clamp(of(i)));
const clamp = (n: number) => Math.max(0, Math.min(COLUMN_MAX, Math.round(n)));
const PER_WINDOW = COLUMNS / WINDOWS;

/** The columns of a shape, for a limit of so many per window. */
export function columns(shape: ShapeName, limit: number): number[] {
  switch (shape) {
    case "steady": return fill((i) => Math.floor(((i + 1) * limit * 1.5) / PER_WINDOW) - Math.floor((i * limit * 1.5) / PER_WINDOW));
    case "spikes": return fill((i) => (i % 10 === 4 ? limit * 0.9 : 0));
    case "ramp": return fill((i) => Math.floor(((i + 1) ** 2 * limit) / (PER_WINDOW * COLUMNS / 2)) - Math.floor((i ** 2 * limit) / (PER_WINDOW * COLUMNS / 2)));
    default: return fill((i) => (i >= PER_WINDOW - 2 && i < PER_WINDOW + 2 ? limit / 2 : 0));
  }
}

/** Columns as a word for the address bar, and back. */
export const encode = (values: number[]) => values.map((n) => clamp(n).toString(36)).join("");
export const decode = (text: string) => fill((i) => parseInt(text[i] ?? "0", 36) || 0);

/** When the requests of columns come: evenly within each, in milliseconds. */
export function times(values: number[], windowMs: number): number[] {
  const width = (windowMs * WINDOWS) / COLUMNS;
  const at = values.flatMap((n, column) => Array.from({ length: n }, (_, i) => Math.floor((column + (i + 0.5) / n) * width)));
  return at.slice(0, REQUESTS_MAX);
}

const MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(" ");
const COMMON = /\[(\d{1,2})\/(\w{3})\/(\d{4}):(\d\d):(\d\d):(\d\d) ([+-])(\d\d)(\d\d)\]/;
const ISO = /\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?/;
const DAY_MS = 86_400_000;

function timeOf(line: string): number | undefined {
  const match = COMMON.exec(line);
  if (match) {
    const [, day, month, year, h, m, s, sign, zh, zm] = match;
    const offset = (Number(zh) * 60 + Number(zm)) * (sign === "-" ? -1 : 1);
    return Date.UTC(Number(year), MONTHS.indexOf(month ?? ""), Number(day), Number(h), Number(m) - offset, Number(s));
  }
  const iso = ISO.exec(line)?.[0];
  const at = iso === undefined ? NaN : Date.parse(iso.replace(" ", "T").replace(",", "."));
  return Number.isNaN(at) ? undefined : at;
}

/** The times in an access log, from its first; requests of one second are spread over it. */
export function logTimes(text: string): { at: number[]; lines: number; unread: number } {
  const lines = text.split("\n").filter((line) => line.trim() !== "");
  const found = lines.map(timeOf).filter((at): at is number => at !== undefined).sort((a, b) => a - b);
  const start = found[0] ?? 0;
  const perSecond = new Map<number, number>();
  for (const at of found) perSecond.set(at, (perSecond.get(at) ?? 0) + 1);
  const seen = new Map<number, number>();
  const at = found.map((own) => {
    const index = seen.get(own) ?? 0;
    seen.set(own, index + 1);
    return own - start + (own % 1000 === 0 ? Math.floor((1000 * index) / (perSecond.get(own) ?? 1)) : 0);
  });
  return { at: at.filter((own) => own <= DAY_MS).slice(0, REQUESTS_MAX), lines: lines.length, unread: lines.length - found.length };
}
