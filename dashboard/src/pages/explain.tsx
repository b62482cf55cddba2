// Explain: what a request meets now, which limit decides, and why. The server says it; nothing is counted.
import { useState } from "preact/hooks";
import { api, type Explanation } from "../api";
import { count, sentence, span, thousands } from "../format";
import { useLoad } from "../load";
import { href, param, setParams } from "../location";
import { Card, Loading, Name, Problem } from "../parts/common";
import { entries } from "../parts/entries";

type Explained = Explanation["descriptors"][number];

const LISTS: Record<string, string> = { allow_list: "an allow list has it", deny_list: "a deny list has it" };
const FREE: Record<string, string> = { allow_list: "an allow list has it, and nothing is counted", unlimited: "the rule says unlimited", no_rule: "no rule matches it", unknown_domain: "no rules have this domain", replaced: "all rules here are replaced by others" };

export function Explain() {
  const [domain, text] = [param("domain"), param("entries")];
  const descriptor = entries(text);
  const { data, error } = useLoad(JSON.stringify(["explain", domain, text]), async (signal) => (domain && descriptor ? api.explain({ domain, descriptors: [descriptor] }, signal) : undefined), 2_000);
  return (
    <>
      <div class="heading">
        <div class="row"><a href={href(["rules"])}>All rules</a></div>
        <p class="dim">What a request would meet at this moment, and why. It only looks; nothing is counted.</p>
      </div>
      <Card title="The request"><Question key={`${domain} ${text}`} domain={domain} text={text} /></Card>
      {error ? <Problem error={error} /> : domain && descriptor && (data ? <Told answer={data} /> : <Loading />)}
    </>
  );
}

function Question({ domain, text }: { domain: string; text: string }) {
  const { data } = useLoad("rules to explain", (signal) => api.rules(signal), 60_000);
  const domains = [...new Set((data?.rules ?? []).map((rule) => rule.domain))];
  const [ownDomain, setDomain] = useState(domain);
  const [ownText, setText] = useState(text);
  const isWrong = ownText !== "" && entries(ownText) === undefined;
  const ask = (event: Event) => {
    event.preventDefault();
    if (entries(ownText)) setParams({ domain: ownDomain || domains[0] || "", entries: ownText });
  };
  return (
    <form class="row form" onSubmit={ask}>
      <label class="field whole">Domain<input list="explain-domains" value={ownDomain || domains[0] || ""} onInput={(event) => setDomain(event.currentTarget.value)} required /></label>
      <datalist id="explain-domains">{domains.map((own) => <option key={own} value={own} />)}</datalist>
      <label class="field grow">Entries, in the order of the rules<input class="mono" placeholder="user_id=42" value={ownText} onInput={(event) => setText(event.currentTarget.value)} required /></label>
      <button class="primary" disabled={isWrong}>Explain</button>
      {isWrong && <span class="bad small" role="alert">Write entries as key=value, with commas between them, each key once.</span>}
    </form>
  );
}

function Told({ answer }: { answer: Explanation }) {
  const wait = answer.wait_us ?? answer.retry_after_us;
  const after = wait == null ? "" : span(wait / 1e6);
  const verdict = answer.verdict === "allow" ? "It passes" : answer.verdict === "delay" ? `It waits for ${after}` : `It is denied${after ? `; it passes in ${after}` : ""}`;
  return (
    <>
      <div class={`notice ${answer.verdict === "deny" ? "bad" : ""}`} role="status">
        <span><b>{verdict}.</b> {answer.binding != null && <>The limit that decides is <a href={href(["rules", answer.binding])}><Name text={answer.binding} max={60} /></a>. </>}<span class="dim">It would count as {answer.outcome.replace("_", " ")}.</span></span>
        {!answer.domain_known && <p>No rules have this domain{answer.nearest_domain != null && <>; perhaps <Name text={answer.nearest_domain} max={60} /> is meant</>}.</p>}
      </div>
      {answer.descriptors.map((own, i) => (
        <div key={i} class="columns">
          <Card title="The way through the rules"><Way told={own} /></Card>
          <Card title="The limits that it reaches"><Limits told={own} /></Card>
        </div>
      ))}
    </>
  );
}

/** Level by level: what the entry found, and what it passed by. */
function Way({ told }: { told: Explained }) {
  return (
    <>
      {told.levels.map((level, i) => (
        <div key={i} class="step">
          <p><Name text={level.entry} max={80} /> {level.chosen == null ? <span class="bad">matches nothing</span> : <span class="dim">{level.passed_limits && "has limits, but more entries follow"}</span>}</p>
          <ul class="choices">
            {level.candidates.map((own) => <li key={own.text} class={own.chosen ? "chosen" : "dim"}><Name text={own.text} max={60} /> <span>{own.reason}</span></li>)}
            {level.left_out > 0 && <li class="dim">and {count(level.left_out)} more that do not match</li>}
          </ul>
        </div>
      ))}
      {told.unknown_key != null && <p>No rule of the domain has the key <Name text={told.unknown_key} max={60} />{told.nearest_key != null && <>; perhaps <Name text={told.nearest_key} max={60} /> is meant</>}.</p>}
      {told.exception !== undefined && <p class="bad">The deny list of the domain has it: denied, nothing is counted, and waiting does not help.</p>}
    </>
  );
}

function Limits({ told }: { told: Explained }) {
  if (told.limits.length === 0) return <p>None{told.free != null && `: ${FREE[told.free] ?? told.free}`}.</p>;
  return (
    <>
      {told.limits.map((limit) => (
        <div key={limit.path + limit.rule} class="step">
          <p><a href={href(["rules", limit.rule], { path: limit.path })}><Name text={limit.rule} max={60} /></a>{limit.mode !== "enforce" && <> <span class="tag">{limit.mode.replace("_", " ")}</span></>}{limit.decision?.binding && <> <span class="tag">decides</span></>}</p>
          <p class="dim small">{sentence(thousands(limit.limit.replaceAll("_", " ")))}</p>
          <p>{limitDecision(limit)}</p>
        </div>
      ))}
    </>
  );
}

function limitDecision(limit: Explained["limits"][number]) {
  if (limit.skipped !== undefined) return <span class="dim">Not asked: {LISTS[limit.skipped] ?? limit.skipped}.</span>;
  if (limit.replaced_by != null) return <span class="dim">Steps back for <Name text={limit.replaced_by} max={60} />.</span>;
  const { decision } = limit;
  if (!decision) return <span class="dim">Does not apply.</span>;
  if (decision.reason === "deny_list") return <span class="bad">Denies: a deny list has it. Waiting does not help.</span>;
  const more = decision.exceed_percent > 0 ? `, ${decision.exceed_percent} % more now` : "";
  const used = `${count(decision.used)} of ${count(decision.limit)} used with this request${more}`;
  if (decision.verdict === "allow") return <span><span class="good">Allows</span>{decision.soft && " as soft"}: {used}.</span>;
  if (decision.verdict === "delay") return <span>Makes it wait {decision.wait_us != null && span(decision.wait_us / 1e6)}: {used}.</span>;
  const until = decision.retry_after_us == null ? "this cost never passes" : `passes in ${span(decision.retry_after_us / 1e6)}`;
  return <span><span class="bad">{decision.reason === "penalty" ? "Blocks: it was denied too often" : "Denies"}</span>; {until}. <span class="dim">{count(decision.used)} of {count(decision.limit)} used{more}.</span></span>;
}
