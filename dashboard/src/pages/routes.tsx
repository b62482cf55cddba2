// Routes: which URLs are asked for, how often, and how much of it is denied; and one of them on its own.
// 10,000 rows come in one answer; sorting, filtering and paging happen here, and only the rows in sight
// get their curve.
import { useMemo } from "preact/hooks";
import { Chart, Sparkline } from "../chart";
import { api, type HistoryTop } from "../api";
import { change, count, percent } from "../format";
import { useLoad } from "../load";
import { href, param, setParams, subject } from "../location";
import { Card, Loading, Name, NoTraffic, Problem, Tile } from "../parts/common";
import { move, query, setSpan } from "../range";

const ROWS_MAX = 10_000;
const PAGE_SIZE = 20;

export function Routes() {
  const name = subject.value[0];
  return name === undefined ? <RouteList /> : <OneRoute key={name} name={name} />;
}

type Row = { name: string; total: number; denied: number; before: number };
type Sort = "total" | "denied" | "share" | "change" | "name";

const SORTS: Record<Sort, (a: Row, b: Row) => number> = {
  total: (a, b) => b.total - a.total,
  denied: (a, b) => b.denied - a.denied,
  share: (a, b) => b.denied / b.total - a.denied / a.total,
  change: (a, b) => b.total / (b.before || 0.5) - a.total / (a.before || 0.5),
  name: (a, b) => (a.name < b.name ? -1 : 1),
};

function RouteList() {
  const { data, error } = useLoad(`routes ${JSON.stringify(query())}`, async (signal) => {
    const [now, before] = await Promise.all([
      api.top({ by: "route", limit: ROWS_MAX, ...query() }, signal),
      api.top({ by: "route", limit: ROWS_MAX, ...query(1) }, signal),
    ]);
    return { now, rows: joined(now, before) };
  });
  const [sort, filter] = [(param("sort") || "total") as Sort, param("filter")];
  const rows = useMemo(() => {
    const wanted = filter.toLowerCase();
    const found = (data?.rows ?? []).filter((row) => row.name.toLowerCase().includes(wanted));
    return found.sort(SORTS[sort] ?? SORTS.total);
  }, [data, sort, filter]);
  if (!data) return error ? <Problem error={error} /> : <Loading />;
  if (data.rows.length === 0 && data.now.other.total === 0) return <NoTraffic />;
  const pages = Math.max(1, Math.ceil(rows.length / PAGE_SIZE));
  const at = Math.min(pages, Math.max(1, Number(param("page")) || 1));
  const shown = rows.slice((at - 1) * PAGE_SIZE, at * PAGE_SIZE);
  return (
    <Card
      title={filter ? `${count(rows.length)} of ${count(data.rows.length)} routes` : `${count(rows.length)} ${rows.length === 1 ? "route" : "routes"}`}
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
              <Heading sort="denied" current={sort} text="Denied" isNumber />
              <Heading sort="share" current={sort} text="Denied %" isNumber />
            </tr>
          </thead>
          <tbody>
            {shown.map((row) => (
              <tr key={row.name}>
                <td class="name"><a href={href(["routes", row.name])}><Name text={row.name} max={90} /></a></td>
                <td class="wide"><RouteSpark name={row.name} /></td>
                <td class="num">{count(row.total)}</td>
                <td class="num dim wide">{change(row.total, row.before)}</td>
                <td class="num">{count(row.denied)}</td>
                <td class={`num ${row.denied > 0 ? "bad" : "dim"}`}>{percent(row.denied, row.total)}</td>
              </tr>
            ))}
            {at === pages && filter === "" && data.now.other.total > 0 && (
              <tr><td class="dim">everything else</td><td class="wide" /><td class="num">{count(data.now.other.total)}</td><td class="wide" /><td class="num">{count(data.now.other.denied)}</td><td class="num dim">{percent(data.now.other.denied, data.now.other.total)}</td></tr>
            )}
          </tbody>
        </table>
      </div>
      {rows.length === 0 && <p class="dim">No route has “{filter}” in its name. <button onClick={() => setParams({ filter: "" })}>Show all</button></p>}
      {pages > 1 && (
        <div class="row">
          <button disabled={at === 1} onClick={() => setParams({ page: String(at - 1) })}>Back</button>
          <span class="dim">page {count(at)} of {count(pages)}</span>
          <button disabled={at === pages} onClick={() => setParams({ page: String(at + 1) })}>Next</button>
        </div>
      )}
    </Card>
  );
}

function joined(now: HistoryTop, before: HistoryTop): Row[] {
  const earlier = new Map(before.rows.map((row) => [row.name, row.total]));
  return now.rows.map((row) => ({ name: row.name, total: row.total, denied: row.denied, before: earlier.get(row.name) ?? 0 }));
}

function Heading({ sort, current, text, isNumber, isWide }: { sort: Sort; current: Sort; text: string; isNumber?: boolean; isWide?: boolean }) {
  return (
    <th class={`${isNumber ? "num" : ""} ${isWide ? "wide" : ""}`} aria-sort={sort === current ? (sort === "name" ? "ascending" : "descending") : undefined}>
      <button onClick={() => setParams({ sort, page: "" })}>{text}{sort === current ? (sort === "name" ? " ↑" : " ↓") : ""}</button>
    </th>
  );
}

function RouteSpark({ name }: { name: string }) {
  const { data } = useLoad(`spark ${name} ${JSON.stringify(query())}`, (signal) => api.series({ by: "route", name, max_points: 60, ...query() }, signal), 30_000);
  return data ? <Sparkline answer={data} /> : <span class="spark" />;
}

function OneRoute({ name }: { name: string }) {
  const isCompared = param("compare") === "1";
  const { data, error } = useLoad(JSON.stringify(["route", name, query(), isCompared]), async (signal) => {
    const [series, before] = await Promise.all([
      api.series({ by: "route", name, max_points: 240, compare: isCompared ? "previous_period" : undefined, ...query() }, signal),
      api.series({ by: "route", name, max_points: 10, ...query(1) }, signal),
    ]);
    return { series, before };
  });
  if (!data) return error ? <Problem error={error} /> : <Loading />;
  const denied = (answer: typeof data.series) => answer.series.filter((curve) => curve.outcome === "denied").reduce((sum, curve) => sum + curve.total, 0);
  return (
    <>
      <div class="row"><a href={href(["routes"])}>All routes</a><span class="dim">/</span><h2><Name text={name} /></h2></div>
      <div class="tiles">
        <Tile name="Requests" value={count(data.series.total)} now={data.series.total} before={data.before.total} />
        <Tile name="Denied" value={count(denied(data.series))} now={denied(data.series)} before={denied(data.before)} isBad />
        <Tile name="Denied, of all" value={percent(denied(data.series), data.series.total)} />
      </div>
      <Card title="Requests by outcome" aside={<button aria-pressed={isCompared} onClick={() => setParams({ compare: isCompared ? "" : "1" })}>Period before</button>}>
        {data.series.total === 0 ? <p>Nobody asked for this route in this time. Choose a longer one above.</p> : <Chart answer={data.series} label={`Requests to ${name} by outcome`} onZoom={setSpan} onZoomOut={() => move(0, 2)} />}
      </Card>
      <p class="dim small">The history counts routes and rules apart, so it cannot say which rules and keys a route met; the <a href={href(["rules"])}>rules</a> say what they denied.</p>
    </>
  );
}
