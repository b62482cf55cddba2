// Small parts that every page uses: names from strangers, tiles, errors and empty states.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import type { ApiError } from "../api";
import { change, visible } from "../format";
import { OUTCOME_WORDS, type Outcome } from "../outcomes";

/** A name that somebody else chose, as text. The whole of it, within reason, is in the title. */
export function Name({ text, max }: { text: string; max?: number }) {
  // A key is broken between its entries, if it has to be.
  const parts = visible(text, max).split(/(?<=,)/);
  return <bdi class="mono" title={visible(text, 1_000)}>{text === "" ? <span class="dim">(empty)</span> : parts.map((part, i) => [i > 0 && <wbr />, part])}</bdi>;
}

export function Dot({ outcome }: { outcome: Outcome }) {
  return <i class={`dot outcome-${outcome}`} title={OUTCOME_WORDS[outcome].help} />;
}

const CHANGES: Record<string, string> = { "as before": "as in the period before", new: "none in the period before" };

/** A number with its change against the period before. `isBad` says whether more is worse. */
export function Tile({ name, value, unit, now, before, isBad, note }: { name: string; value: string; unit?: string; now?: number; before?: number; isBad?: boolean; note?: string }) {
  const text = now === undefined || before === undefined ? undefined : change(now, before);
  const isWorse = isBad && now !== undefined && before !== undefined && now > before && text !== "as before";
  return (
    <div class="tile">
      <span class="dim small">{name}</span>
      <b>{value}{unit && <small> {unit}</small>}</b>
      <span class={`small ${isWorse ? "bad" : "dim"}`}>{text ? CHANGES[text] ?? `${text} against the period before` : note ?? "\u00a0"}</span>
    </div>
  );
}

export function Problem({ error }: { error: ApiError }) {
  const isOff = error.type.includes("history") || /history is (turned )?off/i.test(error.message);
  return (
    <div class="notice bad" role="alert">
      <b>{error.message}</b>
      {error.fix && <p>{error.fix}</p>}
      {isOff && <p>Curves and top lists need the history. Turn it on with <code>history.enabled: true</code> in <code>tollgate.yaml</code>, or start the server without <code>TOLLGATE_HISTORY=false</code>.</p>}
    </div>
  );
}

export function Loading() {
  return <p class="dim" role="status">Loading…</p>;
}

export function Card({ title, aside, children }: { title: string; aside?: ComponentChildren; children: ComponentChildren }) {
  return (
    <section class="card">
      <div class="row ends"><h2>{title}</h2>{aside}</div>
      {children}
    </section>
  );
}

/** A command to copy. */
export function Command({ text }: { text: string }) {
  const [isCopied, setCopied] = useState(false);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setCopied(true);
    } catch {
      setCopied(false); // Not allowed here; the text can be selected.
    }
  };
  return (
    <div class="row" style={{ flexWrap: "nowrap", alignItems: "stretch" }}>
      <pre style={{ flex: 1, minWidth: 0 }} tabIndex={0}>{text}</pre>
      <button onClick={() => void copy()}>{isCopied ? "Copied" : "Copy"}</button>
    </div>
  );
}

/** What to do where there is no traffic yet. */
export function NoTraffic() {
  const server = `http://${location.hostname}:8080`;
  return (
    <div class="notice">
      <b>No requests in this time.</b>
      <p>Choose a longer time above, or send a request; it is shown within seconds. Put a domain and an entry of your rules in place of these:</p>
      <Command text={`curl -i ${server}/v1/check -d '{"domain":"shop","descriptors":[{"user_id":"42"}]}'`} />
      <p class="dim small">The log of the server prints one that fits your rules. An access log can be looked at, too: <code>tollgate history import access.log</code>.</p>
    </div>
  );
}
