// One sensor over any span: its readings, the cleaned values, and their intervals.
import { loadPlotter, makeCharts } from "./chart.js";
import { button, element, iso, isAborted, unix } from "./elements.js";
import { clock, day, interval, isoDay, moment as utc, plural, sensorLink, seriesName, signed, span, time, value, worded } from "./format.js";
import { panned, zoomed } from "./gestures.js";
import { mountNeighbours } from "./neighbours.js";
import { calm } from "./pace.js";
import { LONGEST, loadNewest, loadSeries, nearest } from "./reading.js";
import { loadFaults } from "./sensor-faults.js";
import { makeHead } from "./sensor-head.js";
import { describeKey, layOut } from "./sensor-layout.js";
import { mountNotes } from "./sensor-notes.js";
import { mountSecond } from "./second-series.js";
import { spanWord } from "./shades.js";
import { flagWord } from "./words.js";

const DAY = 86400;
const SPANS = [["7 days", 7], ["30 days", 30], ["90 days", 90], ["1 year", 365], ["All", Infinity]];
const USUAL_DAYS = 30;
const DAYS_AFTER = 2;
const DAYS_AROUND = 3;
const FAULTY = 4;

export async function show(root, params, context) {
  const sensor = params.get("sensor") ?? "", variable = params.get("variable") ?? "";
  if (!sensor) {
    root.append(element("p", { text: "Which sensor? Find it by its name above, or choose one on the overview." }));
    return {};
  }
  // A point to a pixel: more would be a block of ink, fewer would be steps.
  const points = () => Math.round(Math.min(2500, Math.max(300, (charts?.width() || root.clientWidth || 800) * Math.min(devicePixelRatio, 2))));
  // What is shown and half as much on either side, as far as there is something.
  const loadAround = ({ from, to }, first, end, signal) => {
    const half = (to - from) / 2;
    const left = Math.min(Math.max(first, from - half), from), right = Math.max(Math.min(end, to + half), to);
    return loadSeries(context.get, sensor, variable, left, right, (points() * (right - left)) / (to - from), signal);
  };
  let charts = null;
  const wanted = rangeOf(params);
  const [info, series] = await Promise.all([
    context.get("sensor", { sensor, variable }),
    wanted ? loadAround(wanted, unix(context.network.first ?? 0), unix(context.network.last ?? 0) + context.network.step) : loadNewest(context.get, sensor, variable, points()),
    loadPlotter(),
  ]);
  context.title(seriesName(sensor, variable));
  const page = layOut(root);
  const fillHead = makeHead(page.head, page.figures, info, context);
  // What its neighbours say of its fault, once they are known.
  let latest = info, contradiction = "";
  const updateHead = (next) => fillHead({ ...(latest = next), ...(contradiction && next.fault ? { sentence: contradiction } : {}) });
  updateHead(withLastReading(info, series));
  if (series.last === null) {
    page.charts.replaceChildren(element("p", { class: "quiet", text: "It has no rows yet." }));
    return whenThereIsSome(root, params, context);
  }

  let loaded = null, range = null, fetching = null, mark = null, hover = null, days = wanted ? null : Number(params.get("days")) || USUAL_DAYS;
  const hasLeft = info.state === "ended";
  const first = () => loaded.first;
  // A silent sensor still has rows: the estimates of what it would have read.
  const end = () => loaded.end;
  const view = {
    range: () => range,
    move,
    reset: () => newest(USUAL_DAYS),
    hovered: (at) => {
      hover = at;
      updateReadout();
    },
    picked: pick,
    stepCursor: step,
    why: () => why(),
    unit: info.unit,
    title: [info.variable && info.label, info.unit].filter(Boolean).join(", "),
  };

  function take(next) {
    // One that has left has no rows up to the end of the others'.
    const reached = next.time.at(-1) ?? 0;
    const last = hasLeft ? (next.to >= next.last && reached ? reached : next.last)
      : Math.max(next.last, reached, unix(context.network.last ?? 0));
    loaded = { ...next, end: Math.max(loaded?.end ?? 0, last + next.step) };
    root.dataset.points = String(next.time.length);
    root.dataset.last = String(next.time.at(-1) ?? "");
  }

  // From and to become what there is, not shorter than a few slots; true where that changes something.
  function move(from, to, keep = true) {
    const least = 4 * loaded.step;
    const most = Math.min(end() - first(), LONGEST);
    let length = Math.min(Math.max(to - from, least), Math.max(most, least));
    let left = from + (to - from - length) / 2;
    left = Math.max(Math.min(left, end() - length), Math.min(first(), end() - length));
    const next = { from: left, to: left + length };
    if (range && Math.abs(next.from - range.from) < 1 && Math.abs(next.to - range.to) < 1) return false;
    range = next;
    charts?.move();
    describe();
    if (keep) remember();
    fetchLater();
    return true;
  }

  const isNewest = () => range.to >= end() - loaded.step / 2;

  function newest(count) {
    const length = count === Infinity ? end() - first() : count * DAY;
    move(end() - length, end());
  }

  // Whole days, the last one included.
  function pickDates() {
    const [from, to] = page.dates.map((input) => Date.parse(`${input.value}T00:00:00Z`) / 1000);
    if (from <= to) move(from, to + DAY);
  }

  function savePicture() {
    charts.picture().toBlob((blob) => {
      const link = element("a", { href: URL.createObjectURL(blob), download: `${sensor}.png` });
      link.click();
      URL.revokeObjectURL(link.href);
    });
  }

  const remember = calm(() => {
    const follow = context.network.live && isNewest();
    const length = Math.round(((range.to - range.from) / DAY) * 1000) / 1000;
    context.remember(follow ? { from: "", to: "", days: length } : { from: iso(range.from), to: iso(range.to), days: "" });
  }, 120);

  function describe() {
    root.dataset.range = `${Math.round(range.from)},${Math.round(range.to)}`;
    const length = (range.to - range.from) / DAY;
    const text = length < 3 ? `${time(range.from)} to ${time(range.to)}` : `${day(range.from)} to ${day(range.to)}`;
    const most = end() - first() > LONGEST ? `; at most ${plural(LONGEST / DAY, "day")} are shown at once` : "";
    const cut = loaded.requested === null ? "" : `; the server left out what came before ${day(loaded.from)}, ask for a shorter span`;
    const bands = loaded.thinned > 1 ? `; bands go from the lowest to the highest value in ${span(loaded.thinned * loaded.step)}` : "";
    page.range.textContent = `${text}${bands}${most}${cut}`;
    page.cut.textContent = charts?.cut() ?? "";
    describeKey(page.key, loaded, range);
    if (!context.isReport) csv.href = context.address("rows.csv", { sensor, variable, from: iso(range.from), to: iso(range.to) });
    page.dates.forEach((input, at) => {
      if (document.activeElement !== input) input.value = isoDay(at ? range.to - 1 : range.from);
    });
    for (const [press, count] of page.spans) {
      const full = count === Infinity ? end() - first() : count * DAY;
      // Of a short archive more than all of it cannot be shown.
      press.hidden = count !== Infinity && full > end() - first();
      press.setAttribute("aria-pressed", String(Math.abs(range.to - range.from - full) < 1.5 * loaded.step
        && (isNewest() || count === Infinity)));
    }
  }

  function isCovered() {
    const { from, to } = range;
    const inside = loaded.from <= Math.max(from, first()) + loaded.step && loaded.to >= Math.min(to, end()) - loaded.step;
    return inside && (loaded.thinned === 1 || loaded.density * (to - from) >= points() * 0.6);
  }

  async function fetchShown(always = false) {
    if (!always && isCovered()) return;
    fetching?.abort();
    fetching = new AbortController();
    const { signal } = fetching;
    const reached = Math.max(end(), unix(context.network.last ?? 0) + loaded.step);
    const follows = always && isNewest();
    root.setAttribute("aria-busy", "true");
    try {
      const next = await loadAround(range, first(), reached, signal);
      if (!next.time.length && loaded.time.length) return;
      const before = end();
      take(next);
      const newer = end() - before;
      if (follows && newer > 0) range = { from: range.from + newer, to: range.to + newer };
      draw();
    } catch (error) {
      if (!isAborted(error)) context.say(`The readings could not be read: ${error.message}.`, "error");
    } finally {
      if (fetching?.signal === signal) root.removeAttribute("aria-busy");
    }
  }
  const fetchLater = calm(() => fetchShown(), 140);

  function draw() {
    const count = loaded.density * (loaded.to - loaded.from);
    charts.load(loaded, [...neighbours.lines(loaded), ...(second?.lines(loaded) ?? [])]);
    describe();
    neighbours.load(loaded, count);
    second?.load(loaded, count);
    updateReadout();
  }

  const spanAt = (moment) => loaded.spans.filter((one) => moment >= one.from && moment < Math.max(one.to, one.from + loaded.step))
    .sort((a, b) => (a.to - a.from) - (b.to - b.from))[0];

  const ownerAt = (moment) => loaded.owner.filter((one) => moment >= one.from && moment < one.to).slice(0, 1);

  function updateReadout() {
    const at = hover ?? (mark === null ? -1 : nearest(loaded.time, mark));
    page.readout.replaceChildren(...(at < 0 || at >= loaded.time.length ? [hint()] : described(at)));
  }

  const hint = () => element("span", { class: "quiet", text: matchMedia("(pointer: coarse)").matches
    ? "Tap the chart to read it; a shaded span says why." : "Point at the chart to read it; a click on a shaded span says why." });

  function described(at) {
    const moment = loaded.time[at];
    const near = spanAt(moment);
    const raw = loaded.value[at], lower = loaded.lower[at], upper = loaded.upper[at];
    const many = loaded.thinned > 1 && loaded.low[at] !== null && loaded.low[at] !== loaded.high[at];
    const word = near ? `${near.kind}${near.word && near.word !== near.kind ? `, ${near.word}` : ""}` : flagWord(loaded.flag[at]);
    const provisional = loaded.provisional_from !== null && moment >= loaded.provisional_from;
    const part = (name, text, kind = "") => element("span", { class: `read ${kind}` }, element("span", { class: "quiet", text: name }), ` ${text}`);
    return [
      element("strong", { text: `${day(moment)}, ${clock(moment)}` }),
      part("raw", many ? `${value(loaded.low[at])} to ${value(loaded.high[at])}` : value(raw, 4, "nothing came"), "read-raw"),
      part(loaded.corrected[at] ? "corrected" : "cleaned", value(loaded.cleaned[at], 4, "unknown"), "read-cleaned"),
      part("interval", interval(lower, upper)),
      ...ownerAt(moment).map((one) => part("owners", one.word)),
      element("span", { class: "read", text: `${word}${provisional ? ", provisional" : ""}` }),
    ];
  }

  function step(by) {
    const [low, high] = [nearest(loaded.time, range.from), nearest(loaded.time, range.to)];
    const at = mark === null ? high : nearest(loaded.time, mark) + by;
    setMark(loaded.time[Math.min(Math.max(at, low), high)]);
    hover = null;
    updateReadout();
    page.readout.setAttribute("aria-live", "polite");
  }

  function setMark(moment) {
    mark = moment;
    charts.mark(moment);
  }

  function pick(moment) {
    page.readout.removeAttribute("aria-live");
    const slot = nearest(loaded.time, moment);
    if (slot < 0) return;
    const near = spanAt(moment);
    const at = loaded.time[slot];
    // Which reading is meant is the one that was just read off, unless it is past the end of the span.
    setMark(loaded.thinned > 1 || (near && spanAt(at) !== near) ? slotTime(moment) : at);
    if (near) why();
  }

  // The slot that a moment is in.
  const slotTime = (moment) => loaded.time[0] + Math.floor((moment - loaded.time[0]) / loaded.step) * loaded.step;

  // On opening the page it is not part of the address, and nothing scrolls.
  async function why(opening = false) {
    let moment = mark;
    if (moment === null || moment < range.from || moment > range.to) {
      const seen = loaded.spans.filter((one) => one.to > range.from && one.from < range.to && one.kind !== "not evaluated").at(-1);
      moment = seen ? slotTime((Math.max(seen.from, range.from) + Math.min(seen.to, range.to)) / 2)
        : loaded.time[nearest(loaded.time, range.to)];
      setMark(moment);
      updateReadout();
    }
    const near = spanAt(moment);
    page.why.hidden = false;
    page.whyTitle.textContent = `${near ? spanWord(near) : "Why"}, ${time(moment)}`;
    if (!page.whyText.hasChildNodes()) explain(["Looking it up…"]);
    page.why.setAttribute("aria-busy", "true");
    try {
      if (near?.spike && loaded.thinned > 1) setMark(moment = await wrongSlot(near) ?? moment);
      const answer = await context.get("explain", { sensor, variable, time: iso(moment) });
      if (mark !== moment) return;
      explain([...answer.verdict.split(/(?<=\.) (?=\p{Lu})/u), answer.comparison]);
      page.whyTable.replaceChildren(...(answer.compared.length ? [comparedTable(answer.compared, variable)] : []));
      if (!opening) context.remember({ why: iso(moment) });
    } catch (error) {
      if (!isAborted(error) && mark === moment) explain([`That could not be explained: ${error.message}.`]);
    }
    page.why.removeAttribute("aria-busy");
    if (!opening) page.whyTitle.scrollIntoView({ block: "nearest" });
  }

  // A sentence to a line.
  function explain(sentences) {
    page.whyTable.replaceChildren();
    page.whyText.replaceChildren(...sentences.map((sentence) => element("li", { text: worded(sentence) })));
  }

  function forgetWhy() {
    setMark(null);
    page.why.hidden = true;
    page.whyText.replaceChildren();
    page.whyTable.replaceChildren();
    context.remember({ why: "" });
  }

  // Which of a point's many slots is the wrong one.
  async function wrongSlot({ from, to }) {
    const close = await loadSeries(context.get, sensor, variable, from, to, 400);
    return close.thinned === 1 ? close.time[close.flag.findIndex((flag, at) => flag === FAULTY && close.time[at] < to)] : undefined;
  }

  function zoomTo(fault) {
    const from = unix(fault.from), to = unix(fault.to);
    const around = Math.max((to - from) * 0.4, 12 * loaded.step);
    move(from - around, to + around);
    forgetWhy();
    page.upper.focus({ preventScroll: true });
    page.charts.scrollIntoView({ block: "nearest" });
  }

  take(series);
  const neighbours = mountNeighbours(page.neighbours, context, sensor, variable, () => draw(), (sentence) => {
    contradiction = sentence;
    updateHead(latest);
  });
  const second = context.isReport ? null : mountSecond(context, sensor, variable, () => draw());
  const csv = element("a", { class: "button", text: "CSV", download: `${sensor}.csv`, title: "download the rows that are shown" });
  page.tools.append(neighbours.toggle, button("Why?", () => why(), { class: "button" }),
    ...(context.isReport ? [] : [second.box, csv, button("PNG", savePicture, { class: "button", title: "download the charts as a picture" })]));
  page.dates = ["From", "To"].map((name) => element("input", { type: "date", "aria-label": name, onchange: pickDates }));
  page.dated.append(...page.dates);
  page.spans = SPANS.map(([text, count]) => [button(text, () => newest(count), { "aria-pressed": "false" }), count]);
  page.lengths.append(...page.spans.map(([press]) => press));
  const steer = (text, name, act) => button(text, act, { class: "button", "aria-label": name, title: name });
  const change = (next) => move(next.from, next.to);
  page.steering.append(
    steer("‹", "earlier", () => change(panned(range, -0.5))), steer("›", "later", () => change(panned(range, 0.5))),
    steer("+", "zoom in", () => change(zoomed(range, 0.5))), steer("−", "zoom out", () => change(zoomed(range, 2))),
    button("Reset", () => newest(USUAL_DAYS), { class: "button", title: "the newest 30 days" }));
  const opened = !wanted && !params.get("days") ? info.fault : null;
  if (wanted) move(wanted.from, wanted.to, false);
  else if (opened) {
    // The fault, and enough before it to see what changed.
    const from = unix(opened.from), to = unix(opened.to);
    const around = Math.max((to - from) * 0.4, DAYS_AROUND * DAY);
    move(from - around, Math.min(end(), to + around), false);
  } else {
    // Of one that has left, its last days with readings.
    const to = hasLeft && info.heard ? Math.min(end(), unix(info.heard) + DAYS_AFTER * DAY) : end();
    move(to - days * DAY, to, false);
  }
  charts = makeCharts(page.upper, page.lower, view);
  draw();
  fetchLater();
  let offer = null;
  const faultList = () => loadFaults(page.faults, info, context, zoomTo, offer)
    .catch((error) => isAborted(error) || page.faults.replaceChildren(element("p", { class: "quiet", text: error.message })));
  faultList();
  mountNotes(page.notes, info, context).then((notes) => {
    if (!notes.offer) return;
    offer = notes.offer;
    faultList();
  }).catch((error) => isAborted(error) || context.say(`The notes could not be read: ${error.message}.`, "error"));
  if (params.get("beside")) second?.choose(params.get("beside"));
  const drawn = params.get("neighbours");
  if (drawn === "1" || (opened && drawn !== "0")) neighbours.show(drawn === "1");
  const explained = utc(params.get("why"));
  if (explained) {
    setMark(explained.getTime() / 1000);
    why(context.isReport);
  } else if (opened && info.worst) {
    setMark(unix(info.worst));
    why(true);
  }

  return {
    async changed(what) {
      const has = (...words) => what.includes("all") || words.some((word) => what.includes(word));
      if (has("rows", "provisional") && loaded.to >= end() - 1.5 * loaded.step) await fetchShown(true);
      if (has("sensors", "rows", "provisional")) {
        updateHead(withLastReading(await context.get("sensor", { sensor, variable }), loaded));
      }
      if (has("faults")) faultList();
    },
    close() {
      fetchLater.cancel();
      remember.cancel();
      fetching?.abort();
      charts.close();
    },
  };
}

// For a sensor without readings: the page is made anew with its first one.
function whenThereIsSome(root, params, context) {
  let made = null;
  return {
    async changed(what, network) {
      if (made) return made.changed(what, network);
      const { readings } = await context.get("sensor", { sensor: params.get("sensor"), variable: params.get("variable") });
      if (!readings) return undefined;
      root.replaceChildren();
      made = await show(root, params, context);
      return undefined;
    },
    close: () => made?.close(),
  };
}

// The last reading on the chart counts, also where the summary of the sensor has not been written since.
function withLastReading(info, { time: times, value: values }) {
  const at = values.findLastIndex((one) => one !== null);
  return at < 0 || (info.heard && unix(info.heard) >= times[at]) ? info : { ...info, heard: iso(times[at]) };
}

function rangeOf(params) {
  const [from, to] = ["from", "to"].map((name) => utc(params.get(name))?.getTime() / 1000);
  return to > from ? { from, to } : null;
}

// What the correlated sensors read at the time, and what that implies.
function comparedTable(compared, variable) {
  const cells = (one) => [value(one.read), value(one.implied), one.off === null ? "–" : signed(one.off), `± ${value(one.usual, 2)}`];
  return element("table", { class: "table compared" },
    element("thead", {}, element("tr", {}, ["Neighbour", "read", "implies here", "off by", "usual"].map((text) => element("th", { scope: "col", text })))),
    element("tbody", {}, compared.map((one) => element("tr", {},
      element("th", { scope: "row" }, element("a", { href: sensorLink(one.sensor, variable), text: one.sensor })),
      cells(one).map((text) => element("td", { text }))))));
}
