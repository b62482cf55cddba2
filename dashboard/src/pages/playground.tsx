// Playground: draw or choose traffic, set a limit, and see all six algorithms decide the same requests.
// The decisions come from the server, by the code that limits; this page only draws them.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { api, type Playground as Answer } from "../api";
import { capital, count, percent, span } from "../format";
import { algorithmName } from "../limits";
import { useLoad } from "../load";
import { param, setParams } from "../location";
import { Card, Loading, Problem } from "../parts/common";
import { theme } from "../theme";
import { COLUMNS, COLUMN_MAX, REQUESTS_MAX, SHAPES, WINDOWS, columns, decode, encode, logTimes, times, type ShapeName } from "../traffic";

const WINDOW_CHOICES = [1, 10, 60, 3_600];
const ABOUT: Record<string, string> = {
  fixed_window: "Counts per window of the clock. Twice the limit may pass around an edge.",
  sliding_log: "Remembers every request. Never more than the limit in any window; exact.",
  sliding_counter: "Two counters, the older weighted by its overlap. Small, and close.",
  sliding_buckets: "A log in sub-windows. Never over the limit; may deny a little early.",
  token_bucket: "Tokens come back at a steady rate. Allows a burst, then the rate.",
  leaky_bucket: "A queue that drains at the rate. Smooths: requests wait instead.",
};

type AlgorithmRun = Answer["algorithms"][number];

export function Playground() {
  const limit = Math.min(500, Math.max(1, Number(param("limit")) || 10));
  const windowS = WINDOW_CHOICES.includes(Number(param("window"))) ? Number(param("window")) : 60;
  const burst = Math.min(500, Math.max(0, Number(param("burst")) || 0));
  const shape = (param("shape") in SHAPES ? param("shape") : "edge") as ShapeName;
  const [log, setLog] = useState("");
  const drawn = shape === "drawn" ? decode(param("draw")) : columns(shape, limit);
  const fromLog = useMemo(() => logTimes(log), [log]);
  const at = shape === "log" ? fromLog.at : times(drawn, windowS * 1000);
  const spanMs = shape === "log" ? Math.max(windowS * 1000, (at.at(-1) ?? 0) + 1) : windowS * 1000 * WINDOWS;
  const request = { requests_per_unit: limit, window_ms: windowS * 1000, ...(burst > 0 ? { burst } : {}), at_ms: at };
  const { data, error } = useLoad(JSON.stringify(request), async (signal) => (at.length === 0 ? undefined : { answer: await api.playground(request, signal), at, spanMs, limit, windowMs: windowS * 1000 }), Infinity);
  return (
    <>
      <p class="dim lead">The same requests, six algorithms. Draw traffic, set a limit, and see who gets through. The server decides, with the code that limits your traffic.</p>
      <Card title="Traffic" aside={<span class="dim small">{count(at.length)} {at.length === 1 ? "request" : "requests"} in {span(spanMs / 1000)}</span>}>
        <Shapes chosen={shape} limit={limit} drawn={drawn} />
        <div class="row form">
          <label class="field">Limit<input type="number" min={1} max={500} value={limit} onChange={(event) => setParams({ limit: event.currentTarget.value })} /></label>
          <label class="field">in<select value={windowS} onChange={(event) => setParams({ window: event.currentTarget.value })}>{WINDOW_CHOICES.map((s) => <option key={s} value={s}>{span(s)}</option>)}</select></label>
          <label class="field">Burst of the buckets<input type="number" min={0} max={500} placeholder={String(limit)} value={burst || ""} onChange={(event) => setParams({ burst: event.currentTarget.value })} /></label>
        </div>
        {shape === "log" ? <LogBox log={log} setLog={setLog} unread={fromLog.unread} lines={fromLog.lines} /> : <Strip values={drawn} most={Math.min(COLUMN_MAX, Math.max(8, limit, ...drawn))} windowS={windowS} onDraw={(values) => setParams({ shape: "drawn", draw: encode(values) }, true)} />}
      </Card>
      {error && !data && <Problem error={error} />}
      {at.length === 0 ? <p class="dim">{shape === "log" ? "Paste some lines, and each algorithm decides them." : "Nothing comes. Press and draw on the strip above, or choose a shape."}</p> : data ? <Lanes played={data} /> : !error && <Loading />}
    </>
  );
}

/** One button for each shape of traffic, with its picture. */
function Shapes({ chosen, limit, drawn }: { chosen: ShapeName; limit: number; drawn: number[] }) {
  const choose = (shape: ShapeName) => setParams({ shape, draw: shape === "drawn" ? encode(drawn) : "" });
  return (
    <div class="shapes" role="group" aria-label="Requests come">
      {(Object.entries(SHAPES) as [ShapeName, string][]).map(([name, text]) => (
        <button key={name} aria-pressed={name === chosen} onClick={() => choose(name)}>
          <Thumbnail shape={name} values={name === "drawn" ? drawn : columns(name, limit)} />
          {text}
        </button>
      ))}
    </div>
  );
}

function Thumbnail({ shape, values }: { shape: ShapeName; values: number[] }) {
  if (shape === "log") return <svg viewBox="0 0 60 20" aria-hidden="true">{[2, 8, 14].map((y, i) => <rect key={y} x="10" y={y} width={40 - 8 * i} height="3" rx="1.5" />)}</svg>;
  const most = Math.max(1, ...values);
  return <svg viewBox="0 0 60 20" aria-hidden="true">{values.map((n, i) => n > 0 && <rect key={i} x={i} y={20 - (19 * n) / most} width="0.9" height={(19 * n) / most} />)}</svg>;
}

function LogBox({ log, setLog, unread, lines }: { log: string; setLog: (text: string) => void; unread: number; lines: number }) {
  return (
    <div style={{ display: "grid", gap: "8px" }}>
      <label class="field">Lines of an access log; only their times are used, and the first {count(REQUESTS_MAX)} of one day
        <textarea rows={5} value={log} placeholder={'10.0.0.1 - - [16/Nov/2026:10:00:00 +0000] "GET / HTTP/1.1" 200 12'} onInput={(event) => setLog(event.currentTarget.value.slice(0, 2_000_000))} />
      </label>
      {unread > 0 && <p class="bad small">{count(unread)} of {count(lines)} lines have no time in common log format or ISO 8601.</p>}
    </div>
  );
}

/** The strip of columns that people draw on. */
function Strip({ values, most, windowS, onDraw }: { values: number[]; most: number; windowS: number; onDraw: (values: number[]) => void }) {
  const latest = useRef(values);
  latest.current = values;
  const [column, setColumn] = useState(0);
  const put = (event: PointerEvent) => {
    if (event.buttons !== 1) return;
    const box = (event.currentTarget as Element).getBoundingClientRect();
    const index = Math.floor((COLUMNS * (event.clientX - box.left)) / box.width);
    const height = Math.round(most * (1 - (event.clientY - box.top) / box.height));
    set(index, height);
  };
  const set = (index: number, n: number) => {
    if (index < 0 || index >= COLUMNS) return;
    const next = [...latest.current];
    next[index] = Math.max(0, Math.min(most, n));
    latest.current = next;
    onDraw(next);
  };
  const onKey = (event: KeyboardEvent) => {
    const own = values[column] ?? 0;
    const moves: Record<string, () => void> = {
      ArrowLeft: () => setColumn(Math.max(0, column - 1)), ArrowRight: () => setColumn(Math.min(COLUMNS - 1, column + 1)),
      ArrowUp: () => set(column, own + 1), ArrowDown: () => set(column, own - 1),
    };
    const move = moves[event.key];
    if (move) event.preventDefault(), move();
  };
  return (
    <div class="draw">
    <div class="strip" role="slider" tabIndex={0} aria-label="Draw traffic: left and right choose a moment, up and down how many requests" aria-valuemin={0} aria-valuemax={most} aria-valuenow={values[column] ?? 0} aria-valuetext={`moment ${column + 1} of ${COLUMNS}: ${values[column] ?? 0} requests`}
      onPointerDown={(event) => { event.currentTarget.setPointerCapture(event.pointerId); put(event); }} onPointerMove={put} onKeyDown={onKey}>
      {values.map((n, i) => <i key={i} class={`${i === column ? "at" : ""} ${i > 0 && i % (COLUMNS / WINDOWS) === 0 ? "edge" : ""}`}><b style={{ height: `${(100 * n) / most}%` }} /></i>)}
    </div>
    <div class="scale" aria-hidden="true">{Array.from({ length: WINDOWS + 1 }, (_, i) => <span key={i}>{span(i * windowS)}</span>)}</div>
    <p class="dim small">Press and draw, or use the arrow keys. One column is {span(windowS * WINDOWS / COLUMNS)}.</p>
    </div>
  );
}

type Played = { answer: Answer; at: number[]; spanMs: number; limit: number; windowMs: number };

function Lanes({ played }: { played: Played }) {
  const scale = Math.max(played.limit * 1.25, ...played.answer.algorithms.map((run) => run.most_in_window)) * 1.05;
  return (
    <>
      <div class="legend">
        <span><i class="dot round outcome-allowed" />passed at once</span>
        <span><i class="dot round outcome-delayed" />passed later; the arch is its wait</span>
        <span><i class="dot cross" />denied</span>
        <span><i class="area" />passed in the window that ends here</span>
        <span><i class="area over" />of it over the limit</span>
        <span><i class="limit-line" />the limit</span>
      </div>
      <div class="lanes">{played.answer.algorithms.map((run) => <Lane key={run.algorithm} run={run} played={played} scale={scale} />)}</div>
      <Card title="In numbers">
        <div class="scroll" tabIndex={0} role="region" aria-label="In numbers">
          <table>
            <thead><tr><th>Algorithm</th><th class="num">Passed</th><th class="num wide">of them later</th><th class="num">Denied</th><th class="num">Most in any {span(played.windowMs / 1000)}</th></tr></thead>
            <tbody>
              {played.answer.algorithms.map((run) => (
                <tr key={run.algorithm}>
                  <td>{capital(algorithmName(run.algorithm))}</td><td class="num">{count(run.admitted)}</td><td class="num wide">{count(run.delayed)}</td>
                  <td class="num">{count(run.denied)} <span class="dim wide">({percent(run.denied, played.at.length)})</span></td>
                  <td class={`num ${run.most_in_window > played.limit ? "bad" : ""}`}>{count(run.most_in_window)}{run.most_in_window > played.limit ? ` of ${count(played.limit)}` : ""}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      </Card>
    </>
  );
}

const TALLY = [["allowed", "passed"], ["delayed", "later"], ["denied", "denied"]] as const;

function Lane({ run, played, scale }: { run: AlgorithmRun; played: Played; scale: number }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const colours = theme.value;
  useEffect(() => {
    const element = canvas.current;
    if (!element) return;
    const paint = () => drawLane(element, run, played, scale);
    const observer = new ResizeObserver(paint);
    observer.observe(element);
    return () => observer.disconnect();
  }, [run, played, scale, colours]);
  const isOver = run.most_in_window > played.limit;
  const amounts = { allowed: run.admitted - run.delayed, delayed: run.delayed, denied: run.denied };
  return (
    <section class="lane card">
      <div class="row ends"><h2>{capital(algorithmName(run.algorithm))}</h2><span class={`tag ${isOver ? "bad" : ""}`}>most in any {span(played.windowMs / 1000)}: <b>{count(run.most_in_window)}</b></span></div>
      <div class="tally" aria-hidden="true">
        <span class="shares">{TALLY.map(([outcome]) => <i key={outcome} class={`outcome-${outcome}`} style={{ flexGrow: amounts[outcome] }} />)}</span>
        {TALLY.map(([outcome, word]) => amounts[outcome] > 0 && <span key={outcome}><b>{count(amounts[outcome])}</b> {word}</span>)}
      </div>
      {run.error ? <p class="bad">{run.error}</p> : <canvas ref={canvas} aria-hidden="true" />}
      <p class="dim small">{ABOUT[run.algorithm]}</p>
    </section>
  );
}

const css = (name: string) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const LABELS = 14;

/** Above, how many passed in the trailing window; below, each request: those that passed rise, the denied hang. */
function drawLane(element: HTMLCanvasElement, run: AlgorithmRun, played: Played, scale: number): void {
  const [width, height, ratio] = [element.clientWidth, element.clientHeight, devicePixelRatio];
  element.width = width * ratio;
  element.height = height * ratio;
  const pen = element.getContext("2d");
  if (!pen) return;
  pen.scale(ratio, ratio);
  // All lanes have one scale, so that they can be compared: by the last who passes anywhere, and the highest stack.
  const runs = played.answer.algorithms.map((one) => ({ passes: passesOf(one, played), denied: deniedOf(one, played) }));
  const end = runs.reduce((last, one) => one.passes.reduce((own, pass) => Math.max(own, pass.to), last), played.spanMs);
  const x = (ms: number) => (width - 8) * (ms / end) + 4;
  const passes = passesOf(run, played);
  const curveBottom = height * 0.42;
  const base = height * 0.7;
  windowEdges(pen, { x, end, windowMs: played.windowMs, height });
  trailing(pen, passes.map((pass) => pass.to).sort((a, b) => a - b), { x, end, windowMs: played.windowMs, y: (n: number) => curveBottom - (curveBottom - 4) * (n / scale), limit: played.limit, width });
  pen.strokeStyle = css("--line");
  pen.beginPath();
  pen.moveTo(4, base + 0.5);
  pen.lineTo(width - 4, base + 0.5);
  pen.stroke();
  const room: [number, number] = [base - curveBottom - 6, height - base - LABELS - 6];
  const size = Math.min(...runs.map((one) => fitting(one.passes.map((pass) => x(pass.to)), one.denied.map(x), room)));
  dots(pen, { passes, denied: deniedOf(run, played), x, base, room, size });
}

type Pass = { from: number; to: number };

const passesOf = (run: AlgorithmRun, { at }: Played): Pass[] =>
  run.decisions.flatMap((decision, i) => (decision.verdict === "deny" ? [] : [{ from: at[i] ?? 0, to: (at[i] ?? 0) + (decision.verdict === "delay" ? decision.after_ms ?? 0 : 0) }]));
const deniedOf = (run: AlgorithmRun, { at }: Played) => run.decisions.flatMap((decision, i) => (decision.verdict === "deny" ? [at[i] ?? 0] : []));

type Scale = { x: (ms: number) => number; end: number; windowMs: number };

function windowEdges(pen: CanvasRenderingContext2D, { x, end, windowMs, height }: Scale & { height: number }): void {
  const many = end / windowMs > 60;
  pen.font = `11px ${css("--sans")}`;
  pen.fillStyle = css("--dim");
  pen.strokeStyle = css("--soft-line");
  for (let ms = 0; ms <= end && !many; ms += windowMs) {
    // Every other window is a little darker, so that their edges can be seen through everything.
    if ((ms / windowMs) % 2 === 1) {
      pen.globalAlpha = 0.5;
      pen.fillStyle = css("--hover");
      pen.fillRect(x(ms), 0, x(Math.min(end, ms + windowMs)) - x(ms), height - LABELS);
      pen.fillStyle = css("--dim");
      pen.globalAlpha = 1;
    }
    pen.beginPath();
    pen.moveTo(Math.round(x(ms)) + 0.5, 0);
    pen.lineTo(Math.round(x(ms)) + 0.5, height - LABELS);
    pen.stroke();
    const text = span(ms / 1000);
    const room = pen.measureText(text).width;
    if (end / windowMs <= 8) pen.fillText(text, Math.min(x(end) - room, Math.max(0, x(ms) - room / 2)), height - 2);
  }
}

/** The number that passed in (t − window, t], as an area; what is above the limit has another colour. */
function trailing(pen: CanvasRenderingContext2D, passes: number[], { x, end, windowMs, y, limit, width }: Scale & { y: (n: number) => number; limit: number; width: number }): void {
  const steps = [...passes.map((ms) => [ms, 1]), ...passes.map((ms) => [ms + windowMs, -1])].filter(([ms]) => (ms ?? 0) <= end).sort((a, b) => (a[0] ?? 0) - (b[0] ?? 0) || (a[1] ?? 0) - (b[1] ?? 0));
  const curve = new Path2D();
  let n = 0;
  curve.moveTo(x(0), y(0));
  for (const [ms = 0, by = 0] of steps) {
    curve.lineTo(x(ms), y(n));
    n += by;
    curve.lineTo(x(ms), y(n));
  }
  curve.lineTo(x(end), y(n));
  curve.lineTo(x(end), y(0));
  curve.closePath();
  for (const [colour, alpha, top, bottom] of [["--allowed", 0.35, y(limit), y(0)], ["--denied", 0.8, 0, y(limit)]] as const) {
    pen.save();
    pen.beginPath();
    pen.rect(0, top, width, bottom - top);
    pen.clip();
    pen.globalAlpha = alpha;
    pen.fillStyle = css(colour);
    pen.fill(curve);
    pen.restore();
  }
  pen.strokeStyle = css("--limit");
  pen.lineWidth = 1.5;
  pen.beginPath();
  pen.moveTo(4, y(limit));
  pen.lineTo(width - 4, y(limit));
  pen.stroke();
  pen.lineWidth = 1;
  pen.fillStyle = css("--dim");
  pen.fillText(`limit ${count(limit)}`, 8, y(limit) - 5);
}

type Dots = { passes: Pass[]; denied: number[]; x: (ms: number) => number; base: number; room: [number, number]; size: number };

function dots(pen: CanvasRenderingContext2D, { passes, denied, x, base, room, size }: Dots): void {
  const place = (stacks: Map<number, number>, at: number) => {
    const column = Math.round(at / size);
    const level = stacks.get(column) ?? 0;
    stacks.set(column, level + 1);
    return [column * size, level] as const;
  };
  const radius = Math.max(0.8, size / 2 - 0.5);
  const up = new Map<number, number>();
  for (const { from, to } of passes) {
    const [column, level] = place(up, x(to));
    const y = base - size * (level + 0.5) - 1;
    const isLate = to > from;
    pen.fillStyle = pen.strokeStyle = css(isLate ? "--delayed" : "--allowed");
    if (isLate) {
      // The longer the wait, the higher its arch: those who wait together fan out.
      const start = x(from);
      const top = base - Math.min(room[0] * 1.9, 8 + (column - start) * 0.9);
      pen.globalAlpha = 0.45;
      pen.beginPath();
      pen.moveTo(start, base - 1);
      pen.quadraticCurveTo((start + column) / 2, top, column, y);
      pen.stroke();
      pen.globalAlpha = 1;
    }
    pen.beginPath();
    pen.arc(column, y, radius, 0, 2 * Math.PI);
    pen.fill();
  }
  const down = new Map<number, number>();
  pen.strokeStyle = css("--denied");
  pen.lineWidth = Math.max(1, radius / 2);
  pen.beginPath();
  for (const ms of denied) {
    const [column, level] = place(down, x(ms));
    const [y, arm] = [base + size * (level + 0.5) + 2, radius * 0.8];
    pen.moveTo(column - arm, y - arm);
    pen.lineTo(column + arm, y + arm);
    pen.moveTo(column + arm, y - arm);
    pen.lineTo(column - arm, y + arm);
  }
  pen.stroke();
  pen.lineWidth = 1;
}

/** The largest size at which every stack of dots fits. */
function fitting(up: number[], down: number[], [above, below]: [number, number]): number {
  for (let size = 12; size > 1.5; size -= 0.5) {
    const highest = (xs: number[]) => {
      const stacks = new Map<number, number>();
      for (const own of xs) stacks.set(Math.round(own / size), (stacks.get(Math.round(own / size)) ?? 0) + 1);
      return Math.max(0, ...stacks.values()) * size;
    };
    if (highest(up) <= above && highest(down) <= below) return size;
  }
  return 1.5;
}
