// Where things are on a sensor's page.
import { element } from "./elements.js";

export function layOut(root) {
  const page = {
    head: element("header", { class: "sensor-head" }),
    lengths: element("div", { class: "choices", role: "group", "aria-label": "how much time" }),
    steering: element("div", { class: "steering", role: "group", "aria-label": "move and zoom" }),
    tools: element("div", { class: "steering" }),
    range: element("p", { class: "small quiet chart-range" }),
    readout: element("p", { class: "readout" }),
    upper: element("div", { class: "chart chart-upper", tabindex: "0", role: "group", "aria-roledescription": "chart",
      "aria-label": "Readings over time. Plus and minus zoom, left and right move, 0 resets, comma and full stop step through "
        + "the readings, Enter says why." }),
    lower: element("div", { class: "chart chart-lower", "aria-hidden": "true" }),
    neighbours: element("div", { class: "neighbours" }),
    whyTitle: element("h2"),
    whyText: element("ul", { class: "why-text" }),
    faults: element("section", { class: "section" }),
  };
  page.why = element("section", { class: "panel why", "aria-live": "polite", hidden: true }, page.whyTitle, page.whyText);
  const key = (kind, text) => element("li", {}, element("span", { class: `swatch swatch-${kind}`, "aria-hidden": "true" }), text);
  page.charts = element("section", { class: "section charts", "aria-label": "Chart" },
    element("div", { class: "chart-bar" }, page.lengths, page.steering, page.tools),
    page.range,
    element("div", { class: "chart-frame" }, page.readout, page.upper,
      element("p", { class: "chart-caption small quiet", text: "Residual: raw minus cleaned" }), page.lower),
    page.why,
    element("ul", { class: "legend" }, key("raw", "raw"), key("cleaned", "cleaned"), key("interval", "its interval"),
      key("spike", "single wrong reading"), key("provisional", "provisional")),
    element("p", { class: "small quiet chart-help", text: "Drag to zoom in, turn the wheel to zoom, hold shift or take the time axis to move. "
      + "Keys on the chart: + − ← → 0; comma and full stop step through the readings, Enter says why." }),
    page.neighbours);
  root.append(page.head, page.charts, page.faults);
  return page;
}
