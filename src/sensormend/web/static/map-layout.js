// Where things are on the map's part of the page.
import { button, element } from "./elements.js";
import { plural, value, whole } from "./format.js";
import { drawMark, paintHatch } from "./map-paint.js";
import { GRADIENT } from "./map-scale.js";

export const SIDES = [["value", "Raw"], ["cleaned", "Cleaned"]];

export function paintLegend(canvas) {
  const side = 18;
  canvas.width = canvas.height = side * devicePixelRatio;
  const pen = canvas.getContext("2d");
  pen.scale(devicePixelRatio, devicePixelRatio);
  if (canvas.dataset.mark === "missing") {
    pen.scale(2 / 3, 2 / 3);
    for (const x of [3, 12]) for (const y of [3, 12]) {
      pen.save();
      pen.translate(x, y);
      pen.beginPath();
      pen.rect(0, 0, 9, 9);
      pen.clip();
      paintHatch(pen, 9);
      pen.restore();
    }
  } else drawMark(pen, canvas.dataset.mark, side / 2, side / 2, 5.5);
}

export function layOut(places, network) {
  const press = (text, name) => button(text, () => {}, { class: "button", "aria-label": name, title: name });
  const canvases = SIDES.map(() => element("canvas", { class: "map-canvas", "aria-hidden": "true" }));
  for (const canvas of canvases) canvas.style.aspectRatio = `1 / ${places.height}`;
  const legendMarks = ["faulty", "suspect", "silent", "missing"].map((mark) => element("canvas", { class: "legend-mark", "data-mark": mark, "aria-hidden": "true" }));
  const words = ["faulty", "suspect", "silent", "raw missing"];
  const page = {
    canvases, legendMarks,
    line: element("p", { class: "map-line", id: "map-line" }),
    slider: element("input", { type: "range", min: "0", step: "1", class: "map-slider", "aria-label": "Time" }),
    // A browser's own box for a time speaks the browser's language, in which 04/05 is one of two days.
    when: element("input", { type: "text", class: "map-when", "aria-label": "Time as year-month-day hour:minute", maxlength: "30",
      autocomplete: "off", spellcheck: "false" }),
    play: press("▶", "play"), back: press("‹", "one step earlier"), forth: press("›", "one step later"),
    backDay: press("«", "one day earlier"), forthDay: press("»", "one day later"),
    tip: element("div", { class: "tooltip map-tip", hidden: true }),
    aloud: element("p", { class: "hidden", "aria-live": "polite" }),
    scale: element("div", { class: "scale-ticks" }),
    choose: network.variables.length < 2 ? null : element("select", { "aria-label": "Variable" },
      network.variables.map((name) => element("option", { value: name, text: name || "value" }))),
  };
  page.play.classList.add("map-play");
  page.head = element("div", { class: "section-head" },
    element("div", {}, element("h2", { id: "map-title", text: "The network on a map" }), page.line), page.choose);
  page.focus = element("div", { class: "map-pair", tabindex: "0", role: "group", "aria-roledescription": "map", "aria-labelledby": "map-title map-line",
    "aria-description": "Arrow keys go from sensor to sensor, Enter opens one." },
    SIDES.map(([, name], at) => element("figure", {}, element("figcaption", { text: name }), canvases[at])));
  page.maps = element("div", { class: "maps" }, page.focus, page.tip, page.aloud);
  page.bar = element("div", { class: "map-controls" },
    element("div", { class: "map-buttons" }, page.play, page.backDay, page.back, page.forth, page.forthDay), page.slider,
    element("div", { class: "map-at" }, page.when));
  const gradient = element("div", { class: "scale-bar" });
  gradient.style.backgroundImage = GRADIENT;
  page.under = element("div", { class: "map-under" },
    element("ul", { class: "legend" }, legendMarks.map((mark, at) => element("li", {}, mark, words[at]))),
    element("div", { class: "scale", role: "img", "aria-label": "colours from the lowest to the highest cleaned value of the day" }, gradient, page.scale));
  page.note = element("p", { class: "small quiet" },
    `Each cell is the part that is nearest to its sensor. Colours span the cleaned values of the day; values past an end take its colour.${
      places.kilometres ? ` The map is ${value(places.kilometres, 2)} km wide.` : ""}${
      places.total > places.sensors.length ? ` ${plural(places.sensors.length, "sensor")} of ${whole(places.total)} are drawn.` : ""}`);
  return page;
}
