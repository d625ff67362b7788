// What the reasons and flags are called on the page.

const REASONS = {
  stuck: "stuck at one value",
  noise: "too noisy",
  drift: "drifting away",
  offset: "shifted by an offset",
  gain: "swings wrong (gain)",
  implausible: "implausible values",
  outlier: "outlier of the network",
  spike: "wild reading",
  silent: "silent",
  alone: "no similar sensor to compare with",
};

// The states of a sensor, in the order in which they are listed.
export const CHANNEL_STATES = ["healthy", "faulty", "silent", "suspect", "recovering", "learning", "ended"];

const FLAGS = { 1: "good", 2: "not evaluated", 3: "suspect", 4: "faulty", 9: "missing" };

export function plainReason(reason) {
  return REASONS[reason] ?? reason;
}

export function flagWord(flag) {
  return FLAGS[flag] ?? "unknown";
}

// A single reading has its own limit; its score does not tell how far past that it is.
export function hasBar(fault) {
  return fault.score !== null && !(fault.reason === "spike" && fault.score <= 1);
}

export function sureWords(fault) {
  if (fault.reason === "silent") return "nothing came";
  return hasBar(fault) ? fault.sure : "past its limit";
}

// Whether no sensor of a network can be judged yet: then a list without faults has no meaning.
export function nothingJudged(network) {
  return network.sensors > 0 && network.states.learning === network.sensors;
}
