// What the charts' axes show: how high and low, and how times are written.
import { clockOf, monthName, value } from "./format.js";

const DAY = 86400;
// A reading further from the cleaned ones than so many times their range leaves the chart, or nothing else could be seen
// on it.
const REACH = 4;

// The entries in sight: the first, and the one past the last.
function inSight({ time }, { from, to }) {
  const first = time.findIndex((one) => one >= from);
  if (first < 0) return [0, 0];
  const past = time.findIndex((one) => one > to);
  return [first, past < 0 ? time.length : past];
}

/** The lowest and the highest value on the chart, without a margin: all that was read, or `cut` says what is beyond. */
export function axis(read, cleaned) {
  let [low, high] = extent(cleaned);
  if (low > high) [low, high] = extent(read);
  if (low > high) return { low: 0, high: 1, cut: null };
  const reach = REACH * Math.max(high - low, 1e-9);
  const [least, most] = [low - reach, high + reach];
  const [lowest, highest] = extent(read);
  for (const one of read) {
    if (one >= least && one <= most) [low, high] = [Math.min(low, one), Math.max(high, one)];
  }
  const cut = { below: lowest < low ? lowest : null, above: highest > high ? highest : null };
  return { low, high, cut: cut.below === null && cut.above === null ? null : cut };
}

function axisInSight(series, sight) {
  const [first, past] = inSight(series, sight);
  const cut = (...columns) => columns.flatMap((values) => values.slice(first, past).filter((one) => one !== null));
  return axis(cut(series.low, series.high), cut(series.lower, series.upper, series.cleaned));
}

export function rangeOfValues(series, sight) {
  const { low, high } = axisInSight(series, sight);
  const margin = (high - low || Math.abs(high) || 1) * 0.06;
  return [low - margin, high + margin];
}

/** What of the readings in sight lies beyond the axis, in words; nothing where all of them are on it. */
export function cutWords(series, sight) {
  const { cut } = axisInSight(series, sight);
  if (!cut) return "";
  const parts = [cut.above === null ? "" : `up to ${value(cut.above)}`, cut.below === null ? "" : `down to ${value(cut.below)}`];
  return `The axis is cut: readings go ${parts.filter(Boolean).join(" and ")}`;
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
  for (const one of values) {
    if (one < low) low = one;
    if (one > high) high = one;
  }
  return [low, high];
}

export const noLabels = (_, splits) => splits.map(() => "");

// Times on the axis: hours with the date where it changes, then days, months and years.
export function timeLabels(_, splits, __, ___, gap) {
  let before = "";
  return splits.map((split) => {
    const time = clockOf(split);
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
