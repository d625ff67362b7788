// The report: the page's own views below each other, with the answers of the server inside the file.

import { attentionList } from "./attention.js";
import { show as showCalibration } from "./calibration.js";
import { element, unix } from "./elements.js";
import { show as showFaults } from "./faults.js";
import { seriesName } from "./format.js";
import { mountMap } from "./map.js";
import { mountMatrix } from "./matrix.js";
import { show as showSensor } from "./sensor.js";
import { mountGrid } from "./station-grid.js";

const byId = (id) => document.getElementById(id);

/** Return `get` of a context, in the part of a sensor: an answer inside the file instead of one of the server. */
function answers(data, part = null) {
  return async (path, params = {}) => {
    const name = path.replace(/^\/?(api\/)?/, "");
    // The faults of a sensor are searched by its name.
    const sensor = params.sensor ?? params.search;
    const own = (data[name] ?? []).filter(({ of }) => !of
      || (of.part === part && of.sensor === sensor && of.variable === (params.variable ?? of.variable)));
    if (!own.length) throw new Error("that is not part of the report");
    return structuredClone((own.find(({ of }) => of) ?? own[0]).answer);
  };
}

/** Links lead to a sensor's part of the report; where it has none, there is nothing to link to. */
function adaptLinks(root, places) {
  for (const link of root.querySelectorAll('a[href^="#/"]')) {
    const place = placeOf(link.getAttribute("href"), places);
    if (place) link.setAttribute("href", `#${place}`);
    else link.removeAttribute("href");
  }
}

function placeOf(hash, places) {
  const query = new URLSearchParams(hash.split("?")[1] ?? "");
  return places.get(`${query.get("sensor")}\n${query.get("variable") ?? ""}`);
}

/** In the report the title of a view is a heading of a part. */
function demoteTitle(root, words) {
  for (const title of root.querySelectorAll("h1")) title.replaceWith(element("h2", {}, words));
}

async function start() {
  const data = JSON.parse(byId("data").textContent);
  const network = { ...data.network, live: false };
  const get = answers(data.answers);
  const places = new Map(data.sensors.map((one, at) => [`${one.sensor}\n${one.variable}`, `sensor-${at + 1}`]));
  const context = {
    network, get, isReport: true, signal: new AbortController().signal,
    remember() {},
    say() {},
    title() {},
    go(hash) {
      byId(placeOf(hash, places))?.scrollIntoView();
    },
  };
  const main = document.querySelector("main");
  new MutationObserver(() => adaptLinks(main, places)).observe(main, { childList: true, subtree: true });
  byId("attention").append(attentionList(await get("attention"), network));
  await showFaults(byId("longest"), new URLSearchParams(), { ...context, get: async (path) => get(path) });
  demoteTitle(byId("longest"), "Faults");
  if (data.answers.sensors) await mountGrid(byId("grid"), context);
  if (data.answers.matrix) await mountMatrix(byId("matrix"), context, new URLSearchParams({ span: "all" }));
  if (data.answers.moment) await mountMap(byId("on-map"), context, data.moment);
  for (const [at, { sensor, variable, from, to, why, neighbours }] of data.sensors.entries()) {
    const root = byId(`sensor-${at + 1}`);
    // Its chart ends where its part of the rows does; how long it is silent is counted from the end of all.
    const own = { ...network, first: from, last: to, reached: network.reached ?? network.last };
    const params = new URLSearchParams({ sensor, variable, from, to, ...(why ? { why } : {}), ...(neighbours ? { neighbours: "1" } : {}) });
    await showSensor(root, params, { ...context, network: own, get: answers(data.answers, sensor) });
    demoteTitle(root, seriesName(sensor, variable));
  }
  if (data.answers.calibration) {
    await showCalibration(byId("far"), new URLSearchParams(), context);
    demoteTitle(byId("far"), "Calibration");
  }
  adaptLinks(main, places);
  document.documentElement.dataset.ready = String(unix(network.last ?? 0));
}

start().catch((error) => {
  console.error(error);
  document.querySelector("main").prepend(element("p", { class: "error-line" }, `A part of this report cannot be shown: ${error.message}.`));
});
