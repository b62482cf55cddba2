// Overview: how many, with what outcome, when; and who stands out.
import { Chart, barsMax } from "../chart";
import { api, type HistorySummary } from "../api";
import { count, percent, rate } from "../format";
import { useLoad } from "../load";
import { href, param, setParams } from "../location";
import { Card, Loading, NoTraffic, Problem, Tile, shareBefore } from "../parts/common";
import { TopList } from "../parts/top";
import { move, query, range, setSpan } from "../range";

const NOW_S = 60;

export function Overview() {
  const isCompared = param("compare") === "1";
  const key = JSON.stringify([query(), isCompared]);
  const loaded = useLoad(key, async (signal) => {
    const [series, summary, before, recent] = await Promise.all([
      api.series({ by: "route", ...query(), max_points: barsMax(), compare: isCompared ? "previous_period" : undefined }, signal),
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
      <Tiles summary={data.summary} before={data.before} perSecond={perSecond(data.recent)} />
      <Card
        title="Requests by outcome"
        aside={<button aria-pressed={isCompared} onClick={() => setParams({ compare: isCompared ? "" : "1" })}>Period before</button>}
      >
        {data.summary.total === 0 ? <NoTraffic /> : <Chart answer={data.series} label="Requests by outcome over time" onZoom={setSpan} onZoomOut={() => move(0, 2)} />}
      </Card>
      {lists.data && (
        <div class="columns">
          <Card title="Rules that deny most" aside={<a href={href(["rules"])}>All rules</a>}><TopList by="rule" answer={lists.data.rules} what="denied" /></Card>
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

function Tiles({ summary, before, perSecond }: { summary: HistorySummary; before: HistorySummary; perSecond?: number }) {
  const share = (one: HistorySummary) => (one.total === 0 ? 0 : one.denied / one.total);
  const mean = summary.total / Math.max(1, range.value.lengthS);
  return (
    <div class="tiles">
      <Tile name="Requests" value={count(summary.total)} now={summary.total} before={before.total} />
      <Tile name="Now" value={perSecond === undefined ? "–" : rate(perSecond)} unit="/ s" note={`mean of this time ${rate(mean)}\u00a0/\u00a0s`} />
      <Tile name="Denied" value={percent(summary.denied, summary.total)} now={share(summary)} before={share(before)} isBad note={shareBefore(before.denied, before.total)} />
      <Tile name="Busiest minute" value={count(summary.peak_minute)} unit="/ min" now={summary.peak_minute} before={before.peak_minute} />
    </div>
  );
}
