// Any other sensor of the same variable over the one that is shown, as it reads.
import { element, isAborted } from "./elements.js";
import { calm } from "./pace.js";
import { aligned, loadSeries } from "./reading.js";

const MAX_ITEMS = 8;

/** Return `{box, load(series, points), lines(series)}`; `redraw` is called when there is something else to draw. */
export function mountSecond(context, sensor, variable, redraw) {
  const list = element("datalist", { id: "second-sensors" });
  const offer = calm(async () => {
    const page = await context.get("sensors", { search: input.value.trim(), variable, sort: "name", limit: MAX_ITEMS }).catch(() => null);
    list.replaceChildren(...(page?.items ?? []).filter((item) => item.sensor !== sensor).map((item) => element("option", { value: item.sensor })));
  }, 120);
  const input = element("input", { type: "search", list: "second-sensors", class: "second", placeholder: "Another sensor", maxlength: 200,
    autocomplete: "off", spellcheck: "false", "aria-label": "Draw another sensor too", oninput: offer, onchange: () => choose(input.value.trim()) });
  let chosen = "", series = null, span = null;

  function choose(name) {
    chosen = name;
    series = null;
    span = null;
    context.remember({ beside: name });
    redraw();
  }

  async function load(own, points) {
    if (!chosen || span === `${own.from},${own.to}`) return;
    const wanted = (span = `${own.from},${own.to}`);
    try {
      const next = await loadSeries(context.get, chosen, variable, own.from, own.to, points);
      if (wanted !== span) return;
      series = next;
      redraw();
    } catch (error) {
      if (!isAborted(error)) context.say(`${chosen} could not be drawn: ${error.message}.`, "error");
    }
  }

  function lines(own) {
    if (!series) return [];
    const reach = Math.max(own.step, own.step * own.thinned) * 0.75;
    return [{ sensor: chosen, plain: true, strong: true, values: aligned(own.time, series, reach) }];
  }

  return { box: element("span", {}, input, list), load, lines, choose(name) {
    input.value = name;
    choose(name);
  } };
}
