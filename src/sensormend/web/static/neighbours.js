// A sensor's neighbours on its chart: their names, and the value that each of them predicts for it.
import { button, element, isAborted, iso, unix } from "./elements.js";
import { day, percent, sensorLink } from "./format.js";
import { aligned, loadSeries } from "./reading.js";

const FRESH = 5000;

// A span ends before its end: at midnight it is the day before.
const lastDay = (to) => day(iso(unix(to) - 1));

export function mountNeighbours(root, context, sensor, variable, redraw, tell = () => {}) {
  let items = null, from = null, to = null, shown = false, loaded = new Map(), hidden = new Set(), strong = null, requested = null, requests = 0, newest = 0, shownSpan = null;
  const toggle = button("Neighbours", () => (shown ? hide() : show()), { class: "button", "aria-pressed": "false" });
  const list = element("ul", { class: "neighbour-list" });
  const note = element("p", { class: "small quiet", hidden: true });
  root.append(note, list);

  async function show(remembered = true) {
    shown = true;
    toggle.setAttribute("aria-pressed", "true");
    if (remembered) context.remember({ neighbours: "1" });
    try {
      if (!items) {
        const answer = await context.get("neighbours", { sensor, variable });
        ({ items, from, to } = answer);
        tell(answer.sentence);
      }
    } catch (error) {
      hide();
      if (!isAborted(error)) context.say(error.message, "error");
      return;
    }
    note.hidden = false;
    note.textContent = items.length
      ? "Grey lines: what each neighbour reads, moved by its usual difference from this sensor. Dotted below: raw minus their middle. "
        + `Compared from ${day(from)} to ${lastDay(to)}.`
      : `From ${day(from)} to ${lastDay(to)} no sensor of the network is similar enough to this one to compare it with.`;
    list.replaceChildren(...items.map(entry));
    redraw();
  }

  function hide() {
    shown = false;
    toggle.setAttribute("aria-pressed", "false");
    context.remember({ neighbours: "0" });
    note.hidden = true;
    list.replaceChildren();
    redraw();
  }

  function entry(item) {
    const box = element("input", { type: "checkbox", checked: !hidden.has(item.sensor), onchange: () => {
      if (box.checked) hidden.delete(item.sensor);
      else hidden.add(item.sensor);
      redraw();
    } });
    const lift = (on) => () => {
      strong = on ? item.sensor : null;
      redraw();
    };
    const facts = [
      item.likeness === null ? "" : `likeness ${percent(item.likeness)}`,
      item.kilometres === null ? "" : `${item.kilometres.toFixed(1)} km`,
    ].filter(Boolean).join(", ");
    return element("li", { onmouseenter: lift(true), onmouseleave: lift(false), onfocusin: lift(true), onfocusout: lift(false) },
      element("label", {}, box, element("span", { class: "neighbour-name", text: item.sensor })),
      element("span", { class: "small quiet", text: facts }),
      element("a", { class: "small", href: sensorLink(item.sensor, variable), text: "open", "aria-label": `open ${item.sensor}` }));
  }

  // A live network grows by a slot at a time: the neighbours are not requested for each of them.
  function isFresh({ from, to }) {
    if (!shownSpan || performance.now() - shownSpan.at > FRESH || !loaded.size) return false;
    const little = (shownSpan.to - shownSpan.from) * 0.03;
    return Math.abs(from - shownSpan.from) < little && Math.abs(to - shownSpan.to) < little;
  }

  // Load their series over the same time; the old ones stay until the new ones are loaded.
  async function load(series, points) {
    if (!shown || !items?.length) return;
    const want = `${series.from},${series.to},${points},${series.last}`;
    if (want === requested || isFresh(series)) return;
    requested = want;
    shownSpan = { from: series.from, to: series.to, at: performance.now() };
    const turn = ++requests;
    try {
      const all = await Promise.all(items.map(async (item) =>
        [item.sensor, await loadSeries(context.get, item.sensor, variable, series.from, series.to, points)]));
      // A live network may request again before the last answer has come: an answer counts unless a later one came first.
      if (turn < newest) return;
      newest = turn;
      loaded = new Map(all);
      redraw();
    } catch (error) {
      requested = null;
      if (!isAborted(error)) context.say(`The neighbours could not be read: ${error.message}.`, "error");
    }
  }

  // Lines for the chart, at the times of this sensor's series.
  function lines(series) {
    if (!shown || !items) return [];
    const reach = Math.max(series.step, series.step * series.thinned) * 0.75;
    return items.filter((item) => !hidden.has(item.sensor) && loaded.has(item.sensor)).map((item) => ({
      sensor: item.sensor,
      strong: strong === item.sensor,
      values: aligned(series.time, loaded.get(item.sensor), reach).map((value) => (value === null ? null : value + item.usual)),
    }));
  }

  return { toggle, load, lines, show };
}
