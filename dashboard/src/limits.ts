// A rule in words, as YAML, and what its numbers of the past say about it.
import type { Rules } from "./api";
import { count, percent, span } from "./format";

export type Rule = Rules["rules"][number];

const NAMES: Record<string, string> = {
  fixed_window: "fixed window", sliding_log: "sliding log", sliding_counter: "sliding counter", sliding_buckets: "sliding buckets", token_bucket: "token bucket", leaky_bucket: "leaky bucket",
};

export const algorithmName = (name: string) => NAMES[name] ?? name;

/** 10 per minute, 500 per 2 hours. */
export function limitWords(rule: Rule): string {
  const window = rule.unit_multiplier === 1 ? rule.unit : span(rule.window_ms / 1000);
  const burst = rule.burst === undefined || rule.burst === rule.requests_per_unit ? "" : `, burst ${count(rule.burst)}`;
  return `${count(rule.requests_per_unit)} per ${window}${burst}`;
}

/** The limit as a rule file has it. */
export function yaml(rule: Rule): string {
  const lines = [`name: ${/^[\w.-]+$/.test(rule.name) ? rule.name : JSON.stringify(rule.name)}`, `algorithm: ${rule.algorithm}`, `requests_per_unit: ${rule.requests_per_unit}`, `unit: ${rule.unit}`];
  if (rule.unit_multiplier !== 1) lines.push(`unit_multiplier: ${rule.unit_multiplier}`);
  if (rule.burst !== undefined) lines.push(`burst: ${rule.burst}`);
  if (rule.refill !== undefined) lines.push(`refill: ${rule.refill}`);
  if (rule.buckets !== undefined) lines.push(`buckets: ${rule.buckets}`);
  if (rule.max_wait_ms !== undefined) lines.push(`max_wait: ${rule.max_wait_ms}ms`);
  if (rule.soft_percent > 0) lines.push(`throttle: { soft: { exceed: ${rule.soft_percent}% } }`);
  lines.push(`count_rejected: ${rule.count_rejected}`);
  return `rate_limit:\n${lines.map((line) => `  ${line}`).join("\n")}\n`;
}

export type RuleCounts = { total: number; denied: number; shadowDenied: number };
export type Finding = { text: string; level: "bad" | "note" | "good" };

/** More than this and a rule is said to deny a lot. */
const DENIES_MUCH = 0.1;

/** What the past says about a rule, most important first. */
export function finding(rule: Rule, counts: RuleCounts): Finding {
  const { total, denied, shadowDenied } = counts;
  if (total === 0) return { text: "never matched in this time", level: "note" };
  if (rule.mode.includes("shadow")) {
    if (shadowDenied === 0) return { text: "shadow: would have denied nothing", level: "good" };
    return { text: `shadow: would have denied ${count(shadowDenied)}, ${percent(shadowDenied, total)}`, level: "note" };
  }
  if (denied === 0) return { text: "never denied in this time", level: "note" };
  if (denied / total > DENIES_MUCH) return { text: `denies ${percent(denied, total)}: too strict, or abused?`, level: "bad" };
  return { text: `denies ${percent(denied, total)}`, level: "good" };
}
