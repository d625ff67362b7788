// The colours and marks of the page, read from the style sheet, for those who draw.

import { element } from "./elements.js";

export const STATES = ["healthy", "filled", "suspect", "faulty", "silent", "not evaluated", "nothing"];

const slug = (word) => word.replaceAll(" ", "-");

/** Return a colour of the style sheet by its name: `colour("ink")` is `--ink`. */
export function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

export const stateColour = (state) => colour(`state-${slug(state)}`);

/** The ink in which a state's word is written. */
export const stateInk = (state) => colour(`ink-${slug(state)}`) || colour("ink");

/** The small square that stands for a state: a colour and a mark, so that neither is needed alone. */
export function mark(state) {
  return element("span", { class: `mark mark-${slug(state)}`, "aria-hidden": "true" });
}

/** A state in words, with its mark. */
export function chip(state, words = state) {
  return element("span", { class: `chip chip-${slug(state)}` }, mark(state), words);
}

/** Call `act` whenever light turns dark or back; returns a function that stops it. */
export function onTheme(act) {
  const listener = () => act(document.documentElement.dataset.theme);
  document.addEventListener("themechange", listener);
  return () => document.removeEventListener("themechange", listener);
}

/**
 * Return the fillings that are laid over cells on a canvas: `faulty` is its stripes, `provisional` the hatching of what
 * may still change.
 */
export function patterns(context, ratio) {
  const tile = (width, height, draw) => {
    const canvas = new OffscreenCanvas(Math.round(width * ratio), Math.round(height * ratio));
    const pen = canvas.getContext("2d");
    pen.scale(canvas.width / width, canvas.height / height);
    draw(pen);
    const pattern = context.createPattern(canvas, "repeat");
    // The context is scaled by the ratio, the tile is already in device pixels.
    pattern.setTransform(new DOMMatrix().scale(width / canvas.width, height / canvas.height));
    return pattern;
  };
  const stripes = (ink, lean, strength) => (pen) => {
    pen.strokeStyle = ink;
    pen.lineWidth = strength;
    for (const shift of [-6, 0, 6]) {
      pen.beginPath();
      pen.moveTo(shift, lean ? 6 : 0);
      pen.lineTo(shift + 6, lean ? 0 : 6);
      pen.stroke();
    }
  };
  return {
    faulty: tile(6, 6, stripes(colour("mark-faulty"), true, 1.2)),
    provisional: tile(6, 6, stripes(colour("mark-provisional"), false, 1.6)),
  };
}
