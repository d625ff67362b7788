// The sensors that need repair, the most urgent first: what each of them does, and what to do about it.
import { element } from "./elements.js";
import { sensorLink, seriesName, span, time } from "./format.js";
import { chip } from "./palette.js";
import { nothingJudged } from "./words.js";

export function attentionList(page, network) {
  if (!page.items.length) return element("p", { class: "quiet" }, nothingJudged(network) ? "Nothing is judged yet." : "No sensor needs repair.");
  return element("ol", { class: "attention" }, page.items.map((one) => element("li", {},
    element("a", { href: sensorLink(one.sensor, one.variable) }, seriesName(one.sensor, one.variable)),
    chip(one.state, one.reason),
    element("span", { class: "attention-since" }, [`since ${time(one.since)}`, one.seconds ? span(one.seconds) : "", one.sure].filter(Boolean).join(", ")),
    element("span", { class: "quiet attention-why" },
      [one.known && `${one.known[0].toUpperCase()}${one.known.slice(1)}.`, one.sentence, one.others.length ? `Also ${one.others.join(", ")}.` : "", one.advice].filter(Boolean).join(" ")))));
}
