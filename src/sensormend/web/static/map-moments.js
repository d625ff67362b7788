// What the network was like at each moment: one question at a time, the newest wish first, the last answers kept.
import { isQuiet } from "./elements.js";

const KEPT = 200;
// An older question is let finish for so long, so that a moving slider shows something on its way.
const PATIENCE = 300;

export function makeMoments(ask, arrived, failed) {
  const known = new Map();
  let running = null, wanted = null;

  function want(time) {
    const kept = known.get(time);
    if (kept) {
      wanted = null;
      known.delete(time);
      known.set(time, kept);
      arrived(time, kept);
      return;
    }
    wanted = time;
    if (running && performance.now() - running.since > PATIENCE) running.control.abort();
    else if (!running) next();
  }

  async function next() {
    if (wanted === null) return;
    const time = wanted;
    wanted = null;
    running = { control: new AbortController(), since: performance.now() };
    try {
      const answer = await ask(time, running.control.signal);
      known.set(time, answer);
      if (known.size > KEPT) known.delete(known.keys().next().value);
      arrived(time, answer);
    } catch (error) {
      if (!isQuiet(error)) failed(error);
    } finally {
      running = null;
      next();
    }
  }

  return {
    want,
    forget: () => known.clear(),
    close() {
      wanted = null;
      running?.control.abort();
    },
  };
}
