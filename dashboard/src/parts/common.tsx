// Small parts that every page uses: names from strangers, tiles, errors and empty states.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { api, type ApiError } from "../api";
import { change, count, percent, sentence, visible } from "../format";
import { useLoad } from "../load";
import { href, page } from "../location";

/** A name that somebody else chose, as text. The whole of it, within reason, is in the title. */
export function Name({ text, max }: { text: string; max?: number }) {
  // A key is broken between its entries, and before a value only if that is not enough.
  const parts = visible(text, max).split(/(?<=,)/);
  return <bdi class="mono" title={visible(text, 1_000)}>{text === "" ? <span class="dim">(empty)</span> : parts.length === 1 ? broken(text, parts[0] ?? "") : parts.map((part) => <span class="entry">{broken(text, part)}</span>)}</bdi>;
}

const broken = (whole: string, part: string) => (whole.includes("=") ? part.split(/(?<==)/).map((piece, i) => [i > 0 && <wbr />, piece]) : part);

/** In place of a change, where the history does not reach back so far. */
export const NO_BEFORE = "no whole period before";

/** A number with its change against the period before, or with a note in its place. `isBad` says whether more is worse. */
export function Tile({ name, value, unit, now, before, isBad, note }: { name: string; value: string; unit?: string; now?: number; before?: number; isBad?: boolean; note?: string }) {
  const text = now === undefined || before === undefined ? undefined : change(now, before);
  const isWorse = isBad && now !== undefined && before !== undefined && now > before && text !== "as before";
  return (
    <div class="tile">
      <span class="dim small">{name}</span>
      <b>{value}{unit && <small> {unit}</small>}</b>
      <span class={`small ${isWorse ? "bad" : "dim"}`} title={text && "Against the period before, which is as long."}>{note ?? (before === undefined ? (now === undefined ? "\u00a0" : NO_BEFORE) : text === "new" ? "none before" : text === "as before" ? text : `${text}, ${count(before)} before`)}</span>
    </div>
  );
}

/** A share of the period before, for a tile whose number is one. */
export const shareBefore = (part: number, all: number) => (all === 0 ? "nothing before" : `${percent(part, all)} before`);

export function Problem({ error }: { error: ApiError }) {
  // That the server is away is said once, above all.
  if (error.status === 0) return <p class="dim">Nothing can be shown until the server answers.</p>;
  const isOff = error.type.includes("history") || /history is (turned )?off/i.test(error.message);
  // What happened in a word, and then why.
  const [head = "", ...why] = error.message.split(/(?<=\w): /);
  return (
    <div class={`notice ${isOff ? "" : "bad"}`} role={isOff ? "status" : "alert"}>
      <b>{sentence(head)}</b>
      {why.length > 0 && <p>{sentence(why.join(": "))}</p>}
      {error.fix && !isOff && <p>{sentence(error.fix)}</p>}
      {error.status >= 500 && !isOff && page.value !== "health" && <p><a href={href(["health"])}>Health</a> says how store and history are.</p>}
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
    <div class="row" style={{ flexWrap: "nowrap", alignItems: "start" }}>
      <pre class="command" tabIndex={0}>{text}</pre>
      <button onClick={() => void copy()}>{isCopied ? "Copied" : "Copy"}</button>
    </div>
  );
}

/** What to do where there is no traffic yet. */
export function NoTraffic() {
  const { data } = useLoad("a request to send", async (signal) => {
    const [{ rules }, { settings }] = await Promise.all([api.rules(signal), api.settings(signal)]);
    return { rule: rules[0], listener: settings.find((own) => own.name === "listen.http")?.value };
  }, Infinity);
  // A listener on all addresses is where this page is.
  const port = /:(\d+)$/.exec(data?.listener ?? "")?.[1] ?? "8080";
  const descriptor = Object.fromEntries(data?.rule?.levels.map((level) => [level.key, level.value?.replace("*", "1") ?? "42"]) ?? [["user_id", "42"]]);
  const body = JSON.stringify({ domain: data?.rule?.domain ?? "shop", descriptors: [descriptor] });
  return (
    <div class="notice">
      <b>No requests in this time.</b>
      <p>Choose a longer time above, or send a request; it is shown within seconds.{data && !data.rule && " There are no rules yet: write some first, and use their domain and entries."}</p>
      <Command text={`curl -i http://${location.hostname}:${port}/v1/check -d '${body.replaceAll("'", "'\\''")}'`} />
      <p class="dim small">An access log can be looked at, too: <code>tollgate history import access.log</code>. And <code>tollgate demo</code> shows these pages with made-up traffic.</p>
    </div>
  );
}
