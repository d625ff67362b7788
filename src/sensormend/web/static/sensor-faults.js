// The faults of one sensor, below its chart: each takes the chart to where it was.
import { button, element } from "./elements.js";
import { plural, span, time, whole, worded } from "./format.js";
import { lastingWords, sureWords } from "./words.js";

const MAX_ITEMS = 12;

export async function loadFaults(root, info, context, zoom, offer) {
  const { sensor, variable } = info;
  const page = await context.get("faults", { search: sensor, variable, sort: "from", order: "desc", limit: 500 });
  const own = page.items.filter((fault) => fault.sensor === sensor && fault.variable === variable);
  // An unchanged list stays, and the focus with it.
  const json = JSON.stringify([own, Boolean(offer)]);
  if (root.dataset.json === json) return;
  root.dataset.json = json;
  const all = `#/faults?${new URLSearchParams({ search: sensor })}`;
  root.replaceChildren(
    element("div", { class: "section-head" },
      element("h2", { text: "Its faults" }),
      own.length ? element("a", { class: "small", href: all, text: "in the list of faults" }) : null),
    own.length
      ? element("ul", { class: "own-faults" }, own.slice(0, MAX_ITEMS).map((fault) => entry(fault, lastingWords(context.network), zoom, offer)))
      : element("p", { class: "quiet", text: "None." }),
    ...(own.length > MAX_ITEMS ? [element("p", { class: "small quiet" }, `The newest ${MAX_ITEMS} of ${howMany(own)}. `,
      element("a", { href: all, text: "See all" }))] : []));
}

// Faults that came and went are one line of several faults.
function howMany(lines) {
  const faults = lines.reduce((sum, line) => sum + line.count, 0);
  return faults > lines.length ? `${plural(lines.length, "line")} for ${whole(faults)} faults` : whole(lines.length);
}

function entry(fault, lasting, zoom, offer) {
  return element("li", {},
    button("", () => zoom(fault), { class: "own-fault", "aria-label": `show on the chart: ${worded(fault.sentence)}` }),
    element("span", { class: "own-fault-reason", text: fault.reason }),
    element("span", {}, time(fault.from), fault.open ? `, ${lasting}` : ` to ${time(fault.to)}`, fault.count > 1 ? `: ${whole(fault.count)} times` : fault.size_words ? `: ${fault.size_words}` : ""),
    element("span", { class: "quiet", text: span(fault.seconds) }),
    element("span", { class: "quiet", text: sureWords(fault) }),
    offer ? button("Note", () => offer(fault), { class: "button own-fault-note no-print", "aria-label": `note what it was: ${worded(fault.sentence)}` }) : null);
}
