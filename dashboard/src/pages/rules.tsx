// Rules: what holds, what it does, and whether it looks right.
import { ApiError, api, unlessAway, type RuleUsage } from "../api";
import { count, percent, thousands, time } from "../format";
import { algorithmName, extras, limitWords, type Rule } from "../limits";
import { useLoad } from "../load";
import { href, param, setParams, subject } from "../location";
import { Card, Loading, Name, Problem } from "../parts/common";
import { Pages, paged } from "../parts/pages";
import { query } from "../range";
import { OneRule } from "./rule";

const ROWS_MAX = 10_000;
const PAGE_SIZE = 40;

export function RulesPage() {
  const name = subject.value[0];
  return name === undefined ? <RuleList /> : <OneRule key={name} name={name} />;
}

function RuleList() {
  const { data, error } = useLoad(`rules ${JSON.stringify(query())}`, async (signal) => {
    // Without a history there are rules all the same.
    const [rules, top] = await Promise.all([api.rules(signal), api.top({ by: "rule", limit: ROWS_MAX, ...query() }, signal).catch(unlessAway)]);
    return { rules, top: top instanceof ApiError ? undefined : top, problem: top instanceof ApiError ? top : undefined };
  });
  if (!data) return error ? <Problem error={error} /> : <Loading />;
  const past = data.top?.rows ?? [];
  const byRule = new Map(past.map((row) => [`${row.domain} ${row.name}`, row]));
  const counts = (rule: Rule) => {
    const row = byRule.get(`${rule.domain} ${rule.name}`);
    return { total: row?.total ?? 0, denied: row?.denied ?? 0 };
  };
  const wanted = param("filter").toLowerCase();
  const rows = data.rules.rules.map((rule) => ({ rule, counts: counts(rule) })).filter(({ rule }) => `${rule.name} ${rule.path}`.toLowerCase().includes(wanted));
  rows.sort((a, b) => b.counts.denied - a.counts.denied || b.counts.total - a.counts.total);
  const inForce = new Set(data.rules.rules.map((rule) => `${rule.domain} ${rule.name}`));
  const gone = past.filter((row) => !inForce.has(`${row.domain} ${row.name}`));
  const { at, pages, shown } = paged(rows, PAGE_SIZE);
  return (
    <>
      <Source status={data.rules.status} />
      {data.problem && <Problem error={data.problem} />}
      <Card
        title={`${count(rows.length)} ${rows.length === 1 ? "rule" : "rules"}`}
        aside={<input type="search" placeholder="Filter" aria-label="Filter rules" value={param("filter")} onInput={(event) => setParams({ filter: event.currentTarget.value }, true)} />}
      >
        <div class="scroll" tabIndex={0} role="region" aria-label="Rules">
          <table>
            <thead><tr><th>Rule</th><th class="wide">Limit</th><th class="roomy">Algorithm</th><th class="roomy">Finding</th><th class="num wide">Keys that hit it</th><th class="num wide">Decisions</th><th class="num">Denied</th></tr></thead>
            <tbody>
              {shown.map(({ rule, counts: own }) => <RuleRow key={rule.path + rule.name} rule={rule} total={own.total} denied={own.denied} hasPast={data.top !== undefined} />)}
            </tbody>
          </table>
        </div>
        <Pages at={at} pages={pages} />
        {rows.length === 0 && <p class="dim">{wanted ? "No rule has that in its name." : "No rules are in force. Write some and start the server with --rules FOLDER."}</p>}
        {data.rules.domain_lists.map(({ domain, lists }) => <p key={domain} class="dim small">The domain <Name text={domain} max={40} /> has lists of its own: {count(lists.allow)} {lists.allow === 1 ? "item meets" : "items meet"} no limit, {count(lists.deny)} {lists.deny === 1 ? "is" : "are"} always denied.</p>)}
        {gone.length > 0 && <p class="dim small">Counted in this time, but no longer in force: {gone.slice(0, 10).map((row, i) => <span key={row.name}>{i > 0 && ", "}<Name text={row.name} max={40} /></span>)}</p>}
      </Card>
    </>
  );
}

function RuleRow({ rule, total, denied, hasPast }: { rule: Rule; total: number; denied: number; hasPast: boolean }) {
  const { data: usage } = useLoad(JSON.stringify(["usage", rule.path, rule.name, hasPast, query()]), async (signal) => (hasPast ? api.ruleUsage({ path: rule.path, name: rule.name, ...query() }, signal) : undefined), 60_000);
  return (
    <tr>
      <td><a href={href(["rules", rule.name], { path: rule.path })}><Name text={rule.name} max={48} /></a>{extras(rule).map(({ tag, text }) => <> <span key={tag} class="tag" title={text}>{tag}</span></>)}<br /><span class="dim small"><Name text={rule.path} max={60} /></span><span class="phone small">{limitWords(rule)}</span>{hasPast && <span class="narrow small"><FindingText usage={usage} /></span>}</td>
      <td class="nowrap wide">{limitWords(rule)}</td>
      <td class="roomy">{algorithmName(rule.algorithm)}</td>
      <td class="roomy">{hasPast && <FindingText usage={usage} />}</td>
      <td class="num wide">{usage ? usage.keys === 0 ? "–" : <>{count(usage.denied_keys)} <span class="dim">of {count(usage.keys)}</span></> : ""}</td>
      <td class="num wide">{hasPast ? count(total) : "–"}</td>
      <td class={`num ${denied > 0 ? "bad" : "dim"}`}>{percent(denied, total)}</td>
    </tr>
  );
}

/** What the past says about a rule, in the words of the server. */
function FindingText({ usage }: { usage?: RuleUsage }) {
  return usage ? <span class={usage.finding.level === "note" ? "dim" : usage.finding.level} title={thousands(usage.finding.reason)}>{thousands(usage.finding.text)}</span> : <span class="dim">…</span>;
}

type Status = Awaited<ReturnType<typeof api.rules>>["status"];

/** Where the rules came from, and what is wrong with the newest ones. */
export function Source({ status }: { status: Status }) {
  const isBad = status.errors.length > 0 || status.source_error !== undefined;
  return (
    <div class={`notice ${isBad ? "bad" : ""}`} role={isBad ? "alert" : undefined}>
      <span>
        {status.loaded ? <><b>{count(status.rules)} {status.rules === 1 ? "rule" : "rules"}</b> of {count(status.domains)} {status.domains === 1 ? "domain" : "domains"} from <Name text={status.origin} /></> : <b>No rules are in force yet.</b>}
        {status.loaded_at_unix_s !== undefined && <span class="dim">, loaded {time(status.loaded_at_unix_s)}; {count(status.loads)} {status.loads === 1 ? "load" : "loads"}, {count(status.failures)} refused</span>}
      </span>
      {isBad && <p><b>The newest files were refused; the rules from before stay in force.</b> Correct these, and they are loaded by themselves:</p>}
      {status.source_error && <pre tabIndex={0}>{status.source_error}</pre>}
      {status.errors.length > 0 && <pre tabIndex={0}>{status.error_excerpts.join("\n") || status.errors.join("\n")}</pre>}
      {status.errors.length > status.error_excerpts.length && <p class="dim">and {count(status.errors.length - status.error_excerpts.length)} more</p>}
      {status.warnings.length > 0 && <details><summary>{count(status.warnings.length)} warnings</summary><pre tabIndex={0}>{status.warnings.join("\n")}</pre></details>}
    </div>
  );
}
