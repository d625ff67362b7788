// The network at each moment: one request at a time, for the latest moment wanted, with the last answers cached.
import { isAborted } from "./elements.js";

const MAX_CACHED = 200;
// Milliseconds that an older request may take to finish, so that a moving slider shows something on its way.
const ABORT_AFTER = 300;

export function makeMoments(request, show, failed) {
  const cache = new Map();
  let running = null, wanted = null;

  function want(time) {
    const cached = cache.get(time);
    if (cached) {
      wanted = null;
      cache.delete(time);
      cache.set(time, cached);
      show(time, cached);
      return;
    }
    wanted = time;
    if (running && performance.now() - running.since > ABORT_AFTER) running.control.abort();
    else if (!running) next();
  }

  async function next() {
    if (wanted === null) return;
    const time = wanted;
    wanted = null;
    running = { control: new AbortController(), since: performance.now() };
    try {
      const answer = await request(time, running.control.signal);
      cache.set(time, answer);
      if (cache.size > MAX_CACHED) cache.delete(cache.keys().next().value);
      show(time, answer);
    } catch (error) {
      if (!isAborted(error)) failed(error);
    } finally {
      running = null;
      next();
    }
  }

  return {
    want,
    forget: () => cache.clear(),
    close() {
      wanted = null;
      running?.control.abort();
    },
  };
}
