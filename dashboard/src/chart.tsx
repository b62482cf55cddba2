// Charts: the one file that knows uPlot. Counts by outcome as stacked bars, an earlier period as a dashed
// line, a limit as a line. A canvas says nothing to a screen reader, so every chart has its table.
// Invariant: a bucket that nobody counted is a gap, never a zero.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import type { HistorySeries } from "./api";
import { count, short, span, time, timeIn, utc } from "./format";
import { OUTCOMES, OUTCOME_WORDS, type Outcome } from "./outcomes";
import { theme } from "./theme";

export type Buckets = {
  stepS: number;
  at: number[];
  of: Map<Outcome, (number | null)[]>;
  total: (number | null)[];
  previous?: (number | null)[];
  isLastOpen: boolean;
};

/** The curves of an answer on one grid. */
export function buckets(answer: HistorySeries): Buckets {
  const step = answer.step_s;
  const first = Math.floor(answer.from / step) * step;
  const length = Math.max(1, Math.ceil((answer.to - first) / step));
  const at = Array.from({ length }, (_, i) => first + i * step);
  const put = (into: (number | null)[], points: [number, number][], shift: number) => {
    for (const [t, n] of points) {
      const index = Math.round((t + shift - first) / step);
      if (index >= 0 && index < length) into[index] = (into[index] ?? 0) + n;
    }
  };
  const of = new Map<Outcome, (number | null)[]>();
  const total = new Array<number | null>(length).fill(null);
  for (const curve of answer.series) {
    const own = of.get(curve.outcome as Outcome) ?? new Array<number | null>(length).fill(null);
    put(own, curve.points, 0);
    put(total, curve.points, 0);
    of.set(curve.outcome as Outcome, own);
  }
  let previous: (number | null)[] | undefined;
  if (answer.compare) {
    previous = new Array<number | null>(length).fill(null);
    // The grid of the earlier period, laid over ours.
    const shift = first - Math.floor(answer.compare.from / step) * step;
    for (const curve of answer.compare.series) put(previous, curve.points, shift);
  }
  return { stepS: step, at, of, total, previous, isLastOpen: answer.partial_last };
}

/** Whether the period before was counted from its beginning, so that a change against it means something. */
export function reachesBack({ compare, step_s }: HistorySeries): boolean {
  const first = Math.min(...(compare?.series ?? []).map((curve) => curve.points[0]?.[0] ?? Infinity));
  return compare !== undefined && first <= compare.from + step_s;
}

/** The same answer, with the period before only if it is wanted. */
export const withBefore = (answer: HistorySeries, isWanted: boolean): HistorySeries => (isWanted ? answer : { ...answer, compare: undefined });

/** A limit as a line: how many it lets through in one bar from an instant on; none where there was no rule. */
export type LimitLine = { name: string; steps: { from: number; at: number | null }[] };

export const isPhone = () => innerWidth <= 720;

/** Bars that a screen of this width has room for. */
export const barsMax = () => (isPhone() ? 60 : 200);

type ChartProps = {
  answer: HistorySeries;
  label: string;
  limit?: LimitLine;
  onZoom?: (from: number, to: number) => void;
  onZoomOut?: () => void;
};

const css = (name: string) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export function Chart({ answer, label, limit, onZoom, onZoomOut }: ChartProps) {
  const box = useRef<HTMLDivElement>(null);
  const [hover, setHover] = useState<number | null>(null);
  const data = useMemo(() => buckets(answer), [answer]);
  const shown = OUTCOMES.filter((outcome) => data.of.has(outcome));
  const zoom = useRef({ onZoom, onZoomOut });
  zoom.current = { onZoom, onZoomOut };
  const key = `${theme.value} ${utc.value} ${shown.join()} ${limit !== undefined} ${data.previous !== undefined} ${data.stepS}`;
  const plot = useRef<uPlot | null>(null);
  const latest = useRef(data);
  latest.current = data;

  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const options = makeOptions(element, shown, limit !== undefined, () => latest.current, {
      hover: setHover,
      zoom: (from, to) => zoom.current.onZoom?.(from, to),
    });
    const own = new uPlot(options, stacked(data, shown, limit), element);
    plot.current = own;
    const observer = new ResizeObserver(() => own.setSize({ width: element.clientWidth, height: element.clientHeight }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      own.destroy();
      plot.current = null;
    };
  }, [key]);
  useEffect(() => plot.current?.setData(stacked(data, shown, limit)), [data, JSON.stringify(limit)]);

  return (
    <figure class="chart" aria-label={label}>
      <div class="plot" ref={box} aria-hidden="true" onDblClick={() => zoom.current.onZoomOut?.()} />
      <Legend data={data} shown={shown} hover={hover} limit={limit && limitNote(data, limit)} rangeS={answer.to - answer.from} />
      <details>
        <summary>Table of this chart</summary>
        <ChartTable data={data} shown={shown} label={label} />
      </details>
    </figure>
  );
}

function Legend({ data, shown, hover, limit, rangeS }: { data: Buckets; shown: Outcome[]; hover: number | null; limit?: string; rangeS: number }) {
  const sum = (values: (number | null)[]) => values.reduce<number>((all, n) => all + (n ?? 0), 0);
  const of = (values: (number | null)[]) => (hover === null ? sum(values) : values[hover] ?? null);
  const begin = hover === null ? undefined : data.at[hover];
  const isOpen = hover === data.at.length - 1 && data.isLastOpen;
  return (
    <figcaption class="legend">
      <span class="when">
        {begin === undefined ? `one bar: ${span(data.stepS)}` : `${timeIn(rangeS, begin)} – ${timeIn(rangeS, begin + data.stepS)}`}
        {isOpen ? ", still open" : ""}
      </span>
      {shown.map((outcome) => (
        <span key={outcome} title={OUTCOME_WORDS[outcome].help}>
          <i class={`dot outcome-${outcome}`} />
          {OUTCOME_WORDS[outcome].name} <b>{shownCount(of(data.of.get(outcome) ?? []))}</b>
        </span>
      ))}
      {data.previous && (
        <span><i class="dashes" />period before <b>{shownCount(of(data.previous))}</b></span>
      )}
      {limit && <span><i class="limit-line" />{limit}</span>}
      {hover === null && data.isLastOpen && Boolean(data.total.at(-1)) && <span>the hatched bar is still open</span>}
    </figcaption>
  );
}

const shownCount = (n: number | null) => (n === null ? "not counted" : count(n));

function ChartTable({ data, shown, label }: { data: Buckets; shown: Outcome[]; label: string }) {
  const rows = data.at.map((_, i) => i).filter((i) => data.total[i] !== null);
  return (
    <div class="scroll" tabIndex={0} style={{ maxHeight: "320px", overflowY: "auto" }}>
      <table>
        <caption class="hidden">{label}</caption>
        <thead>
          <tr><th>From</th><th class="num">Total</th>{shown.map((outcome) => <th key={outcome} class="num">{OUTCOME_WORDS[outcome].name}</th>)}</tr>
        </thead>
        <tbody>
          {rows.map((i) => (
            <tr key={data.at[i]}>
              <td>{time(data.at[i] ?? 0)}</td>
              <td class="num">{count(data.total[i] ?? 0)}</td>
              {shown.map((outcome) => <td key={outcome} class="num">{count(data.of.get(outcome)?.[i] ?? 0)}</td>)}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** A limit far above all bars would press them flat: it is told and not drawn. */
const isDrawn = (data: Buckets, at: number | null) => at !== null && at <= 3 * Math.max(1, ...data.total.map((n) => n ?? 0));

/** The limit that was in force when a bar began. */
function limitAt(limit: LimitLine, second: number): number | null {
  return limit.steps.findLast((step) => step.from <= second)?.at ?? null;
}

function limitNote(data: Buckets, limit: LimitLine): string {
  const isAbove = data.at.every((second) => !isDrawn(data, limitAt(limit, second)));
  return isAbove ? `${limit.name}; far above these bars` : limit.name;
}

/** Each outcome with all below it, the highest first, so that the lower ones are drawn over it. */
function stacked(data: Buckets, shown: Outcome[], limit?: LimitLine): uPlot.AlignedData {
  const sums: (number | null)[][] = [];
  let below = data.at.map(() => 0);
  for (const outcome of shown) {
    const own = data.of.get(outcome) ?? [];
    below = below.map((sum, i) => sum + (own[i] ?? 0));
    // What is not there is not drawn: its edge would shine through along the top of the next lower one.
    sums.push(below.map((sum, i) => (own[i] ? sum : null)));
  }
  // One more instant, so that the last bar has its width.
  const at = [...data.at, (data.at.at(-1) ?? 0) + data.stepS];
  const pad = (values: (number | null)[]) => [...values, null];
  // A step line ends where its last value begins, so the last value is there twice.
  const line = (values: (number | null)[]) => [...values, values.at(-1) ?? null];
  const limits = limit && data.at.map((second) => limitAt(limit, second)).map((n) => (isDrawn(data, n) ? n : null));
  const lines = [...(data.previous ? [line(data.previous)] : []), ...(limits ? [line(limits)] : [])];
  return [at, ...sums.reverse().map(pad), ...lines];
}

type Hooks = { hover: (index: number | null) => void; zoom: (from: number, to: number) => void };

function makeOptions(element: HTMLElement, shown: Outcome[], hasLimit: boolean, data: () => Buckets, hooks: Hooks): uPlot.Options {
  // Between bars of a few pixels a gap would be half of the picture.
  const isNarrow = element.clientWidth / data().at.length < 5;
  const bars = uPlot.paths.bars?.({ size: [1, Infinity], align: 1, gap: isNarrow ? 0 : 1 });
  const font = `12px ${css("--sans")}`;
  const axis = { stroke: css("--dim"), font, grid: { stroke: css("--soft-line"), width: 1 }, ticks: { stroke: css("--line"), width: 1, size: 4 } };
  const line = (stroke: string, dash?: number[]): uPlot.Series => ({ stroke, width: 1.5, dash, paths: uPlot.paths.stepped?.({ align: 1 }), points: { show: false }, spanGaps: false });
  return {
    width: element.clientWidth,
    height: element.clientHeight,
    padding: [8, 20, 0, 0],
    legend: { show: false },
    tzDate: (s) => (utc.value ? uPlot.tzDate(new Date(s * 1000), "UTC") : new Date(s * 1000)),
    cursor: { y: false, points: { show: false }, drag: { x: true, y: false, setScale: false } },
    scales: { x: { time: true, range: (_, min, max) => [min, max] }, y: { range: (_, __, max) => [0, Math.max(1, max * 1.08)] } },
    axes: [
      { ...axis, size: 28, space: 80, values: (_, splits, __, ___, increment) => axisTimes(splits, increment) },
      { ...axis, size: 52, space: 40, incrs: WHOLE_STEPS, values: (_, splits) => splits.map(short) },
    ],
    series: [
      {},
      ...[...shown].reverse().map((outcome): uPlot.Series => ({ fill: css(`--${outcome}`), width: 0, paths: bars, points: { show: false } })),
      ...(data().previous ? [line(css("--previous"), [4, 4])] : []),
      ...(hasLimit ? [{ ...line(css("--limit")), width: 2 }] : []),
    ],
    hooks: {
      setCursor: [(plot) => hooks.hover(bucketUnder(plot, data()))],
      setSelect: [(plot) => {
        if (plot.select.width < 4) return;
        hooks.zoom(plot.posToVal(plot.select.left, "x"), plot.posToVal(plot.select.left + plot.select.width, "x"));
        plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
      }],
      draw: [(plot) => hatchOpen(plot, data())],
    },
  };
}

/** Steps of the axis of counts: there are no halves of a request. */
const WHOLE_STEPS = Array.from({ length: 16 }, (_, power) => [1, 2, 5].map((n) => n * 10 ** power)).flat();

/** The bucket in which the cursor is; uPlot's own index is the nearest start of one. */
function bucketUnder(plot: uPlot, data: Buckets): number | null {
  const left = plot.cursor.left ?? -1;
  if (left < 0) return null;
  const index = Math.floor((plot.posToVal(left, "x") - (data.at[0] ?? 0)) / data.stepS);
  return index >= 0 && index < data.at.length ? index : null;
}

/** Marks the bucket that is not over yet. */
function hatchOpen(plot: uPlot, data: Buckets): void {
  const last = data.at.at(-1);
  const top = data.total.at(-1);
  if (!data.isLastOpen || last === undefined || !top) return;
  const [left, right] = [plot.valToPos(last, "x", true), plot.valToPos(last + data.stepS, "x", true)];
  const [high, low] = [plot.valToPos(top, "y", true), plot.valToPos(0, "y", true)];
  const { ctx } = plot;
  ctx.save();
  ctx.beginPath();
  ctx.rect(left, high, right - left, low - high);
  ctx.clip();
  ctx.strokeStyle = css("--card");
  ctx.lineWidth = 2 * devicePixelRatio;
  const gap = 5 * devicePixelRatio;
  ctx.beginPath();
  for (let x = left - (low - high); x < right; x += gap) {
    ctx.moveTo(x, low);
    ctx.lineTo(x + (low - high), high);
  }
  ctx.stroke();
  ctx.restore();
}

/** Labels of the time axis: the date where a day begins. */
function axisTimes(splits: number[], increment: number): string[] {
  return splits.map((s, i) => {
    if (increment >= 28 * 86_400) return time(s, { month: "short", year: "numeric" });
    if (increment >= 86_400) return time(s, { day: "numeric", month: "short" });
    const clock = time(s, { hour: "2-digit", minute: "2-digit" });
    return clock === "00:00" || (i === 0 && splits.length > 1 && (splits.at(-1) ?? s) - s > 86_400) ? time(s, { day: "numeric", month: "short" }) : clock;
  });
}

/** A curve without axes, for a row of a table. */
export function Sparkline({ answer }: { answer: HistorySeries }) {
  // A bucket of which only a part is in the range would look like a fall.
  const total = useMemo(() => {
    const own = buckets(answer);
    return own.total.slice((own.at[0] ?? 0) < answer.from ? 1 : 0, own.isLastOpen || (own.at.at(-1) ?? 0) + own.stepS > answer.to ? -1 : undefined);
  }, [answer]);
  const most = Math.max(1, ...total.map((n) => n ?? 0));
  let isDown = false;
  const path = total.map((n, i) => {
    if (n === null) return (isDown = false), "";
    const command = `${isDown ? "L" : "M"}${((100 * i) / Math.max(1, total.length - 1)).toFixed(1)} ${(24 - (22 * n) / most).toFixed(1)}`;
    isDown = true;
    return command;
  });
  return <svg class="spark" viewBox="0 0 100 26" preserveAspectRatio="none" aria-hidden="true"><path d={path.join("")} /></svg>;
}
