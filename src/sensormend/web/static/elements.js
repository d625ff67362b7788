// Elements made from script, since the page allows no markup from text.

export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "class") made.className = value;
    else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "text") made.textContent = value;
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return made;
}

/** The same for what is drawn: SVG. */
export function drawing(tag, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, String(value));
  made.append(...children);
  return made;
}

export function button(text, press, attributes = {}) {
  return element("button", { type: "button", text, onclick: press, ...attributes });
}

/** A control with its label. */
export function field(label, control, kind = "") {
  return element("label", { class: `field ${kind}`.trim() }, label, control);
}

/** A choice of one variable or of all; `choose` is called with its name, empty for all. */
export function variableChoice(variables, chosen, choose) {
  const select = element("select", { onchange: () => choose(select.value) },
    element("option", { value: "", text: "all" }),
    variables.map((name) => element("option", { value: name, text: name || "value", selected: name === chosen })));
  return select;
}

export function iso(seconds) {
  return new Date(Math.round(seconds) * 1000).toISOString().replace(".000Z", "Z");
}

export function unix(time) {
  return typeof time === "number" ? time : Date.parse(time) / 1000;
}

export function isAborted(error) {
  return error?.name === "AbortError";
}
