// Health: is the server well, and if not, what is it that is not.
import { api, type Health as Answer, type HistorySeries, type HistoryStatus } from "../api";
import { Chart, barsMax, buckets } from "../chart";
import { bytes, count, percent, span, time, timeIn } from "../format";
import { useLoad } from "../load";
import { param, setParams } from "../location";
import { Card, Loading, Name, Problem } from "../parts/common";
import { move, query, setSpan } from "../range";
import { Source } from "./rules";

export function HealthPage() {
  const { data, error } = useLoad("health", (signal) => api.health(signal));
  const status = useLoad(`history status ${data?.history}`, async (signal) => (data?.history ? api.status(signal) : undefined));
  const degraded = useLoad(`degraded ${JSON.stringify(query())} ${data?.history}`, async (signal) => (data?.history ? api.series({ by: "route", outcome: "degraded", max_points: barsMax(), ...query() }, signal) : undefined));
  if (!data) return error ? <Problem error={error} /> : <Loading />;
  return (
    <>
      <div class={`notice ${data.healthy ? "" : "bad"}`} role={data.healthy ? undefined : "alert"}>
        <span><b>{data.healthy ? (data.store.up ? "All is well." : "Limiting without the store.") : data.stopping ? "The server is stopping." : "The server does not want calls."}</b> <span class="dim">Tollgate {data.version}; its clock says {time(data.now_unix_s)}.</span></span>
      </div>
      <div class="columns">
        <StoreCard health={data} />
        <HistoryCard isOn={data.history} status={status.data} error={status.error} />
      </div>
      <Card title="Let through without the store">
        {degraded.error ? <Problem error={degraded.error} /> : !degraded.data ? <p class="dim">{data.history ? "Loading…" : "The time line needs the history, which is off."}</p> : degraded.data.total === 0 ? <p>In this time every decision was made with the store.</p> : <Degraded answer={degraded.data} />}
      </Card>
      <section class="card"><h2>Rule files</h2><Source status={data.rules} />{data.rules.files.length > 0 && <details><summary>{count(data.rules.files.length)} {data.rules.files.length === 1 ? "file" : "files"}</summary><ul>{data.rules.files.map((file) => <li key={file}><Name text={file} /></li>)}</ul></details>}</section>
      <SettingsCard />
    </>
  );
}

function StoreCard({ health }: { health: Answer }) {
  const { store } = health;
  const remote = store.remote;
  return (
    <Card title="Store" aside={<span class={`status ${store.up ? "" : "off"}`}><i />{store.up ? "answers" : "does not answer"}</span>}>
      <dl class="fact">
        <dt>Counters</dt><dd>{store.kind === "memory" ? "in this process' memory" : "on Redis"}</dd>
        <dt>Keys in memory</dt><dd>{count(store.keys)}, {bytes(store.bytes)}</dd>
        <dt>Evicted alive</dt><dd>{count(store.evicted)} since the start</dd>
        {remote && (
          <>
            <dt>Circuit breaker</dt><dd class={remote.breaker_open ? "bad" : ""}>{remote.breaker_open ? "open" : "closed"}; opened {count(remote.breaker_opened)} times since the start</dd>
            <dt>Nodes</dt><dd>{remote.nodes === 0 ? "not known" : count(remote.nodes)}</dd>
            <dt>Mean of a call</dt><dd>{count(remote.mean_us)} µs</dd>
            <dt>99 % of calls</dt><dd>{percentile(remote.round_trips, 0.99)}</dd>
            <dt>Without the store</dt><dd>{count(remote.degraded)} of {count(remote.requests)}, {percent(remote.degraded, remote.requests)}</dd>
            <dt>Denied from memory</dt><dd>{count(remote.denials_remembered)}</dd>
            <dt>Failed calls</dt><dd>{remote.failures.filter(([, n]) => n > 0).map(([why, n]) => `${why} ${count(n)}`).join(", ") || "none"}</dd>
          </>
        )}
      </dl>
    </Card>
  );
}

/** The bound below which that part of all calls lies. */
function percentile(buckets: [number | null, number][], part: number): string {
  const all = buckets.reduce((sum, [, n]) => sum + n, 0);
  if (all === 0) return "no calls yet";
  let sum = 0;
  for (const [bound, n] of buckets) {
    sum += n;
    if (sum >= all * part) return bound === null ? "more than the longest that is counted" : `within ${count(bound)} µs`;
  }
  return "–";
}

function HistoryCard({ isOn, status, error }: { isOn: boolean; status?: HistoryStatus; error?: Parameters<typeof Problem>[0]["error"] }) {
  if (!isOn) {
    return (
      <Card title="History" aside={<span class="status still"><i />off</span>}>
        <p>No history is kept, so there are no curves and no top lists. Turn it on with <code>history.enabled: true</code> in <code>tollgate.yaml</code>, or start the server without <code>TOLLGATE_HISTORY=false</code>.</p>
      </Card>
    );
  }
  if (!status) return <Card title="History">{error ? <Problem error={error} /> : <Loading />}</Card>;
  const isWell = status.open && !status.error;
  return (
    <Card title="History" aside={<span class={`status ${isWell ? "" : "off"}`}><i />{isWell ? "is written" : "has a problem"}</span>}>
      {status.error && <div class="notice bad" role="alert">{status.error}</div>}
      <dl class="fact">
        <dt>Kept in</dt><dd><Name text={status.place} /></dd>
        <dt>Newest minute</dt><dd>{status.newest ? time(status.newest) : "nothing yet"}</dd>
        <dt>Series</dt><dd>{status.series === undefined ? "–" : count(status.series)}</dd>
        <dt>Space</dt><dd>{status.disk_bytes == null ? "–" : bytes(status.disk_bytes)}</dd>
        <dt>Names of keys</dt><dd>{status.keys}</dd>
        <dt>Waiting</dt><dd>{count(status.waiting_flushes)} flushes</dd>
        <dt>Lost since the start</dt><dd class={status.lost_requests > 0 ? "bad" : ""}>{count(status.lost_requests)} requests</dd>
      </dl>
    </Card>
  );
}

type Period = { from: number; to: number; requests: number };

/** Buckets next to each other in which requests were let through without the store. */
function periods(answer: HistorySeries): Period[] {
  const { at, total, stepS } = buckets(answer);
  const found: Period[] = [];
  at.forEach((from, i) => {
    const requests = total[i] ?? 0;
    if (requests === 0) return;
    const last = found.at(-1);
    if (last?.to === from) found[found.length - 1] = { ...last, to: from + stepS, requests: last.requests + requests };
    else found.push({ from, to: from + stepS, requests });
  });
  return found;
}

function Degraded({ answer }: { answer: HistorySeries }) {
  const found = periods(answer);
  const length = answer.to - answer.from;
  const place = (s: number) => `${Math.max(0, Math.min(100, (100 * (s - answer.from)) / length))}%`;
  return (
    <>
      <div>
        <div class="timeline" aria-hidden="true">{found.map((own) => <i key={own.from} class="outcome-degraded" title={`${time(own.from)} – ${time(own.to)}: ${count(own.requests)} requests`} style={{ left: place(own.from), right: `calc(100% - ${place(own.to)})` }} />)}</div>
        <div class="scale" aria-hidden="true"><span>{timeIn(length, answer.from)}</span><span>{timeIn(length, answer.to)}</span></div>
      </div>
      <div class="scroll" tabIndex={0} role="region" aria-label="Degraded periods">
        <table>
          <thead><tr><th>From</th><th>To</th><th class="num">Lasted at most</th><th class="num">Requests</th></tr></thead>
          <tbody>{found.slice(-20).reverse().map((own) => <tr key={own.from}><td>{time(own.from)}</td><td>{time(own.to)}</td><td class="num">{span(own.to - own.from)}</td><td class="num">{count(own.requests)}</td></tr>)}</tbody>
        </table>
      </div>
      <Chart answer={answer} label="Degraded requests over time" onZoom={setSpan} onZoomOut={() => move(0, 2)} />
    </>
  );
}

const FROM: Record<string, string> = { flag: "flag", environment: "environment", file: "tollgate.yaml", default: "default" };

/** What is set and where; everything that can be set on demand. */
function SettingsCard() {
  const { data, error } = useLoad("settings", (signal) => api.settings(signal), Infinity);
  const isAll = param("settings") === "all";
  const all = data?.settings ?? [];
  const shown = all.filter((own) => isAll || own.from !== "default");
  return (
    <Card title="Settings in force" aside={data && <button aria-pressed={isAll} onClick={() => setParams({ settings: isAll ? "" : "all" }, true)}>Defaults, too</button>}>
      {!data ? (error ? <Problem error={error} /> : <Loading />) : shown.length === 0 ? <p class="dim">Nothing is set: all {count(all.length)} settings have their defaults.</p> : (
        <div class="scroll settings" tabIndex={0} role="region" aria-label="Settings">
          <table>
            <thead><tr><th>Setting</th><th>Value</th><th class="wide">From</th></tr></thead>
            <tbody>{shown.map((own) => <tr key={own.name}><td class="wrap"><code>{own.name}</code></td><td class={`wrap ${own.from === "default" ? "dim" : ""}`}>{own.value === "" ? <span class="dim">–</span> : <Name text={own.value} max={400} />}</td><td class="wide dim">{FROM[own.from] ?? own.from}</td></tr>)}</tbody>
          </table>
        </div>
      )}
    </Card>
  );
}
