// What is drawn on the charts besides their lines: shaded spans with their word, faults that last as lines with their size,
// single spikes, what is provisional.
import { colour, stateInk } from "./palette.js";
import { nearest } from "./reading.js";

const ROWS = 2;
const ROW = 17;
export const HEADROOM = ROWS * ROW + 8;

// A span no longer than a slot or two is a mark at its reading: a shade would be too narrow to see.
function isSpike(span, step) {
  return span.spike === true || (span.kind === "faulty" && span.to - span.from <= 1.5 * step);
}

export function spanWord(span) {
  if (span.kind === "suspect" && span.word && span.word !== "suspect") return `suspect: ${span.word}`;
  return (span.word === "alone" ? "no similar sensor to compare with" : span.word) || span.kind;
}

export function drawShades(plot, series) {
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  for (const span of series.spans) {
    if (isSpike(span, series.step)) continue;
    const left = plot.valToPos(span.from, "x", true);
    const right = Math.max(plot.valToPos(span.to, "x", true), left + devicePixelRatio);
    ctx.fillStyle = colour(`shade-${span.kind.replace(" ", "-")}`) || colour("shade-silent");
    ctx.fillRect(left, bbox.top, right - left, bbox.height);
  }
  if (series.provisional_from !== null) hatch(plot, plot.valToPos(series.provisional_from, "x", true));
  // What its owners call wrong, along the time axis: no shade above it, or a shade without it, is where we differ.
  ctx.fillStyle = colour("owner");
  for (const span of series.owner) {
    const left = plot.valToPos(span.from, "x", true);
    const right = Math.max(plot.valToPos(span.to, "x", true), left + 2 * devicePixelRatio);
    ctx.fillRect(left, bbox.top + bbox.height - 6 * devicePixelRatio, right - left, 6 * devicePixelRatio);
  }
  ctx.restore();
}

function hatch(plot, left) {
  const { ctx, bbox } = plot;
  const right = bbox.left + bbox.width;
  const from = Math.max(left, bbox.left);
  if (from >= right) return;
  ctx.save();
  ctx.beginPath();
  ctx.rect(from, bbox.top, right - from, bbox.height);
  ctx.clip();
  ctx.strokeStyle = colour("faint");
  ctx.globalAlpha = 0.3;
  ctx.lineWidth = devicePixelRatio;
  ctx.beginPath();
  const gap = 9 * devicePixelRatio;
  // Hung on the time, not on the window: the hatch moves with what it is on.
  const start = left + Math.floor((from - left) / gap) * gap - bbox.height;
  for (let x = start; x < right; x += gap) {
    ctx.moveTo(x, bbox.top + bbox.height);
    ctx.lineTo(x + bbox.height, bbox.top);
  }
  ctx.stroke();
  if (left >= bbox.left) {
    ctx.globalAlpha = 0.8;
    ctx.setLineDash([4 * devicePixelRatio, 4 * devicePixelRatio]);
    ctx.beginPath();
    ctx.moveTo(left, bbox.top);
    ctx.lineTo(left, bbox.top + bbox.height);
    ctx.stroke();
  }
  ctx.restore();
}

export function drawWords(plot, series) {
  const { ctx, bbox } = plot;
  const px = devicePixelRatio;
  const end = bbox.left + bbox.width;
  ctx.save();
  ctx.font = `600 ${11.5 * px}px system-ui, sans-serif`;
  ctx.textAlign = "center";
  ctx.textBaseline = "alphabetic";
  const taken = Array.from({ length: ROWS }, () => []);
  const isOf = (span, fault) => span.from < fault.to && span.to > fault.from && span.word.includes(fault.word);
  const kindOf = (fault) => series.spans.find((span) => ["faulty", "suspect"].includes(span.kind) && isOf(span, fault))?.kind ?? "faulty";
  const words = series.lasting.map((fault) =>
    ({ from: fault.from, to: fault.to, text: `${fault.word} ${fault.size}`, ink: stateInk(kindOf(fault)), line: true }));
  const hasLine = (span) => ["faulty", "suspect"].includes(span.kind) && series.lasting.some((fault) => isOf(span, fault));
  for (const span of series.spans) {
    // What a line tells of needs no word besides.
    if (isSpike(span, series.step) || hasLine(span)) continue;
    const before = words.at(-1);
    // What goes on under another name is one shade, and has one line of words.
    if (before && !before.line && before.kind === span.kind && span.from <= before.to) {
      before.to = Math.max(before.to, span.to);
      if (!before.text.split(", ").includes(span.word)) before.text += `, ${span.word}`;
    } else words.push({ from: span.from, to: span.to, kind: span.kind, text: spanWord(span), ink: stateInk(span.kind) });
  }
  if (series.provisional_from !== null) {
    words.push({ from: series.provisional_from, to: Infinity, text: "provisional", ink: colour("quiet") });
  }
  // Lines first, the newest of them before the others: it gets its words where there is little room.
  words.sort((a, b) => Boolean(b.line) - Boolean(a.line) || (a.line ? b.to - a.to : a.from - b.from));
  for (const word of words) {
    const left = Math.max(plot.valToPos(word.from, "x", true), bbox.left);
    const right = Math.min(word.to === Infinity ? end : plot.valToPos(word.to, "x", true), end);
    if (right <= left) continue;
    const half = ctx.measureText(word.text).width / 2;
    const middle = Math.min(Math.max((left + right) / 2, bbox.left + half), end - half);
    const [begin, past] = word.line ? [Math.min(left, middle - half), Math.max(right, middle + half)] : [middle - half, middle + half];
    const free = (from, to) => taken.findIndex((others) => others.every(([first, last]) => to < first || from > last));
    const worded = free(begin, past);
    const row = worded < 0 && word.line ? Math.max(0, free(left, right)) : worded;
    if (row < 0) continue;
    taken[row].push(worded < 0 ? [left, right] : [begin - 6 * px, past + 6 * px]);
    const base = bbox.top - (5 + row * ROW) * px;
    ctx.fillStyle = word.ink;
    if (worded >= 0) ctx.fillText(word.text, middle, base);
    // A fault that lasts: a line from its first reading to its last.
    if (word.line) ctx.fillRect(left, base + 2.5 * px, right - left, 2 * px);
    else if (row > 0) {
      ctx.globalAlpha = 0.5;
      ctx.fillRect((left + right) / 2, base + 3 * px, px, bbox.top - base - 3 * px);
      ctx.globalAlpha = 1;
    }
  }
  ctx.restore();
}

// Where a spike's reading is: in a point of many slots, the end of its range that is further off.
function spikeValue(series, at) {
  const low = series.low[at], high = series.high[at], usual = series.cleaned[at];
  if (low === null || high === null) return null;
  return usual !== null && usual - low > high - usual ? low : high;
}

export function drawMarks(plot, series) {
  const { ctx, bbox } = plot;
  const px = devicePixelRatio;
  ctx.save();
  ctx.strokeStyle = colour("raw");
  ctx.lineWidth = 1.8 * px;
  ctx.setLineDash([]);
  for (const span of series.spans) {
    if (!isSpike(span, series.step)) continue;
    const at = nearest(series.time, span.spike ? span.from : span.from - ((series.thinned - 1) * series.step) / 2);
    const value = at < 0 ? null : spikeValue(series, at);
    const x = plot.valToPos(at < 0 ? span.from : series.time[at], "x", true);
    if (value === null || x < bbox.left || x > bbox.left + bbox.width) continue;
    const y = plot.valToPos(value, "y", true);
    if (y < bbox.top || y > bbox.top + bbox.height) continue;
    ctx.beginPath();
    ctx.arc(x, y, 5.5 * px, 0, 2 * Math.PI);
    ctx.stroke();
  }
  ctx.restore();
}

// What is past the edge of the chart: a small arrow that points to where it is.
export function drawBeyond(plot, times, lows, highs) {
  const { ctx, bbox } = plot;
  const px = devicePixelRatio;
  const { min, max } = plot.scales.y;
  const bottom = bbox.top + bbox.height;
  let drawn = -Infinity;
  ctx.save();
  ctx.fillStyle = colour("raw");
  times.forEach((time, at) => {
    const high = highs[at], low = lows[at];
    if (high === null || (high <= max && low >= min)) return;
    const x = plot.valToPos(time, "x", true);
    if (x < bbox.left || x > bbox.left + bbox.width || x - drawn < 9 * px) return;
    drawn = x;
    const up = high > max;
    const edge = up ? bbox.top + px : bottom - px;
    const base = up ? edge + 6 * px : edge - 6 * px;
    ctx.beginPath();
    ctx.moveTo(x, edge);
    ctx.lineTo(x - 4 * px, base);
    ctx.lineTo(x + 4 * px, base);
    ctx.fill();
  });
  ctx.restore();
}
