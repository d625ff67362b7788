// The sensors that need repair, the most urgent first: what each of them does, and what to do about it; and what was worst
// in an archive.
import { element, iso, unix } from "./elements.js";
import { faultLink, seriesName, span, time, variableNames, worded } from "./format.js";
import { chip } from "./palette.js";
import { nothingJudged } from "./words.js";

/** The sure faults of an archive that lasted longest, each with a link to where it was; a silence is no wrong reading, nor what is doubtful. */
export function worstList(faults, most) {
  const listed = faults.filter((one) => one.reason !== "silent");
  const sure = listed.filter((one) => one.sure !== "borderline");
  const wrong = (sure.length ? sure : listed).slice(0, most);
  return wrong.length ? element("ol", { class: "attention" }, wrong.map((one) => {
    const around = Math.max(one.seconds * 0.4, 12 * 3600);
    return element("li", {},
      element("a", { href: faultLink(one, { from: iso(unix(one.from) - around), to: iso(unix(one.to) + around) }) }, seriesName(one.sensor, variableNames(one))),
      element("span", {}, one.reason),
      element("span", { class: "attention-since" }, [`from ${time(one.from)}`, span(one.seconds), one.sure].filter(Boolean).join(", ")),
      element("span", { class: "quiet attention-why" }, worded(one.sentence)));
  })) : null;
}

export function attentionList(page, network) {
  if (!page.items.length) return element("p", { class: "quiet" }, nothingJudged(network) ? "Nothing is judged yet."
    : network.command === "clean" ? "No sensor is faulty or silent at the end." : "No sensor needs repair.");
  return element("ol", { class: "attention" }, page.items.map((one) => element("li", {},
    element("a", { href: faultLink(one) }, seriesName(one.sensor, variableNames(one))),
    chip(one.state, one.reason),
    element("span", { class: "attention-since" }, [`since ${time(one.since)}`, one.seconds ? span(one.seconds) : "", one.sure].filter(Boolean).join(", ")),
    element("span", { class: "quiet attention-why" },
      [one.known && `${one.known[0].toUpperCase()}${one.known.slice(1)}.`, worded(one.sentence), one.others.length ? `Also ${one.others.join(", ")}.` : "", one.advice].filter(Boolean).join(" ")))));
}
