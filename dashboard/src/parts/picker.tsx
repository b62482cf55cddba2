// The range picker: presets, absolute times, back and forth, zoom out.
import { useState } from "preact/hooks";
import { time, utc } from "../format";
import { PRESETS, isLive, move, presetName, range, setLast, setSpan } from "../range";

/** A time as its field has it, in the zone that the page shows; and back. */
const fieldText = (s: number) => new Date(s * 1000 - (utc.value ? 0 : new Date(s * 1000).getTimezoneOffset() * 60_000)).toISOString().slice(0, 16);
const fieldTime = (text: string) => Date.parse(utc.value ? `${text}Z` : text) / 1000;

export function Picker() {
  const own = range.value;
  const [isOpen, setOpen] = useState(false);
  return (
    <div class="row picker" role="group" aria-label="Time range">
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
      {isOpen && <Absolute key={`${utc.value} ${JSON.stringify(own)}`} close={() => setOpen(false)} />}
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
  const [from, setFrom] = useState(fieldText("last" in own ? now - own.lengthS : own.from));
  const [to, setTo] = useState(fieldText("last" in own ? now : own.to));
  const [start, end] = [fieldTime(from), fieldTime(to)];
  const isWrong = !(end - start >= 60);
  const apply = (event: Event) => {
    event.preventDefault();
    if (isWrong) return;
    setSpan(start, end);
    close();
  };
  return (
    <form class="row form" onSubmit={apply}>
      <label class="field grow">From{utc.value && ", UTC"}<input type="datetime-local" value={from} onInput={(event) => setFrom(event.currentTarget.value)} /></label>
      <label class="field grow">To{utc.value && ", UTC"}<input type="datetime-local" value={to} onInput={(event) => setTo(event.currentTarget.value)} /></label>
      <button class="primary" disabled={isWrong}>Show</button>
      {isWrong && <span class="bad small" role="alert">The end must be at least a minute after the beginning.</span>}
    </form>
  );
}
