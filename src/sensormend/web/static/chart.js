// The two charts of a sensor: its readings and the cleaned values, and below them the difference.
import { cutWords, noLabels, rangeOfResiduals, rangeOfValues, timeLabels } from "./chart-scales.js";
import { colour, onTheme } from "./palette.js";
import { isLocal, localZone, value as number } from "./format.js";
import { listenFingers, listenKeys, listenPan, listenWheel } from "./gestures.js";
import { median } from "./reading.js";
import { HEADROOM, drawBeyond, drawMarks, drawShades, drawWords } from "./shades.js";

const NONE = Object.freeze([]);

let charts = 0;
let loading = null;

// The plotter is loaded when the first chart is needed: the overview does without.
export function loadPlotter() {
  // The report has it inside.
  if (globalThis.uPlot) return Promise.resolve();
  loading ??= new Promise((done, failed) => {
    const script = document.createElement("script");
    script.src = new URL("./vendor/uPlot.iife.min.js", import.meta.url);
    script.onload = done;
    script.onerror = () => {
      loading = null;
      script.remove();
      failed(new Error("the charts could not be loaded"));
    };
    document.head.append(script);
  });
  return loading;
}

export function makeCharts(upper, lower, view) {
  const key = `sensor-${++charts}`;
  let series = null, neighbours = NONE, marked = null, plots = [], residuals = [NONE, NONE, NONE];

  function build() {
    const range = view.range();
    for (const plot of plots) plot.destroy();
    plots = [mainPlot(), residualPlot()];
    for (const plot of plots) {
      plot.setScale("x", { min: range.from, max: range.to });
      listenWheel(plot, view);
      listenPan(plot, view);
      listenFingers(plot, view);
      plot.over.addEventListener("click", () => {
        const time = plot.posToVal(plot.cursor.left, "x");
        if (Number.isFinite(time)) view.picked(time);
      });
    }
  }

  function mainPlot() {
    const line = (stroke, width, more = {}) => ({ stroke, width, points: { show: false }, spanGaps: false, ...more });
    const raw = colour("raw"), cleaned = colour("cleaned"), corrected = colour("corrected");
    const edge = (ink) => [line(ink, 0.75), line(ink, 0.75)];
    const dots = (ink) => ({ points: { show: showPoints, size: 3.5, fill: ink, stroke: ink, width: 0 } });
    const after = 5 + neighbours.length;
    const options = {
      ...shared(upper, 1),
      series: [
        {},
        line("transparent", 0), line("transparent", 0), ...edge(raw),
        ...neighbours.map((other) => line(colour(other.plain ? "ink" : "faint"), other.plain ? 1.2 : other.strong ? 2.4 : 1.1, { alpha: other.strong ? 1 : 0.7 })),
        line(raw, 1, dots(raw)), ...edge(cleaned), ...edge(corrected),
        line(cleaned, 2), line(corrected, 2, dots(corrected)), line(cleaned, 2, { dash: [5, 4] }),
      ],
      bands: [
        { series: [1, 2], fill: colour("interval") },
        { series: [3, 4], fill: paler(raw, 0.55) },
        { series: [after + 1, after + 2], fill: paler(cleaned, 0.5) },
        { series: [after + 3, after + 4], fill: paler(corrected, 0.55) },
      ],
      hooks: hooks((plot) => {
        drawWords(plot, series);
        drawMarks(plot, series);
        drawBeyond(plot, series.time, series.low, series.high);
      }),
    };
    options.scales.y = { range: () => valueRange() };
    return new uPlot(options, mainData(), upper);
  }

  function residualPlot() {
    const raw = colour("raw"), ink = colour("quiet");
    const options = {
      ...shared(lower, 2),
      series: [
        {},
        { stroke: raw, width: 1.2, points: { show: showPoints, size: 3, fill: raw, stroke: raw, width: 0 } },
        { stroke: ink, width: 1.2, dash: [2, 3], points: { show: false }, show: neighbours.some((other) => !other.plain) },
      ],
      hooks: hooks((plot) => {
        drawZero(plot);
        drawBeyond(plot, ...residuals.slice(0, 2), residuals[1]);
      }),
    };
    options.padding = [6, 22, 0, 0];
    options.scales.y = { range: () => residualRange() };
    return new uPlot(options, residualData(), lower);
  }

  function shared(root, row) {
    const ink = colour("ink"), line = colour("line");
    const axis = { stroke: ink, font: "12px system-ui, sans-serif", ticks: { stroke: line, size: 5, width: 1 } };
    return {
      width: Math.max(200, root.clientWidth), height: Math.max(100, root.clientHeight),
      padding: [HEADROOM, 22, 0, 0],
      legend: { show: false },
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), isLocal() ? localZone : "Etc/UTC"),
      scales: { x: { time: true, auto: false }, y: {} },
      axes: [
        { ...axis, grid: { show: false }, values: row === 1 ? timeLabels : noLabels, size: row === 1 ? 42 : 10, space: 76, gap: 4 },
        { ...axis, label: row === 1 ? view.title : view.unit, labelSize: view.title ? 18 : 0, labelFont: axis.font, grid: { stroke: line, width: 1 }, size: 52, gap: 4, space: 32, values: (_, splits) => splits.map((split) => number(split)) },
      ],
      cursor: {
        y: false,
        drag: { x: true, y: false, setScale: false, dist: 6 },
        points: { size: 7 },
        sync: { key, setSeries: false, scales: ["x", null], filters: { pub: isMove, sub: isMove } },
        bind: { dblclick: () => () => view.reset(), mousedown: (_, __, act) => (event) => !event.shiftKey && act(event) },
      },
    };
  }

  function hooks(draw) {
    return {
      drawClear: [(plot) => series && drawShades(plot, series)],
      draw: [(plot) => {
        if (!series) return;
        draw(plot);
        if (marked !== null) drawMarked(plot);
      }],
      setSelect: [(plot) => {
        const { left, width } = plot.select;
        if (width < 6) return;
        const from = plot.posToVal(left, "x"), to = plot.posToVal(left + width, "x");
        plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
        view.move(from, to);
      }],
      setCursor: [(plot) => plot === plots[0] && view.hovered(plot.cursor.left < 0 ? null : plot.cursor.idx)],
    };
  }

  function drawMarked(plot) {
    const { ctx, bbox } = plot;
    const x = plot.valToPos(marked, "x", true);
    if (x < bbox.left || x > bbox.left + bbox.width) return;
    ctx.save();
    ctx.strokeStyle = colour("ink");
    ctx.lineWidth = devicePixelRatio;
    ctx.setLineDash([]);
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    ctx.restore();
  }

  function drawZero(plot) {
    const { ctx, bbox } = plot;
    const y = plot.valToPos(0, "y", true);
    if (y < bbox.top || y > bbox.top + bbox.height) return;
    ctx.save();
    ctx.strokeStyle = colour("ink");
    ctx.globalAlpha = 0.6;
    ctx.lineWidth = devicePixelRatio;
    ctx.setLineDash([]);
    ctx.beginPath();
    ctx.moveTo(bbox.left, y);
    ctx.lineTo(bbox.left + bbox.width, y);
    ctx.stroke();
    ctx.restore();
  }

  function showPoints(plot, _, from, to) {
    return (to - from) * 5 < plot.over.clientWidth;
  }

  // Points of one slot are lines; those of several are bands from the lowest to the highest, a point to a pixel.
  function mainData() {
    if (!series) return [NONE, ...Array(12 + neighbours.length).fill(NONE)];
    const none = series.time.map(() => null);
    const since = series.provisional_from ?? Infinity;
    const where = (values, holds) => values.map((one, at) => (holds(at) ? one : null));
    const isCorrected = (at) => series.corrected[at] === 1;
    const isFinal = (at) => series.time[at] < since;
    const isReplaced = (at) => isCorrected(at) || series.estimated[at] === 1;
    const others = neighbours.map((other) => other.values);
    // A point of overlap on either side, so that one line begins where the other ends.
    const near = (holds) => (at) => holds(at) || (at > 0 && holds(at - 1)) || (at + 1 < series.time.length && holds(at + 1));
    const later = where(series.cleaned, near((at) => !isFinal(at)));
    if (series.thinned > 1) {
      // Only where readings are beyond what they were mended to can they be seen.
      const isOther = (at) => series.high[at] > series.cleaned_high[at] || series.low[at] < series.cleaned_low[at];
      const band = (holds) => [where(series.cleaned_high, holds), where(series.cleaned_low, holds)];
      return [
        series.time, where(series.upper, isReplaced), where(series.lower, isReplaced),
        where(series.high, near(isOther)), where(series.low, near(isOther)), ...others, none,
        ...band((at) => isFinal(at) && near((one) => !isCorrected(one))(at)), ...band((at) => isFinal(at) && isCorrected(at)),
        none, none, since === Infinity ? none : later,
      ];
    }
    return [
      series.time, series.upper, series.lower, none, none, ...others, series.value, none, none, none, none,
      where(series.cleaned, (at) => isFinal(at) && near((one) => !isCorrected(one))(at)),
      where(series.cleaned, (at) => isFinal(at) && isCorrected(at)),
      since === Infinity ? none : later,
    ];
  }

  function residualData() {
    if (!series) return residuals;
    const alike = neighbours.filter((other) => !other.plain);
    const expected = alike.length
      ? series.time.map((_, at) => median(alike.map((other) => other.values[at]).filter((value) => value !== null)))
      : series.time.map(() => null);
    residuals = [series.time, series.residual, minus(series.value, expected)];
    return residuals;
  }

  const valueRange = () => (series ? rangeOfValues(series, view.range()) : [0, 1]);
  const residualRange = () => (series ? rangeOfResiduals(series, view.range(), residuals.slice(1)) : [-1, 1]);

  function render() {
    const range = view.range();
    if (!plots.length) return;
    const data = [mainData(), residualData()];
    plots.forEach((plot, at) => plot.batch(() => {
      plot.setData(data[at], false);
      plot.setScale("x", { min: range.from, max: range.to });
    }));
  }

  const resized = new ResizeObserver(() => plots.forEach((plot, at) => {
    const root = at ? lower : upper;
    const width = Math.max(200, root.clientWidth), height = Math.max(100, root.clientHeight);
    if (plot.width !== width || plot.height !== height) plot.setSize({ width, height });
  }));
  resized.observe(upper);
  resized.observe(lower);
  const themed = onTheme(build);
  listenKeys(upper, view);
  build();

  return {
    load(next, others = neighbours) {
      const rebuild = others.length !== neighbours.length || others.some((other, at) => other.strong !== neighbours[at].strong || other.plain !== neighbours[at].plain);
      series = next;
      neighbours = others;
      if (rebuild) build();
      else render();
    },
    move() {
      const { from, to } = view.range();
      for (const plot of plots) plot.setScale("x", { min: from, max: to });
    },
    mark(time) {
      marked = time;
      for (const plot of plots) plot.redraw(false, false);
    },
    width: () => upper.clientWidth,
    /** Both charts as one picture. */
    picture() {
      const parts = plots.map((plot) => plot.ctx.canvas);
      const canvas = document.createElement("canvas");
      canvas.width = Math.max(...parts.map((part) => part.width));
      canvas.height = parts.reduce((sum, part) => sum + part.height, 0);
      const pen = canvas.getContext("2d");
      pen.fillStyle = colour("page");
      pen.fillRect(0, 0, canvas.width, canvas.height);
      parts.reduce((top, part) => {
        pen.drawImage(part, 0, top);
        return top + part.height;
      }, 0);
      return canvas;
    },
    // What of the readings in sight is not on the axis, in words.
    cut: () => (series ? cutWords(series, view.range()) : ""),
    close() {
      resized.disconnect();
      themed();
      for (const plot of plots) plot.destroy();
      plots = [];
    },
  };
}

const isMove = (type) => type === "mousemove" || type === "mouseleave";

function minus(these, those) {
  return these.map((value, at) => (value === null || those[at] === null ? null : value - those[at]));
}

// A colour mixed with that of the page; what is drawn below does not shine through.
function paler(text, share) {
  return `color-mix(in srgb, ${text} ${Math.round(share * 100)}%, ${colour("page")})`;
}
