// A fault as a small picture: raw and cleaned around it, fetched when it becomes visible.
import { element, iso, isAborted, unix } from "./elements.js";
import { colour, onTheme } from "./palette.js";

const MAX_PARALLEL = 4;
const LONGEST = 40 * 86400;
const POINTS = 60;
const MAX_CACHED = 500;

// A list that is drawn again does not fetch again.
const cache = new Map();

export function sparklines(context) {
  const queue = [];
  let running = 0;
  const drawn = new Map();
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      seen.unobserve(entry.target);
      queue.push(entry.target);
    }
    loadNext();
  }, { rootMargin: "100px" });

  function loadNext() {
    while (running < MAX_PARALLEL && queue.length) {
      const canvas = queue.shift();
      if (!canvas.isConnected || !drawn.has(canvas)) continue;
      running += 1;
      load(canvas).finally(() => {
        running -= 1;
        loadNext();
      });
    }
  }

  async function load(canvas) {
    const { fault, window } = drawn.get(canvas);
    const key = JSON.stringify([fault.sensor, fault.variable, window]);
    try {
      const series = cache.get(key) ?? await context.get("series", { sensor: fault.sensor, variable: fault.variable,
        from: iso(window.from), to: iso(window.to), points: POINTS });
      cache.delete(key);
      cache.set(key, series);
      if (cache.size > MAX_CACHED) cache.delete(cache.keys().next().value);
      drawn.set(canvas, { fault, window, series });
      draw(canvas, fault, series);
    } catch (error) {
      if (!isAborted(error)) canvas.classList.add("spark-failed");
    }
  }

  const stop = onTheme(() => {
    for (const [canvas, { fault, series }] of drawn) if (series) draw(canvas, fault, series);
  });

  return {
    // For printing: all of them, also those that were never scrolled to.
    async all() {
      seen.disconnect();
      queue.length = 0;
      const missing = [...drawn].filter(([canvas, { series }]) => canvas.isConnected && !series).map(([canvas]) => canvas);
      const one = async () => {
        while (missing.length) await load(missing.shift());
      };
      await Promise.all(Array.from({ length: MAX_PARALLEL }, one));
    },
    // A fault that goes on keeps its picture, drawn again once it has grown enough to look different.
    make(fault, before = null) {
      const old = drawn.get(before)?.window;
      const next = around(fault);
      if (old && next.to - old.to < 0.1 * (old.to - old.from)) return before;
      const canvas = element("canvas", { class: "spark", role: "img", "aria-label": "readings around the fault, raw and cleaned" });
      drawn.set(canvas, { fault, window: next });
      seen.observe(canvas);
      return canvas;
    },
    // Those that are not on the page any more.
    forget() {
      for (const canvas of drawn.keys()) {
        if (canvas.isConnected) continue;
        seen.unobserve(canvas);
        drawn.delete(canvas);
      }
    },
    close() {
      stop();
      seen.disconnect();
      queue.length = 0;
    },
  };
}

// The fault and a third of its length on both sides; of a long one its beginning, where the break can be seen.
function around(fault) {
  const from = unix(fault.from), length = Math.max(unix(fault.to) - from, 18 * 3600);
  const start = from - length / 3;
  return { from: start, to: Math.min(from + (length * 4) / 3, start + LONGEST) };
}

function draw(canvas, fault, series) {
  const width = canvas.clientWidth || 140, height = canvas.clientHeight || 36;
  canvas.width = width * devicePixelRatio;
  canvas.height = height * devicePixelRatio;
  const pen = canvas.getContext("2d");
  pen.scale(devicePixelRatio, devicePixelRatio);
  const values = [...series.value, ...series.cleaned, ...series.low, ...series.high].filter((value) => value !== null);
  if (!series.time.length || !values.length) return;
  const low = Math.min(...values), high = Math.max(...values);
  const start = series.time[0], end = Math.max(series.time.at(-1), start + 1);
  const x = (time) => 1 + ((time - start) / (end - start)) * (width - 2);
  const y = (value) => height - 3 - ((value - low) / (high - low || 1)) * (height - 6);
  // As `doubtful` of a fault: what is no likelier than not.
  const isDoubtful = fault.confidence !== null && fault.confidence <= 0.5;
  pen.fillStyle = colour(fault.reason === "silent" ? "shade-silent" : isDoubtful ? "shade-suspect" : "shade-faulty");
  const left = x(unix(fault.from));
  pen.fillRect(left, 0, Math.max(Math.min(x(unix(fault.to)), width) - left, 1), height);
  if (series.thinned > 1 && series.low.length) {
    pen.strokeStyle = colour("raw");
    pen.globalAlpha = 0.45;
    pen.lineWidth = Math.max(1, (width / series.time.length) * 0.8);
    pen.beginPath();
    series.time.forEach((time, at) => {
      if (series.low[at] === null) return;
      pen.moveTo(x(time), y(series.low[at]) + 0.5);
      pen.lineTo(x(time), y(series.high[at]) - 0.5);
    });
    pen.stroke();
    pen.globalAlpha = 1;
  }
  line(pen, series.time, series.value, x, y, colour("raw"), 1.2);
  line(pen, series.time, series.cleaned, x, y, colour("cleaned"), 1.5);
}

function line(pen, times, values, x, y, stroke, width) {
  pen.strokeStyle = stroke;
  pen.lineWidth = width;
  pen.lineJoin = "round";
  pen.beginPath();
  let before = null;
  times.forEach((time, at) => {
    const value = values[at];
    if (value !== null) {
      if (before === null) pen.moveTo(x(time), y(value));
      // A lone reading between two gaps would be a line of no length.
      pen.lineTo(x(time) + (before === null ? 0.6 : 0), y(value));
    }
    before = value;
  });
  pen.stroke();
}
