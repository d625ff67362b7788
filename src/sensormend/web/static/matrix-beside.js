// All rows of the health matrix squeezed beside it: where the trouble is, and a scrollbar.

import { element } from "./elements.js";
import { AXIS, paintAll } from "./matrix-paint.js";

export const BESIDE = 40;

/** Return `{element, paint(data, view, ink), follow(data, view)}` for what scrolls in `scroller`. */
export function beside(scroller) {
  const picture = element("canvas", { class: "matrix-mini" });
  const pane = element("div", { class: "matrix-window" });
  // Whoever uses keys or listens has the same in the matrix itself.
  const made = element("div", { class: "matrix-beside", "aria-hidden": "true" }, picture, pane);

  const drag = (event) => {
    const frame = picture.getBoundingClientRect();
    const middle = ((event.clientY - frame.top) / frame.height) * (scroller.scrollHeight - AXIS);
    scroller.scrollTop = middle - (scroller.clientHeight - AXIS) / 2;
  };
  made.addEventListener("pointerdown", (event) => {
    event.preventDefault();
    made.setPointerCapture(event.pointerId);
    drag(event);
  });
  made.addEventListener("pointermove", (event) => { if (made.hasPointerCapture(event.pointerId)) drag(event); });
  made.addEventListener("wheel", (event) => {
    scroller.scrollTop += event.deltaY;
    event.preventDefault();
  }, { passive: false });

  return {
    element: made,
    paint: (data, view, ink) => paintAll(picture, data, BESIDE, view.height - AXIS, ink),
    follow(data, view) {
      const [seen, all] = [view.height - AXIS, data.total * view.row];
      pane.style.top = `${(AXIS + (view.top / all) * seen).toFixed(1)}px`;
      pane.style.height = `${Math.max(8, (seen * seen) / all).toFixed(1)}px`;
    },
  };
}
