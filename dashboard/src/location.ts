// The state of the page in the address bar: `#/rules/login?last=24h`. A link shows the same again.
// Everything that a link must reproduce lives here; what it must not (an open menu) lives in components.
import { computed, signal } from "@preact/signals";

type Place = { path: string[]; params: URLSearchParams };

function read(): Place {
  const [path = "", query = ""] = location.hash.replace(/^#\/?/, "").split("?", 2);
  const decode = (part: string) => {
    try {
      return decodeURIComponent(part);
    } catch {
      return part;
    }
  };
  return { path: path.split("/").filter((part) => part !== "").map(decode), params: new URLSearchParams(query) };
}

const place = signal(read());
addEventListener("hashchange", () => (place.value = read()));

export const page = computed(() => place.value.path[0] ?? "overview");
/** What the page is about: the name of a route, a rule or a key. */
export const subject = computed(() => place.value.path.slice(1));
export const params = computed(() => place.value.params);
export const param = (name: string) => place.value.params.get(name) ?? "";

/** Parameters that go along from page to page. */
const SHARED = ["last", "from", "to", "compare", "utc"];

/** The address of another page over the same time. */
export function href(path: string[], own: Record<string, string> = {}): string {
  const next = new URLSearchParams();
  for (const name of SHARED) if (place.value.params.has(name)) next.set(name, param(name));
  for (const [name, value] of Object.entries(own)) next.set(name, value);
  return written(path, next);
}

function written(path: string[], query: URLSearchParams): string {
  const text = query.toString();
  return `#/${path.map(encodeURIComponent).join("/")}${text === "" ? "" : `?${text}`}`;
}

/** Changes parameters of this page; an empty value removes one. `replace` makes no entry to go back to. */
export function setParams(changes: Record<string, string>, replace = false): void {
  const next = new URLSearchParams(place.value.params);
  for (const [name, value] of Object.entries(changes)) value === "" ? next.delete(name) : next.set(name, value);
  const address = written(place.value.path, next);
  history[replace ? "replaceState" : "pushState"](null, "", address);
  place.value = read();
}

export function go(address: string): void {
  location.hash = address.replace(/^#/, "");
}
