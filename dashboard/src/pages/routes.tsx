// Routes: which URLs are asked for, how often, and how much of it is denied; and one of them on its own.
// The busiest routes come page by page. Whoever filters, or sorts by something else, gets up to 10,000 rows
// in one answer, and the rest happens here. Only the rows in sight get their curve and their change.
import { useMemo } from "preact/hooks";
import { Chart, Sparkline, barsMax, isPhone, reachesBack, withBefore } from "../chart";
import { api, type HistorySeries, type HistoryTop } from "../api";
import { change, count, percent, visible } from "../format";
import { useLoad } from "../load";
import { href, param, setParams, subject } from "../location";
import { Card, Loading, NO_BEFORE, Name, NoTraffic, Problem, Tile, shareBefore } from "../parts/common";
import { Pages, paged } from "../parts/pages";
import { rowHref, type TopRow } from "../parts/top";
import { move, query, setSpan } from "../range";

const ROWS_MAX = 10_000;
const PAGE_SIZE = 20;

export function Routes() {
  const name = subject.value[0];
  return name === undefined ? <RouteList /> : <OneRoute key={name} name={name} />;
}

type Row = { name: string; total: number; denied: number; before?: number };
type Sort = "total" | "denied" | "share" | "change" | "name";

const SORTS: Record<Sort, (a: Row, b: Row) => number> = {
  total: (a, b) => b.total - a.total,
  denied: (a, b) => b.denied - a.denied,
  share: (a, b) => b.denied / b.total - a.denied / a.total,
  change: (a, b) => b.total / (b.before || 0.5) - a.total / (a.before || 0.5),
  name: (a, b) => (a.name < b.name ? -1 : 1),
};

function RouteList() {
  const [sort, filter] = [(param("sort") || "total") as Sort, param("filter")];
  const isBusiest = sort === "total" && filter === "";
  const limit = isBusiest ? Math.min(ROWS_MAX, PAGE_SIZE * Math.max(1, Number(param("page")) || 1)) : ROWS_MAX;
  const { data, error } = useLoad(JSON.stringify(["routes", query(), limit, sort === "change"]), async (signal) => {
    const [now, earlier] = await Promise.all([
      api.top({ by: "route", limit, ...query() }, signal),
      sort === "change" ? api.top({ by: "route", limit: ROWS_MAX, ...query(1) }, signal) : undefined,
    ]);
    return { now, rows: joined(now, earlier) };
  });
  const rows = useMemo(() => {
    const wanted = filter.toLowerCase();
    const found = (data?.rows ?? []).filter((row) => row.name.toLowerCase().includes(wanted));
    return found.sort(SORTS[sort] ?? SORTS.total);
  }, [data, sort, filter]);
  const { at, pages, shown } = paged(rows, PAGE_SIZE, isBusiest ? Math.min(ROWS_MAX, data?.now.row_count ?? 0) : rows.length);
  const { data: curves } = useCurves(shown.map((row) => row.name));
  if (!data) return error ? <Problem error={error} /> : <Loading />;
  if (data.rows.length === 0 && data.now.other.total === 0) return <NoTraffic />;
  return (
    <Card
      title={filter ? `${count(rows.length)} of ${count(data.now.row_count)} routes` : `${count(data.now.row_count)} ${data.now.row_count === 1 ? "route" : "routes"}`}
      aside={<input type="search" placeholder="Filter" aria-label="Filter routes" value={filter} onInput={(event) => setParams({ filter: event.currentTarget.value, page: "" }, true)} />}
    >
      <div class="scroll" tabIndex={0} role="region" aria-label="Routes">
        <table>
          <thead>
            <tr>
              <Heading sort="name" current={sort} text="Route" />
              <th class="wide">Over time</th>
              <Heading sort="total" current={sort} text="Requests" isNumber />
              <Heading sort="change" current={sort} text="Change" isNumber isWide />
              <Heading sort="denied" current={sort} text="Denied" isNumber isWide />
              <Heading sort="share" current={sort} text="Denied %" isNumber />
            </tr>
          </thead>
          <tbody>
            {shown.map((row) => <RouteRow key={row.name} row={row} curve={curves?.of.get(row.name)} />)}
            {at === pages && filter === "" && data.now.other.total > 0 && (
              <tr><td class="dim">everything else</td><td class="wide" /><td class="num">{count(data.now.other.total)}</td><td class="wide" /><td class="num wide">{count(data.now.other.denied)}</td><td class="num dim">{percent(data.now.other.denied, data.now.other.total)}</td></tr>
            )}
          </tbody>
        </table>
      </div>
      {rows.length === 0 && <p class="dim">No route has “{filter}” in its name. <button onClick={() => setParams({ filter: "" })}>Show all</button></p>}
      <Pages at={at} pages={pages} />
    </Card>
  );
}

function joined(now: HistoryTop, before?: HistoryTop): Row[] {
  const earlier = before && new Map(before.rows.map((row) => [row.name, row.total]));
  return now.rows.map((row) => ({ name: row.name, total: row.total, denied: row.denied, before: earlier && (earlier.get(row.name) ?? 0) }));
}

function Heading({ sort, current, text, isNumber, isWide }: { sort: Sort; current: Sort; text: string; isNumber?: boolean; isWide?: boolean }) {
  return (
    <th class={`${isNumber ? "num" : ""} ${isWide ? "wide" : ""}`} aria-sort={sort === current ? (sort === "name" ? "ascending" : "descending") : undefined}>
      <button onClick={() => setParams({ sort, page: "" })}>{text}{sort === current ? (sort === "name" ? " ↑" : " ↓") : ""}</button>
    </th>
  );
}

/** The curves of the rows in sight, and what the period before had of them, in one answer; a phone shows neither. */
function useCurves(names: string[]) {
  return useLoad(`curves ${JSON.stringify([names, query()])}`, async (signal) => {
    if (isPhone() || names.length === 0) return undefined;
    const answer = await api.seriesOf(names, { by: "route", max_points: 60, compare: "previous_period", ...query() }, signal);
    const isWhole = reachesBack(answer);
    const totals = new Map<string, number>();
    for (const curve of answer.compare?.series ?? []) totals.set(curve.name, (totals.get(curve.name) ?? 0) + curve.total);
    const of = new Map(names.map((name) => [name, { answer: { ...answer, series: answer.series.filter((curve) => curve.name === name) }, before: isWhole ? totals.get(name) ?? 0 : undefined }]));
    return { of };
  }, 30_000);
}

function RouteRow({ row, curve }: { row: Row; curve?: { answer: HistorySeries; before?: number } }) {
  return (
    <tr>
      <td class="name"><a href={href(["routes", row.name])}><Name text={row.name} max={90} /></a></td>
      <td class="wide">{curve ? <Sparkline answer={curve.answer} /> : <span class="spark" />}</td>
      <td class="num">{count(row.total)}</td>
      <td class="num dim wide">{curve && (curve.before === undefined ? <span title="None of these routes was counted through the whole period before.">–</span> : change(row.total, curve.before))}</td>
      <td class="num wide">{count(row.denied)}</td>
      <td class={`num ${row.denied > 0 ? "bad" : "dim"}`}>{percent(row.denied, row.total)}</td>
    </tr>
  );
}

function OneRoute({ name }: { name: string }) {
  const isCompared = param("compare") === "1";
  const { data, error } = useLoad(JSON.stringify(["route", name, query(), isCompared]), async (signal) => {
    const series = await api.series({ by: "route", name, max_points: barsMax(), compare: "previous_period", ...query() }, signal);
    return { series, before: reachesBack(series) ? series.compare : undefined };
  });
  if (!data) return error ? <Problem error={error} /> : <Loading />;
  const denied = (answer: Pick<HistorySeries, "series">) => answer.series.filter((curve) => curve.outcome === "denied").reduce((sum, curve) => sum + curve.total, 0);
  return (
    <>
      <div class="row"><a href={href(["routes"])}>All routes</a><span class="dim">/</span><h2><Name text={name} /></h2></div>
      <div class="tiles">
        <Tile name="Requests" value={count(data.series.total)} now={data.series.total} before={data.before?.total} />
        <Tile name="Denied" value={count(denied(data.series))} now={denied(data.series)} before={data.before && denied(data.before)} isBad />
        <Tile name="Denied, of all" value={percent(denied(data.series), data.series.total)} note={data.before ? shareBefore(denied(data.before), data.before.total) : NO_BEFORE} />
      </div>
      <Card title="Requests by outcome" aside={<button aria-pressed={isCompared} onClick={() => setParams({ compare: isCompared ? "" : "1" })}>Period before</button>}>
        {data.series.total === 0 ? <p>Nobody asked for this route in this time. Choose a longer one above.</p> : <Chart answer={withBefore(data.series, isCompared)} label={`Requests to ${name} by outcome`} onZoom={setSpan} onZoomOut={() => move(0, 2)} />}
      </Card>
      <RouteRules name={name} />
    </>
  );
}

/** Entries that name a route, unless the server is told otherwise. */
const ROUTE_KEYS = ["path", "route", "url"];
const KEYS_SHOWN = 10;

type RuleRow = { rule: string; domain: string; total: number; denied: number; keys: number };

/** Rules and keys that have the route in their descriptor. The history counts all others without it. */
function RouteRules({ name }: { name: string }) {
  const { data, error } = useLoad(JSON.stringify(["route keys", name, query()]), async (signal) => {
    const [top, rules] = await Promise.all([api.top({ by: "key", limit: ROWS_MAX, ...query() }, signal), api.rules(signal)]);
    const entries = ROUTE_KEYS.map((key) => `${key}=${name}`);
    return { keys: top.rows.filter((row) => row.name.split(",").some((entry) => entries.includes(entry))), rules: rules.rules };
  }, 30_000);
  if (!data) return error ? <Problem error={error} /> : <Loading />;
  const rules = new Map<string, RuleRow>();
  for (const row of data.keys) {
    const id = `${row.domain} ${row.rule}`;
    const own = rules.get(id) ?? { rule: row.rule ?? "", domain: row.domain ?? "", total: 0, denied: 0, keys: 0 };
    rules.set(id, { ...own, total: own.total + row.total, denied: own.denied + row.denied, keys: own.keys + 1 });
  }
  const others = data.rules.filter((rule) => !rule.levels.some((level) => ROUTE_KEYS.includes(level.key)));
  return (
    <div class="columns">
      <Card title="Rules about this route">
        {rules.size === 0 ? <p class="dim">In this time no rule counted it by itself.</p> : (
          <div class="scroll" tabIndex={0} role="region" aria-label="Rules about this route">
            <table class="top">
              <thead><tr><th>Rule</th><th class="num">Keys</th><th class="num">Decisions</th><th class="num">Denied</th></tr></thead>
              <tbody>{[...rules.values()].sort((a, b) => b.denied - a.denied || b.total - a.total).map((row) => (
                <tr key={`${row.domain} ${row.rule}`}><td class="wrap"><a href={href(["rules", row.rule])}><Name text={row.rule} max={48} /></a></td><td class="num">{count(row.keys)}</td><td class="num">{count(row.total)}</td><td class={`num ${row.denied > 0 ? "bad" : "dim"}`}>{percent(row.denied, row.total)}</td></tr>
              ))}</tbody>
            </table>
          </div>
        )}
        {others.length > 0 && <p class="dim small">{others.length === 1 ? "One rule counts" : `${count(others.length)} rules count`} all routes together and may deny here, too: {others.slice(0, 8).map((rule, i) => <span key={rule.path + rule.name}>{i > 0 && ", "}<a href={href(["rules", rule.name], { path: rule.path })}><Name text={rule.name} max={40} /></a></span>)}{others.length > 8 && " …"}</p>}
      </Card>
      <Card title="Keys of this route">
        {data.keys.length === 0 ? <p class="dim">In this time no key has this route in its name.</p> : <KeysOfRoute rows={data.keys} />}
      </Card>
    </div>
  );
}

function KeysOfRoute({ rows }: { rows: TopRow[] }) {
  const most = [...rows].sort((a, b) => b.denied - a.denied || b.total - a.total);
  return (
    <>
      <div class="scroll" tabIndex={0} role="region" aria-label="Keys of this route">
        <table class="top">
          <thead><tr><th>Key</th><th class="num wide">Decisions</th><th class="num">Denied</th></tr></thead>
          <tbody>{most.slice(0, KEYS_SHOWN).map((row) => (
            <tr key={`${row.domain} ${row.rule} ${row.name}`}><td class="wrap"><a href={rowHref("key", row)}><Name text={row.name} max={70} /></a><span class="dim small under">{visible(row.rule ?? "", 40)}</span></td><td class="num wide">{count(row.total)}</td><td class={`num ${row.denied > 0 ? "bad" : "dim"}`}>{percent(row.denied, row.total)}</td></tr>
          ))}</tbody>
        </table>
      </div>
      {rows.length > KEYS_SHOWN && <p class="dim small">and {count(rows.length - KEYS_SHOWN)} more keys</p>}
    </>
  );
}
