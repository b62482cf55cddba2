// Whom penalties block now. The server knows the blocks that it began or met, and asks the store about each.
import { api, type BlockedKeys } from "../api";
import { count, span, time, timeIn, visible } from "../format";
import { useLoad } from "../load";
import { href } from "../location";
import { Card, Name, Problem } from "./common";

const DAY_S = 86_400;

/** Nothing where no rule has a penalty. */
export function Blocked({ rule, domain }: { rule: string; domain: string }) {
  const { data, error } = useLoad(JSON.stringify(["blocked", rule, domain]), async (signal) => {
    const [blocked, { rules }] = await Promise.all([api.blocked({ rule, domain }, signal), api.rules(signal)]);
    return { blocked, penalties: rules.filter((own) => own.penalty && (rule === "" || own.name === rule) && (domain === "" || own.domain === domain)).length };
  });
  if (!data) return error ? <Problem error={error} /> : null;
  const { blocked, penalties } = data;
  if (penalties === 0 && blocked.keys.length === 0) return null;
  return (
    <Card title="Blocked now" aside={blocked.keys.length > 0 && <span class="dim small">{count(blocked.keys.length + blocked.more)} {blocked.keys.length + blocked.more === 1 ? "key" : "keys"}</span>}>
      {blocked.keys.length > 0 ? <BlockedTable keys={blocked.keys} /> : <p>Nobody, as far as this server has met {penalties === 1 ? "the penalty" : `the ${count(penalties)} penalties`} of its rules.</p>}
      <p class="dim small">
        These are the blocks that this server began or met since its start, each asked of the store as you look. Whoever was blocked by another node, or before a restart, is listed with the next request.
        {blocked.names === "off" && " The history keeps no names of keys, so there are none here."}
        {blocked.more > 0 && ` ${count(blocked.more)} more are known: choose a rule to see them.`}
        {blocked.unlisted > 0 && ` ${count(blocked.unlisted)} requests met blocks that the list had no room for.`}
      </p>
    </Card>
  );
}

function BlockedTable({ keys }: { keys: BlockedKeys["keys"] }) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Blocked keys">
      <table>
        <thead><tr><th>Key</th><th class="wide">Rule</th><th class="wide">Domain</th><th class="num wide">Since</th><th class="num wide">Denied since</th><th class="num">Ends in</th></tr></thead>
        <tbody>
          {keys.map((own, i) => (
            <tr key={`${own.path} ${own.rule} ${own.key ?? i}`}>
              <td class="wrap">{own.key === undefined ? <span class="dim">(no name)</span> : <a href={href(["keys", own.key], { domain: own.domain, rule: own.rule })}><Name text={own.key} max={60} /></a>}{own.shadow && <> <span class="tag">shadow</span></>}{own.degraded && <> <span class="tag" title="The store cannot be asked whether it still is.">degraded</span></>}<span class="phone dim small">{visible(own.rule, 40)}</span></td>
              <td class="wide"><a href={href(["rules", own.rule], { path: own.path })}><Name text={own.rule} max={40} /></a></td>
              <td class="wide"><Name text={own.domain} max={40} /></td>
              <td class="num wide">{Date.now() / 1000 - own.since_unix_s < DAY_S ? timeIn(DAY_S, own.since_unix_s) : time(own.since_unix_s)}</td>
              <td class="num wide">{count(own.denied)}</td>
              <td class="num bad">{span(own.blocked_for_ms / 1000)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
