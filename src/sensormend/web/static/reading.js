// A sensor's series as the chart needs it: any length in pieces that the API gives, times in seconds.
import { iso, unix } from "./elements.js";

const PIECE = 390 * 86400;
export const LONGEST = 10 * PIECE;

const FAULTY = 4;
const COLUMNS = ["time", "value", "low", "high", "cleaned", "cleaned_low", "cleaned_high", "lower", "upper", "residual", "flag", "estimated", "corrected"];

// `density` is how many points to a second were asked for: fewer come where the slots are longer, or whole periods are put together.
export async function loadSeries(get, sensor, variable, from, to, points, signal) {
  const pieces = Math.max(1, Math.ceil((to - from) / PIECE));
  const length = (to - from) / pieces;
  const count = Math.min(10000, Math.max(200, Math.round(points / pieces)));
  const parts = await Promise.all(
    Array.from({ length: pieces }, (_, piece) =>
      get("/api/series", {
        sensor, variable, points: count,
        from: iso(from + piece * length), to: iso(from + (piece + 1) * length),
      }, signal)),
  );
  return { ...joined(parts.map(widened)), density: count * pieces / (to - from) };
}

// The newest days, where one does not know yet how far the sensor's rows go.
export async function loadNewest(get, sensor, variable, points, signal) {
  const part = widened(await get("/api/series", { sensor, variable, points }, signal));
  return { ...part, density: points / (part.to - part.from) };
}

function widened(part) {
  const thin = part.thinned > 1 && part.low.length === part.time.length;
  return {
    ...part,
    from: unix(part.from), to: unix(part.to),
    requested: part.requested === null ? null : unix(part.requested),
    first: part.first === null ? null : unix(part.first), last: part.last === null ? null : unix(part.last),
    low: thin ? part.low : part.value, high: thin ? part.high : part.value,
    cleaned_low: thin ? part.cleaned_low : part.cleaned, cleaned_high: thin ? part.cleaned_high : part.cleaned,
    spans: [...part.spans, ...spikes(part)].sort((a, b) => a.from - b.from),
  };
}

// Single wrong readings have no span, only a flag.
function spikes({ time, flag, step, thinned, spans }) {
  const length = step * thinned;
  const list = [];
  time.forEach((from, at) => {
    const to = from + length;
    if (flag[at] !== FAULTY || spans.some((span) => span.from < to && span.to > from)) return;
    list.push({ from, to, word: "spike", kind: "faulty", spike: true });
  });
  return list;
}

function joined(parts) {
  if (parts.length === 1) return parts[0];
  const { to, last, provisional_from } = parts.at(-1);
  const whole = { ...parts[0], to, last, provisional_from };
  whole.thinned = Math.max(...parts.map((part) => part.thinned));
  whole.requested = parts.find((part) => part.requested !== null)?.requested ?? null;
  for (const name of COLUMNS) whole[name] = [];
  whole.spans = [];
  whole.lasting = [];
  whole.owner = parts.flatMap((part) => part.owner);
  for (const part of parts) {
    // The end of one piece is the start of the next: no slot twice.
    const after = whole.time.length ? whole.time.at(-1) : -Infinity;
    const start = part.time.findIndex((time) => time > after);
    if (start >= 0) for (const name of COLUMNS) whole[name].push(...part[name].slice(start));
    for (const span of part.spans) {
      const before = whole.spans.find((other) => other.word === span.word && other.kind === span.kind
        && !span.spike && span.from <= other.to && span.to >= other.from);
      if (before) before.to = Math.max(before.to, span.to);
      else whole.spans.push({ ...span });
    }
    for (const fault of part.lasting) {
      const before = whole.lasting.find((other) => other.word === fault.word && fault.from <= other.to);
      if (before) Object.assign(before, { to: Math.max(before.to, fault.to), size: fault.size });
      else whole.lasting.push({ ...fault });
    }
  }
  return whole;
}

// The index of the entry that is nearest to a time; -1 where there is none.
export function nearest(times, time) {
  if (!times.length) return -1;
  let low = 0, high = times.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle] < time) low = middle + 1;
    else high = middle;
  }
  return low > 0 && time - times[low - 1] < times[low] - time ? low - 1 : low;
}

// Another sensor's sound readings at our times; null where it has none near. A point of many slots has a wrong one
// among them too often: there, what they were mended to.
export function aligned(times, other, reach) {
  return times.map((time) => {
    const at = nearest(other.time, time);
    if (at < 0 || Math.abs(other.time[at] - time) > reach) return null;
    if (other.thinned > 1) return other.cleaned[at] ?? null;
    return other.flag[at] <= 2 ? other.value[at] ?? null : null;
  });
}

export function median(values) {
  if (!values.length) return null;
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}
