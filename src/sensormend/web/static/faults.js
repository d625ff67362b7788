// The list of faults for repairs: filter, sort, page, print, download as CSV.
import { button, element, field, isAborted, iso, unix, variableChoice } from "./elements.js";
import { faultLink, plural, seriesName, span, time, value, variableNames, whole, worded, zoneWords } from "./format.js";
import { calm } from "./pace.js";
import { sparklines } from "./sparkline.js";
import { hasBar, lastingWords, nothingJudged, sureShare, sureWords } from "./words.js";

const PAGE = 50;
const STATES = ["all", "open", "over"];
const COLUMNS = [
  ["sensor", "Sensor", "asc"], ["from", "Since", "desc"], ["to", "Until", "desc"], ["length", "How long", "desc"],
  ["reason", "Reason", "asc"], ["score", "How sure", "desc"],
];
const SORTS = [["worst", "Worst first", "desc"], ...COLUMNS];
const USUAL = { search: "", reason: "", variable: "", state: "all", sort: "worst", order: "desc", offset: 0 };

export async function show(root, params, context) {
  const wanted = Object.fromEntries(Object.entries(USUAL).map(([name, usual]) => [name, params.get(name) ?? usual]));
  wanted.offset = Math.max(0, Number.parseInt(wanted.offset, 10) || 0);
  // An address may have been typed: what there is not is left out.
  const lasting = lastingWords(context.network);
  const stateWords = { all: "all", open: lasting, over: "over" };
  const allowed = { state: STATES.map((name) => [name]), sort: SORTS, order: [["asc"], ["desc"]] };
  for (const [name, known] of Object.entries(allowed)) if (!known.some(([one]) => one === wanted[name])) wanted[name] = USUAL[name];
  const several = context.network.variables.length > 1;
  // A report has no room for a picture of each.
  const sparks = context.isReport ? null : sparklines(context);
  let request = null, rows = [], keepsPlace = false;

  const type = calm(() => choose({ search: search.value }), 200);
  const search = element("input", { type: "search", value: wanted.search, placeholder: "Sensor or words", maxlength: 200, oninput: type });
  const reason = element("select", { onchange: () => choose({ reason: reason.value }) });
  const variable = several ? variableChoice(context.network.variables, wanted.variable, (name) => choose({ variable: name })) : null;
  const states = STATES.map((name) => [name, button(stateWords[name], () => choose({ state: name }))]);
  const csv = element("a", { class: "button", text: "Download CSV", download: "faults.csv" });
  const sortBox = element("select", { onchange: () => {
    const [sort, order] = sortBox.value.split(" ");
    choose({ sort, order });
  } }, element("option", { value: "worst desc", text: "Worst first" }), COLUMNS.flatMap(([name, text]) => [["desc", "↓"], ["asc", "↑"]].map(([order, sign]) =>
    element("option", { value: `${name} ${order}`, text: `${text} ${sign}` }))));
  const heads = COLUMNS.map(([name, text, first]) => {
    const press = button(text, () => choose({ sort: name,
      order: wanted.sort === name ? (wanted.order === "asc" ? "desc" : "asc") : first }), { class: "sort" });
    // Of a button in the head of a table nothing is printed from the second page on.
    return [name, element("th", { scope: "col" }, press, element("span", { class: "print-only", "aria-hidden": "true", text }))];
  });
  const count = element("p", { class: "quiet", role: "status" });
  const body = element("tbody");
  const empty = element("div", { class: "panel empty", hidden: true });
  const table = element("table", { class: "table faults" }, element("caption", { class: "hidden", text: "Faults" }),
    element("thead", {}, element("tr", {}, heads.map(([, head]) => head),
      sparks ? element("th", { scope: "col", text: "Readings" }) : null, element("th", { scope: "col", text: "In words" }))), body);
  const where = element("p", { class: "quiet small" });
  const printedLines = element("p", { class: "print-only" });
  const earlier = button("Previous", () => choose({ offset: Math.max(0, wanted.offset - PAGE) }, true), { class: "button" });
  const later = button("Next", () => choose({ offset: wanted.offset + PAGE }, true), { class: "button" });
  const pager = element("nav", { class: "pager", "aria-label": "Pages" }, earlier, where, later);
  root.append(
    element("div", { class: "section" },
      element("div", { class: "section-head" }, element("div", {}, element("h1", { text: "Faults" }), count,
        // A report says of whom and of when it is at its top.
        context.isReport ? null : element("p", { class: "print-only", text: `${context.network.name}, as of ${time((context.network.live && context.network.reached) || (context.network.heard ?? context.network.last))}${zoneWords()}` }), printedLines),
        element("div", { class: "controls no-print" }, csv, button("Print", () => sparks.all().then(() => print()), { class: "button" }))),
      element("div", { class: "controls no-print", role: "search", "aria-label": "Filter the faults" },
        field("Find", search), field("Reason", reason), variable ? field("Variable", variable) : null,
        element("div", { class: "field", role: "group", "aria-label": "Which" }, "Which", element("div", { class: "choices" }, states.map(([, press]) => press))),
        field("Sorted by", sortBox, "sort-box"))),
    element("div", { class: "section" }, empty, table, pager));

  function filters() {
    const { search: text, reason: why, variable: what, state, sort, order } = wanted;
    return { search: text.trim(), reason: why, variable: what, state: state === "all" ? "" : state, sort, order };
  }

  function choose(changes, turned = false) {
    Object.assign(wanted, turned ? {} : { offset: 0 }, changes);
    context.remember(Object.fromEntries(Object.entries(USUAL).map(([name, usual]) =>
      [name, String(wanted[name]) === String(usual) ? "" : wanted[name]])));
    load().then(() => turned && root.querySelector("h1").scrollIntoView({ block: "start" }));
  }

  async function load() {
    request?.abort();
    request = new AbortController();
    const { signal } = request;
    if (!context.isReport) csv.href = context.address("faults.csv", filters());
    for (const [name, press] of states) press.setAttribute("aria-pressed", String(name === wanted.state));
    for (const [name, head] of heads) {
      head.setAttribute("aria-sort", wanted.sort !== name ? "none" : wanted.order === "asc" ? "ascending" : "descending");
    }
    sortBox.value = `${wanted.sort} ${wanted.order}`;
    try {
      render(await context.get("faults", { ...filters(), offset: wanted.offset, limit: PAGE }, signal));
    } catch (error) {
      if (isAborted(error)) return;
      empty.hidden = false;
      empty.replaceChildren(element("p", { text: `The list could not be read: ${error.message}.` }), button("Try again", load, { class: "button" }));
    }
  }

  function render(page) {
    // The last page may have gone while one looked at it.
    if (!page.items.length && page.lines && wanted.offset) return choose({ offset: 0 }, true);
    root.dataset.total = String(page.total);
    count.textContent = page.total ? `${plural(page.total, "fault")}${isFiltered() ? " with these filters" : ""}${page.lines < page.total ? `, in ${plural(page.lines, "line")}` : ""}${zoneWords() && `, times of${zoneWords()}`}${context.isReport && page.next !== null ? `; the ${page.items.length} worst are listed, faults.csv has all` : ""}` : "";
    offerReasons(page.reasons);
    empty.hidden = page.total > 0;
    table.hidden = pager.hidden = page.total === 0;
    if (!page.total) {
      empty.replaceChildren(element("p", { text: isFiltered() ? "No fault fits these filters."
        : nothingJudged(context.network) ? "Nothing is judged yet: no fault was looked for." : "No fault was found." }),
        ...(isFiltered() ? [button("Show all", reset, { class: "button" })] : []));
    }
    where.textContent = `${whole(page.offset + 1)} to ${whole(page.offset + page.items.length)} of ${whole(page.lines)}`;
    printedLines.textContent = page.lines > page.items.length && !context.isReport ? `Lines ${where.textContent}.` : "";
    earlier.disabled = page.offset === 0;
    later.disabled = page.next === null;
    pager.classList.toggle("pager-single", page.next === null && page.offset === 0);
    place(page.items);
    return undefined;
  }

  // An open box is not touched unless there is something new in it.
  function offerReasons(counts) {
    const json = JSON.stringify([counts, wanted.reason]);
    if (reason.dataset.json === json) return;
    reason.dataset.json = json;
    reason.replaceChildren(element("option", { value: "", text: `all (${whole(sum(counts))})` }),
      ...reasonsOf(counts).map(([name, number]) => element("option", { value: name, text: `${name} (${whole(number)})` })));
    reason.value = wanted.reason;
  }

  // Rows that say the same stay what they are: with their focus, their picture, and their place on the screen.
  function place(items) {
    const anchor = rows.find(({ tr }) => tr.getBoundingClientRect().top > 0);
    const top = anchor?.tr.getBoundingClientRect().top;
    const focused = body.contains(document.activeElement) ? document.activeElement.dataset.key : null;
    const known = new Map(rows.map((one) => [one.key, one]));
    rows = items.map((fault) => {
      const key = `${fault.sensor} ${fault.variable} ${fault.from} ${fault.reason}`;
      const json = JSON.stringify(fault);
      const old = known.get(key);
      if (old?.json === json) return old;
      const spark = sparks?.make(fault, old?.spark);
      return { key, json, spark, tr: row(fault, key, spark, lasting) };
    });
    const before = [...body.children];
    if (rows.length !== before.length || rows.some(({ tr }, at) => tr !== before[at])) body.replaceChildren(...rows.map(({ tr }) => tr));
    sparks?.forget();
    if (focused) body.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
    const again = rows.find(({ key }) => key === anchor?.key);
    if (again && scrollY > 0 && keepsPlace) scrollBy(0, again.tr.getBoundingClientRect().top - top);
  }

  function reset() {
    search.value = "";
    if (variable) variable.value = "";
    choose({ ...USUAL, sort: wanted.sort, order: wanted.order });
  }

  const isFiltered = () => Boolean(wanted.search.trim() || wanted.reason || wanted.variable || wanted.state !== "all");
  // A chosen reason stays in the box, also where the other filters leave none of it.
  const reasonsOf = (counts) => Object.entries(wanted.reason in counts || !wanted.reason ? counts : { ...counts, [wanted.reason]: 0 })
    .sort((a, b) => b[1] - a[1]);

  await load();
  return {
    async changed(what) {
      if (what.includes("faults") || what.includes("all")) {
        keepsPlace = true;
        await load();
        keepsPlace = false;
      }
    },
    close() {
      type.cancel();
      request?.abort();
      sparks?.close();
    },
  };
}

const sum = (counts) => Object.values(counts).reduce((all, one) => all + one, 0);

function row(fault, key, spark, lasting) {
  const around = Math.max(fault.seconds * 0.4, 12 * 3600);
  const link = faultLink(fault, { from: iso(unix(fault.from) - around), to: iso(unix(fault.to) + around) });
  const cell = (name, ...children) => element("td", { "data-label": name }, ...children);
  return element("tr", { class: fault.open ? "is-open" : "" },
    element("th", { scope: "row" }, element("a", { href: link, "data-key": key,
      text: fault.sensor, "aria-label": seriesName(fault.sensor, fault.variable) }),
    fault.variable ? element("span", { class: "fault-variable", text: variableNames(fault) }) : null),
    cell("Since", element("time", { datetime: fault.from, text: time(fault.from) })),
    cell("Until", fault.open ? element("strong", { class: "still", text: lasting })
      : element("time", { datetime: fault.to, text: time(fault.to) })),
    cell("How long", fault.count > 1 && !fault.others.length ? `${span(fault.seconds)} in ${span(unix(fault.to) - unix(fault.from))}` : span(fault.seconds)),
    cell("Reason", fault.reason),
    cell("How sure", sure(fault)),
    spark ? element("td", { class: "spark-cell" }, spark) : null,
    element("td", { class: "fault-words", text: worded(fault.sentence) }));
}

function sure(fault) {
  const words = element("span", { text: sureWords(fault) });
  if (!hasBar(fault)) return words;
  const bar = element("span", { class: "sure-bar", "aria-hidden": "true", title: fault.confidence === null ? `${value(fault.score, 2)} times the limit` : `owners confirm ${value(100 * fault.confidence, 2)} of 100 such faults` }, element("span"));
  bar.firstChild.style.width = `${Math.round(100 * sureShare(fault))}%`;
  return element("span", { class: "sure" }, words, bar);
}
