// Events of the server: something changed, or (without an event for too long) it cannot be reached.

const TIMEOUT = 30_000;
const MIN_INTERVAL = 1_000;
const LONGEST_WAIT = 15_000;
// A browser has six connections to a server for all of its tabs: a hidden tab closes its own.
const HIDDEN_DELAY = 2_000;

/**
 * Follow the server's events; returns `{refresh(), retry()}`.
 *
 * `changed(what)` is called at most once a second and never while an earlier call is still at work; `lost(since)` once
 * when the connection goes, `back()` when it is there again, `refused()` whenever the server turned it down. `version()` is
 * the one that is shown: where the server starts with another, something changed while there was no connection.
 */
export function follow(url, { changed, lost, back, refused, version }) {
  let source = null;
  let wait = 1_000;
  let lostSince = null;
  let retry = 0;
  let timeout = 0;
  const pending = new Set();
  let refreshing = false;
  let last = -Infinity;
  let timer = 0;
  let hiddenTimer = 0;
  let paused = false;

  const restartTimeout = () => {
    clearTimeout(timeout);
    timeout = setTimeout(() => fail(), TIMEOUT);
  };
  const received = () => {
    restartTimeout();
    wait = 1_000;
    if (lostSince !== null) {
      lostSince = null;
      back();
    }
  };
  const fail = () => {
    if (lostSince === null) {
      lostSince = Date.now();
      lost(lostSince);
    }
    clearTimeout(timeout);
    clearTimeout(retry);
    source?.close();
    retry = setTimeout(connect, wait);
    wait = Math.min(wait * 2, LONGEST_WAIT);
    refused?.();
  };
  const connect = () => {
    clearTimeout(retry);
    source = new EventSource(url);
    restartTimeout();
    source.addEventListener("hello", (event) => {
      received();
      const [shown, latest] = [version(), JSON.parse(event.data).version];
      if (shown !== undefined && shown !== latest) refresh();
    });
    source.addEventListener("ping", received);
    source.addEventListener("changed", (event) => {
      received();
      let what = ["all"];
      try { what = JSON.parse(event.data).what ?? what; } catch { /* an unreadable event still says that something changed */ }
      for (const one of what) pending.add(one);
      plan();
    });
    source.onerror = fail;
  };
  const plan = () => {
    // A hidden page need not be up to date.
    if (timer || refreshing || !pending.size || document.hidden) return;
    timer = setTimeout(async () => {
      timer = 0;
      const what = [...pending];
      pending.clear();
      refreshing = true;
      last = performance.now();
      try { await changed(what); } finally { refreshing = false; }
      plan();
    }, Math.max(0, last + MIN_INTERVAL - performance.now()));
  };
  const refresh = () => {
    pending.add("all");
    plan();
  };
  const reconnect = () => {
    plan();
    if ((lostSince === null && !paused) || document.hidden) return;
    if (paused) refresh();
    paused = false;
    wait = 1_000;
    source?.close();
    connect();
  };
  const visibilityChanged = () => {
    clearTimeout(hiddenTimer);
    if (document.hidden) hiddenTimer = setTimeout(pause, HIDDEN_DELAY);
    else reconnect();
  };
  const pause = () => {
    paused = true;
    clearTimeout(timeout);
    clearTimeout(retry);
    source?.close();
  };

  // A phone that wakes up, or a network that is back, need not wait for the next try.
  addEventListener("online", reconnect);
  document.addEventListener("visibilitychange", visibilityChanged);
  connect();
  visibilityChanged();
  /** `refresh` has everything read again, as after an event. */
  return { refresh, retry: reconnect };
}
