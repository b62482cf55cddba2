// A rule in words, as YAML, and as a line over time. What its past says about it is found by the server.
import type { RuleLog, Rules } from "./api";
import type { LimitLine } from "./chart";
import { count, span } from "./format";

export type Rule = Rules["rules"][number];
type LimitNumbers = Pick<Rule, "requests_per_unit" | "unit" | "unit_multiplier" | "window_ms" | "burst">;

const NAMES: Record<string, string> = {
  fixed_window: "fixed window", sliding_log: "sliding log", sliding_counter: "sliding counter", sliding_buckets: "sliding buckets", token_bucket: "token bucket", leaky_bucket: "leaky bucket",
};

export const algorithmName = (name: string) => NAMES[name] ?? name;

/** 10 per minute, 500 per 2 hours. */
export function limitWords(limit: LimitNumbers): string {
  const window = limit.unit_multiplier === 1 ? limit.unit : span(limit.window_ms / 1000);
  const burst = limit.burst === undefined || limit.burst === limit.requests_per_unit ? "" : `, burst ${count(limit.burst)}`;
  return `${count(limit.requests_per_unit)} per ${window}${burst}`;
}

/** What the limits of then let one key have in one bar; nothing where a bar is shorter than a window. */
export function limitLine(changes: RuleLog["changes"], rule: Rule, stepS: number): LimitLine | undefined {
  const inBar = (limit: LimitNumbers) => (stepS * 1000 >= limit.window_ms ? (limit.requests_per_unit * stepS * 1000) / limit.window_ms : null);
  const known = changes.length > 0 ? changes : [{ at_unix_s: 0, limit: rule }];
  const steps = known.map((change) => ({ from: change.at_unix_s, at: change.limit === undefined ? null : inBar(change.limit) }));
  return steps.some((step) => step.at !== null) ? { steps, name: "the limit of one key then" } : undefined;
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
