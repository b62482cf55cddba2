// The shell: what is on every page, and which page is shown.
import { effect } from "@preact/signals";
import { render, type ComponentType } from "preact";
import { isConnected, isSignedOut, signOut, wasSignedOut } from "./api";
import { utc, visible } from "./format";
import { isPaused } from "./load";
import { href, page, param, setParams, subject } from "./location";
import { Picker } from "./parts/picker";
import { SignIn } from "./parts/signin";
import { Overview } from "./pages/overview";
import { Routes } from "./pages/routes";
import { RulesPage } from "./pages/rules";
import { Explain } from "./pages/explain";
import { HealthPage } from "./pages/health";
import { Keys } from "./pages/keys";
import { Playground } from "./pages/playground";
import { isLive } from "./range";
import { choice, theme } from "./theme";
import icon from "./icon.svg";

type PageEntry = { name: string; title: string; component: ComponentType; hasRange: boolean };

const PAGES: PageEntry[] = [
  { name: "overview", title: "Overview", component: Overview, hasRange: true },
  { name: "routes", title: "Routes", component: Routes, hasRange: true },
  { name: "rules", title: "Rules", component: RulesPage, hasRange: true },
  { name: "keys", title: "Keys", component: Keys, hasRange: true },
  { name: "health", title: "Health", component: HealthPage, hasRange: true },
  { name: "playground", title: "Playground", component: Playground, hasRange: false },
];

/** Reached by links, and not in the menu. */
const EXPLAIN: PageEntry = { name: "explain", title: "Explain", component: Explain, hasRange: false };

effect(() => {
  utc.value = param("utc") === "1";
});

function App() {
  const current = [...PAGES, EXPLAIN].find((entry) => entry.name === page.value);
  const title = current?.title ?? "No such page";
  document.title = `${subject.value[0] ? `${visible(subject.value[0], 40)} · ` : ""}${title} · Tollgate`;
  if (isSignedOut.value) return <main><SignIn /></main>;
  return (
    <>
      <a class="skip" href="#main" onClick={skip}>To the content</a>
      <header class="top">
        <div class="bar">
          <a class="brand" href={href(["overview"])}><img src={icon} alt="" width="24" height="24" />Tollgate</a>
          <nav class="pages" aria-label="Pages">
            {PAGES.map((entry) => <a key={entry.name} href={href([entry.name])} aria-current={entry === current || (current === EXPLAIN && entry.name === "rules") ? "page" : undefined}>{entry.title}</a>)}
          </nav>
          <Tools />
        </div>
      </header>
      <main id="main" tabIndex={-1}>
        <div class="row ends">
          <h1>{title}</h1>
          {current?.hasRange && <Picker />}
        </div>
        {!isConnected.value && <div class="notice bad" role="alert"><b>The server does not answer.</b><p>What you see may be old. This page tries again every two seconds.</p></div>}
        {current ? <current.component /> : <p>There is no such page. <a href="#/overview">To the overview</a></p>}
      </main>
    </>
  );
}

function skip(event: Event) {
  event.preventDefault();
  document.getElementById("main")?.focus();
}

function Tools() {
  const state = !isConnected.value ? ["off", "no answer"] : isPaused.value ? ["still", "paused"] : isLive.value ? ["", "live"] : ["still", "past"];
  const next = theme.value === "dark" ? "light" : "dark";
  return (
    <div class="tools">
      <span class={`status ${state[0]}`} role="status"><i />{state[1]}</span>
      <button class="plain" aria-pressed={isPaused.value} onClick={() => (isPaused.value = !isPaused.value)} title={isPaused.value ? "Refresh again" : "Stop refreshing"}>{isPaused.value ? "Resume" : "Pause"}</button>
      <button class="plain" aria-pressed={utc.value} onClick={() => setParams({ utc: utc.value ? "" : "1" }, true)} title="Times in UTC, or in your zone">UTC</button>
      <button class="plain" onClick={() => (choice.value = next)} title={`Use the ${next} colours`}>{next === "dark" ? "Dark" : "Light"}</button>
      {wasSignedOut.value && <button class="plain" onClick={() => void signOut()}>Sign out</button>}
    </div>
  );
}

const root = document.getElementById("app");
if (root) render(<App />, root);
