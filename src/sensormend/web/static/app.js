// The shell: which view is shown, what the header says, and what happens when the server says something.
//
// A view is a module with `async show(root, params, context)`, which returns `{changed(what, network), close()}`.
// params is a URLSearchParams of what stands behind the ? in the address. context has
//   network            the latest answer of /api/network
//   get(path, params)  an answer of the API, given up when the view is left
//   go(hash)           go to another view
//   load(module)       a module that not every view needs
//   remember(changes)  put the view's own state into the address ("" takes a name out), without a new entry in history
//   say(line, kind)    a short line for everyone, also read aloud; kind "error" looks like one
//   title(words)       what the tab is called
//   signal             aborted when the view is left

import { access, address, get, post, resume } from "./api.js";
import { element } from "./elements.js";
import { search } from "./find.js";
import { clock, day, time } from "./format.js";
import { follow } from "./live.js";

const VIEWS = {
  overview: { module: "./overview.js", title: "Overview" },
  sensor: { module: "./sensor.js", title: "Sensor" },
  faults: { module: "./faults.js", title: "Faults" },
  calibration: { module: "./calibration.js", title: "Calibration" },
};
const by = (id) => document.getElementById(id);
const main = by("main");

let network = null;
let shown = null;
let leaving = new AbortController();
let lost = null;
let saying = 0;

function place() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  return { name: path.replace(/\/$/, "") || "overview", params: new URLSearchParams(query) };
}

function remember(changes) {
  const [path, query = ""] = (location.hash || "#/").split(/\?(.*)/s);
  const params = new URLSearchParams(query);
  for (const [name, value] of Object.entries(changes)) {
    if (value === "" || value === null || value === undefined) params.delete(name);
    else params.set(name, value);
  }
  const text = params.toString();
  history.replaceState(history.state, "", text ? `${path}?${text}` : path);
}

function say(line, kind = "") {
  clearTimeout(saying);
  const box = by("said");
  box.replaceChildren(element("p", { class: kind === "error" ? "said-line said-error" : "said-line" }, line));
  saying = setTimeout(() => box.replaceChildren(), kind === "error" ? 10_000 : 5_000);
}

function title(words) {
  document.title = [words, network?.name, "sensormend"].filter(Boolean).join(" · ");
}

function failure(words, again) {
  return element(
    "div",
    { class: "error-line", role: "alert" },
    element("p", {}, words),
    element("button", { type: "button", class: "button", onclick: again }, "Try again"),
  );
}

function leave() {
  leaving.abort();
  leaving = new AbortController();
  try {
    shown?.close?.();
  } catch (error) {
    console.error(error);
  }
  shown = null;
}

async function load(module) {
  try {
    return await import(module);
  } catch (error) {
    console.error(error);
    throw Object.assign(new Error("a part of the page could not be loaded"), { status: 0 });
  }
}

/** Show what the address names. `moved`: someone went there, so the focus goes along. */
async function navigate(moved = true) {
  leave();
  const { name, params } = place();
  const { signal } = leaving;
  const root = element("div", { class: `view view-${name}` });
  const again = () => navigate(false);
  main.replaceChildren(root);
  main.dataset.view = name;
  main.dataset.ready = "false";
  for (const tab of document.querySelectorAll("[data-tab]")) {
    if (tab.dataset.tab === name) tab.setAttribute("aria-current", "page");
    else tab.removeAttribute("aria-current");
  }
  if (moved) {
    main.focus({ preventScroll: true });
    scrollTo(0, 0);
  }
  const view = VIEWS[name];
  if (!view) {
    title("Not found");
    root.append(failure(`There is no view called ${name}.`, () => { location.hash = "#/"; }));
    return;
  }
  title(view.title);
  main.setAttribute("aria-busy", "true");
  try {
    const [module, latest] = await Promise.all([load(view.module), network ?? get("network", {}, signal)]);
    if (signal.aborted) return;
    tell(latest);
    title(view.title);
    const context = {
      get network() { return network; },
      get: (path, given = {}, own = undefined) => get(path, given, own ? AbortSignal.any([own, signal]) : signal),
      post: (path, body) => post(path, body, signal),
      go: (hash) => { location.hash = hash; },
      load, remember, say, title, signal,
    };
    const made = await module.show(root, params, context);
    if (signal.aborted) {
      made?.close?.();
      return;
    }
    shown = made;
    main.dataset.ready = "true";
    const offset = history.state?.y;
    if (moved && offset) scrollTo(0, offset);
  } catch (error) {
    if (signal.aborted || error.name === "AbortError") return;
    if (error.status === undefined) console.error(error);
    root.replaceChildren(failure(`This could not be shown: ${error.message}.`, again));
    main.dataset.ready = "failed";
  } finally {
    if (!signal.aborted) main.removeAttribute("aria-busy");
  }
}

/** Take a new answer of /api/network into the header. */
function tell(latest) {
  network = latest;
  by("network-name").textContent = latest.name || "sensormend";
  by("logout").hidden = !access.login;
  state();
}

function standing() {
  if (lost !== null) return ["lost", "connection lost, trying again"];
  if (network === null) return ["waiting", "connecting"];
  if (network.live) return ["live", network.reached ? `live, ${clock(network.reached)} network time` : "live"];
  if (!network.first) return ["still", "nothing in it yet"];
  // Not as complete as an archive: somebody may expect that it still runs.
  if (network.command === "watch") return ["still", `watch finished, readings to ${time(network.last)}`];
  return ["still", `finished archive, ${day(network.first)} to ${day(network.last)}`];
}

function state() {
  const [kind, words] = standing();
  by("live").dataset.live = kind;
  // The line is read aloud when it changes: only a new state is news, each new minute is not.
  by("live").setAttribute("aria-live", kind === "live" ? "off" : "polite");
  if (by("live-words").textContent !== words) by("live-words").textContent = words;
  by("live").title = network?.reached && network.live ? `the network's clock is at ${day(network.reached)}, ${clock(network.reached)} UTC` : "";
}

async function refresh(what) {
  try {
    tell(await get("network"));
  } catch {
    return;
  }
  const view = shown;
  try {
    if (view) await view.changed?.(what, network);
    else if (main.dataset.ready === "failed") await navigate(false);
  } catch (error) {
    if (error.name === "AbortError" || view !== shown) return;
    if (error.status === undefined) console.error(error);
    say(`Not up to date: ${error.message}.`, "error");
  }
}

function listen() {
  const banner = by("banner");
  const live = follow(address("events"), {
    changed: refresh,
    lost(since) {
      lost = since;
      const at = new Date(since).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
      banner.replaceChildren(
        element("p", {}, element("strong", {}, "Connection lost"), ` at ${at} (your clock). What you see is as of then; trying again.`),
        element("button", { type: "button", class: "button", onclick: () => live.retry() }, "Try now"),
      );
      banner.hidden = false;
      state();
    },
    back() {
      lost = null;
      banner.hidden = true;
      banner.replaceChildren();
      state();
      say("The connection is back.");
      live.refresh();
    },
    // An event stream does not say why it was refused; asking anything else leads to the login where that is due.
    refused: () => get("network").catch(() => {}),
    version: () => network?.version,
  });
}

function start() {
  resume();
  history.scrollRestoration = "manual";
  let scrolled = 0;
  addEventListener("scroll", () => {
    clearTimeout(scrolled);
    scrolled = setTimeout(() => history.replaceState({ y: Math.round(scrollY) }, ""), 200);
  }, { passive: true });
  // One listener for links and for back and forth; what `remember` writes does not fire it.
  addEventListener("hashchange", () => {
    clearTimeout(scrolled);
    navigate();
  });
  by("skip").addEventListener("click", (event) => {
    event.preventDefault();
    main.focus();
    main.scrollIntoView();
  });
  const toggle = by("theme");
  const showTheme = () => toggle.setAttribute("aria-pressed", String(document.documentElement.dataset.theme === "dark"));
  document.addEventListener("themechange", showTheme);
  toggle.addEventListener("click", () => document.dispatchEvent(new CustomEvent("themetoggle")));
  showTheme();
  search(by("find"), { get, go: (hash) => { location.hash = hash; } });
  navigate(false);
  listen();
}

start();
