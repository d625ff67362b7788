// What flags and states are called on the page; reasons are called what they are in the tables.

// The states of a sensor, in the order in which they are listed.
export const CHANNEL_STATES = ["healthy", "faulty", "silent", "suspect", "recovering", "learning", "ended"];

const FLAGS = { 1: "good", 2: "not evaluated", 3: "suspect", 4: "faulty", 9: "missing" };

export function flagWord(flag) {
  return FLAGS[flag] ?? "unknown";
}

/** How full the bar beside these words is: by the share of such faults that owners confirm, or else by its score, up to ten times the limit. */
export function sureShare({ confidence, score }) {
  const share = confidence ?? Math.log10(score);
  return Math.min(Math.max(share, 0.08), 1);
}

// Impossible readings have limits of their own; a score of 1 does not tell how far past these they are.
export function hasBar(fault) {
  if (!fault.sure) return false;
  return fault.confidence !== null || (fault.score !== null && !(fault.reason === "implausible" && fault.score <= 1));
}

export function sureWords(fault) {
  if (fault.reason === "silent") return "nothing came";
  return fault.sure || "past its limit";
}

/** What is said of a fault that lasts: in an archive it does so until the readings end. */
export function lastingWords(network) {
  return network.command === "clean" ? "to the end" : "still going on";
}

// Whether no sensor of a network can be judged yet: then a list without faults has no meaning.
export function nothingJudged(network) {
  return network.states.learning === network.sensors;
}
