// Overview: how many, with what outcome, when; and who stands out.
import { Chart, barsMax, reachesBack, withBefore } from "../chart";
import { api, type HistorySummary } from "../api";
import { count, percent, rate, sentence, thousands } from "../format";
import { useLoad } from "../load";
import { href, param, setParams } from "../location";
import { Card, Loading, NO_BEFORE, NoTraffic, Problem, Tile, shareBefore } from "../parts/common";
import { TopList, type TopRow } from "../parts/top";
import { move, query, range, setSpan } from "../range";

const NOW_S = 60;
const NONE = "\u00a0";

export function Overview() {
  const isCompared = param("compare") === "1";
  const key = JSON.stringify(query());
  const loaded = useLoad(key, async (signal) => {
    const [series, summary, before, recent] = await Promise.all([
      api.series({ by: "route", ...query(), max_points: barsMax(), compare: "previous_period" }, signal),
      api.summary(query(), signal),
      api.summary(query(1), signal),
      api.series({ by: "route", last: "3m", step: "1m" }, signal),
    ]);
    return { series, summary, before, recent };
  });
  const lists = useLoad(`top ${key}`, async (signal) => {
    const [rules, routes, keys] = await Promise.all([
      api.top({ by: "rule", order: "denied", limit: 8, ...query() }, signal),
      api.top({ by: "route", limit: 8, ...query() }, signal),
      api.top({ by: "key", order: "denied", limit: 8, ...query() }, signal),
    ]);
    return { rules, routes, keys };
  });
  const { data, error } = loaded;
  if (!data) return error ? <Problem error={error} /> : <Loading />;
  return (
    <>
      <Tiles summary={data.summary} before={reachesBack(data.series) ? data.before : undefined} perSecond={perSecond(data.recent)} />
      <Card
        title="Requests by outcome"
        aside={data.summary.total > 0 && <button aria-pressed={isCompared} onClick={() => setParams({ compare: isCompared ? "" : "1" })}>Period before</button>}
      >
        {data.summary.total === 0 ? <NoTraffic /> : <Chart answer={withBefore(data.series, isCompared)} label="Requests by outcome over time" onZoom={setSpan} onZoomOut={() => move(0, 2)} />}
      </Card>
      {lists.data && data.summary.total > 0 && (
        <div class="columns">
          <Card title="Rules that deny most" aside={<a href={href(["rules"])}>All rules</a>}><TopList by="rule" answer={lists.data.rules} what="denied" more={(row) => <RowFinding row={row} />} /></Card>
          <Card title="Busiest routes" aside={<a href={href(["routes"])}>All routes</a>}><TopList by="route" answer={lists.data.routes} what="total" /></Card>
          <Card title="Most denied keys" aside={<a href={href(["keys"])}>All keys</a>}><TopList by="key" answer={lists.data.keys} what="denied" /></Card>
        </div>
      )}
    </>
  );
}

/** The rate of the last minute that is over. */
function perSecond(recent: Awaited<ReturnType<typeof api.series>>): number | undefined {
  const open = Math.floor(recent.to / NOW_S) * NOW_S;
  const at = open - NOW_S;
  const points = recent.series.flatMap((curve) => curve.points).filter(([t]) => t === at);
  return points.length === 0 ? undefined : points.reduce((sum, [, n]) => sum + n, 0) / NOW_S;
}

/** Whether a rule looks right, in the words of its own page. */
function RowFinding({ row }: { row: TopRow }) {
  const { data } = useLoad(JSON.stringify(["finding", row.domain, row.name, query()]), async (signal) => {
    const { rules } = await api.rules(signal);
    const rule = rules.find((own) => own.name === row.name && own.domain === row.domain);
    return rule && api.ruleUsage({ path: rule.path, name: rule.name, ...query() }, signal);
  }, 60_000);
  return data ? <span class="dim small under">{sentence(thousands(data.finding.reason))}</span> : null;
}

function Tiles({ summary, before, perSecond }: { summary: HistorySummary; before?: HistorySummary; perSecond?: number }) {
  const share = (one: HistorySummary) => (one.total === 0 ? 0 : one.denied / one.total);
  const lengthS = Math.max(1, range.value.lengthS);
  const mean = summary.total / lengthS;
  const isEmpty = summary.total === 0;
  return (
    <div class="tiles">
      <Tile name="Requests" value={count(summary.total)} now={summary.total} before={before?.total} note={isEmpty ? NONE : undefined} />
      <Tile name="Now" value={perSecond === undefined ? "0" : rate(perSecond)} unit="/ s" note={isEmpty ? NONE : `mean ${rate(mean)}${before ? `, ${rate(before.total / lengthS)} before` : ""}`} />
      <Tile name="Denied" value={percent(summary.denied, summary.total)} now={share(summary)} before={before && share(before)} isBad note={isEmpty ? NONE : before ? shareBefore(before.denied, before.total) : NO_BEFORE} />
      <Tile name="Busiest minute" value={count(summary.peak_minute)} unit="/ min" now={summary.peak_minute} before={before?.peak_minute} note={isEmpty ? NONE : undefined} />
    </div>
  );
}
