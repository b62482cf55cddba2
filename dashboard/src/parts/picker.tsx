// The range picker: presets, absolute times, back and forth, zoom out.
import { useState } from "preact/hooks";
import { time } from "../format";
import { PRESETS, isLive, move, presetName, range, setLast, setSpan } from "../range";

const local = (s: number) => {
  const date = new Date(s * 1000 - new Date(s * 1000).getTimezoneOffset() * 60_000);
  return date.toISOString().slice(0, 16);
};

export function Picker() {
  const own = range.value;
  const [isOpen, setOpen] = useState(false);
  return (
    <div class="row" role="group" aria-label="Time range">
      <span class="group wide">
        {PRESETS.map((preset) => (
          <button key={preset} aria-pressed={"last" in own && own.last === preset} onClick={() => setLast(preset)}>{presetName(preset)}</button>
        ))}
      </span>
      <PresetSelect />
      <span class="group">
        <button onClick={() => move(-0.5)} aria-label="Earlier" title="Earlier">←</button>
        <button onClick={() => move(0.5)} disabled={isLive.value} aria-label="Later" title="Later">→</button>
        <button onClick={() => move(0, 2)} aria-label="Zoom out" title="Zoom out">−</button>
      </span>
      <button aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>{"last" in own ? "From … to" : `${time(own.from)} – ${time(own.to)}`}</button>
      {isOpen && <Absolute close={() => setOpen(false)} />}
    </div>
  );
}

/** On a phone, where nine buttons have no room. */
function PresetSelect() {
  const own = range.value;
  return (
    <select class="narrow" aria-label="Time range" value={"last" in own ? own.last : ""} onChange={(event) => setLast(event.currentTarget.value)}>
      {!("last" in own) && <option value="">chosen times</option>}
      {PRESETS.map((preset) => <option key={preset} value={preset}>{presetName(preset)}</option>)}
    </select>
  );
}

function Absolute({ close }: { close: () => void }) {
  const own = range.value;
  const now = Math.floor(Date.now() / 1000);
  const [from, setFrom] = useState(local("last" in own ? now - own.lengthS : own.from));
  const [to, setTo] = useState(local("last" in own ? now : own.to));
  const [start, end] = [Date.parse(from) / 1000, Date.parse(to) / 1000];
  const isWrong = !(end - start >= 60);
  const apply = (event: Event) => {
    event.preventDefault();
    if (isWrong) return;
    setSpan(start, end);
    close();
  };
  return (
    <form class="row form" onSubmit={apply}>
      <label class="field">From<input type="datetime-local" value={from} onInput={(event) => setFrom(event.currentTarget.value)} /></label>
      <label class="field">To<input type="datetime-local" value={to} onInput={(event) => setTo(event.currentTarget.value)} /></label>
      <button class="primary" disabled={isWrong}>Show</button>
      {isWrong && <span class="bad small" role="alert">The end must be at least a minute after the beginning.</span>}
    </form>
  );
}
