// The outcomes of a decision: one colour, one word and one place in the stack each.
export const OUTCOMES = ["allowed", "soft", "delayed", "degraded", "shadow_denied", "denied"] as const;
export type Outcome = (typeof OUTCOMES)[number];

export const OUTCOME_WORDS: Record<Outcome, { name: string; help: string }> = {
  allowed: { name: "allowed", help: "within the limit" },
  soft: { name: "soft", help: "over a soft limit, and let through" },
  delayed: { name: "delayed", help: "let through after a wait" },
  degraded: { name: "degraded", help: "let through because the store could not be asked" },
  shadow_denied: { name: "shadow denied", help: "a rule in shadow mode would have denied it" },
  denied: { name: "denied", help: "over the limit" },
};
