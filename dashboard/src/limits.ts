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

/** 90 s as a rule file writes it: `90s`, `10m`. */
function spanText(ms: number): string {
  const unit = ([["d", 86_400_000], ["h", 3_600_000], ["m", 60_000], ["s", 1_000]] as const).find(([, length]) => ms % length === 0);
  return unit ? `${ms / unit[1]}${unit[0]}` : `${ms}ms`;
}

/** What else a limit does, in a word for its tag and in a sentence. */
export function extras(rule: Rule): { tag: string; text: string }[] {
  const found: { tag: string; text: string }[] = [];
  const { penalty, elastic, lists } = rule;
  if (rule.mode !== "enforce") found.push({ tag: rule.mode.replace("_", " "), text: MODES[rule.mode] ?? "" });
  if (penalty) found.push({ tag: "penalty", text: `${count(penalty.after)} denials within ${span(penalty.within_ms / 1000)} block a key for ${span(penalty.block_ms / 1000)}${penalty.factor > 1 ? `, then each time ${penalty.factor} times as long, at most ${span(penalty.max_ms / 1000)}` : ""}.` });
  if (elastic) found.push({ tag: "elastic", text: `While the load is below ${elastic.below_load_percent} %, ${elastic.exceed_percent} % more pass, and count as soft.` });
  if (rule.soft_percent > 0) found.push({ tag: "soft", text: `${rule.soft_percent} % more pass, and count as soft.` });
  if (rule.over_limit === "defer") found.push({ tag: "defers", text: "What is over the limit is taken with 202 and sent later, where the gateway is asked." });
  if (lists && lists.allow > 0) found.push({ tag: "allow list", text: `${count(lists.allow)} ${lists.allow === 1 ? "item" : "items"} on its allow list: this limit does not count them.` });
  if (lists && lists.deny > 0) found.push({ tag: "deny list", text: `${count(lists.deny)} ${lists.deny === 1 ? "item" : "items"} on its deny list: always denied.` });
  return found;
}

const MODES: Record<string, string> = {
  shadow: "Shadow: it counts, and denies nobody.", quota: "Quota: a request is denied only if all of its quotas deny it.", shadow_quota: "Quota in shadow mode: it counts, and denies nobody.",
};

/** The limit as a rule file has it. */
export function yaml(rule: Rule): string {
  const lines = [`name: ${/^[\w.-]+$/.test(rule.name) ? rule.name : JSON.stringify(rule.name)}`, `algorithm: ${rule.algorithm}`, `requests_per_unit: ${rule.requests_per_unit}`, `unit: ${rule.unit}`];
  if (rule.unit_multiplier !== 1) lines.push(`unit_multiplier: ${rule.unit_multiplier}`);
  if (rule.burst !== undefined) lines.push(`burst: ${rule.burst}`);
  if (rule.refill !== undefined) lines.push(`refill: ${rule.refill}`);
  if (rule.buckets !== undefined) lines.push(`buckets: ${rule.buckets}`);
  if (rule.max_wait_ms !== undefined) lines.push(`max_wait: ${rule.max_wait_ms}ms`);
  const throttle = [...(rule.soft_percent > 0 ? [`soft: { exceed: ${rule.soft_percent}% }`] : []), ...(rule.elastic ? [`elastic: { exceed: ${rule.elastic.exceed_percent}%, below_load: ${rule.elastic.below_load_percent}% }`] : [])];
  if (throttle.length > 0) lines.push(`throttle: { ${throttle.join(", ")} }`);
  if (rule.over_limit !== "deny") lines.push(`over_limit: ${rule.over_limit}`);
  if (rule.penalty) lines.push(`penalty: { after: ${rule.penalty.after}, within: ${spanText(rule.penalty.within_ms)}, block: ${spanText(rule.penalty.block_ms)}${rule.penalty.factor > 1 ? `, factor: ${rule.penalty.factor}, max: ${spanText(rule.penalty.max_ms)}` : ""} }`);
  lines.push(`count_rejected: ${rule.count_rejected}`);
  if (rule.mode !== "enforce") lines.push(`# mode: ${rule.mode.replace("_", " ")}`);
  for (const [name, items] of [["allow", rule.lists?.allow ?? 0], ["deny", rule.lists?.deny ?? 0]] as const) if (items > 0) lines.push(`# ${name}: ${count(items)} ${items === 1 ? "item" : "items"}, in the rule file`);
  return `rate_limit:\n${lines.map((line) => `  ${line}`).join("\n")}\n`;
}
