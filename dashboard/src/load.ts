// Asks again and again: a hook that loads what a page needs, and keeps it fresh.
// Invariant: what is shown belongs to the newest question; an older answer that comes late is dropped.
import { signal } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import { ApiError, isConnected, isSignedOut } from "./api";

/** Whether pages refresh themselves. */
export const isPaused = signal(false);

const EVERY_MS = 5_000;
const RETRY_MS = 2_000;

export type Loaded<T> = { data?: T; error?: ApiError; key: string };

/** Loads at once, when `key` changes, and then every five seconds while the page is looked at. */
export function useLoad<T>(key: string, load: (signal: AbortSignal) => Promise<T>, everyMs = EVERY_MS): Loaded<T> {
  const [loaded, setLoaded] = useState<Loaded<T>>({ key });
  const signedOut = isSignedOut.value;
  useEffect(() => {
    const abort = new AbortController();
    let timer = 0;
    const run = async () => {
      try {
        const data = await load(abort.signal);
        if (!abort.signal.aborted) setLoaded({ data, key });
      } catch (error) {
        if (abort.signal.aborted) return;
        const told = error instanceof ApiError ? error : new ApiError(String(error), "Reload the page.", 0, "");
        // What was there stays while the server is away.
        setLoaded((before) => ({ data: told.status === 0 && before.key === key ? before.data : undefined, error: told, key }));
      }
      schedule();
    };
    const schedule = () => {
      const wait = isConnected.value ? everyMs : RETRY_MS;
      if (!abort.signal.aborted && Number.isFinite(wait)) timer = window.setTimeout(() => (isPaused.value || document.hidden ? schedule() : void run()), wait);
    };
    void run();
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, [key, signedOut]);
  return loaded.key === key ? loaded : { key, data: loaded.data };
}
