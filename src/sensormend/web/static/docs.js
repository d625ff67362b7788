// Shows what api/openapi.json says: every part of the API, what it takes, what it gives, and a way to try it.

const LONGEST = 20_000;
const DEEPEST = 5;

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

/** Texts with `code` in them. */
function prose(text) {
  const parts = String(text ?? "").split("`");
  return parts.map((part, index) => (index % 2 ? element("code", {}, part) : part));
}

function resolved(schema, all) {
  const name = schema?.$ref?.split("/").at(-1);
  return name ? { ...all[name], title: name } : (schema ?? {});
}

/** Say what a value may be; what stands for nothing said is left out of parameters. */
function kind(given, all, parameter = false) {
  const schema = resolved(given, all);
  const several = (schema.anyOf ?? schema.oneOf)?.filter((one) => !(parameter && one.type === "null"));
  if (several) return [...new Set(several.map((one) => kind(one, all)))].join(" or ");
  if (schema.enum) return schema.enum.filter((one) => !(parameter && one === "")).map((one) => JSON.stringify(one)).join(" or ");
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.type === "array") return `list of ${schema.prefixItems ? "values" : kind(schema.items ?? {}, all)}`;
  if (schema.type === "object") {
    const inner = schema.additionalProperties;
    return inner && typeof inner === "object" ? `object of ${kind(inner, all)}` : "object";
  }
  const bounds = [];
  if (schema.minimum !== undefined) bounds.push(`from ${schema.minimum}`);
  if (schema.maximum !== undefined) bounds.push(`up to ${schema.maximum}`);
  const format = schema.format ? ` (${schema.format})` : "";
  return `${schema.type ?? "anything"}${format}${bounds.length ? `, ${bounds.join(" ")}` : ""}`;
}

/** What is inside an object, or inside the objects of a list. */
function fields(given, all, depth = 0) {
  let schema = resolved(given, all);
  const several = (schema.anyOf ?? schema.oneOf)?.find((one) => resolved(one, all).type !== "null");
  if (several) schema = resolved(several, all);
  if (schema.type === "array") return fields(schema.items ?? {}, all, depth);
  if (!schema.properties) {
    const inner = schema.additionalProperties;
    return inner && typeof inner === "object" ? fields(inner, all, depth) : null;
  }
  const list = element("ul", { class: "shape" });
  for (const [name, property] of Object.entries(schema.properties)) {
    const said = resolved(property, all).description ?? property.description;
    const item = element("li", {}, element("code", {}, name), " ", element("span", { class: "kind" }, kind(property, all)));
    if (said && !property.$ref) item.append(" · ", ...prose(said));
    const inner = depth < DEEPEST ? fields(property, all, depth + 1) : null;
    if (inner) item.append(inner);
    list.append(item);
  }
  return list;
}

function parameters(path, taken, all) {
  const body = element("tbody");
  for (const one of taken) {
    const fallback = one.schema?.default;
    const told = fallback === undefined || fallback === null || fallback === "" ? "" : JSON.stringify(fallback);
    body.append(element("tr", {},
      element("td", {}, element("code", {}, one.name), one.required ? " (needed)" : ""),
      element("td", {}, kind(one.schema, all, true)),
      element("td", {}, told),
      element("td", {}, ...prose(one.description ?? one.schema?.description))));
  }
  const head = element("tr", {}, ...["parameter", "what it is", "without it", "what it means"].map((word) => element("th", { scope: "col" }, word)));
  return element("div", { class: "table-wrap", tabindex: "0", role: "region", "aria-label": `Parameters of ${path}` },
    element("table", { class: "table" }, element("thead", {}, head), body));
}

function trial(path, taken) {
  const form = element("form", { class: "try" });
  const row = element("div", { class: "try-fields" });
  for (const one of taken) {
    const input = element("input", { type: "text", name: one.name, autocomplete: "off", spellcheck: "false" });
    if (one.required) input.required = true;
    row.append(element("label", { class: "field" }, one.name, input));
  }
  row.append(element("button", { class: "button", type: "submit" }, "Try it"));
  const said = element("p", { role: "status" });
  const shown = element("pre", { class: "answer", tabindex: "0", hidden: "" });
  form.append(row, said, shown);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const url = new URL(path.replace(/^\//, ""), document.baseURI);
    for (const [name, value] of new FormData(form)) if (value !== "") url.searchParams.set(name, value);
    said.replaceChildren("Asking.");
    const began = performance.now();
    try {
      const answer = await fetch(url);
      if (answer.status === 401) return location.assign("login");
      const text = await answer.text();
      const seconds = ((performance.now() - began) / 1000).toFixed(2);
      said.replaceChildren(`${answer.status}, ${text.length.toLocaleString("en")} characters in ${seconds} s: `,
        element("a", { href: url.href }, url.pathname + url.search));
      shown.textContent = pretty(text);
      shown.hidden = false;
    } catch {
      said.replaceChildren("The server does not answer.");
    }
  });
  return form;
}

function pretty(text) {
  let shown = text;
  if (text.length <= LONGEST) try { shown = JSON.stringify(JSON.parse(text), null, 1); } catch { /* it is no JSON */ }
  return shown.length > LONGEST ? `${shown.slice(0, LONGEST)}\n... and so on` : shown;
}

function operation(path, method, told, all) {
  const name = told.operationId ?? path;
  const section = element("section", { class: "operation panel", id: name },
    element("h2", {}, element("span", { class: "method" }, method.toUpperCase()), element("code", {}, path)));
  if (told.description ?? told.summary) section.append(element("p", {}, ...prose(told.description ?? told.summary)));
  const taken = told.parameters ?? [];
  if (taken.length) section.append(parameters(path, taken, all));
  const content = told.responses?.["200"]?.content ?? {};
  const schema = content["application/json"]?.schema;
  const shape = schema && fields(schema, all);
  if (shape) section.append(element("details", {}, element("summary", {}, "What it gives"), shape));
  if (!content["text/event-stream"]) section.append(trial(path, taken));
  return section;
}

async function show() {
  const place = document.getElementById("operations");
  try {
    const answer = await fetch("api/openapi.json");
    if (answer.status === 401) return location.assign("login");
    if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
    const said = await answer.json();
    document.getElementById("title").textContent = `The API of ${said.info.title} ${said.info.version}`;
    document.getElementById("about").replaceChildren(...prose(said.info.description));
    const all = said.components?.schemas ?? {};
    const sections = Object.entries(said.paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, told]) => [path, operation(path, method, told, all)]));
    place.replaceChildren(...sections.map(([, section]) => section));
    document.getElementById("contents").replaceChildren(
      ...sections.map(([path, section]) => element("a", { href: `#${section.id}` }, path)));
    if (location.hash) document.getElementById(location.hash.slice(1))?.scrollIntoView();
  } catch (error) {
    place.replaceChildren(element("p", { class: "error-line" }, `The description cannot be read: ${error.message}.`));
  }
}

show();
