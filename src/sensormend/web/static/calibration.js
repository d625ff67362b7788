// How far every sensor is from the network, week by week, the farthest first.
import { button, drawing, element, field, isAborted, variableChoice } from "./elements.js";
import { day, monthName, plural, sensorLink, seriesName, signed, whole } from "./format.js";
import { calm } from "./pace.js";

const PAGE = 50;
// Times the usual distance from which on a line is one to look at; the report has the same number.
const FAR_TIMES = 4;

export async function show(root, params, context) {
  const wanted = { search: params.get("search") ?? "", variable: params.get("variable") ?? "" };
  const several = context.network.variables.length > 1;
  const type = calm(() => choose({ search: search.value }), 200);
  const search = element("input", { type: "search", value: wanted.search, placeholder: "Part of a name", maxlength: 200, oninput: type });
  const variable = several ? variableChoice(context.network.variables, wanted.variable, (name) => choose({ variable: name })) : null;
  const count = element("p", { class: "quiet small", role: "status" });
  // One scale for all shows which is far; a scale for each shows its course.
  const common = element("input", { type: "checkbox", checked: params.get("scale") !== "own", onchange: () => {
    context.remember({ scale: common.checked ? "" : "own" });
    load();
  } });
  const list = element("ol", { class: "calibration" });
  const more = button("Show more", () => load(true), { class: "button", hidden: true });
  root.append(
    element("div", { class: "section" },
      element("div", { class: "section-head" },
        element("div", {}, element("h1", { text: "Calibration" }), count),
        element("div", { class: "controls no-print", role: "search", "aria-label": "Filter the sensors" },
          field("Names", search), variable ? field("Variable", variable) : null,
          element("label", { class: "calibration-scale" }, common, several ? "one scale for each variable" : "one scale for all"))),
      element("p", { class: "calibration-help", text: "How far each sensor reads from what the network expects of it, a point for every week, "
        + "the farthest first. Zero is where it was in its first trusted weeks; the grey band is how far sensors usually are." }),
      list, more));
  let request = null, shown = 0, reaches = {};

  function choose(changes) {
    Object.assign(wanted, changes);
    context.remember(wanted);
    load();
  }

  async function load(further = false) {
    request?.abort();
    request = new AbortController();
    const { signal } = request;
    try {
      const page = await context.get("calibration", { search: wanted.search.trim(), variable: wanted.variable,
        offset: further ? shown : 0, limit: PAGE }, signal);
      if (!further) reaches = commonReaches(page);
      const lines = page.rows.map((line) => entry(line, page));
      if (further) list.append(...lines);
      else list.replaceChildren(...(page.cells ? [datesOf(page)] : []), ...lines);
      shown = page.offset + page.rows.length;
      more.hidden = page.next === null;
      root.dataset.total = String(page.total);
      count.textContent = !page.cells ? "Nothing to say yet: it takes four weeks of final values."
        : `${plural(page.total, several ? "series" : "sensor", several ? "series" : "sensors")}, ${plural(page.cells, "week")} from ${day(page.from)}`
          + (shown < page.total ? `; the first ${whole(shown)} are shown` : "");
    } catch (error) {
      if (!isAborted(error)) context.say(`The distances could not be read: ${error.message}.`, "error");
    }
  }

  function entry(line, page) {
    const far = line.times !== null && line.times >= FAR_TIMES;
    const from = `${page.from}T00:00:00Z`, length = page.cells * page.cell_days * 86_400_000;
    const to = new Date(Date.parse(from) + length).toISOString();
    return element("li", { class: far ? "calibration-far" : "" },
      element("a", { href: sensorLink(line.sensor, line.variable, { from, to }), text: seriesName(line.sensor, line.variable) }),
      element("span", { class: "calibration-now", text: line.now === null ? "no readings lately" : signed(line.now) }),
      element("span", { class: "calibration-rate quiet", text: rateWords(line, page) }),
      picture(common.checked ? { ...line, reach: line.reach && reaches[line.variable] } : line, page, context.network.units[line.variable] ?? ""));
  }

  await load();
  return {
    async changed(what) {
      if (what.some((one) => one === "all" || one === "rows")) await load();
    },
    close: () => request?.abort(),
  };
}

// What changes by less than sensors usually are apart is not a drift.
function rateWords({ rate, variable }, { usual }) {
  if (rate === null) return "";
  return Math.abs(rate) < (usual[variable] ?? 0) ? "steady" : `${signed(rate)} in 30 days`;
}

// The first page has the farthest: their largest reach is that of all.
function commonReaches({ rows }) {
  const reaches = {};
  for (const { variable, reach } of rows) reaches[variable] = Math.max(reaches[variable] ?? 0, reach ?? 0);
  return reaches;
}

// The first week of each month, or of some of them, above the pictures.
function datesOf({ from, cells, cell_days: days }) {
  const starts = Array.from({ length: cells }, (_, at) => new Date(Date.parse(`${from}T00:00:00Z`) + at * days * 86_400_000));
  const months = starts.map((start, at) => ({ start, at })).filter(({ start }, at) => at === 0 || start.getUTCMonth() !== starts[at - 1].getUTCMonth());
  const every = Math.ceil(months.length / (innerWidth < 700 ? 3 : 6));
  const marks = months.filter((_, at) => at % every === 0 && months[at].at < cells * 0.93).map(({ start, at }) => {
    const mark = element("i", { text: `${monthName(start.getUTCMonth())} ${start.getUTCFullYear()}` });
    mark.style.left = `${(100 * at) / cells}%`;
    return mark;
  });
  return element("li", { class: "calibration-dates small quiet", "aria-hidden": "true" }, element("span", {}, marks));
}

function picture(line, { cells, usual }, unit) {
  const name = `${seriesName(line.sensor, line.variable)}: from the network's value by ${signed(line.now ?? 0)}`;
  if (!line.reach || line.distance.every((value) => value === null)) {
    return element("span", { class: "quiet small", text: "no similar sensor to compare with" });
  }
  const place = (value) => 1 - Math.max(-1, Math.min(1, value / line.reach));
  let path = "", pen = false;
  line.distance.forEach((value, at) => {
    if (value === null) pen = false;
    else {
      path += `${pen ? "L" : "M"}${at + 0.5} ${place(value).toFixed(4)}${pen ? "" : "h0"}`;
      pen = true;
    }
  });
  const wide = usual[line.variable] ?? 0;
  const axis = element("span", { class: "calibration-axis small quiet", text: `±\u00a0${signed(line.reach).slice(1)}${unit && `\u00a0${unit}`}`, title: "how far the picture reaches" });
  return [drawing("svg", { class: "calibration-picture", viewBox: `0 0 ${cells} 2`, preserveAspectRatio: "none", role: "img", "aria-label": name },
    drawing("rect", { class: "calibration-usual", x: 0, width: cells, y: place(wide), height: place(-wide) - place(wide) }),
    drawing("path", { class: "calibration-zero", d: `M0 1H${cells}` }),
    drawing("path", { class: "calibration-line", d: path })), axis];
}
