// Health: is the server well, and if not, what is it that is not.
import { api, type Health as Answer, type HistorySeries, type HistoryStatus } from "../api";
import { Chart, barsMax, buckets } from "../chart";
import { percentile, periods, type Period } from "../figures";
import { bytes, count, percent, sentence, span, time, timeIn } from "../format";
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
      <Banner health={data} historyProblem={status.data?.error ?? undefined} />
      <div class="columns">
        <StoreCard health={data} />
        <HistoryCard isOn={data.history} status={status.data} error={status.error} />
      </div>
      {data.store.remote && data.store.remote.node_list.length > 0 && <NodesCard remote={data.store.remote} />}
      <Card title="Degraded periods">
        {degraded.error ? <Problem error={degraded.error} /> : degraded.data ? <Degraded answer={degraded.data} /> : <p class="dim">{data.history ? "Loading…" : "The time line needs the history, which is off."}</p>}
      </Card>
      <LoadCard />
      <Card title="Rule files"><Source status={data.rules} />{data.rules.files.length > 1 && <details><summary>{count(data.rules.files.length)} files</summary><ul>{data.rules.files.map((file) => <li key={file}><Name text={file} /></li>)}</ul></details>}</Card>
      <SettingsCard />
    </>
  );
}

/** How it is in a line; red if anything is not as it should be. */
function Banner({ health, historyProblem }: { health: Answer; historyProblem?: string }) {
  const { store, rules } = health;
  const troubles = [
    health.stopping ? "The server is stopping." : !health.healthy ? "The server does not want calls." : "",
    !store.up ? "The store does not answer: limits are decided without it." : store.remote?.breaker_open ? "A server of the store does not answer: some limits are decided without it." : "",
    rules.errors.length > 0 || rules.source_error !== undefined ? "The newest rule files were refused." : "",
    historyProblem ? "The history has a problem." : "",
  ].filter((text) => text !== "");
  const isBad = troubles.length > 0;
  return (
    <div class={`notice ${isBad ? "bad" : ""}`} role={isBad ? "alert" : undefined}>
      <span><b>{isBad ? troubles.join(" ") : "All is well."}</b> <span class="dim">Tollgate {health.version}; its clock says {time(health.now_unix_s)}.</span></span>
      {!store.up && <p>Each limit does what its <code>on_store_error</code> says, and replies are marked degraded. The server asks again by itself{store.remote && store.remote.failures.some(([, n]) => n > 0) && "; failed calls are counted below"}.</p>}
    </div>
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
            <dt>Circuit breaker</dt><dd class={remote.breaker_open ? "bad" : ""}>{remote.breaker_open ? "open" : "closed"}; {remote.breaker_opened === 0 ? "never opened" : remote.breaker_opened === 1 ? "opened once" : `opened ${count(remote.breaker_opened)} times`} since the start</dd>
            <dt>Mean of a call</dt><dd>{count(remote.mean_us)} µs</dd>
            <dt>99 % of calls</dt><dd>{longest(remote.round_trips)}</dd>
            <dt>Without the store</dt><dd>{count(remote.degraded)} of {count(remote.requests)}, {percent(remote.degraded, remote.requests)}</dd>
            <dt>Denied from memory</dt><dd>{count(remote.denials_remembered)}</dd>
            <dt>Failed calls</dt><dd>{remote.failures.filter(([, n]) => n > 0).map(([why, n]) => `${why} ${count(n)}`).join(", ") || "none"}</dd>
          </>
        )}
      </dl>
    </Card>
  );
}

/** How long nearly all calls take. */
function longest(roundTrips: [number | null, number][]): string {
  const bound = percentile(roundTrips, 0.99);
  return bound === undefined ? "no calls yet" : bound === null ? "more than the longest that is counted" : `within ${count(bound)} µs`;
}

const ago = (ms: number) => (ms < 1_500 ? "now" : `${span(Math.round(ms / 1000))} ago`);

/** Who else counts on the same store. */
function NodesCard({ remote }: { remote: NonNullable<Answer["store"]["remote"]> }) {
  const nodes = [...remote.node_list].sort((a, b) => Number(b.this) - Number(a.this) || (a.name < b.name ? -1 : 1));
  return (
    <Card title={`${count(remote.nodes)} ${remote.nodes === 1 ? "node shares" : "nodes share"} the store`}>
      <div class="scroll" tabIndex={0} role="region" aria-label="Nodes">
        <table>
          <thead><tr><th>Node</th><th class="num">Last heartbeat</th></tr></thead>
          <tbody>{nodes.map((node) => <tr key={node.name}><td class="wrap"><Name text={node.name} />{node.this && <> <span class="tag">this one</span></>}</td><td class="num">{ago(node.age_ms)}</td></tr>)}</tbody>
        </table>
      </div>
      <p class="dim small">{remote.nodes > nodes.length && `These are ${count(nodes.length)} of them. `}While the store is away, each gets its part of the limits. A node that stops drops out after three heartbeats.</p>
    </Card>
  );
}

/** How loaded the domains are, for those that have limits which go by it. */
function LoadCard() {
  const { data } = useLoad("load", async (signal) => {
    const [load, { rules }] = await Promise.all([api.load(signal), api.rules(signal)]);
    return { load, elastic: rules.filter((rule) => rule.elastic) };
  });
  if (!data || data.elastic.length === 0) return null;
  const domains = data.load.domains.filter(({ domain }) => data.elastic.some((rule) => rule.domain === domain));
  const { sources } = data.load;
  return (
    <Card title="Load" aside={<span class="dim small">{count(data.elastic.length)} elastic {data.elastic.length === 1 ? "limit goes" : "limits go"} by it</span>}>
      <dl class="fact">
        {domains.map(({ domain, load }) => <><dt key={domain}><Name text={domain} max={40} /></dt><dd><Percentage of={load} /></dd></>)}
      </dl>
      {sources.length === 0 ? <p class="dim">Nothing reports a load, so it counts as full and no limit stretches. Report one to <code>POST /v1/load</code>.</p> : (
        <div class="scroll" tabIndex={0} role="region" aria-label="Who reports the load">
          <table>
            <thead><tr><th>Reported by</th><th class="wide">About</th><th class="num">Said</th><th class="num">Counts as</th><th class="num">When</th></tr></thead>
            <tbody>{sources.map((own) => (
              <tr key={`${own.source} ${own.domain}`}>
                <td class="wrap"><Name text={own.source} max={40} />{own.silent && <> <span class="tag bad">silent</span></>}</td>
                <td class="wide">{own.domain === undefined ? <span class="dim">all domains</span> : <Name text={own.domain} max={40} />}</td>
                <td class="num">{percent(own.reported, 1)}</td><td class="num">{percent(own.load, 1)}</td><td class="num">{ago(own.age_ms)}</td>
              </tr>
            ))}</tbody>
          </table>
        </div>
      )}
    </Card>
  );
}

function Percentage({ of }: { of: number }) {
  return <span class="amount"><b>{percent(of, 1)}</b><span class="share" aria-hidden="true"><i style={{ width: `${100 * of}%` }} /></span></span>;
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
      {status.error && <div class="notice bad" role="alert">{sentence(status.error)}</div>}
      <dl class="fact">
        <dt>Kept in</dt><dd><Name text={status.place} /></dd>
        <dt>Newest minute</dt><dd>{status.newest ? time(status.newest) : "nothing yet"}</dd>
        <dt>Series</dt><dd>{status.series === undefined ? "–" : count(status.series)}</dd>
        <dt>Space</dt><dd>{status.disk_bytes == null ? "–" : bytes(status.disk_bytes)}</dd>
        <dt>Names of keys</dt><dd>{status.keys}</dd>
        <dt>Waiting</dt><dd>{count(status.waiting_flushes)} {status.waiting_flushes === 1 ? "flush" : "flushes"}</dd>
        <dt>Lost since the start</dt><dd class={status.lost_requests > 0 ? "bad" : ""}>{count(status.lost_requests)} requests</dd>
      </dl>
    </Card>
  );
}

/** When requests were decided without the store, as a line, a list and a chart. */
function Degraded({ answer }: { answer: HistorySeries }) {
  const found = periods(buckets(answer));
  const length = answer.to - answer.from;
  const place = (s: number) => `${Math.max(0, Math.min(100, (100 * (s - answer.from)) / length))}%`;
  return (
    <>
      <div>
        <div class="timeline" aria-hidden="true">{found.map((own) => <i key={own.from} class="outcome-degraded" title={`${time(own.from)} – ${time(own.to)}: ${count(own.requests)} requests`} style={{ left: place(own.from), right: `calc(100% - ${place(own.to)})` }} />)}</div>
        <div class="scale" aria-hidden="true">{[0, 0.25, 0.5, 0.75, 1].map((part) => <span key={part}>{timeIn(length > 43_200 ? Math.max(length, 3 * 86_400) : length, answer.from + part * length)}</span>)}</div>
      </div>
      {found.length === 0 ? <p>In this time every decision was made with the store.</p> : <DegradedList found={found} answer={answer} />}
    </>
  );
}

function DegradedList({ found, answer }: { found: Period[]; answer: HistorySeries }) {
  return (
    <>
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
            <tbody>{shown.map((own) => <tr key={own.name}><td class="setting"><code>{own.name.split(/(?<=[_.])/).map((part, i) => [i > 0 && <wbr />, part])}</code></td><td class={`wrap ${own.from === "default" ? "dim" : ""}`}>{own.value === "" ? <span class="dim">–</span> : <Name text={own.value} max={400} />}</td><td class="wide dim">{FROM[own.from] ?? own.from}</td></tr>)}</tbody>
          </table>
        </div>
      )}
    </Card>
  );
}
