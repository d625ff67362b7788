// For an archive of several variables: stations by variables, each cell with the share of its readings that is wrong.
import { element } from "./elements.js";
import { percent, plural, sensorLink, seriesName } from "./format.js";

const MAX_STATIONS = 60;
const MAX_ITEMS = 1000;
// A tenth is as dark as a cell becomes: more is rare, and less has to be seen.
const DARKEST = 0.1;

export async function mountGrid(root, context) {
  const { variables } = context.network;
  const page = await context.get("sensors", { sort: "faulty", limit: MAX_ITEMS });
  const stations = new Map();
  for (const item of page.items) {
    const own = stations.get(item.sensor) ?? new Map();
    stations.set(item.sensor, own.set(item.variable, item));
  }
  // Those with the most first; the order of the answer is by their worst variable.
  const shown = [...stations].slice(0, MAX_STATIONS);
  const cell = (sensor, item) => {
    if (!item) return element("td", { class: "grid-none", "aria-label": "not measured" });
    const share = item.share_faulty;
    const made = element("td", {}, element("a", { href: sensorLink(sensor, item.variable), "aria-label": `${seriesName(sensor, item.variable)}: ${percent(share)} wrong`,
      text: share === null ? "–" : percent(share) }));
    made.style.setProperty("--share", `${Math.round(100 * Math.min((share ?? 0) / DARKEST, 1) * 0.8)}%`);
    return made;
  };
  const rest = stations.size > shown.length ? ` The ${MAX_STATIONS} with most are shown.` : "";
  root.replaceChildren(
    element("div", {}, element("h2", { id: "grid-title", text: "Station by station" }),
      element("p", { class: "quiet small", text: `${plural(stations.size, "station")} by ${plural(variables.length, "variable")}: the share of the readings that are wrong, the worst first.${rest}` })),
    element("div", { class: "grid-scroll", tabindex: "0" }, element("table", { class: "grid", "aria-labelledby": "grid-title" },
      element("thead", {}, element("tr", {}, element("th", { scope: "col", text: "Station" }),
        variables.map((name) => element("th", { scope: "col", text: name })))),
      element("tbody", {}, shown.map(([sensor, own]) => element("tr", {},
        element("th", { scope: "row" }, element("a", { href: `#/station?${new URLSearchParams({ sensor })}`, text: sensor })),
        variables.map((name) => cell(sensor, own.get(name)))))))));
  root.hidden = false;
}
