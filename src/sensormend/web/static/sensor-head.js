// The part above a sensor's chart: its name, its state, and its numbers.
import { element, field, unix } from "./elements.js";
import { percent, span, time, value, whole, worded } from "./format.js";
import { chip } from "./palette.js";

// Made once; only the parts that a live network changes are replaced, so that an open choice of the variable stays open.
export function makeHead(root, figures, info, context) {
  const state = element("p", { class: "sensor-state" });
  const sentence = element("p", { class: "sensor-sentence" });
  root.prepend(element("div", { class: "sensor-title" }, element("h1", { text: info.sensor }), state, variableSwitch(info, context), stationLink(info, context)),
    sentence);
  return (latest) => {
    state.replaceChildren(chip(latest.state, stateWords(latest)));
    sentence.textContent = worded(latest.sentence);
    figures.replaceChildren(...figuresOf(latest, context.network));
  };
}

function figuresOf(info, network) {
  const unplaced = info.latitude === null || info.longitude === null;
  return [
    figure("Last heard", ...lastReading(info.heard, network)),
    figure("Readings", whole(info.readings), info.first ? `since ${time(info.first)}` : ""),
    figure("Missing", percent(info.share_missing)),
    figure("Faulty", percent(info.share_faulty), faultWords(info.faults)),
    figure("Usual error", info.usual_error === null ? "unknown" : `± ${value(info.usual_error, 2)}${info.unit ? ` ${info.unit}` : ""}`, "when its value is estimated"),
    ...(unplaced ? [] : [figure("Position", `${degrees(info.latitude, "N", "S")}, ${degrees(info.longitude, "E", "W")}`)]),
  ];
}

function stateWords({ state, reason, since }) {
  const why = reason && reason !== state ? `, ${reason}` : "";
  return `${state}${why}${since ? ` since ${time(since)}` : ""}`;
}

function faultWords(count) {
  return count === undefined ? "" : count === 1 ? "1 fault on the list" : `${whole(count)} faults on the list`;
}

// A finished archive and a simulated city are not at the clock on the wall: how long ago is in the network's time.
function lastReading(at, network) {
  if (!at) return ["never"];
  const now = network.reached ?? network.last;
  const ago = now ? unix(now) - unix(at) : null;
  if (ago === null) return [time(at)];
  if (network.live) return [time(at), ago <= network.step ? "just now" : `${span(ago)} ago in network time`];
  return [time(at), ago <= network.step ? "until the end" : `${span(ago)} before the end`];
}

function degrees(number, positive, negative) {
  return `${Number(Math.abs(number).toFixed(5))}° ${number < 0 ? negative : positive}`;
}

function figure(name, text, note = "") {
  return element("div", { class: "figure" },
    element("dt", { text: name }), element("dd", {}, element("span", { class: "figure-main", text }),
      note ? element("span", { class: "figure-note", text: note }) : null));
}

function stationLink({ sensor, variables }, { isReport }) {
  if (variables.length < 2 || isReport) return null;
  return element("a", { class: "small", href: `#/station?${new URLSearchParams({ sensor })}`, text: "all its variables" });
}

function variableSwitch(info, context) {
  if (info.variables.length < 2) return null;
  // The other variable over the same time.
  const choose = () => {
    const query = new URLSearchParams(location.hash.split("?")[1]);
    query.set("variable", select.value);
    query.delete("why");
    context.go(`#/sensor?${query}`);
  };
  const select = element("select", { onchange: choose },
    info.variables.map((name) => element("option", { value: name, text: name || "value", selected: name === info.variable })));
  return field("Variable", select);
}
