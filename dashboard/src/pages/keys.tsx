// Keys: who sends the most and who is denied most, under each rule; and one key: what its limits hold, and a reset.
// Keys are never summed over rules: a key under two rules is two rows.
import { useRef, useState } from "preact/hooks";
import { ApiError, api, type HistorySeries, type HistoryTop, type Key, type KeyRequest } from "../api";
import { Chart, barsMax } from "../chart";
import { count, percent, span, visible } from "../format";
import { algorithmName, limitLine } from "../limits";
import { useLoad } from "../load";
import { href, param, setParams, subject } from "../location";
import { Blocked } from "../parts/blocked";
import { Card, Loading, Name, NoTraffic, Problem } from "../parts/common";
import { entries, explainHref } from "../parts/entries";
import { rowHref } from "../parts/top";
import { move, query, setSpan } from "../range";

type KeyRow = HistoryTop["rows"][number];

export function Keys() {
  const name = subject.value[0];
  return name === undefined ? <KeyList /> : <OneKey key={`${name} ${param("rule")} ${param("domain")}`} name={name} />;
}

function KeyList() {
  const order = param("order") === "total" ? "total" : "denied";
  const [rule, domain] = [param("rule"), param("domain")];
  const { data, error } = useLoad(JSON.stringify(["keys", order, rule, domain, query()]), (signal) => api.top({ by: "key", order, limit: 200, rule, domain, ...query() }, signal));
  const wanted = param("filter").toLowerCase();
  const rows = (data?.rows ?? []).filter((row) => row.name.toLowerCase().includes(wanted));
  return (
    <>
      <Card title="Look one up"><Lookup /></Card>
      <Blocked rule={rule} domain={domain} />
      {!data && (error ? <Problem error={error} /> : <Loading />)}
      {data && (
        <Card
          title={order === "denied" ? "Most denied keys" : "Busiest keys"}
          aside={
            <span class="row">
              <span class="group">
                <button aria-pressed={order === "denied"} onClick={() => setParams({ order: "" })}>Most denied</button>
                <button aria-pressed={order === "total"} onClick={() => setParams({ order: "total" })}>Busiest</button>
              </span>
              <Under rule={rule} domain={domain} />
              <input type="search" placeholder="Filter" aria-label="Filter keys" value={param("filter")} onInput={(event) => setParams({ filter: event.currentTarget.value }, true)} />
            </span>
          }
        >
          {rows.length > 0 ? <KeyTable rows={rows} isBusiest={order === "total"} /> : data.other.total > 0 && order === "denied" ? <p class="dim">No key was denied in this time.</p> : <NoTraffic />}
        </Card>
      )}
    </>
  );
}

/** Of which rule and domain keys are listed. */
function Under({ rule, domain }: { rule: string; domain: string }) {
  const { data } = useLoad("rules over keys", (signal) => api.rules(signal), 60_000);
  const rules = data?.rules ?? [];
  const domains = [...new Set(rules.map((own) => own.domain))].sort();
  const names = [...new Set(rules.filter((own) => domain === "" || own.domain === domain).map((own) => own.name))].sort();
  const choice = (name: "rule" | "domain", chosen: string, all: string, values: string[]) => (
    <select aria-label={`Only of a ${name}`} value={chosen} onChange={(event) => setParams(name === "domain" ? { domain: event.currentTarget.value, rule: "" } : { rule: event.currentTarget.value })}>
      <option value="">{all}</option>
      {(chosen === "" || values.includes(chosen) ? values : [chosen, ...values]).map((own) => <option key={own} value={own}>{visible(own, 60)}</option>)}
    </select>
  );
  return <>{domains.length > 1 && choice("domain", domain, "All domains", domains)}{choice("rule", rule, "All rules", names)}</>;
}

/** A phone has room for the number that the list goes by. */
function KeyTable({ rows, isBusiest }: { rows: KeyRow[]; isBusiest: boolean }) {
  const [decisions, denied] = isBusiest ? ["num", "num wide"] : ["num wide", "num"];
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Keys">
      <table>
        <thead><tr><th>Key</th><th class="wide">Rule</th><th class="wide">Domain</th><th class={decisions}>Decisions</th><th class={denied}>Denied</th><th class="num">Denied %</th></tr></thead>
        <tbody>
          {rows.map((row) => (
            <tr key={`${row.domain} ${row.rule} ${row.name}`}>
              <td class="wrap"><a href={rowHref("key", row)}><Name text={row.name} max={60} /></a>{row.rule !== undefined && <span class="phone dim small"><Name text={row.rule} max={40} /></span>}</td>
              <td class="wide">{row.rule === undefined ? <span class="dim">–</span> : <a href={href(["rules", row.rule])}><Name text={row.rule} max={40} /></a>}</td>
              <td class="wide">{row.domain === undefined ? <span class="dim">–</span> : <Name text={row.domain} max={40} />}</td>
              <td class={decisions}>{count(row.total)}</td>
              <td class={denied}>{count(row.denied)}</td>
              <td class={`num ${row.denied > 0 ? "bad" : "dim"}`}>{percent(row.denied, row.total)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Lookup({ domain = "", name = "" }: { domain?: string; name?: string }) {
  const rules = useLoad("rules for lookup", (signal) => api.rules(signal), 60_000);
  const domains = [...new Set((rules.data?.rules ?? []).map((rule) => rule.domain))];
  const [ownDomain, setDomain] = useState(domain);
  const [text, setText] = useState(name);
  const chosen = ownDomain || domains[0] || "";
  const isWrong = text !== "" && entries(text) === undefined;
  const look = (event: Event) => {
    event.preventDefault();
    if (entries(text)) location.hash = href(["keys", text], { domain: chosen, rule: "" }).slice(1);
  };
  return (
    <form class="row form" onSubmit={look}>
      <label class="field whole">Domain<input list="domains" value={chosen} onInput={(event) => setDomain(event.currentTarget.value)} required /></label>
      <datalist id="domains">{domains.map((own) => <option key={own} value={own} />)}</datalist>
      <label class="field grow">Entries, in the order of the rules<input class="mono" placeholder="user_id=42" value={text} onInput={(event) => setText(event.currentTarget.value)} required /></label>
      <button class="primary" disabled={isWrong}>Look up</button>
      {isWrong && <span class="bad small" role="alert">Write entries as key=value, with commas between them, each key once.</span>}
    </form>
  );
}

function OneKey({ name }: { name: string }) {
  const [domain, rule] = [param("domain"), param("rule")];
  const isCompared = param("compare") === "1";
  const { data, error } = useLoad(JSON.stringify(["key", name, domain, rule, query(), isCompared]), (signal) => api.series({ by: "key", name, rule, domain, max_points: barsMax(), compare: isCompared ? "previous_period" : undefined, ...query() }, signal));
  const descriptor = entries(name);
  return (
    <>
      <div class="row"><a href={href(["keys"])}>All keys</a><span class="dim">/</span><h2><Name text={name} /></h2>{rule && <span class="dim">under the rule <a href={href(["rules", rule])}><Name text={rule} /></a></span>}</div>
      {domain && descriptor ? <KeyState key={`${domain} ${name}`} request={{ domain, descriptors: [descriptor] }} /> : <Card title="What its limits hold"><p class="dim">Say which domain it belongs to, and its entries:</p><Lookup domain={domain} name={name} /></Card>}
      {!data ? error ? <Problem error={error} /> : <Loading /> : data.total === 0 ? (
        <Card title="Decisions by outcome"><p>The history has nothing of this key in this time. It keeps the 1,000 busiest keys of each rule.</p></Card>
      ) : byRule(data).map((own) => (
        <Card key={own.title} title={`Decisions by outcome, ${own.title}`} aside={<button aria-pressed={isCompared} onClick={() => setParams({ compare: isCompared ? "" : "1" })}>Period before</button>}>
          <KeyChart name={name} title={own.title} answer={own.answer} />
        </Card>
      ))}
    </>
  );
}

/** One answer for each rule that the key meets: its decisions are never summed over rules. */
function byRule(answer: HistorySeries): { title: string; answer: HistorySeries }[] {
  const nameOf = (curve: HistorySeries["series"][number]) => `rule ${visible(curve.rule ?? "?", 60)} of ${visible(curve.domain ?? "?", 60)}`;
  const titles = [...new Set(answer.series.map(nameOf))];
  const only = (curves: HistorySeries["series"], title: string) => curves.filter((curve) => nameOf(curve) === title);
  return titles.map((title) => ({
    title,
    answer: { ...answer, series: only(answer.series, title), compare: answer.compare && { ...answer.compare, series: only(answer.compare.series, title) } },
  }));
}

/** One chart: the decisions of one rule about the key, with the limit that was in force then. */
function KeyChart({ name, title, answer }: { name: string; title: string; answer: HistorySeries }) {
  const { rule: ruleName, domain } = answer.series[0] ?? {};
  const { data: limit } = useLoad(JSON.stringify(["limit of a key", ruleName, domain, answer.step_s]), async (signal) => {
    const { rules } = await api.rules(signal);
    const rule = rules.find((own) => own.name === ruleName && own.domain === domain);
    if (!rule) return undefined;
    const { changes } = await api.ruleLog({ path: rule.path, name: rule.name }, signal);
    return limitLine(changes, rule, answer.step_s);
  }, 60_000);
  return <Chart answer={answer} limit={limit} label={`Decisions about ${visible(name)} by outcome, ${title}`} onZoom={setSpan} onZoomOut={() => move(0, 2)} />;
}

function KeyState({ request }: { request: KeyRequest }) {
  const [version, setVersion] = useState(0);
  const [told, setTold] = useState("");
  const { data, error } = useLoad(`state ${JSON.stringify(request)} ${version}`, (signal) => api.key(request, signal), 2_000);
  const reset = async () => {
    try {
      const { forgotten } = await api.reset(request);
      setTold(forgotten === 0 ? "There was nothing to reset." : `${count(forgotten)} ${forgotten === 1 ? "counter was" : "counters were"} reset.`);
    } catch (problem) {
      setTold(problem instanceof ApiError ? `${problem.message} ${problem.fix}` : String(problem));
    }
    setVersion(version + 1);
  };
  return (
    <Card title="What its limits hold now" aside={data && data.counters.length > 0 && <span class="row"><a href={explainHref(request.domain, request.descriptors[0] ?? {})}>Explain</a><ResetButton limits={data.counters.length} confirmed={() => void reset()} /></span>}>
      {told && <p role="status"><b>{told}</b></p>}
      {!data ? (error ? <Problem error={error} /> : <Loading />) : data.counters.length === 0 ? <p>No rule of this domain limits it. <a href={explainHref(request.domain, request.descriptors[0] ?? {})}>Explain</a> says why.</p> : <Counters answer={data} />}
    </Card>
  );
}

function Counters({ answer }: { answer: Key }) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Limits of this key">
      <table>
        <thead><tr><th>Rule</th><th class="wide">Algorithm</th><th class="num">Used</th><th class="num wide">Remaining</th><th class="num wide">As new in</th><th>The next request</th></tr></thead>
        <tbody>
          {answer.counters.map((counter) => (
            <tr key={`${counter.path} ${counter.rule}`}>
              <td class="nowrap">{counter.rule === undefined ? "–" : <a href={href(["rules", counter.rule])}><Name text={counter.rule} max={40} /></a>}{counter.shadow && <> <span class="tag">shadow</span></>}{counter.degraded && <> <span class="tag">degraded</span></>}</td>
              <td class="wide">{algorithmName(counter.algorithm)}</td>
              <td class="num">{counter.reason === "deny_list" ? "–" : <>{count(counter.used)} of {count(counter.limit)}{counter.exceed_percent > 0 && <span class="dim small under">{counter.exceed_percent} % more now</span>}</>}</td>
              <td class="num wide">{count(counter.remaining)}</td>
              <td class="num wide">{span(counter.reset_after_ms / 1000)}</td>
              <td><NextRequest counter={counter} /></td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** What becomes of the next request, and why. */
function NextRequest({ counter }: { counter: Key["counters"][number] }) {
  const { next, reason } = counter;
  const wait = counter.next_after_ms === undefined ? "" : span(counter.next_after_ms / 1000);
  if (next === "allow") return <span class="good">passes</span>;
  if (next === "delay") return <span>waits for {wait}</span>;
  if (reason === "penalty") return <span class="bad"><b>is blocked</b>{wait && ` for ${wait}`}: it was denied too often</span>;
  if (reason === "deny_list") return <span class="bad">is denied: it is on a deny list</span>;
  return <span class="bad">is denied{wait && `; passes in ${wait}`}</span>;
}

/** Asks first: a reset lets the key start anew under every limit that it meets. */
function ResetButton({ limits, confirmed }: { limits: number; confirmed: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const close = (isSure: boolean) => {
    dialog.current?.close();
    if (isSure) confirmed();
  };
  return (
    <>
      <button class="danger" onClick={() => dialog.current?.showModal()}>Reset…</button>
      <dialog ref={dialog} aria-labelledby="reset-title">
        <div>
          <h2 id="reset-title">Reset this key?</h2>
          <p>It starts anew under {limits === 1 ? "its limit" : `its ${limits} limits`}. The server logs it. This cannot be undone.</p>
          <div class="row"><button class="danger" onClick={() => close(true)}>Reset</button><button onClick={() => close(false)}>Keep</button></div>
        </div>
      </dialog>
    </>
  );
}
