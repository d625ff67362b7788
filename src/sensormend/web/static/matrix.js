// The health matrix: sensors by days, most trouble first. Pointer, touch and keys; only what is in view is drawn.

import { button, element, isAborted } from "./elements.js";
import { day, plural, sensorLink, whole } from "./format.js";
import { BESIDE, beside } from "./matrix-beside.js";
import { controls, spanStart } from "./matrix-controls.js";
import { AXIS, inks, labelWidth, paint } from "./matrix-paint.js";
import { Rows } from "./matrix-rows.js";
import { perFrame } from "./pace.js";
import { chip, mark, onTheme } from "./palette.js";
import { CHANNEL_STATES } from "./words.js";

const MIN_CELL = 2;
const LARGE = 60_000;
const LARGE_PAUSE = 15_000;
const PREFETCHED_ROWS = 10_000;
// Rows that are printed: more of them would be pages of colours without a name that can be read.
const PRINTED_ROWS = 200;
const ROWS_OF_PICTURE = 22;
const RELEVANT = ["all", "rows", "provisional", "sensors", "run", "faults"];

/**
 * Put the matrix into `root`; resolves when it is drawn.
 *
 * Returns `{changed(what), set(options), close()}`; options are search, sort, state, variable and span, as in the address.
 */
export async function mountMatrix(root, context, params = new URLSearchParams()) {
  const data = new Rows(context.get);
  const touch = matchMedia("(pointer: coarse)").matches;
  const view = { width: 0, height: 0, left: 0, top: 0, label: 60, cell: 4, row: touch ? 22 : 18 };
  const options = {
    search: params.get("search") ?? "", sort: params.get("sort") === "name" ? "name" : "trouble",
    state: CHANNEL_STATES.includes(params.get("state")) ? params.get("state") : "", variable: params.get("variable") ?? "",
    span: params.get("span") ?? (innerWidth < 700 ? "90" : "365"),
  };
  const canvas = element("canvas", { class: "matrix-canvas", "aria-hidden": "true" });
  const paper = element("div", { class: "matrix-paper print-only", "aria-hidden": "true" });
  const stage = element("div", { class: "matrix-stage" }, canvas, paper);
  const scroller = element("div", {
    class: "matrix-scroll", tabindex: "0", role: "application", "aria-roledescription": "health matrix", "aria-label": "Health matrix",
    "aria-describedby": "matrix-keys",
  }, stage);
  const all = beside(scroller);
  const tip = element("div", { class: "tooltip", hidden: true });
  const status = element("p", { class: "hidden", role: "status" });
  const noneWords = element("p");
  const showAll = button("Show all sensors", () => set({ search: "", state: "", variable: "" }), { class: "button" });
  const none = element("div", { class: "matrix-none", hidden: true }, noneWords, showAll);
  const box = element("div", { class: "matrix" }, scroller, all.element, tip, none);
  const line = element("p", { class: "quiet small", role: "status" });
  const legend = element("ul", { class: "legend", "aria-label": "What the cells mean" });
  const panel = controls(context.network, options, set);
  root.append(
    element("div", { class: "section-head" },
      element("div", {}, element("h2", { id: "matrix-title" }, "Day by day"), line), panel.element),
    legend, box,
    element("p", { class: "hidden", id: "matrix-keys" },
      "Arrow keys move from day to day and sensor to sensor, Page Up and Page Down by a screen, Home and End to the first and last day. Enter opens the sensor around that day."),
    status,
  );
  let ink = inks(canvas);
  let cursor = null;
  let hover = null;
  let isTouch = false;
  let marked = false;
  let later = 0;
  let described = "";
  let fresh = true;
  let refreshed = 0;
  let closed = false;

  const draw = perFrame(() => {
    if (closed || !data.total) return;
    paint(canvas, data, view, ink, { cursor: scroller.matches(":focus-visible") ? cursor : null, hover });
    all.follow(data, view);
    root.dataset.drawn = `${data.total}x${data.cells}`;
    if (!marked) performance.mark("matrix-drawn");
    marked = true;
    wanted();
  });

  /** Fetch rows that are missing: those in view, or some others for the picture of all. */
  async function wanted(first = Math.floor(view.top / view.row), last = Math.floor((view.top + view.height) / view.row)) {
    try {
      if (await data.fill(first, Math.min(last, data.total - 1))) layout();
    } catch (error) {
      if (!isAborted(error)) context.say(`More rows could not be read: ${error.message}.`, "error");
    }
  }

  /** Work out all sizes, after new data or a new width of the window. */
  function layout() {
    none.hidden = data.total > 0;
    // A feed that has just begun has no rows, whatever the filters are.
    const filtered = Boolean(options.search || options.state || options.variable);
    noneWords.textContent = filtered ? "No sensor fits these filters." : "There are no readings yet.";
    showAll.hidden = !filtered;
    scroller.hidden = all.element.hidden = data.total === 0;
    if (!data.total) return void (root.dataset.drawn = "0x0");
    const lines = Math.floor((Math.max(260, Math.min(660, innerHeight * 0.66)) - AXIS) / view.row);
    const most = AXIS + lines * view.row;
    const needed = AXIS + data.total * view.row;
    const tall = needed > most;
    all.element.hidden = !tall;
    box.classList.toggle("matrix-tall", tall);
    const width = box.clientWidth - (tall ? BESIDE + 8 : 0);
    view.label = labelWidth(canvas, data, Math.min(180, box.clientWidth * 0.26));
    const space = width - view.label;
    view.cell = Math.max(MIN_CELL, space / data.cells);
    const wider = view.label + data.cells * view.cell > width + 0.5;
    box.classList.toggle("matrix-wider", wider);
    stage.style.width = `${Math.floor(view.label + data.cells * view.cell)}px`;
    stage.style.height = `${needed}px`;
    scroller.style.height = `${Math.min(needed, most) + (wider ? 14 : 0)}px`;
    view.width = scroller.clientWidth;
    view.height = scroller.clientHeight;
    if (fresh) scroller.scrollLeft = scroller.scrollWidth;
    fresh = false;
    view.left = scroller.scrollLeft;
    view.top = scroller.scrollTop;
    if (tall) all.paint(data, view, ink);
    draw();
  }

  function describe() {
    const { sensors, variables } = context.network;
    const which = variables.length > 1 && !options.variable
      ? plural(data.total, "series", "series")
      : data.total < sensors ? `${whole(data.total)} of ${plural(sensors, "sensor")}` : plural(data.total, "sensor");
    const what = options.state ? `, ${options.state} now` : "";
    const columns = data.cellDays === 1 ? plural(data.cells, "day") : `${plural(data.cells, "column")} of ${data.cellDays} days`;
    const summary = `${which}${what}, ${columns}, ${options.sort === "name" ? "by name" : "most trouble first"}`;
    const unjudged = data.rows.some((row) => row?.cells.includes("n"));
    // What is written anew is read aloud anew, so the same words stay.
    const key = [summary, data.provisional, unjudged].join();
    if (key === described) return;
    described = key;
    line.textContent = summary;
    scroller.setAttribute("aria-label", `Health matrix: ${line.textContent}`);
    const present = new Set(Object.values(data.letters).filter((state) => state !== "nothing"));
    if (!unjudged) present.delete("not evaluated");
    legend.replaceChildren(
      ...["healthy", "filled", "suspect", "faulty", "silent", "not evaluated"].filter((state) => present.has(state))
        .map((state) => element("li", {}, mark(state), state)),
      ...(data.provisional ? [element("li", {}, mark("provisional"), "may still change")] : []),
    );
  }

  async function load(quiet = false) {
    const [at, over] = [cursor, hover].map((one) => one && data.rows[one.row] && { ...one, is: data.rows[one.row], day: data.day(Math.max(0, one.column)) });
    const { span, ...query } = options;
    if (!quiet) box.setAttribute("aria-busy", "true");
    const newest = await data.load(
      { ...query, from: spanStart(context.network, span) }, view.row ? Math.floor(view.top / view.row) : 0,
    );
    if (!newest || closed) return;
    refreshed = performance.now();
    box.removeAttribute("aria-busy");
    if (at) {
      // The order may have changed: the cursor stays with its sensor, wherever that is now.
      const row = data.rows.findIndex((one) => same(one, at.is));
      const column = data.column(at.day);
      cursor = row >= 0 && column !== null ? { row, column } : null;
    }
    hover = over && same(data.rows[over.row], over.is) && over.column < data.cells ? { row: over.row, column: over.column } : null;
    if (hover) point(hover);
    else if (!(cursor && scroller.matches(":focus-visible"))) tip.hidden = true;
    describe();
    layout();
    wanted(0, PREFETCHED_ROWS);
  }

  async function set(changes) {
    Object.assign(options, changes);
    panel.show(options);
    context.remember({
      search: options.search, sort: options.sort === "trouble" ? "" : options.sort, state: options.state, variable: options.variable,
      ...("span" in changes ? { span: options.span } : {}),
    });
    root.dispatchEvent(new CustomEvent("matrixoptions", { detail: options }));
    fresh = true;
    scroller.scrollTop = 0;
    try {
      await load();
    } catch (error) {
      if (!isAborted(error)) context.say(`The matrix could not be read: ${error.message}.`, "error");
    }
  }

  function same(one, other) {
    return one?.sensor === other.sensor && one?.variable === other.variable;
  }

  function cellAt(event) {
    const frame = canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - frame.left, event.clientY - frame.top];
    const row = Math.floor((y - AXIS + view.top) / view.row);
    if (y < AXIS || row < 0 || row >= data.total || !data.rows[row]) return null;
    if (x < view.label) return { row, column: -1 };
    const column = Math.floor((x - view.label + view.left) / view.cell);
    return column < data.cells ? { row, column } : null;
  }

  function words(at) {
    const last = data.cellDays > 1 ? ` to ${day(new Date(data.day(at.column + 1).getTime() - 1))}` : "";
    const changing = data.isProvisional(at.column) ? "may still change" : "";
    return [data.name(at.row), `${day(data.day(at.column))}${last}`, data.state(at.row, at.column), changing];
  }

  function point(at) {
    tip.hidden = !at || at.column < 0;
    if (tip.hidden) return;
    const [sensor, date, state, changing] = words(at);
    tip.replaceChildren(element("strong", {}, sensor), element("div", {}, date),
      state === "nothing" ? "no rows" : chip(state), changing && element("div", { class: "quiet" }, changing),
      isTouch ? element("div", { class: "quiet" }, "tap again to open") : "");
    const x = view.label + (at.column + 0.5) * view.cell - view.left;
    const y = AXIS + at.row * view.row - view.top;
    const right = x + 16 + tip.offsetWidth < box.clientWidth;
    tip.style.left = `${Math.max(0, right ? x + 14 : x - 14 - tip.offsetWidth)}px`;
    tip.style.top = `${y + view.row + 8 + tip.offsetHeight < view.height + 60 ? y + view.row + 6 : y - tip.offsetHeight - 6}px`;
  }

  function open(at) {
    const { sensor, variable } = data.rows[at.row];
    context.go(sensorLink(sensor, variable, at.column >= 0 ? data.around(at.column) : {}));
  }

  function move(row, column) {
    cursor = {
      row: Math.max(0, Math.min(data.total - 1, row)),
      column: Math.max(0, Math.min(data.cells - 1, column)),
    };
    const y = cursor.row * view.row;
    const seen = view.height - AXIS;
    if (y < view.top) scroller.scrollTop = y;
    else if (y + view.row > view.top + seen) scroller.scrollTop = y + view.row - seen;
    const x = cursor.column * view.cell;
    const across = view.width - view.label;
    if (x < view.left) scroller.scrollLeft = x;
    else if (x + view.cell > view.left + across) scroller.scrollLeft = x + view.cell - across;
    view.top = scroller.scrollTop;
    view.left = scroller.scrollLeft;
    draw();
    if (!data.rows[cursor.row]) return;
    point(cursor);
    const [sensor, date, state, changing] = words(cursor);
    status.textContent = `${sensor}, ${date}: ${state === "nothing" ? "no rows" : state}${changing && `, ${changing}`}. Row ${cursor.row + 1} of ${data.total}.`;
  }

  scroller.addEventListener("scroll", () => {
    view.left = scroller.scrollLeft;
    view.top = scroller.scrollTop;
    if (!(cursor && scroller.matches(":focus-visible"))) tip.hidden = true;
    hover = null;
    draw();
  }, { passive: true });
  canvas.addEventListener("pointermove", (event) => {
    if (event.pointerType === "touch") return;
    const at = cellAt(event);
    canvas.style.cursor = at ? "pointer" : "";
    if (at?.row === hover?.row && at?.column === hover?.column) return;
    hover = at;
    point(at);
    draw();
  });
  canvas.addEventListener("pointerdown", (event) => { isTouch = event.pointerType === "touch"; });
  canvas.addEventListener("pointerleave", (event) => {
    if (!hover || event.pointerType === "touch") return;
    hover = null;
    tip.hidden = true;
    draw();
  });
  canvas.addEventListener("click", (event) => {
    const at = cellAt(event);
    if (!at) return;
    // A finger has no hover: the first tap shows, the second one on the same cell opens.
    const again = hover?.row === at.row && hover?.column === at.column;
    if (!isTouch || again || at.column < 0) return open(at);
    hover = at;
    point(at);
    draw();
  });
  scroller.addEventListener("keydown", (event) => {
    if (!data.total || event.altKey || event.metaKey) return;
    const page = Math.max(1, Math.floor((view.height - AXIS) / view.row) - 1);
    const { row, column } = cursor ?? { row: Math.ceil(view.top / view.row), column: data.cells - 1 };
    const target = {
      ArrowLeft: [row, column - 1], ArrowRight: [row, column + 1], ArrowUp: [row - 1, column], ArrowDown: [row + 1, column],
      PageUp: [row - page, column], PageDown: [row + page, column],
      Home: event.ctrlKey ? [0, 0] : [row, 0], End: event.ctrlKey ? [data.total - 1, data.cells - 1] : [row, data.cells - 1],
    }[event.key];
    if (target) move(...(cursor ? target : [row, column]));
    else if (event.key === "Enter" || event.key === " ") {
      if (cursor && data.rows[cursor.row]) open(cursor);
    } else if (event.key === "Escape") tip.hidden = true;
    else return;
    event.preventDefault();
  });
  scroller.addEventListener("focus", () => {
    if (!scroller.matches(":focus-visible") || !data.total) return;
    move(cursor?.row ?? Math.ceil(view.top / view.row), cursor?.column ?? data.cells - 1);
  });
  scroller.addEventListener("blur", () => {
    tip.hidden = true;
    draw();
  });

  // On paper nothing scrolls: all of it is drawn, and the style sheet fits it to the width of the page.
  let printing = false;
  const beforePrint = () => {
    printing = true;
    if (closed || !data.total) return;
    ink = inks(canvas);
    const total = Math.min(data.total, PRINTED_ROWS);
    const cell = Math.min(view.cell, (view.width - view.label) / data.cells);
    // A picture is never broken across two pages: small ones leave no page empty.
    paper.replaceChildren(...Array.from({ length: Math.ceil(total / ROWS_OF_PICTURE) }, (_, at) => {
      const first = at * ROWS_OF_PICTURE, picture = element("canvas", { class: "matrix-picture" });
      const rows = Math.min(ROWS_OF_PICTURE, total - first);
      paint(picture, data, { ...view, cell, left: 0, height: AXIS + rows * view.row, top: first * view.row }, ink, {});
      return picture;
    }));
  };
  addEventListener("beforeprint", beforePrint);
  const afterPrint = () => { printing = false; paper.replaceChildren(); if (!closed && data.total) layout(); };
  addEventListener("afterprint", afterPrint);

  // The paper's size is another one: what is painted for it stays until it is printed.
  const relayout = perFrame(() => { if (!closed && !printing && data.total) { ink = inks(canvas); layout(); } });
  const sizes = new ResizeObserver(relayout);
  const stopTheme = onTheme(relayout);
  await load();
  sizes.observe(box);

  return {
    set,
    async changed(what) {
      if (!what.some((one) => RELEVANT.includes(one))) return;
      clearTimeout(later);
      // A large matrix is heavy to read again: not with every reading that comes in, but after the last one.
      const due = refreshed + (data.total * data.cells > LARGE && !what.includes("all") ? LARGE_PAUSE : 0) - performance.now();
      if (due > 0) {
        later = setTimeout(() => this.changed(["all"]).catch(() => {}), due);
        return;
      }
      panel.network(context.network, options);
      await load(true);
    },
    close() {
      closed = true;
      removeEventListener("beforeprint", beforePrint);
      removeEventListener("afterprint", afterPrint);
      clearTimeout(later);
      data.close();
      panel.close();
      sizes.disconnect();
      stopTheme();
    },
  };
}
