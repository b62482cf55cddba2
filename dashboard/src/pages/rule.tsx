// One rule: what it decides, the limit that was in force then, how close keys come to it, who hits it, and how it came to be.
import { Chart, barsMax } from "../chart";
import { api, type HistorySeries, type RuleLog, type RuleUsage } from "../api";
import { count, percent, sentence, span, thousands, time } from "../format";
import { algorithmName, extras, limitLine, limitWords, yaml, type Rule } from "../limits";
import { useLoad } from "../load";
import { href, param, setParams } from "../location";
import { Card, Command, Loading, Name, Problem, Tile } from "../parts/common";
import { entries, explainHref } from "../parts/entries";
import { TopList } from "../parts/top";
import { move, query, setSpan } from "../range";

const LOADS_SHOWN = 8;

const totalOf = (answer: HistorySeries, outcome: string) => answer.series.filter((curve) => curve.outcome === outcome).reduce((sum, curve) => sum + curve.total, 0);

export function OneRule({ name }: { name: string }) {
  const path = param("path");
  const isCompared = param("compare") === "1";
  const { data, error } = useLoad(JSON.stringify(["rule", name, path, query(), isCompared]), async (signal) => {
    const rules = await api.rules(signal);
    const rule = rules.rules.find((own) => own.name === name && (path === "" || own.path === path));
    const own = rule ? { domain: rule.domain } : {};
    const place = { path: rule?.path ?? path, name };
    const [series, keys, log, usage] = await Promise.all([
      api.series({ by: "rule", name, ...own, max_points: barsMax(), compare: isCompared ? "previous_period" : undefined, ...query() }, signal),
      api.top({ by: "key", order: "denied", limit: 12, rule: name, ...own, ...query() }, signal),
      api.ruleLog(place, signal),
      rule && api.ruleUsage({ ...place, ...query() }, signal),
    ]);
    return { rules, rule, series, keys, log, usage };
  });
  if (!data) return error ? <><Problem error={error} /><WithoutHistory name={name} path={path} /></> : <Loading />;
  const { rule, series, usage } = data;
  const counts = { total: series.total, denied: totalOf(series, "denied"), shadowDenied: totalOf(series, "shadow_denied") };
  const found = usage?.finding;
  return (
    <>
      <div class="heading">
        <div class="row"><a href={href(["rules"])}>All rules</a><span class="dim">/</span><h2><Name text={name} /></h2>{rule && extras(rule).map(({ tag, text }) => <span key={tag} class="tag" title={text}>{tag}</span>)}</div>
        {found && <p><b class={found.level === "note" ? "" : found.level}>{sentence(thousands(found.text))}</b> <span class="dim">{sentence(thousands(found.reason))}</span></p>}
      </div>
      <div class="tiles">
        {rule && <Tile name="Limit, for each key" value={limitWords(rule)} note={algorithmName(rule.algorithm)} />}
        <Tile name="Decisions" value={count(counts.total)} />
        <Tile name="Denied" value={percent(counts.denied, counts.total)} note={count(counts.denied)} />
        {rule?.mode.includes("shadow") && <Tile name="Would have denied" value={percent(counts.shadowDenied, counts.total)} note={count(counts.shadowDenied)} />}
        {usage && <Tile name="Keys that hit it" value={count(usage.denied_keys)} note={`of ${count(usage.keys)}`} />}
      </div>
      <Card title="Decisions by outcome" aside={<button aria-pressed={isCompared} onClick={() => setParams({ compare: isCompared ? "" : "1" })}>Period before</button>}>
        {series.total === 0 ? <p>This rule decided nothing in this time. Choose a longer one above; if it never matches, <a href={href(["explain"], rule ? { domain: rule.domain } : {})}>explain</a> a request that should.</p> : <Chart answer={series} limit={rule && limitLine(data.log.changes, rule, series.step_s)} label={`Decisions of ${name} by outcome`} onZoom={setSpan} onZoomOut={() => move(0, 2)} />}
      </Card>
      <div class="columns">
        {usage && rule && <Card title="How close keys come to it"><Histogram usage={usage} rule={rule} /></Card>}
        <Card title="Keys that it denied most" aside={<a href={href(["keys"], { rule: name, ...(rule ? { domain: rule.domain } : {}) })}>All its keys</a>}><TopList by="key" answer={data.keys} what="denied" limit={12} ofRule={name} /></Card>
      </div>
      <div class="columns">
        {rule ? <InForce rule={rule} origin={data.rules.status.origin} example={data.keys.rows[0]?.name} /> : <Card title="Not in force"><p>No rule of this name is in force now; its past is still here.</p></Card>}
        <Card title="How it came to be"><Past log={data.log} /></Card>
      </div>
    </>
  );
}

/** What can be told of a rule without its past. */
function WithoutHistory({ name, path }: { name: string; path: string }) {
  const { data } = useLoad(JSON.stringify(["rule alone", name, path]), (signal) => api.rules(signal));
  const rule = data?.rules.find((own) => own.name === name && (path === "" || own.path === path));
  return rule ? <InForce rule={rule} origin={data?.status.origin ?? ""} /> : null;
}

function InForce({ rule, origin, example }: { rule: Rule; origin: string; example?: string }) {
  const text = example ?? rule.levels.map((level) => `${level.key}=${level.value ?? "value"}`).join(",");
  const descriptor = entries(text);
  const quoted = /^[\w=,./:@-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
  return (
    <Card title="In force" aside={descriptor && <a href={explainHref(rule.domain, descriptor)}>Explain a request</a>}>
      <p class="dim">At <Name text={rule.path} /></p>
      <pre tabIndex={0}>{yaml(rule)}</pre>
      {extras(rule).length > 0 && <ul class="plain">{extras(rule).map(({ tag, text }) => <li key={tag}>{text}</li>)}</ul>}
      <p class="dim">What happens to such a request, step by step, here or in a terminal:</p>
      <Command text={`tollgate explain --rules ${origin || "rules/"} ${rule.domain} ${quoted}`} />
    </Card>
  );
}

const binName = (bin: number) => (bin === 10 ? "more than 100 %" : `${bin * 10} – ${bin * 10 + 10} %`);

/** How many keys ask for how much of the limit in their busiest window. */
function Histogram({ usage, rule }: { usage: RuleUsage; rule: Rule }) {
  if (usage.keys === 0) return <p class="dim">No key of this rule has a series in this time.</p>;
  const most = Math.max(1, ...usage.bins);
  const isMean = usage.window_s * 1000 !== rule.window_ms;
  return (
    <figure class="histogram" aria-label="How close keys come to the limit">
      <div class="bins" aria-hidden="true">
        {usage.bins.map((keys, bin) => (
          <div key={bin} title={`${binName(bin)} of the limit: ${count(keys)} keys`}>
            <span>{keys > 0 ? count(keys) : ""}</span>
            <i class={bin === 10 ? "outcome-denied" : "outcome-allowed"} style={{ height: `${(100 * keys) / most}%` }} />
          </div>
        ))}
      </div>
      <div class="bin-names" aria-hidden="true">{usage.bins.map((_, bin) => <span key={bin}>{bin === 10 ? "over" : bin * 10 + 10}</span>)}</div>
      <figcaption class="dim small">
        Keys by what they ask for in their busiest {span(usage.window_s)}, in percent of {count(usage.limit)}. Half of them stay within {count(usage.p50_percent)} %, nine of ten within {count(usage.p90_percent)} %, 99 of a hundred within {count(usage.p99_percent)} %.
        {isMean && ` The history tells ${span(usage.window_s)} apart here, and not the ${span(rule.window_ms / 1000)} of the limit.`}
      </figcaption>
      <details>
        <summary>Table of this chart</summary>
        <table>
          <thead><tr><th>Part of the limit</th><th class="num">Keys</th></tr></thead>
          <tbody>{usage.bins.map((keys, bin) => <tr key={bin}><td>{binName(bin)}</td><td class="num">{count(keys)}</td></tr>)}</tbody>
        </table>
      </details>
    </figure>
  );
}

/** The limits of this rule since they are remembered, and the loads of all rules. */
function Past({ log }: { log: RuleLog }) {
  const changes = [...log.changes].reverse();
  return (
    <>
      {changes.length === 0 ? <p class="dim">Nothing is remembered of this rule.</p> : (
        <table>
          <thead><tr><th>Since</th><th>Its limit</th></tr></thead>
          <tbody>{changes.map((change) => (
            <tr key={change.at_unix_s}><td class="nowrap">{time(change.at_unix_s)}</td><td>{change.limit ? <>{limitWords(change.limit)}, {algorithmName(change.limit.algorithm)}{change.limit.mode !== "enforce" && <> <span class="tag">{change.limit.mode.replace("_", " ")}</span></>}</> : <span class="dim">removed</span>}</td></tr>
          ))}</tbody>
        </table>
      )}
      <details>
        <summary>{count(log.loads.length)} {log.loads.length === 1 ? "load" : "loads"} of all rules</summary>
        <table>
          <thead><tr><th>When</th><th>What changed</th></tr></thead>
          <tbody>{log.loads.slice(0, LOADS_SHOWN).map((load, i) => <tr key={i}><td class="nowrap">{time(load.at_unix_s)}</td><td>{loadWords(load)}</td></tr>)}</tbody>
        </table>
        {log.loads.length > LOADS_SHOWN && <p class="dim small">and {count(log.loads.length - LOADS_SHOWN)} earlier ones</p>}
      </details>
    </>
  );
}

function loadWords(load: RuleLog["loads"][number]) {
  if (load.problems.length > 0) return <span class="bad">refused: <span class="mono">{load.problems[0]}</span></span>;
  const parts = ([["added", load.added], ["changed", load.changed], ["removed", load.removed]] as const).filter(([, n]) => n > 0).map(([word, n]) => `${count(n)} ${word}`);
  return `${load.start ? "start; " : ""}${count(load.rules)} rules, ${parts.join(", ") || "nothing changed"}`;
}
