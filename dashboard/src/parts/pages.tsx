// Long lists page by page; which page is in the address bar.
import { count } from "../format";
import { param, setParams } from "../location";

/** The rows of the page that the address names; `all` if there are more of them than were asked for. */
export function paged<T>(rows: T[], size: number, all = rows.length): { at: number; pages: number; shown: T[] } {
  const pages = Math.max(1, Math.ceil(all / size));
  const at = Math.min(pages, Math.max(1, Number(param("page")) || 1));
  return { at, pages, shown: rows.slice((at - 1) * size, at * size) };
}

export function Pages({ at, pages }: { at: number; pages: number }) {
  if (pages === 1) return null;
  return (
    <div class="row">
      <button disabled={at === 1} onClick={() => setParams({ page: String(at - 1) })}>Back</button>
      <span class="dim">page {count(at)} of {count(pages)}</span>
      <button disabled={at === pages} onClick={() => setParams({ page: String(at + 1) })}>Next</button>
    </div>
  );
}
