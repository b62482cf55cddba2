// Rules: what holds, what it does, and whether it looks right; and one rule on its own.
import { Chart } from "../chart";
import { api, type HistorySeries, type HistoryTop } from "../api";
import { count, percent, time } from "../format";
import { algorithmName, finding, limitWords, yaml, type Rule, type RuleCounts } from "../limits";
import { useLoad } from "../load";
import { href, param, setParams, subject } from "../location";
import { Card, Command, Loading, Name, Problem, Tile } from "../parts/common";
import { TopList } from "../parts/top";
import { move, query, setSpan } from "../range";

const ROWS_MAX = 10_000;

export function RulesPage() {
  const name = subject.value[0];
  return name === undefined ? <RuleList /> : <OneRule key={name} name={name} />;
}

/** Rows of the history are by domain and name; a rule's path begins with its domain. */
const isOf = (row: HistoryTop["rows"][number], rule: Rule) => row.name === rule.name && (row.domain === undefined || rule.path === row.domain || rule.path.startsWith(`${row.domain}.`));

const totalOf = (answer: HistorySeries, outcome: string) => answer.series.filter((curve) => curve.outcome === outcome).reduce((sum, curve) => sum + curve.total, 0);

function RuleList() {
  const { data, error } = useLoad(`rules ${JSON.stringify(query())}`, async (signal) => {
    const [rules, top] = await Promise.all([api.rules(signal), api.top({ by: "rule", limit: ROWS_MAX, ...query() }, signal)]);
    // Only the few rules in shadow mode need one more question.
    const shadows = rules.rules.filter((rule) => rule.mode.includes("shadow")).slice(0, 50);
    const denied = await Promise.all(shadows.map((rule) => api.series({ by: "rule", name: rule.name, outcome: "shadow_denied", max_points: 2, ...query() }, signal)));
    return { rules, top, shadow: new Map(shadows.map((rule, i) => [rule.path + rule.name, denied[i]?.total ?? 0])) };
  });
  if (!data) return error ? <Problem error={error} /> : <Loading />;
  const counts = (rule: Rule): RuleCounts => {
    const row = data.top.rows.find((own) => isOf(own, rule));
    return { total: row?.total ?? 0, denied: row?.denied ?? 0, shadowDenied: data.shadow.get(rule.path + rule.name) ?? 0 };
  };
  const wanted = param("filter").toLowerCase();
  const rows = data.rules.rules.map((rule) => ({ rule, counts: counts(rule) })).filter(({ rule }) => `${rule.name} ${rule.path}`.toLowerCase().includes(wanted));
  rows.sort((a, b) => b.counts.denied - a.counts.denied || b.counts.total - a.counts.total);
  const gone = data.top.rows.filter((row) => !data.rules.rules.some((rule) => isOf(row, rule)));
  return (
    <>
      <Source status={data.rules.status} />
      <Card
        title={`${count(rows.length)} ${rows.length === 1 ? "rule" : "rules"}`}
        aside={<input type="search" placeholder="Filter" aria-label="Filter rules" value={param("filter")} onInput={(event) => setParams({ filter: event.currentTarget.value }, true)} />}
      >
        <div class="scroll" tabIndex={0} role="region" aria-label="Rules">
          <table>
            <thead><tr><th>Rule</th><th class="wide">Limit</th><th class="wide">Algorithm</th><th class="wide">Finding</th><th class="num wide">Decisions</th><th class="num">Denied</th></tr></thead>
            <tbody>
              {rows.map(({ rule, counts: own }) => (
                <tr key={rule.path + rule.name}>
                  <td><a href={href(["rules", rule.name], { path: rule.path })}><Name text={rule.name} max={48} /></a>{rule.mode !== "enforce" && <> <span class="tag">{rule.mode.replace("_", " ")}</span></>}<br /><span class="dim small"><Name text={rule.path} max={60} /></span><span class="phone small">{limitWords(rule)}<br /><FindingText rule={rule} counts={own} /></span></td>
                  <td class="nowrap wide">{limitWords(rule)}</td>
                  <td class="wide">{algorithmName(rule.algorithm)}</td>
                  <td class="wide"><FindingText rule={rule} counts={own} /></td>
                  <td class="num wide">{count(own.total)}</td>
                  <td class="num">{percent(own.denied, own.total)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
        {rows.length === 0 && <p class="dim">{wanted ? "No rule has that in its name." : "No rules are in force. Write some and start the server with --rules FOLDER."}</p>}
        {gone.length > 0 && <p class="dim small">Counted in this time, but no longer in force: {gone.slice(0, 10).map((row, i) => <span key={row.name}>{i > 0 && ", "}<Name text={row.name} max={40} /></span>)}</p>}
      </Card>
    </>
  );
}

function FindingText({ rule, counts }: { rule: Rule; counts: RuleCounts }) {
  const { text, level } = finding(rule, counts);
  return <span class={level === "note" ? "dim" : level}>{text}</span>;
}

type Status = Awaited<ReturnType<typeof api.rules>>["status"];

/** Where the rules came from, and what is wrong with the newest ones. */
export function Source({ status }: { status: Status }) {
  const isBad = status.errors.length > 0 || status.source_error !== undefined;
  return (
    <div class={`notice ${isBad ? "bad" : ""}`} role={isBad ? "alert" : undefined}>
      <span>
        {status.loaded ? <><b>{count(status.rules)} rules</b> of {count(status.domains)} {status.domains === 1 ? "domain" : "domains"} from <Name text={status.origin} /></> : <b>No rules are in force yet.</b>}
        {status.loaded_at_unix_s !== undefined && <span class="dim">, loaded {time(status.loaded_at_unix_s)}; {count(status.loads)} {status.loads === 1 ? "load" : "loads"}, {count(status.failures)} refused</span>}
      </span>
      {isBad && <p><b>The newest files were refused; the rules from before stay in force.</b> Correct these, and they are loaded by themselves:</p>}
      {status.source_error && <pre tabIndex={0}>{status.source_error}</pre>}
      {status.errors.length > 0 && <pre tabIndex={0}>{status.errors.join("\n")}</pre>}
      {status.warnings.length > 0 && <details><summary>{count(status.warnings.length)} warnings</summary><pre tabIndex={0}>{status.warnings.join("\n")}</pre></details>}
    </div>
  );
}

function OneRule({ name }: { name: string }) {
  const path = param("path");
  const isCompared = param("compare") === "1";
  const { data, error } = useLoad(JSON.stringify(["rule", name, path, query(), isCompared]), async (signal) => {
    const [rules, top] = await Promise.all([api.rules(signal), api.top({ by: "rule", limit: ROWS_MAX, ...query() }, signal)]);
    const rule = rules.rules.find((own) => own.name === name && (path === "" || own.path === path));
    const domain = rule && top.rows.find((row) => isOf(row, rule))?.domain;
    const own = domain === undefined ? {} : { domain };
    const [series, keys] = await Promise.all([
      api.series({ by: "rule", name, ...own, max_points: 240, compare: isCompared ? "previous_period" : undefined, ...query() }, signal),
      api.top({ by: "key", order: "denied", limit: 12, rule: name, ...own, ...query() }, signal),
    ]);
    return { rules, rule, series, keys };
  });
  if (!data) return error ? <Problem error={error} /> : <Loading />;
  const { rule, series } = data;
  const counts = { total: series.total, denied: totalOf(series, "denied"), shadowDenied: totalOf(series, "shadow_denied") };
  return (
    <>
      <div class="row"><a href={href(["rules"])}>All rules</a><span class="dim">/</span><h2><Name text={name} /></h2>{rule && <FindingText rule={rule} counts={counts} />}</div>
      <div class="tiles">
        {rule && <Tile name="Limit, for each key" value={limitWords(rule)} note={algorithmName(rule.algorithm)} />}
        <Tile name="Decisions" value={count(counts.total)} />
        <Tile name="Denied" value={percent(counts.denied, counts.total)} note={count(counts.denied)} />
        {rule?.mode.includes("shadow") && <Tile name="Would have denied" value={percent(counts.shadowDenied, counts.total)} note={count(counts.shadowDenied)} />}
      </div>
      <Card title="Decisions by outcome" aside={<button aria-pressed={isCompared} onClick={() => setParams({ compare: isCompared ? "" : "1" })}>Period before</button>}>
        {series.total === 0 ? <p>This rule decided nothing in this time. Choose a longer one above; if it never matches, <code>tollgate explain</code> says why.</p> : <Chart answer={series} label={`Decisions of ${name} by outcome`} onZoom={setSpan} onZoomOut={() => move(0, 2)} />}
      </Card>
      <div class="columns">
        <Card title="Keys that it denied most"><TopList by="key" answer={data.keys} what="denied" limit={12} /></Card>
        {rule ? (
          <Card title="In force">
            <p class="dim">At <Name text={rule.path} /></p>
            <pre tabIndex={0}>{yaml(rule)}</pre>
            <p class="dim">What happens to a request, step by step:</p>
            <Command text={`tollgate explain --rules ${data.rules.status.origin || "rules/"} ${rule.path.split(".")[0]} key=value`} />
          </Card>
        ) : (
          <Card title="Not in force"><p>No rule of this name is in force now; its past is still here.</p></Card>
        )}
      </div>
    </>
  );
}
