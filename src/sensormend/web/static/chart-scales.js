// What the charts' axes show: how high and low, and how times are written.
import { monthName } from "./format.js";

const DAY = 86400;
// A reading this many times the cleaned range away leaves the chart, or nothing else could be seen on it.
const REACH = 2.5;

// The entries in sight: the first, and the one past the last.
function inSight({ time }, { from, to }) {
  const first = time.findIndex((one) => one >= from);
  if (first < 0) return [0, 0];
  const past = time.findIndex((one) => one > to);
  return [first, past < 0 ? time.length : past];
}

export function rangeOfValues(series, sight) {
  const [first, past] = inSight(series, sight);
  const cut = (values) => values.slice(first, past).filter((value) => value !== null);
  let [low, high] = extent([...cut(series.lower), ...cut(series.upper), ...cut(series.cleaned)]);
  const raw = [...cut(series.low), ...cut(series.high)];
  if (low > high) [low, high] = extent(raw);
  if (low > high) return [0, 1];
  const reach = REACH * Math.max(high - low, 1e-9);
  const [least, most] = [low - reach, high + reach];
  for (const value of raw) {
    if (value >= least && value <= most) [low, high] = [Math.min(low, value), Math.max(high, value)];
  }
  const margin = (high - low || Math.abs(high) || 1) * 0.06;
  return [low - margin, high + margin];
}

/** How far the differences go that are in sight; those past the range of the values themselves leave the chart. */
export function rangeOfResiduals(series, sight, differences) {
  const [first, past] = inSight(series, sight);
  const [low, high] = rangeOfValues(series, sight);
  const cap = high - low;
  let least = 0, most = 0;
  for (const off of differences.flatMap((one) => one.slice(first, past))) {
    if (off !== null && Math.abs(off) <= cap) [least, most] = [Math.min(least, off), Math.max(most, off)];
  }
  // Where it is all but zero, the chart must not make mountains of it.
  const margin = Math.max((most - least) * 0.12, cap * 0.03);
  return [least - margin, most + margin];
}

function extent(values) {
  let low = Infinity, high = -Infinity;
  for (const value of values) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return [low, high];
}

export const noLabels = (_, splits) => splits.map(() => "");

// Times on the axis, in UTC: hours with the date where it changes, then days, months and years.
export function timeLabels(_, splits, __, ___, gap) {
  let before = "";
  return splits.map((split) => {
    const time = new Date(split * 1000);
    const day = `${time.getUTCDate()} ${monthName(time.getUTCMonth())}`;
    const year = String(time.getUTCFullYear());
    const [upper, under] = gap < DAY
      ? [time.toISOString().slice(11, 16), day]
      : gap < 28 * DAY ? [day, year] : gap < 360 * DAY ? [monthName(time.getUTCMonth()), year] : [year, ""];
    const line = under && under !== before ? `${upper}\n${under}` : upper;
    before = under;
    return line;
  });
}
