// Zoom and pan by wheel, drag, fingers and keys. `view` has range() and move(from, to).

export function zoomed({ from, to }, factor, around = (from + to) / 2) {
  return { from: around - (around - from) * factor, to: around + (to - around) * factor };
}

export function panned({ from, to }, share) {
  const by = (to - from) * share;
  return { from: from + by, to: to + by };
}

export function listenWheel(plot, view) {
  plot.over.addEventListener("wheel", (event) => {
    const { from, to } = view.range();
    const box = plot.over.getBoundingClientRect();
    const sideways = Math.abs(event.deltaX) > Math.abs(event.deltaY) || event.shiftKey;
    const turned = (sideways && event.deltaX) || event.deltaY;
    const lines = event.deltaMode === 1 ? 30 : 1;
    let wanted;
    if (sideways) wanted = panned({ from, to }, (turned * lines) / box.width);
    else {
      const around = from + ((event.clientX - box.left) / box.width) * (to - from);
      wanted = zoomed({ from, to }, Math.exp(Math.max(-1, Math.min(1, turned * lines * 0.0022))), around);
    }
    // Where all is shown already, the wheel scrolls the page as it does elsewhere.
    if (view.move(wanted.from, wanted.to)) event.preventDefault();
  }, { passive: false });
}

export function listenPan(plot, view) {
  const axis = plot.root.querySelector(".u-axis");
  const start = (event, target) => {
    const { from, to } = view.range();
    const width = plot.over.getBoundingClientRect().width;
    const x = event.clientX;
    event.preventDefault();
    event.stopImmediatePropagation();
    target.setPointerCapture?.(event.pointerId);
    const drag = (moved) => {
      const by = ((x - moved.clientX) / width) * (to - from);
      view.move(from + by, to + by);
    };
    const end = () => {
      target.removeEventListener("pointermove", drag);
      target.removeEventListener("pointerup", end);
      target.removeEventListener("pointercancel", end);
    };
    target.addEventListener("pointermove", drag);
    target.addEventListener("pointerup", end);
    target.addEventListener("pointercancel", end);
  };
  plot.over.addEventListener("pointerdown", (event) => {
    if (event.pointerType !== "touch" && event.shiftKey && event.button === 0) start(event, plot.over);
  });
  axis?.addEventListener("pointerdown", (event) => event.button === 0 && start(event, axis));
}

export function listenFingers(plot, view) {
  const fingers = new Map();
  let before = null;
  const mark = () => {
    const xs = [...fingers.values()];
    before = { ...view.range(), xs };
  };
  plot.over.addEventListener("pointerdown", (event) => {
    if (event.pointerType !== "touch") return;
    fingers.set(event.pointerId, event.clientX);
    mark();
  });
  plot.over.addEventListener("pointermove", (event) => {
    if (!fingers.has(event.pointerId)) return;
    fingers.set(event.pointerId, event.clientX);
    const box = plot.over.getBoundingClientRect();
    const { from, to, xs } = before;
    const now = [...fingers.values()];
    const at = (x) => from + ((x - box.left) / box.width) * (to - from);
    if (now.length === 1 && Math.abs(now[0] - xs[0]) > 6) {
      const by = at(xs[0]) - at(now[0]);
      view.move(from + by, to + by);
    } else if (now.length === 2 && Math.abs(now[0] - now[1]) > 10) {
      const length = ((to - from) * Math.abs(xs[0] - xs[1])) / Math.abs(now[0] - now[1]);
      const left = at((xs[0] + xs[1]) / 2) - (((now[0] + now[1]) / 2 - box.left) / box.width) * length;
      view.move(left, left + length);
    }
  });
  for (const name of ["pointerup", "pointercancel"]) {
    plot.over.addEventListener(name, (event) => {
      if (fingers.delete(event.pointerId)) mark();
    });
  }
}

const KEYS = {
  "+": (range) => zoomed(range, 0.5),
  "=": (range) => zoomed(range, 0.5),
  "-": (range) => zoomed(range, 2),
  ArrowLeft: (range) => panned(range, -0.25),
  ArrowRight: (range) => panned(range, 0.25),
};

// What a key does: a new range, or one of the view's own acts.
export function listenKeys(target, view) {
  target.addEventListener("keydown", (event) => {
    if (event.target !== target || event.ctrlKey || event.metaKey || event.altKey) return;
    const range = KEYS[event.key]?.(view.range());
    if (range) view.move(range.from, range.to);
    else if (event.key === "0") view.reset();
    else if (event.key === "," || event.key === ".") view.stepCursor(event.key === "," ? -1 : 1);
    else if (event.key === "Enter") view.why();
    else return;
    event.preventDefault();
  });
}
