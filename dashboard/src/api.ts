// Asks the server. The types come from its OpenAPI document, so that page and server cannot drift apart.
// Invariant: every answer that is not fine becomes an `ApiError` that says what happened and what to do.
import { signal } from "@preact/signals";
import type { BlockedKeys, Explanation, Health, HistorySeries, HistoryStatus, HistorySummary, HistoryTop, Key, Load, Path, Playground, PlaygroundRequest, Reset, RuleLog, Rules, RuleUsage, SettingsInForce } from "./generated/api";

export type { BlockedKeys, Explanation, Health, Load, Playground, HistorySeries, HistorySummary, HistoryTop, HistoryStatus, Key, RuleLog, Rules, RuleUsage, SettingsInForce };

/** Whether the server answers: every answer and every failure to reach it says so. */
export const isConnected = signal(true);
/** Whether the server wants to know who we are. */
export const isSignedOut = signal(false);
/** Whether it has ever wanted to, so that there is something to sign out of. */
export const wasSignedOut = signal(false);

export class ApiError extends Error {
  constructor(message: string, readonly fix: string, readonly status: number, readonly type: string) {
    super(message);
  }
}

/** What failed, as a value; but for a server that is away, which is everybody's problem. */
export function unlessAway(error: unknown): ApiError {
  if (error instanceof ApiError && error.status !== 0) return error;
  throw error;
}

type Query = Record<string, string | number | undefined>;

async function ask<T>(path: string, init: RequestInit, signal?: AbortSignal): Promise<T> {
  let response: Response;
  try {
    response = await fetch(path, { ...init, signal: signal ?? null, headers: { accept: "application/json", ...init.headers } });
  } catch (error) {
    if (signal?.aborted) throw error;
    isConnected.value = false;
    throw new ApiError("The server cannot be reached.", "Is it running? This page tries again by itself.", 0, "unreachable");
  }
  isConnected.value = true;
  if (response.status === 401) isSignedOut.value = wasSignedOut.value = true;
  const text = await response.text();
  if (!response.ok) throw failure(response.status, text);
  return (text === "" ? undefined : JSON.parse(text)) as T;
}

const SESSION = "/v1/session";

/** Sends the token; the answer brings a cookie. */
export const signIn = (token: string) => ask<void>(SESSION, { method: "POST", body: JSON.stringify({ token }), headers: { "content-type": "application/json" } });

/** Ends the session here and on the server. */
export async function signOut(): Promise<void> {
  await ask<void>(SESSION, { method: "DELETE" });
  isSignedOut.value = true;
}

/** What a problem+json answer says, in its own words. */
function failure(status: number, text: string): ApiError {
  try {
    const { title, detail, fix, type } = JSON.parse(text) as Record<string, string | undefined>;
    return new ApiError(detail ?? title ?? `The server answered ${status}.`, fix ?? "", status, type ?? "");
  } catch {
    return new ApiError(text.trim() === "" ? `The server answered ${status}.` : text.trim(), "", status, "");
  }
}

const pairs = (query: Query) => Object.entries(query).flatMap(([name, value]) => (value === undefined || value === "" ? [] : [[name, String(value)] as [string, string]]));

function address(path: Path, query: Query | [string, string][]): string {
  const text = new URLSearchParams(Array.isArray(query) ? query : pairs(query)).toString();
  return text === "" ? path : `${path}?${text}`;
}

const get = <T>(path: Path, query: Query | [string, string][], signal?: AbortSignal) => ask<T>(address(path, query), {}, signal);

export function post<T>(path: Path, body: unknown, signal?: AbortSignal): Promise<T> {
  return ask<T>(path, { method: "POST", body: JSON.stringify(body), headers: { "content-type": "application/json" } }, signal);
}

export type KeyRequest = { domain: string; descriptors: Record<string, string>[] };

export const api = {
  series: (query: Query, signal?: AbortSignal) => get<HistorySeries>("/v1/history/series", query, signal),
  /** Curves of several names in one answer. */
  seriesOf: (names: string[], query: Query, signal?: AbortSignal) => get<HistorySeries>("/v1/history/series", [...pairs(query), ...names.map((name) => ["name", name] as [string, string])], signal),
  top: (query: Query, signal?: AbortSignal) => get<HistoryTop>("/v1/history/top", query, signal),
  summary: (query: Query, signal?: AbortSignal) => get<HistorySummary>("/v1/history/summary", query, signal),
  status: (signal?: AbortSignal) => get<HistoryStatus>("/v1/history/status", {}, signal),
  rules: (signal?: AbortSignal) => get<Rules>("/v1/rules", {}, signal),
  ruleLog: (query: Query, signal?: AbortSignal) => get<RuleLog>("/v1/rules/log", query, signal),
  ruleUsage: (query: Query, signal?: AbortSignal) => get<RuleUsage>("/v1/rules/usage", query, signal),
  settings: (signal?: AbortSignal) => get<SettingsInForce>("/v1/settings", {}, signal),
  load: (signal?: AbortSignal) => get<Load>("/v1/load", {}, signal),
  explain: (request: KeyRequest, signal?: AbortSignal) => post<Explanation>("/v1/explain", request, signal),
  health: (signal?: AbortSignal) => get<Health>("/v1/health", {}, signal),
  playground: (request: PlaygroundRequest, signal?: AbortSignal) => post<Playground>("/v1/playground", request, signal),
  key: (request: KeyRequest, signal?: AbortSignal) => post<Key>("/v1/keys", request, signal),
  blocked: (query: Query, signal?: AbortSignal) => get<BlockedKeys>("/v1/keys/blocked", query, signal),
  reset: (request: KeyRequest) => post<Reset>("/v1/keys/reset", request),
};
