// The entries of a descriptor as people write them: `user_id=42,path=/cart`.
import { href } from "../location";

/** `user_id=42,path=/cart` as the entries of a descriptor, in order. */
export function entries(text: string): Record<string, string> | undefined {
  const pairs = text.split(",").map((part) => part.trim()).filter((part) => part !== "").map((part): [string, string] => {
    const at = part.indexOf("=");
    return at < 0 ? [part, ""] : [part.slice(0, at), part.slice(at + 1)];
  });
  if (pairs.length === 0 || pairs.some(([key]) => key === "") || new Set(pairs.map(([key]) => key)).size < pairs.length) return undefined;
  return Object.fromEntries(pairs);
}

export const entriesText = (descriptor: Record<string, string>) => Object.entries(descriptor).map(([key, value]) => (value === "" ? key : `${key}=${value}`)).join(",");

/** The page that explains what happens to such a request. */
export const explainHref = (domain: string, descriptor: Record<string, string>) => href(["explain"], { domain, entries: entriesText(descriptor) });
