// All variables of one station on one time axis: a chart for each, raw and cleaned, zoomed together.
import { rangeOfValues, timeLabels } from "./chart-scales.js";
import { loadPlotter } from "./chart.js";
import { button, element, iso, isAborted, unix } from "./elements.js";
import { day, isLocal, localZone, moment, plural, sensorLink, value as number } from "./format.js";
import { chip, colour, onTheme } from "./palette.js";
import { loadSeries } from "./reading.js";
import { drawShades } from "./shades.js";

const DAY = 86400;
const SPANS = [["7 days", 7], ["30 days", 30], ["90 days", 90], ["1 year", 365], ["All", Infinity]];
const USUAL_DAYS = 30;
const HEIGHT = 150;
let groups = 0;

const FEW_POINTS = 60;
// A longer title is higher than the chart.
const LONGEST_TITLE = 22;

const isMove = (type) => type === "mousemove" || type === "mouseleave";

export async function show(root, params, context) {
  const sensor = params.get("sensor") ?? "";
  const { variables } = await context.get("sensor", { sensor });
  const [infos] = await Promise.all([Promise.all(variables.map((variable) => context.get("sensor", { sensor, variable }))), loadPlotter()]);
  context.title(sensor);
  const { network } = context;
  const first = unix(network.first ?? 0);
  // Where all of its variables have ended, there is nothing after their last readings.
  const heard = infos.every(({ state }) => state === "ended") ? Math.max(...infos.map((info) => unix(info.heard ?? 0))) : Infinity;
  const end = () => Math.min(unix(context.network.last ?? 0), heard) + network.step;
  const key = `station-${++groups}`;
  const wanted = ["from", "to"].map((name) => moment(params.get(name))?.getTime() / 1000);
  let range = wanted[1] > wanted[0] ? { from: wanted[0], to: wanted[1] } : newest(USUAL_DAYS);
  let request = null, plots = [];

  const spans = SPANS.filter(([, days]) => days === Infinity || days * DAY < end() - first)
    .map(([text, days]) => [days, button(text, () => move(newest(days)), { "aria-pressed": "false" })]);
  const lengths = element("div", { class: "choices no-print", role: "group", "aria-label": "how much time" }, spans.map(([, press]) => press));
  const line = element("p", { class: "quiet small", role: "status" });
  const parts = infos.map((info) => {
    const box = element("div", { class: "chart station-chart", role: "img", "aria-label": `${info.label} of ${sensor} over time` });
    return { info, box, series: null, element: element("section", { class: "station-part" },
      element("div", { class: "station-name" }, element("a", { href: sensorLink(sensor, info.variable), text: info.label }),
        chip(info.state)), box) };
  });
  root.append(element("div", { class: "section-head" }, element("div", {}, element("h1", { text: sensor }), line), lengths),
    element("div", { class: "station" }, parts.map((part) => part.element)),
    element("div", { class: "small quiet" },
      element("p", { text: "Lines: orange is raw, blue is cleaned. Shades: orange is faulty, yellow is suspect, grey is silent or not evaluated." }),
      element("p", { class: "station-units", text: unitWords(infos) }),
      element("p", { class: "chart-help", text: "Drag to zoom in, double click for the newest 30 days." })));

  function newest(days) {
    const length = days === Infinity ? end() - first : days * DAY;
    return { from: Math.max(first, end() - length), to: end() };
  }

  function move(next) {
    range = { from: Math.max(first, next.from), to: Math.min(end(), next.to) };
    context.remember({ from: iso(range.from), to: iso(range.to) });
    return load();
  }

  async function load() {
    request?.abort();
    request = new AbortController();
    const { signal } = request;
    const points = Math.min(2000, Math.max(300, (root.clientWidth || 800) * Math.min(devicePixelRatio, 2)));
    try {
      const all = await Promise.all(parts.map(({ info }) => loadSeries(context.get, sensor, info.variable, range.from, range.to, points, signal)));
      all.forEach((series, at) => { parts[at].series = series; });
      draw();
      const [first, last] = [day(range.from), day(range.to - 1)];
      line.textContent = `${plural(parts.length, "variable")}, ${first === last ? first : `${first} to ${last}`}`;
      for (const [days, press] of spans) {
        const { from, to } = newest(days);
        press.setAttribute("aria-pressed", String(Math.max(Math.abs(range.from - from), Math.abs(range.to - to)) < 1.5 * network.step));
      }
      root.dataset.range = `${Math.round(range.from)},${Math.round(range.to)}`;
    } catch (error) {
      if (!isAborted(error)) context.say(`The readings could not be read: ${error.message}.`, "error");
    }
  }

  function draw() {
    for (const plot of plots) plot.destroy();
    plots = parts.map((part, at) => plotOf(part, at === parts.length - 1));
  }

  function plotOf({ info, box, series }, isLast) {
    const axis = { stroke: colour("ink"), font: "12px system-ui, sans-serif", ticks: { stroke: colour("line"), size: 5, width: 1 } };
    // A reading by itself makes no line.
    const shown = series.time.filter((time) => time >= range.from && time < range.to).length;
    const curve = (stroke, width) => ({ stroke, width, points: { show: shown <= FEW_POINTS, size: 4, fill: stroke }, spanGaps: false });
    const thin = series.thinned > 1;
    return new uPlot({
      width: Math.max(200, box.clientWidth), height: HEIGHT + (isLast ? 32 : 0), padding: [8, 24, 0, 0], legend: { show: false },
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), isLocal() ? localZone : "Etc/UTC"),
      scales: { x: { time: true, range: () => [range.from, range.to] }, y: { range: () => rangeOfValues(series, range) } },
      series: [{}, curve(thin ? "transparent" : colour("raw"), 1), curve(colour("raw"), 0.75), curve(colour("raw"), 0.75), curve(colour("cleaned"), 1.6)],
      bands: thin ? [{ series: [2, 3], fill: colour("raw") }] : [],
      axes: [{ ...axis, grid: { show: false }, values: isLast ? timeLabels : (_, splits) => splits.map(() => ""), size: isLast ? 42 : 10, space: 76 },
        { ...axis, label: axisTitle(info), labelSize: 18, labelFont: axis.font, grid: { stroke: colour("line"), width: 1 }, size: 52,
          space: 28, values: (_, splits) => splits.map((split) => number(split)) }],
      cursor: { y: false, drag: { x: true, y: false, setScale: false, dist: 6 }, sync: { key, setSeries: false, scales: ["x", null], filters: { pub: isMove, sub: isMove } },
        bind: { dblclick: () => () => move(newest(USUAL_DAYS)) } },
      hooks: {
        drawClear: [(plot) => drawShades(plot, series)],
        setSelect: [(plot) => {
          const { left, width } = plot.select;
          if (width >= 6) move({ from: plot.posToVal(left, "x"), to: plot.posToVal(left + width, "x") });
        }],
      },
    }, dataOf(series), box);
  }

  // Of points of many slots the readings are seen only where they are beyond what they were mended to.
  function dataOf({ time, value, low, high, cleaned, cleaned_low: least, cleaned_high: most, thinned }) {
    const none = time.map(() => null);
    if (thinned === 1) return [time, value, none, none, cleaned];
    const other = (values) => values.map((one, at) => (high[at] > most[at] || low[at] < least[at] ? one : null));
    return [time, none, other(high), other(low), cleaned];
  }

  const resized = new ResizeObserver(() => plots.forEach((plot, at) => {
    const width = Math.max(200, parts[at].box.clientWidth);
    if (plot.width !== width) plot.setSize({ width, height: plot.height });
  }));
  const themed = onTheme(() => { if (parts[0].series) draw(); });
  await load();
  resized.observe(root);
  return {
    async changed(what) {
      const follows = range.to >= end() - 1.5 * network.step;
      if (what.some((one) => ["all", "rows", "provisional"].includes(one))) await (follows ? move(newest((range.to - range.from) / DAY)) : load());
    },
    close() {
      request?.abort();
      resized.disconnect();
      themed();
      for (const plot of plots) plot.destroy();
    },
  };
}

/** The title of an axis: the variable and its unit, or the unit alone where that would be too long. */
function axisTitle({ label, unit }) {
  const title = unit ? `${label} (${unit})` : label;
  return title.length <= LONGEST_TITLE ? title : unit || `${label.slice(0, LONGEST_TITLE - 1)}…`;
}

/** What is known of the units; where there are several, the heights of two charts cannot be compared. */
function unitWords(infos) {
  const unknown = infos.filter(({ unit }) => !unit).map(({ label }) => label);
  const known = [...new Set(infos.map(({ unit }) => unit).filter(Boolean))];
  if (unknown.length) {
    const one = unknown.length === 1;
    const which = known.length || one ? `of ${unknown.join(", ")}` : "of these variables";
    return `The unit${one ? "" : "s"} ${which} ${one ? "is" : "are"} not known; [units] in the file of --config gives ${one ? "it" : "them"} to the next clean or watch.`;
  }
  return known.length > 1 ? `The units differ (${known.join(", ")}): each variable has an axis of its own.` : "";
}
