// What the server says by itself: that something changed, or (by silence) that it cannot be reached.

const SILENCE = 30_000;
const EVERY = 1_000;
const LONGEST_WAIT = 15_000;
// A browser has six connections to a server for all of its tabs: one that nobody looks at gives its own back.
const UNSEEN = 2_000;

/**
 * Follow the server's events; returns `{refresh(), retry()}`.
 *
 * `changed(what)` is called at most once a second and never while an earlier call is still at work; `lost(since)` once
 * when the connection goes, `back()` when it is there again, `refused()` whenever the server turned it down. `version()` is
 * the one that is shown: where the server greets with another, something changed while nobody listened.
 */
export function follow(url, { changed, lost, back, refused, version }) {
  let source = null;
  let wait = 1_000;
  let gone = null;
  let retry = 0;
  let silence = 0;
  const pending = new Set();
  let refreshing = false;
  let last = -Infinity;
  let timer = 0;
  let unseen = 0;
  let paused = false;

  const heard = () => {
    clearTimeout(silence);
    silence = setTimeout(() => fail(), SILENCE);
  };
  const arrived = () => {
    heard();
    wait = 1_000;
    if (gone !== null) {
      gone = null;
      back();
    }
  };
  const fail = () => {
    if (gone === null) {
      gone = Date.now();
      lost(gone);
    }
    clearTimeout(silence);
    clearTimeout(retry);
    source?.close();
    retry = setTimeout(connect, wait);
    wait = Math.min(wait * 2, LONGEST_WAIT);
    refused?.();
  };
  const connect = () => {
    clearTimeout(retry);
    source = new EventSource(url);
    heard();
    source.addEventListener("hello", (event) => {
      arrived();
      const [here, there] = [version(), JSON.parse(event.data).version];
      if (here !== undefined && here !== there) refresh();
    });
    source.addEventListener("ping", arrived);
    source.addEventListener("changed", (event) => {
      arrived();
      let what = ["all"];
      try { what = JSON.parse(event.data).what ?? what; } catch { /* an unreadable event still says that something changed */ }
      for (const one of what) pending.add(one);
      plan();
    });
    source.onerror = fail;
  };
  const plan = () => {
    // A page that nobody sees need not be up to date.
    if (timer || refreshing || !pending.size || document.hidden) return;
    timer = setTimeout(async () => {
      timer = 0;
      const what = [...pending];
      pending.clear();
      refreshing = true;
      last = performance.now();
      try { await changed(what); } finally { refreshing = false; }
      plan();
    }, Math.max(0, last + EVERY - performance.now()));
  };
  const refresh = () => {
    pending.add("all");
    plan();
  };
  const atOnce = () => {
    plan();
    if ((gone === null && !paused) || document.hidden) return;
    if (paused) refresh();
    paused = false;
    wait = 1_000;
    source?.close();
    connect();
  };
  const seen = () => {
    clearTimeout(unseen);
    if (document.hidden) unseen = setTimeout(pause, UNSEEN);
    else atOnce();
  };
  const pause = () => {
    paused = true;
    clearTimeout(silence);
    clearTimeout(retry);
    source?.close();
  };

  // A phone that wakes up, or a network that is back, need not wait for the next try.
  addEventListener("online", atOnce);
  document.addEventListener("visibilitychange", seen);
  connect();
  seen();
  /** `refresh` has everything read again, as after an event. */
  return { refresh, retry: atOnce };
}
