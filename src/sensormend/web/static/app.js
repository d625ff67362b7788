// The shell: shows the view that the address names, the header, and what changes on the server.
//
// A view is a module with `async show(root, params, context)`, which returns `{changed(what, network), close()}`.
// params is a URLSearchParams of the part of the address after the ?. context has
//   network            the latest answer of /api/network
//   get(path, params)  an answer of the API, aborted when the view is left
//   post(path, body)  send a body to the API, aborted when the view is left
//   go(hash)           go to another view
//   load(module)       a module that not every view needs
//   remember(changes)  put the view's own state into the address ("" takes a name out), without a new entry in history
//   say(line, kind)    show a short message, which is also read aloud; kind "error" for an error
//   address(path, params)   the address of an answer of the API, for a link
//   title(words)       set the title of the tab
//   signal             aborted when the view is left

import { access, address, get, post, resume } from "./api.js";
import { element, isAborted } from "./elements.js";
import { search } from "./find.js";
import { clock, day, isLocal, localZone, setLocal, time, zoneWords } from "./format.js";
import { follow } from "./live.js";

const VIEWS = {
  overview: { module: "./overview.js", title: "Overview" },
  sensor: { module: "./sensor.js", title: "Sensor" },
  station: { module: "./station.js", title: "Station" },
  faults: { module: "./faults.js", title: "Faults" },
  calibration: { module: "./calibration.js", title: "Calibration" },
};
const byId = (id) => document.getElementById(id);
const main = byId("main");

let network = null;
let shown = null;
let controller = new AbortController();
let lost = null;
let messageTimer = 0;

function route() {
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
  clearTimeout(messageTimer);
  const box = byId("message");
  box.replaceChildren(element("p", { class: kind === "error" ? "message-line message-error" : "message-line" }, line));
  messageTimer = setTimeout(() => box.replaceChildren(), kind === "error" ? 10_000 : 5_000);
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
  controller.abort();
  controller = new AbortController();
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

/** Show the view that the address names; `moved` where the user went there, so that the focus goes along. */
async function navigate(moved = true) {
  leave();
  const { name, params } = route();
  const { signal } = controller;
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
    update(latest);
    title(view.title);
    const context = {
      get network() { return network; },
      get: (path, given = {}, own = undefined) => get(path, given, own ? AbortSignal.any([own, signal]) : signal),
      post: (path, body) => post(path, body, signal),
      go: (hash) => { location.hash = hash; },
      address, load, remember, say, title, signal,
    };
    const mounted = await module.show(root, params, context);
    if (signal.aborted) {
      mounted?.close?.();
      return;
    }
    shown = mounted;
    main.dataset.ready = "true";
    const offset = history.state?.y;
    if (moved && offset) scrollTo(0, offset);
  } catch (error) {
    if (signal.aborted || isAborted(error)) return;
    if (error.status === undefined) console.error(error);
    root.replaceChildren(failure(`This could not be shown: ${error.message}.`, again));
    main.dataset.ready = "failed";
  } finally {
    if (!signal.aborted) main.removeAttribute("aria-busy");
  }
}

/** Show a new answer of /api/network in the header. */
function update(latest) {
  network = latest;
  byId("network-name").textContent = latest.name || "sensormend";
  byId("logout").hidden = !access.login;
  showLive();
}

/** The footer says which times are shown; where this browser's zone is UTC, there is nothing to choose. */
function showZone() {
  byId("zone-words").textContent = isLocal() ? `Times are those of ${localZone}.`
    : "Times are UTC; those that came without a zone are shown as they came.";
  byId("zone").textContent = isLocal() ? "Show them as stored" : `Show those of ${localZone}`;
  byId("zone").hidden = ["UTC", "Etc/UTC"].includes(localZone) && !isLocal();
}

// A feed of another day, such as a replay, says which.
function networkTime(reached) {
  return Math.abs(Date.now() - Date.parse(reached)) < 20 * 3600e3 ? clock(reached) : time(reached);
}

function liveState() {
  if (lost !== null) return ["lost", "connection lost, trying again"];
  if (network === null) return ["waiting", "connecting"];
  if (network.live) return ["live", network.reached ? `live, ${networkTime(network.reached)} network time` : "live"];
  if (!network.first) return ["still", "nothing in it yet"];
  // Not shown as a finished archive: users may expect that the watch still runs.
  if (network.command === "watch") return ["still", `watch finished, readings to ${time(network.heard ?? network.last)}`];
  return ["still", `finished archive, ${day(network.first)} to ${day(network.last)}`];
}

function showLive() {
  const [kind, words] = liveState();
  byId("live").dataset.live = kind;
  // The line is read aloud when it changes: only a new state is news, each new minute is not.
  byId("live").setAttribute("aria-live", kind === "live" ? "off" : "polite");
  if (byId("live-words").textContent !== words) byId("live-words").textContent = words;
  byId("live").title = network?.reached && network.live ? `the network's clock is at ${day(network.reached)}, ${clock(network.reached)}${zoneWords()}` : "";
}

async function refresh(what) {
  try {
    update(await get("network"));
  } catch {
    return;
  }
  const view = shown;
  try {
    if (view) await view.changed?.(what, network);
    else if (main.dataset.ready === "failed") await navigate(false);
  } catch (error) {
    if (isAborted(error) || view !== shown) return;
    if (error.status === undefined) console.error(error);
    say(`Not up to date: ${error.message}.`, "error");
  }
}

function listen() {
  const banner = byId("banner");
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
      showLive();
    },
    back() {
      lost = null;
      banner.hidden = true;
      banner.replaceChildren();
      showLive();
      say("The connection is back.");
      live.refresh();
    },
    // An event stream does not tell why it was refused; any other request leads to the login where that is needed.
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
  byId("skip").addEventListener("click", (event) => {
    event.preventDefault();
    main.focus();
    main.scrollIntoView();
  });
  const toggle = byId("theme");
  const showTheme = () => toggle.setAttribute("aria-pressed", String(document.documentElement.dataset.theme === "dark"));
  document.addEventListener("themechange", showTheme);
  toggle.addEventListener("click", () => document.dispatchEvent(new CustomEvent("themetoggle")));
  showTheme();
  showZone();
  byId("zone").addEventListener("click", () => {
    setLocal(!isLocal());
    showZone();
    showLive();
    navigate(false);
  });
  search(byId("find"), { get, go: (hash) => { location.hash = hash; } });
  navigate(false);
  listen();
}

start();
