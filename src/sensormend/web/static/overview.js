// The overview: the network in one sentence, numbers of sensors by state, the health matrix, open faults, the map.

import { attentionList, worstList } from "./attention.js";
import { button, element, isAborted } from "./elements.js";
import { percent, plural, whole, worded } from "./format.js";
import { mountMatrix } from "./matrix.js";
import { mark } from "./palette.js";
import { CHANNEL_STATES } from "./words.js";

// A tile of these is shown where there is such a sensor.
const OPTIONAL = ["recovering", "learning", "ended"];
const HELP = {
  healthy: "as expected", suspect: "odd, not yet sure", faulty: "not to be used", silent: "nothing comes",
  recovering: "good again since recently", learning: "too little to judge", ended: "no more rows",
};
const MAX_ITEMS = 5;
// Faults that are asked for to show the first few that are no silences.
const MAX_ASKED = 50;

export async function show(root, params, context) {
  const sentence = element("h1", { class: "sentence" });
  const notes = element("ul", { class: "notes quiet small" });
  const tiles = element("div", { class: "tiles", role: "group", "aria-label": "Sensors by state; choose one to see only those" });
  const matrixRoot = element("section", { class: "section", id: "matrix", "aria-labelledby": "matrix-title" });
  const trouble = element("section", { class: "section", "aria-labelledby": "trouble-title" });
  const ownersRoot = element("section", { class: "section", id: "owners", hidden: true, "aria-labelledby": "owners-title" });
  const gridRoot = element("section", { class: "section", id: "grid", hidden: true });
  const mapRoot = element("section", { class: "section", id: "map", hidden: true });
  root.append(element("section", { class: "section" }, element("div", {}, sentence, notes), tiles), trouble, gridRoot, matrixRoot, ownersRoot, mapRoot);
  const was = element("section", { class: "section", id: "was", hidden: true, "aria-labelledby": "was-title" });
  trouble.after(was);
  const isArchive = context.network.command === "clean";
  const heading = isArchive ? "Wrong at the end" : "Needs attention now";
  let state = CHANNEL_STATES.includes(params.get("state")) ? params.get("state") : "";
  let listed = "";
  let map = null;
  let mapping = false;

  function head(network) {
    // A number stays with its word where the line breaks.
    const words = worded(network.sentence).replaceAll(/(\d) (?=[\p{L}%])/gu, "$1\u00a0");
    if (sentence.textContent !== words) sentence.textContent = words;
    notes.replaceChildren(...network.notes.map((note) => element("li", {}, note)));
    notes.hidden = !network.notes.length;
    const shown = CHANNEL_STATES.filter((one) => !OPTIONAL.includes(one) || network.states[one]);
    if (tiles.dataset.shown !== shown.join()) {
      tiles.dataset.shown = shown.join();
      tiles.replaceChildren(...shown.map(tile), element("div", { class: "tile" },
        element("span", { class: "tile-number", "data-figure": "filled" }), element("span", { class: "tile-name" }, mark("filled"), "filled"),
        element("span", { class: "tile-help" })));
    }
    for (const one of shown) {
      tiles.querySelector(`[data-figure="${one}"]`).textContent = whole(network.states[one] ?? 0);
      tiles.querySelector(`[data-state="${one}"]`).setAttribute("aria-pressed", String(state === one));
    }
    tiles.querySelector('[data-figure="filled"]').textContent = percent(network.filled, "–");
    tiles.lastChild.querySelector(".tile-help").textContent =
      network.filled === null ? "nothing to say yet" : network.live ? `of the values, last ${plural(network.filled_days, "day")}` : "of all values";
  }

  function tile(one) {
    return element("button", { type: "button", class: "tile", "data-state": one, onclick: () => matrix?.set({ state: state === one ? "" : one }) },
      element("span", { class: "tile-number", "data-figure": one }),
      element("span", { class: "tile-name" }, mark(one), one), element("span", { class: "tile-help" }, HELP[one]));
  }

  async function attention() {
    const [page, faults] = await Promise.all([
      context.get("attention", { limit: MAX_ITEMS }), isArchive ? context.get("faults", { sort: "sure", limit: MAX_ASKED }) : null]);
    // The same list stays, and the focus with it.
    const key = JSON.stringify([page, faults]);
    if (key === listed) return;
    listed = key;
    trouble.dataset.total = String(page.total);
    const worst = faults && worstList(faults.items, MAX_ITEMS);
    // In an archive there is nothing to be done now where nothing is wrong at its end.
    if (worst) {
      was.hidden = false;
      was.replaceChildren(
        element("div", { class: "section-head" }, element("h2", { id: "was-title", text: "What was wrong for longest" }),
          element("a", { class: "small", href: "#/faults", text: faults.total > 1 ? `all ${whole(faults.total)} faults` : "the fault list" })),
        worst);
    }
    trouble.replaceChildren(
      element("div", { class: "section-head" },
        element("h2", { id: "trouble-title" }, page.total ? `${heading}: ${plural(page.total, "sensor")}` : heading),
        page.total ? element("a", { class: "small", href: "#/faults?state=open" },
          page.total > MAX_ITEMS ? `the ${MAX_ITEMS} most urgent; all open faults` : "the fault list") : null),
      attentionList(page, context.network),
    );
  }

  /** The map is a module of its own, fetched only where there are places. */
  async function places(network) {
    if (!network.places || map || mapping) return;
    mapping = true;
    try {
      const { mountMap } = await context.load("./map.js");
      mapRoot.hidden = false;
      map = await mountMap(mapRoot, context);
    } catch (error) {
      if (isAborted(error) || context.signal.aborted) return;
      mapRoot.hidden = false;
      mapRoot.replaceChildren(element("div", { class: "error-line", role: "alert" },
        element("p", {}, `The map could not be shown: ${error.message}.`),
        button("Try again", () => places(context.network), { class: "button" })));
    } finally {
      mapping = false;
    }
  }

  const { network } = context;
  let matrix = null;
  head(network);
  trouble.append(element("h2", { id: "trouble-title" }, heading));
  matrixRoot.addEventListener("matrixoptions", (event) => {
    state = event.detail.state;
    head(context.network);
  });
  // A finished archive of several variables: where in it the wrong readings are.
  if (!network.live && network.variables.length > 1) {
    context.load("./station-grid.js").then(({ mountGrid }) => mountGrid(gridRoot, context))
      .catch((error) => isAborted(error) || context.signal.aborted || context.say(`The stations could not be shown: ${error.message}.`, "error"));
  }
  if (network.owner_flags) {
    context.load("./owners.js").then(({ mountOwners }) => mountOwners(ownersRoot, context))
      .catch((error) => isAborted(error) || context.signal.aborted || context.say(`The owners' flags could not be shown: ${error.message}.`, "error"));
  }
  const attended = attention();
  attended.catch(() => {});
  matrix = await mountMatrix(matrixRoot, context, params);
  try {
    // The map is further down: it comes last, so that the matrix need not share the server with it.
    await Promise.all([attended, places(network)]);
  } catch (error) {
    matrix.close();
    throw error;
  }

  return {
    async changed(what, latest) {
      head(latest);
      const any = (...names) => what.some((one) => one === "all" || names.includes(one));
      await Promise.all([
        matrix.changed(what),
        any("faults", "sensors", "run", "alerts") ? attention() : null,
        map ? map.changed?.(what, latest) : places(latest),
      ]);
    },
    close() {
      matrix.close();
      map?.close?.();
    },
  };
}
