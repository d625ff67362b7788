// What the server says by itself: that something changed, or (by silence) that it cannot be reached.

const SILENCE = 30_000;
const EVERY = 1_000;
const LONGEST_WAIT = 15_000;

/**
 * Follow the server's events; returns `{refresh(what), retry(), close()}`.
 *
 * `changed(what)` is called at most once a second and never while an earlier call is still at work; `lost(since)` once
 * when the connection goes, `back()` when it is there again, `refused()` whenever the server turned it down.
 */
export function follow(url, { changed, lost, back, refused }) {
  let source = null;
  let wait = 1_000;
  let gone = null;
  let retry = 0;
  let silence = 0;
  const pending = new Set();
  let refreshing = false;
  let last = -Infinity;
  let timer = 0;

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
    source.addEventListener("hello", arrived);
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
  const atOnce = () => {
    plan();
    if (gone === null || document.hidden) return;
    wait = 1_000;
    source?.close();
    connect();
  };

  // A phone that wakes up, or a network that is back, need not wait for the next try.
  addEventListener("online", atOnce);
  document.addEventListener("visibilitychange", atOnce);
  connect();
  return {
    /** Have everything read again, as after an event. */
    refresh(what = ["all"]) { for (const one of what) pending.add(one); plan(); },
    retry: atOnce,
    close() {
      removeEventListener("online", atOnce);
      document.removeEventListener("visibilitychange", atOnce);
      for (const one of [timer, retry, silence]) clearTimeout(one);
      source?.close();
    },
  };
}
