// The health matrix on its canvases: only the rows in view, and all of them squeezed beside.

import { monthName } from "./format.js";
import { STATES, colour, patterns, stateColour } from "./palette.js";

export const AXIS = 26;
// Pixels from which on a stretch has a mark, and from which on each cell has its own.
const MIN_MARKED = 5;
const MIN_SEPARATE = 8;
const DAY = 86_400_000;
const LABELS = "12px system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', sans-serif";
// How much a cell weighs where many share one pixel: one fault must not drown in sound days.
const WEIGHTS = { nothing: 0.4, healthy: 1, filled: 1, "not evaluated": 1, suspect: 2, silent: 4, faulty: 5 };

/** Fit a canvas to a size in CSS pixels and return its pen, in those pixels. */
function pen(canvas, width, height) {
  const ratio = devicePixelRatio || 1;
  const [wide, high] = [Math.max(1, Math.round(width * ratio)), Math.max(1, Math.round(height * ratio))];
  if (canvas.width !== wide || canvas.height !== high) {
    canvas.width = wide;
    canvas.height = high;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const made = canvas.getContext("2d");
  made.setTransform(ratio, 0, 0, ratio, 0, 0);
  return made;
}

/** The colours and marks as they are now; read again when the theme changes. */
export function inks(canvas) {
  const names = ["page", "ink", "ink-soft", "quiet", "line", "line-strong", "accent", "mark-silent", "mark-suspect"];
  return {
    ...Object.fromEntries(names.map((name) => [name, colour(name)])),
    states: Object.fromEntries(STATES.map((state) => [state, stateColour(state)])),
    marks: patterns(canvas.getContext("2d"), devicePixelRatio || 1),
  };
}

/** How wide the names at the left are, at most `most`. */
export function labelWidth(canvas, data, most) {
  const brush = canvas.getContext("2d");
  brush.font = LABELS;
  const named = data.rows.map((_, row) => data.name(row)).filter(Boolean);
  const longest = named.sort((one, other) => other.length - one.length).slice(0, 24);
  return Math.ceil(Math.min(most, Math.max(24, ...longest.map((name) => brush.measureText(name).width)) + 12));
}

/** Draw what is in view. `view` says where that is: {width, height, left, top, label, cell, row}, all in CSS pixels. */
export function paint(canvas, data, view, ink, { cursor = null, hover = null }) {
  const brush = pen(canvas, view.width, view.height);
  const snap = snapper();
  const edge = (column) => snap(view.label + column * view.cell - view.left);
  brush.fillStyle = ink.page;
  brush.fillRect(0, 0, view.width, view.height);
  const first = Math.floor(view.top / view.row);
  const last = Math.min(data.total - 1, Math.floor((view.top + view.height - AXIS) / view.row));
  const from = Math.max(0, Math.floor(view.left / view.cell));
  const to = Math.min(data.cells, Math.ceil((view.left + view.width - view.label) / view.cell));
  const y = (row) => snap(AXIS + row * view.row - view.top);

  brush.save();
  brush.beginPath();
  brush.rect(view.label, AXIS, view.width - view.label, view.height - AXIS);
  brush.clip();
  for (const [state, boxes] of stretches(data, first, last, from, to)) {
    brush.fillStyle = ink.states[state];
    for (const [row, start, end] of boxes) brush.fillRect(edge(start), y(row), edge(end) - edge(start), view.row - 1);
    markAll(brush, state, boxes, edge, y, view, ink);
  }
  if (view.cell >= 6) {
    brush.fillStyle = ink.page;
    for (let column = from; column < to; column += 1) brush.fillRect(edge(column + 1) - 1, AXIS, 1, view.height - AXIS);
  }
  if (data.provisional) {
    const left = edge(data.cells - data.provisional);
    brush.fillStyle = ink.marks.provisional;
    brush.fillRect(left, AXIS, edge(data.cells) - left, view.height - AXIS);
  }
  if (hover && hover.column >= 0) frame(brush, hover, edge, y, view, ink.ink, 1);
  if (cursor) frame(brush, cursor, edge, y, view, ink.accent, 2);
  brush.restore();

  names(brush, data, first, last, y, view, ink, [hover?.row, cursor?.row]);
  axis(brush, data, edge, view, ink);
}

function snapper() {
  const ratio = devicePixelRatio || 1;
  return (place) => Math.round(place * ratio) / ratio;
}

/** Neighbouring cells of one state are one box: [row, first column, the one after the last], by state. */
function stretches(data, first, last, from, to) {
  const boxes = new Map();
  for (let row = first; row <= last; row += 1) {
    const cells = data.rows[row]?.cells;
    if (!cells) continue;
    for (let start = from, end; start < to; start = end) {
      const letter = cells[start];
      for (end = start + 1; end < to && cells[end] === letter; end += 1);
      const state = data.letters[letter] ?? "nothing";
      if (state === "nothing") continue;
      if (!boxes.has(state)) boxes.set(state, []);
      boxes.get(state).push([row, start, end]);
    }
  }
  return boxes;
}

function markAll(brush, state, boxes, edge, y, view, ink) {
  if (state === "silent") {
    brush.fillStyle = ink["mark-silent"];
    each(boxes, edge, view, (row, left, width) => {
      const dash = view.cell >= MIN_SEPARATE ? width * 0.4 : width - 4;
      brush.fillRect(left + (width - dash) / 2, y(row) + (view.row - 1) / 2 - 0.75, dash, 1.5);
    });
  } else if (state === "suspect") {
    brush.fillStyle = ink["mark-suspect"];
    brush.beginPath();
    each(boxes, edge, view, (row, left, width) => {
      brush.moveTo(left + width / 2 + 1.5, y(row) + (view.row - 1) / 2);
      brush.arc(left + width / 2, y(row) + (view.row - 1) / 2, 1.5, 0, 7);
    });
    brush.fill();
  } else if (state === "faulty") {
    brush.fillStyle = ink.marks.faulty;
    for (const [row, start, end] of boxes) {
      const [left, width] = [edge(start), edge(end) - edge(start)];
      if (width >= MIN_MARKED) brush.fillRect(left, y(row), width, view.row - 1);
    }
  }
}

/** Go through the cells of boxes, or the boxes themselves where cells are too small for a mark. */
function each(boxes, edge, view, act) {
  const apart = view.cell >= 6 ? 1 : 0;
  for (const [row, start, end] of boxes) {
    const step = view.cell >= MIN_SEPARATE ? 1 : end - start;
    for (let column = start; column < end; column += step) {
      const [left, right] = [edge(column), edge(column + step) - apart];
      if (right - left >= MIN_MARKED - 1) act(row, left, right - left);
    }
  }
}

function frame(brush, at, edge, y, view, ink, strength) {
  const left = edge(at.column);
  const width = Math.max(edge(at.column + 1) - left, 3);
  brush.strokeStyle = ink;
  brush.lineWidth = strength;
  brush.strokeRect(left - strength / 2, y(at.row) - strength / 2, width + strength - (view.cell >= 6 ? 1 : 0), view.row - 1 + strength);
}

function names(brush, data, first, last, y, view, ink, strong) {
  brush.fillStyle = ink.page;
  brush.fillRect(0, AXIS, view.label, view.height - AXIS);
  brush.save();
  brush.beginPath();
  brush.rect(0, AXIS, view.label, view.height - AXIS);
  brush.clip();
  brush.textBaseline = "middle";
  brush.textAlign = "left";
  for (let row = first; row <= last; row += 1) {
    brush.font = strong.includes(row) ? `600 ${LABELS}` : LABELS;
    brush.fillStyle = strong.includes(row) ? ink.ink : ink["ink-soft"];
    const name = data.name(row);
    brush.fillText(name === undefined ? "…" : fitted(brush, name, view.label - 10), 0, y(row) + view.row / 2);
  }
  brush.restore();
}

function fitted(brush, name, width) {
  const fits = (text) => brush.measureText(text).width <= width;
  if (fits(name)) return name;
  // Of a sensor with several variables the end tells them apart.
  const comma = name.lastIndexOf(", ");
  const [start, end] = comma > 0 && fits(`mm…${name.slice(comma)}`) ? [name.slice(0, comma), `…${name.slice(comma)}`] : [name, "…"];
  let length = start.length;
  while (length > 1 && !fits(`${start.slice(0, length)}${end}`)) length -= 1;
  return `${start.slice(0, length)}${end}`;
}

function axis(brush, data, edge, view, ink) {
  brush.fillStyle = ink.page;
  brush.fillRect(0, 0, view.width, AXIS);
  brush.save();
  brush.beginPath();
  brush.rect(view.label - 1, 0, view.width - view.label + 1, AXIS);
  brush.clip();
  brush.font = LABELS;
  brush.textBaseline = "middle";
  brush.textAlign = "left";
  let free = -Infinity;
  const end = Math.min(view.width, edge(data.cells));
  for (const { column, words } of ticks(data, view.cell / data.cellDays)) {
    const x = edge(column);
    if (x < view.label - 1 || x > end) continue;
    brush.fillStyle = ink["line-strong"];
    brush.fillRect(x, AXIS - 8, 1, 6);
    const width = brush.measureText(words).width;
    if (x < free || x + 4 + width > end) continue;
    brush.fillStyle = ink.quiet;
    brush.fillText(words, x + 4, AXIS / 2 - 1);
    free = x + width + 12;
  }
  brush.restore();
}

/** Where the axis says a date: days, Mondays, months, quarters or years, as there is room. The first also says the year. */
function ticks(data, pixels) {
  const labels = [];
  const step = [["day", 1, 48], ["week", 7, 56], ["month", 30, 36], ["quarter", 91, 36], ["year", 365, 0]]
    .find(([, days, space]) => pixels * days >= space)[0];
  let year = null;
  for (let column = 0; column < data.cells; column += 1) {
    const start = data.day(column);
    const next = data.day(column + 1).getTime();
    // With several days to a cell, the tick belongs to the cell in which its day falls.
    for (let time = start.getTime(); time < next; time += DAY) {
      const date = new Date(time);
      const [month, day] = [date.getUTCMonth(), date.getUTCDate()];
      const due = {
        day: true, week: date.getUTCDay() === 1, month: day === 1,
        quarter: day === 1 && month % 3 === 0, year: day === 1 && month === 0,
      }[step];
      if (!due) continue;
      const named = step === "day" || step === "week" ? `${day} ${monthName(month)}` : monthName(month);
      const fresh = year !== date.getUTCFullYear();
      year = date.getUTCFullYear();
      labels.push({ column, words: step === "year" ? String(year) : fresh ? `${named} ${year}` : named });
      break;
    }
  }
  return labels;
}

/** Draw all rows into a slim picture of a size: each pixel the mixture of its cells, trouble counting more. */
export function paintAll(canvas, data, width, height, ink) {
  const ratio = devicePixelRatio || 1;
  const brush = pen(canvas, width, height);
  const [wide, high] = [Math.max(1, Math.round(width * ratio)), Math.max(1, Math.round(height * ratio))];
  const mixed = new Float32Array(wide * high * 4);
  const page = rgb(ink.page);
  const colours = {};
  for (const [letter, state] of Object.entries(data.letters)) {
    colours[letter] = [...(state === "nothing" ? page : rgb(ink.states[state])), WEIGHTS[state] ?? 1];
  }
  const across = Array.from({ length: data.cells }, (_, column) => [
    Math.floor((column * wide) / data.cells), Math.max(Math.floor((column * wide) / data.cells) + 1, Math.floor(((column + 1) * wide) / data.cells)),
  ]);
  for (let row = 0; row < data.total; row += 1) {
    const cells = data.rows[row]?.cells;
    if (!cells) continue;
    const top = Math.floor((row * high) / data.total);
    const bottom = Math.max(top + 1, Math.floor(((row + 1) * high) / data.total));
    for (let column = 0; column < data.cells; column += 1) {
      const [red, green, blue, weight] = colours[cells[column]] ?? colours["."];
      for (let line = top; line < bottom; line += 1) {
        for (let x = across[column][0], at = (line * wide + x) * 4; x < across[column][1]; x += 1, at += 4) {
          mixed[at] += red * weight;
          mixed[at + 1] += green * weight;
          mixed[at + 2] += blue * weight;
          mixed[at + 3] += weight;
        }
      }
    }
  }
  const image = brush.createImageData(wide, high);
  for (let at = 0; at < mixed.length; at += 4) {
    const weight = mixed[at + 3];
    for (let part = 0; part < 3; part += 1) image.data[at + part] = weight ? mixed[at + part] / weight : page[part];
    image.data[at + 3] = 255;
  }
  brush.putImageData(image, 0, 0);
}

function rgb(hex) {
  return [1, 3, 5].map((at) => Number.parseInt(hex.slice(at, at + 2), 16));
}
