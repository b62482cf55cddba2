// Numbers, spans and times as people read them; and text from strangers made safe to look at.
// Invariant: nothing here makes HTML. What comes back is text, and Preact escapes it.
import { signal } from "@preact/signals";

/** Times in UTC instead of the viewer's zone. */
export const utc = signal(false);

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const few = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });

/** 1,234,567; from ten million on 12.3 M. */
export function count(n: number): string {
  if (Math.abs(n) >= 1e10) return `${few.format(n / 1e9)} G`;
  if (Math.abs(n) >= 1e7) return `${few.format(n / 1e6)} M`;
  return whole.format(n);
}

/** Words of the server with thousands in their numbers, and no line that begins with a percent sign. */
export const thousands = (text: string) => text.replace(/\b\d{4,15}\b/g, (digits) => count(Number(digits))).replaceAll(" %", "\u00a0%");

/** For axes, where room is short: 1.5k, 2M. */
export function short(n: number): string {
  const [unit, letter] = Math.abs(n) >= 1e9 ? [1e9, "G"] : Math.abs(n) >= 1e6 ? [1e6, "M"] : Math.abs(n) >= 1e3 ? [1e3, "k"] : [1, ""];
  return few.format(n / unit) + letter;
}

export const rate = (n: number) => (n > 0 && n < 0.01 ? "<0.01" : (n >= 100 ? whole : few).format(n));

export function percent(part: number, all: number): string {
  if (all === 0) return "–";
  const value = (100 * part) / all;
  if (value === 0 || value === 100) return `${value} %`;
  // Cut as the server cuts it, so that 99.97 % is not 100.
  const digits = value < 1 ? 2 : 1;
  return value < 0.01 ? "<0.01 %" : `${(Math.floor(value * 10 ** digits) / 10 ** digits).toFixed(digits)} %`;
}

/** The change from one number to another, as +12 %. */
export function change(now: number, before: number): string {
  if (before === 0) return now === 0 ? "as before" : "new";
  const value = (100 * (now - before)) / before;
  if (Math.abs(value) < 0.5) return "as before";
  return value >= 1000 ? `×${few.format(now / before)}` : `${value > 0 ? "+" : "−"}${Math.abs(value).toFixed(0)} %`;
}

const UNITS: [string, number][] = [["d", 86_400], ["h", 3_600], ["min", 60], ["s", 1]];

/** 90 → 1 min 30 s; never more than two units. */
export function span(seconds: number): string {
  if (seconds < 1) return seconds === 0 ? "0 s" : `${Math.max(1, Math.round(seconds * 1000))} ms`;
  const parts: string[] = [];
  let rest = Math.round(seconds);
  for (const [name, length] of UNITS) {
    const n = Math.floor(rest / length);
    if (n > 0) parts.push(`${n} ${name}`);
    rest -= n * length;
    if (parts.length === 2) break;
  }
  return parts.join(" ");
}

export function bytes(n: number): string {
  const unit = n >= 1e9 ? 1e9 : n >= 1e6 ? 1e6 : n >= 1e3 ? 1e3 : 1;
  return `${few.format(n / unit)} ${{ 1e9: "GB", 1e6: "MB", 1e3: "kB", 1: "B" }[unit]}`;
}

/** Formats that were made: to make one takes a hundred times as long as to use it, and a chart's table has hundreds of times. */
const formats = new Map<string, Intl.DateTimeFormat>();

export function time(s: number, options: Intl.DateTimeFormatOptions = { dateStyle: "medium", timeStyle: "short" }): string {
  const name = `${utc.value} ${JSON.stringify(options)}`;
  let format = formats.get(name);
  if (!format) formats.set(name, (format = new Intl.DateTimeFormat("en-GB", { ...options, timeZone: utc.value ? "UTC" : undefined })));
  return format.format(s * 1000);
}

/** A time with as much of it as a range of that length needs. */
export function timeIn(rangeS: number, s: number): string {
  if (rangeS <= 2 * 86_400) return time(s, { hour: "2-digit", minute: "2-digit" });
  if (rangeS <= 90 * 86_400) return time(s, { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });
  return time(s, { day: "numeric", month: "short", year: "numeric" });
}

export const capital = (text: string) => text.charAt(0).toUpperCase() + text.slice(1);

/** Words of the server as a sentence; an address stays as it is. */
export const sentence = (text: string) => (/^\S+:\/\//.test(text) ? text : capital(text)) + (/[.?!]$/.test(text) ? "" : ".");

const NAME_MAX = 120;

/** Text from strangers: control characters and marks that turn text around made visible, and cut. */
export function visible(text: string, max = NAME_MAX): string {
  const shown = text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cn}]/gu, (c) => `\\u{${(c.codePointAt(0) ?? 0).toString(16)}}`);
  if (shown.length <= max) return shown;
  const head = Math.ceil(max * 0.7);
  return `${shown.slice(0, head)}…${shown.slice(-(max - head))}`;
}
