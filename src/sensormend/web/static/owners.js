// For an archive that came with flags: how ours agree with them, and the channels that differ most.
import { element } from "./elements.js";
import { percent, plural, sensorLink, seriesName, time, whole } from "./format.js";

const MAX_ITEMS = 10;
const HEADS = ["Variable", "Readings", "Wrong by its owners", "Wrong by us", "Both", "Precision", "Recall", "Good ones flagged"];

export async function mountOwners(root, context) {
  const page = await context.get("owners", { limit: MAX_ITEMS });
  const score = (value) => (value === null ? "–" : value.toFixed(3));
  const flags = page.wrong.length ? `Wrong by its owners is what has the flag ${page.wrong.join(" or ")}.`
    : `None of their flags is known to say that a reading is wrong: ${page.others.join(", ")}. Clean again with --owner-wrong.`;
  root.replaceChildren(
    element("div", {}, element("h2", { id: "owners-title", text: "The owners' flags" }), element("p", { class: "quiet small", text: flags })),
    element("div", { class: "grid-scroll", tabindex: "0" }, element("table", { class: "grid", "aria-labelledby": "owners-title" },
      element("thead", {}, element("tr", {}, HEADS.map((text) => element("th", { scope: "col", text })))),
      element("tbody", {}, page.variables.map((line) => element("tr", {},
        element("th", { scope: "row", text: line.variable || "value" }),
        [whole(line.readings), whole(line.labelled), whole(line.flagged), whole(line.both), score(line.precision), score(line.recall),
          percent(line.good_flagged, "–")].map((text) => element("td", { text }))))))),
    page.items.length
      ? element("ol", { class: "attention" }, page.items.map((one) => element("li", {},
        element("a", { href: around(one) }, seriesName(one.sensor, one.variable)),
        element("span", {}, [one.theirs ? `${plural(one.theirs, "reading")} wrong by its owners only` : "", one.ours ? `${plural(one.ours, "reading")} wrong by us only` : ""].filter(Boolean).join(", ")),
        element("span", { class: "quiet", text: `the longest run from ${time(one.from)} to ${time(one.to)}` }))))
      : element("p", { class: "quiet", text: "No reading differs." }),
    ...(page.total > page.items.length ? [element("p", { class: "small quiet", text: `The ${MAX_ITEMS} with most of ${whole(page.total)} that differ.` })] : []),
  );
  root.hidden = false;
}

// The run with as much again on either side, and a day at least.
function around({ sensor, variable, from, to }) {
  const [start, end] = [from, to].map((text) => Date.parse(text));
  const more = Math.max(end - start, 86_400_000);
  return sensorLink(sensor, variable, { from: new Date(start - more).toISOString(), to: new Date(end + more).toISOString() });
}
