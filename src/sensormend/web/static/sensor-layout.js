// Where things are on a sensor's page.
import { element } from "./elements.js";

const NARROW = 640;
const KEY = [["raw", "raw"], ["cleaned", "cleaned"], ["corrected", "corrected: the reading with its fault taken out"],
  ["interval", "its interval"], ["lasting", "a fault that lasts, with its size"], ["spike", "single wrong reading"],
  ["owner", "wrong by its owners' flags"], ["provisional", "provisional"]];

export function layOut(root) {
  const page = {
    head: element("header", { class: "sensor-head" }),
    figures: element("dl", { class: "figures" }),
    lengths: element("div", { class: "choices", role: "group", "aria-label": "how much time" }),
    steering: element("div", { class: "steering", role: "group", "aria-label": "move and zoom" }),
    dated: element("div", { class: "steering chart-dates", role: "group", "aria-label": "from day to day" }),
    tools: element("div", { class: "steering" }),
    range: element("p", { class: "small quiet chart-range" }),
    cut: element("p", { class: "small chart-cut" }),
    key: element("ul", { class: "legend" }, KEY.map(([kind, text]) =>
      element("li", { "data-kind": kind }, element("span", { class: `swatch swatch-${kind}`, "aria-hidden": "true" }), text))),
    readout: element("p", { class: "readout" }),
    upper: element("div", { class: "chart chart-upper", tabindex: "0", role: "group", "aria-roledescription": "chart",
      "aria-label": "Readings over time. Plus and minus zoom, left and right move, 0 resets, comma and full stop step through "
        + "the readings, Enter says why." }),
    lower: element("div", { class: "chart chart-lower", "aria-hidden": "true" }),
    neighbours: element("div", { class: "neighbours" }),
    whyTitle: element("h2"),
    whyText: element("ul", { class: "why-text" }),
    whyTable: element("div", { class: "why-table" }),
    faults: element("section", { class: "section" }),
    notes: element("section", { class: "section notes-section no-print", hidden: true }),
  };
  page.why = element("section", { class: "panel why", "aria-live": "polite", hidden: true }, page.whyTitle, page.whyText, page.whyTable);
  const bar = element("div", { class: "chart-bar" }, page.lengths, page.dated, page.steering, page.tools);
  // On a small screen the chart comes first: the figures and the buttons alone would fill it.
  const small = innerWidth < NARROW;
  page.charts = element("section", { class: "section charts", "aria-label": "Chart" },
    small ? null : bar, page.range,
    element("div", { class: "chart-frame" }, page.readout, page.cut, page.upper,
      element("p", { class: "chart-caption small quiet", text: "Residual: raw minus cleaned" }), page.lower),
    ...(small ? [page.key, bar, page.why] : [page.why, page.key]),
    element("p", { class: "small quiet chart-help", text: "Drag to zoom in, turn the wheel to zoom, hold shift or take the time axis to move. "
      + "Keys on the chart: + − ← → 0; comma and full stop step through the readings, Enter says why." }),
    page.neighbours);
  if (!small) page.head.append(page.figures);
  root.append(page.head, page.charts, ...(small ? [page.figures] : []), page.faults, page.notes);
  return page;
}

/** Name in the legend what can be seen, and nothing else. */
export function describeKey(key, series, { from, to }) {
  const { time, value, corrected, estimated, lower, upper, thinned } = series;
  const any = (holds) => time.some((one, at) => one >= from && one <= to && holds(at));
  const overlaps = (one) => one.from < to && one.to > from;
  const seen = {
    raw: any((at) => value[at] !== null),
    cleaned: true,
    corrected: any((at) => corrected[at] === 1),
    interval: any((at) => corrected[at] === 1 || estimated[at] === 1 || (thinned === 1 && upper[at] > lower[at])),
    lasting: series.lasting.some(overlaps),
    spike: series.spans.some((span) => span.spike && overlaps(span)),
    owner: series.owner.some(overlaps),
    provisional: series.provisional_from !== null && series.provisional_from < to,
  };
  for (const entry of key.children) entry.hidden = !seen[entry.dataset.kind];
}
