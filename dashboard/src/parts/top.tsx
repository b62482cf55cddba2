// Short lists of what has the most, for the overview and for the pages of one thing.
import type { ComponentChildren } from "preact";
import type { HistoryTop } from "../api";
import { count, percent, visible } from "../format";
import { href } from "../location";
import { Name } from "./common";

export type TopRow = HistoryTop["rows"][number];

/** Where a row leads to. Keys belong to a rule of a domain, so these go along. */
export function rowHref(by: "route" | "rule" | "key", row: TopRow): string {
  const own: Record<string, string> = {};
  if (row.domain) own.domain = row.domain;
  if (row.rule) own.rule = row.rule;
  return href([`${by}s`, row.name], own);
}

const HEADINGS = { route: "Route", rule: "Rule", key: "Key" };

export function TopList({ by, answer, what, limit = 8, ofRule, more }: { by: "route" | "rule" | "key"; answer: HistoryTop; what: "total" | "denied"; limit?: number; ofRule?: string; more?: (row: TopRow) => ComponentChildren }) {
  const rows = answer.rows.slice(0, limit);
  if (rows.length === 0) return <p class="dim">{what === "denied" ? "Nothing was denied in this time." : "Nothing in this time."}</p>;
  const most = Math.max(1, ...rows.map((row) => row[what]));
  return (
    <table class="top">
      <thead><tr><th>{HEADINGS[by]}</th><th class="num">{what === "denied" ? "Denied" : "Requests"}</th><th class="num">Denied %</th></tr></thead>
      <tbody>
        {rows.map((row) => (
          <tr key={`${row.domain} ${row.rule} ${row.name}`}>
            <td class="wrap"><a href={rowHref(by, row)}><Name text={row.name} max={60} /></a>{by === "key" && row.rule && row.rule !== ofRule && <span class="dim small under">{visible(row.rule, 40)}</span>}{more?.(row)}
              <span class="meter" aria-hidden="true"><i class={what === "denied" ? "outcome-denied" : "outcome-allowed"} style={{ width: `${(100 * row[what]) / most}%` }} /></span>
            </td>
            <td class="num">{count(row[what])}</td>
            <td class="num dim">{percent(row.denied, row.total)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
