// What is chosen for the health matrix: a name, an order, a variable, a span of time.

import { button, element, field } from "./elements.js";
import { isoDay, moment } from "./format.js";
import { calm } from "./pace.js";

const DAY = 86_400_000;
const SPANS = [["30", "30 days"], ["90", "90 days"], ["365", "1 year"], ["all", "All"]];

/** The first day of a span that ends with the newest reading; "" leaves it to the server. */
export function spanStart(network, span) {
  if (!network.first || !network.last) return "";
  const first = moment(network.first).getTime();
  if (span === "all") return isoDay(network.first);
  const start = moment(isoDay(network.last)).getTime() - ((Number(span) || 365) - 1) * DAY;
  return isoDay(new Date(Math.max(first, start)));
}

/** Spans that say something else than all of it. */
function useful(network) {
  if (!network.first) return [];
  const days = (moment(network.last) - moment(network.first)) / DAY;
  const shorter = SPANS.filter(([span]) => span !== "all" && Number(span) < days);
  return shorter.length ? [...shorter, SPANS.at(-1)] : [];
}

/** Return `{element, show(options), network(network, options), close()}`; `set(changes)` is called on each choice. */
export function controls(network, options, set) {
  const type = calm(() => set({ search: name.value.trim() }), 200);
  const name = element("input", {
    type: "search", value: options.search, placeholder: "Part of a name", maxlength: "200", autocomplete: "off",
    spellcheck: "false", autocapitalize: "off", oninput: type, class: "matrix-name",
  });
  const sort = element("select", { onchange: () => set({ sort: sort.value }) },
    element("option", { value: "trouble" }, "most trouble first"), element("option", { value: "name" }, "by name"));
  const variable = element("select", { onchange: () => set({ variable: variable.value }) },
    element("option", { value: "" }, "all"), network.variables.filter(Boolean).map((one) => element("option", { value: one }, one)));
  const spans = element("div", { class: "choices", role: "group", "aria-label": "How far back" });
  const only = button("", () => set({ state: "" }), { class: "button" });
  const made = element("div", { class: "controls" },
    only, field("Names", name), network.variables.length > 1 ? field("Variable", variable) : null, field("Order", sort), spans);

  let listed = "";
  const show = (now) => {
    if (document.activeElement !== name) name.value = now.search;
    sort.value = now.sort;
    variable.value = now.variable;
    only.hidden = !now.state;
    only.textContent = `only ${now.state} ×`;
    only.setAttribute("aria-label", `Only ${now.state} sensors are shown. Show all`);
    const choices = useful(network);
    const chosen = choices.some(([span]) => span === now.span) ? now.span : "all";
    // Made again only when the choices differ, so that the focus stays where it is.
    if (listed !== choices.join()) {
      listed = choices.join();
      spans.replaceChildren(...choices.map(([span, words]) => button(words, () => set({ span }), { "data-span": span })));
    }
    for (const one of spans.children) one.setAttribute("aria-pressed", String(one.dataset.span === chosen));
    spans.hidden = !choices.length;
  };
  show(options);
  return {
    element: made,
    show,
    network(latest, now) {
      network = latest;
      show(now);
    },
    close: () => type.cancel(),
  };
}
