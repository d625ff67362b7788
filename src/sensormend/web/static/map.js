// The network on a map at any hour: raw beside cleaned, with a slider over time.
import { element, iso, unix } from "./elements.js";
import { interval, moment as instant, sensorLink, time, value, whole, zoneWords } from "./format.js";
import { makeMoments } from "./map-moments.js";
import { SIDES, layOut, paintLegend } from "./map-layout.js";
import { inOrder, makePainter, prepare } from "./map-paint.js";
import { ticks } from "./map-scale.js";
import { calm, perFrame } from "./pace.js";
import { onTheme } from "./palette.js";

const DAY = 86400;

/** Put the map into `root`, at a time: by default that of the address, else the newest. */
export async function mountMap(root, context, at = new URLSearchParams(location.hash.split("?")[1] ?? "").get("time")) {
  const { network } = context;
  const known = context.get("places", {});
  if (!network.first) return {};
  const step = network.step || 3600, start = unix(network.first);
  let end = unix(network.heard ?? network.last), variable = network.variables[0] ?? "";
  const lastPosition = () => Math.max(0, Math.round((end - start) / step));
  const linked = instant(at);
  let position = linked ? clamp(Math.round((linked / 1000 - start) / step)) : lastPosition();
  let moment = null, chosen = null, playing = 0, touched = false;
  const places = prepare(await known);

  const page = layOut(places, network);
  root.replaceChildren(page.head, page.bar, page.maps, page.under, page.note);
  page.choose?.addEventListener("change", () => {
    variable = page.choose.value;
    moments.forget();
    seek(position);
  });
  const painters = page.canvases.map((canvas) => makePainter(canvas, places));
  const paintNow = () => {
    if (moment) painters.forEach((painter, at) => painter.draw(moment, SIDES[at][0], chosen));
  };
  const paint = perFrame(paintNow);
  addEventListener("beforeprint", paintNow);

  const moments = makeMoments(
    (at, signal) => context.get("moment", { time: iso(at), variable }, signal),
    (at, answer) => {
      if (at !== start + position * step && !page.slider.matches(":active")) return;
      moment = inOrder(answer, places);
      root.dataset.time = answer.time;
      paint();
      describe();
      if (chosen !== null) showTip();
      if (playing) planNext();
      drawn?.();
    },
    (error) => {
      pause();
      page.line.textContent = `This moment could not be read: ${error.message}.`;
      drawn?.();
    },
  );
  let drawn = null;

  function clamp(at) {
    return Math.min(Math.max(at, 0), lastPosition());
  }

  const timeText = () => iso(start + position * step).slice(0, 16).replace("T", " ");

  const remember = calm(() => context.remember({ time: position === lastPosition() ? "" : iso(start + position * step) }), 200);

  function seek(at, keep = true) {
    position = clamp(at);
    page.slider.max = String(lastPosition());
    page.slider.value = String(position);
    page.slider.setAttribute("aria-valuetext", `${time(start + position * step)}${zoneWords()}`);
    if (document.activeElement !== page.when || keep) page.when.value = timeText();
    moments.want(start + position * step);
    if (keep) remember();
  }

  function describe() {
    const count = (state) => moment.state.filter((one) => one === state).length;
    const missing = moment.value.filter((one) => one === null).length;
    const words = [
      `${count("faulty")} faulty`, `${count("silent")} silent`,
      count("suspect") ? `${count("suspect")} suspect` : "", `raw missing at ${whole(missing)}`,
    ].filter(Boolean).join(", ");
    page.line.replaceChildren(element("strong", { text: `${time(moment.time)}${zoneWords()}` }), `: ${words}`,
      ...(moment.provisional ? [" ", element("span", { class: "provisional-word", text: "provisional, may still change" })] : []));
    page.maps.classList.toggle("is-provisional", moment.provisional);
    const unit = network.units[variable] ?? "";
    page.scale.replaceChildren(...ticks(moment.low, moment.high, page.bar.clientWidth < 480 ? 4 : 7).map((tick, at) => {
      const mark = element("span", { class: "tick", text: at || !unit ? value(tick) : `${value(tick)}\u00a0${unit}` });
      mark.style.left = `${moment.high > moment.low ? ((tick - moment.low) / (moment.high - moment.low)) * 100 : 50}%`;
      return mark;
    }));
  }

  // Playing: the next moment a little after this one is drawn, slower for those who want less motion.
  const pace = () => (matchMedia("(prefers-reduced-motion: reduce)").matches ? 1000 : 110);
  function planNext() {
    clearTimeout(playing);
    playing = setTimeout(() => {
      if (position >= lastPosition()) pause();
      else seek(position + 1);
    }, pace());
  }
  function play() {
    page.play.setAttribute("aria-label", "pause");
    page.play.textContent = "❚❚";
    page.play.dataset.playing = "true";
    playing = -1;
    seek(position >= lastPosition() ? 0 : position + 1);
  }
  function pause() {
    clearTimeout(playing);
    playing = 0;
    page.play.setAttribute("aria-label", "play");
    page.play.textContent = "▶";
    page.play.dataset.playing = "false";
  }
  const move = (by) => {
    pause();
    seek(position + by);
  };
  const perDay = Math.max(1, Math.round(DAY / step));
  page.play.addEventListener("click", () => (playing ? pause() : play()));
  page.back.addEventListener("click", () => move(-1));
  page.forth.addEventListener("click", () => move(1));
  page.backDay.addEventListener("click", () => move(-perDay));
  page.forthDay.addEventListener("click", () => move(perDay));
  page.slider.addEventListener("input", () => {
    pause();
    seek(Number(page.slider.value));
  });
  page.slider.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1, ArrowDown: -1, ArrowUp: 1, PageDown: -perDay, PageUp: perDay }[event.key];
    if (!by) return;
    event.preventDefault();
    move(Math.abs(by) === 1 && event.shiftKey ? by * perDay : by);
  });
  page.when.addEventListener("change", () => {
    const at = instant(page.when.value.trim().replace(/Z?$/i, "").replace(/\s+/, "T"));
    if (at) return move(Math.round((at / 1000 - start) / step) - position);
    if (page.when.value) context.say(`"${page.when.value}" is not a time; write it as ${timeText()}.`, "error");
    page.when.value = timeText();
    return undefined;
  });

  // Which sensor is meant: a cell is the part nearest to its sensor, so the nearest one it is.
  function nearestTo(x, y) {
    let best = null, least = Infinity;
    places.sensors.forEach((sensor, at) => {
      const far = (sensor.x - x) ** 2 + (sensor.y - y) ** 2;
      if (far < least) [best, least] = [at, far];
    });
    return best;
  }
  function pick(at, canvas = null) {
    if (chosen === at && (at === null || canvas === shownOn)) return;
    chosen = at;
    shownOn = canvas ?? shownOn ?? page.canvases[1];
    paint();
    showTip();
  }
  let shownOn = null;

  function showTip() {
    page.tip.hidden = chosen === null || !moment;
    if (page.tip.hidden) return;
    const { sensor, x, y } = places.sensors[chosen];
    const state = moment.state[chosen], reason = moment.reason[chosen];
    const facts = [["raw", value(moment.value[chosen], 4, "nothing came")], ["cleaned", value(moment.cleaned[chosen], 4, "unknown")],
      ["interval", interval(moment.lower[chosen], moment.upper[chosen])], ["state", state + (reason && reason !== state ? `, ${reason}` : "")]];
    page.tip.replaceChildren(element("strong", { text: sensor }),
      ...facts.map(([name, text]) => element("span", { class: "tip-fact" }, element("span", { class: "quiet", text: name }), text)),
      ...(touched ? [element("span", { class: "quiet", text: "tap again to open" })] : []));
    const canvas = shownOn ?? page.canvases[1];
    const frame = page.maps.getBoundingClientRect(), box = canvas.getBoundingClientRect();
    const left = box.left - frame.left + x * box.width, top = box.top - frame.top + y * box.width;
    const wide = page.tip.offsetWidth, high = page.tip.offsetHeight;
    page.tip.style.left = `${Math.min(Math.max(left + 14 + wide > frame.width ? left - wide - 14 : left + 14, 0), Math.max(frame.width - wide, 0))}px`;
    page.tip.style.top = `${top + 12 + high > frame.height ? top - high - 12 : top + 12}px`;
    if (page.maps.contains(document.activeElement)) page.aloud.textContent = `${sensor}: ${facts.map((fact) => fact.join(" ")).join(", ")}`;
  }

  // The newest moment leads to the newest readings, another one to those around it.
  const open = (at) => {
    const now = start + position * step;
    const around = position === lastPosition() ? {} : { from: iso(Math.max(start, now - 7 * DAY)), to: iso(Math.min(end + step, now + 7 * DAY)) };
    context.go(sensorLink(places.sensors[at].sensor, variable, around));
  };
  const under = (event, canvas) => {
    const box = canvas.getBoundingClientRect();
    return nearestTo((event.clientX - box.left) / box.width, (event.clientY - box.top) / box.width);
  };
  for (const canvas of page.canvases) {
    canvas.addEventListener("pointermove", (event) => {
      if (event.pointerType === "touch") return;
      touched = false;
      pick(under(event, canvas), canvas);
    });
    canvas.addEventListener("pointerleave", (event) => event.pointerType !== "touch" && pick(null));
    canvas.addEventListener("pointerdown", (event) => {
      canvas.dataset.by = event.pointerType;
    });
    canvas.addEventListener("click", (event) => {
      const at = under(event, canvas);
      if (canvas.dataset.by !== "touch" || at === chosen) return open(at);
      touched = true;
      return pick(at, canvas);
    });
  }
  page.focus.addEventListener("keydown", (event) => {
    const way = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    touched = false;
    if (way) pick(chosen === null ? nearestTo(0.5, places.height / 2) : towards(places.sensors, chosen, way), page.canvases[1]);
    else if (event.key === "Enter" && chosen !== null) open(chosen);
    else if (event.key === "Escape") pick(null);
    else return;
    event.preventDefault();
  });
  page.focus.addEventListener("blur", () => pick(null));

  const legends = () => {
    for (const canvas of page.legendMarks) paintLegend(canvas);
  };
  const resized = new ResizeObserver(paint);
  resized.observe(page.maps);
  const themed = onTheme(() => {
    paint();
    legends();
  });
  legends();
  const first = new Promise((done) => {
    drawn = done;
  });
  seek(position, false);
  await first;
  drawn = null;

  return {
    async changed(what, latest) {
      if (!what.some((one) => ["rows", "provisional", "all"].includes(one)) || !latest.last) return;
      const newest = position === lastPosition();
      end = unix(latest.heard ?? latest.last);
      moments.forget();
      // Playing goes its own way; what it shows next is fresh.
      if (!playing) seek(newest ? lastPosition() : position, false);
    },
    close() {
      removeEventListener("beforeprint", paintNow);
      pause();
      remember.cancel();
      moments.close();
      resized.disconnect();
      themed();
    },
  };
}

// The next sensor in a direction: straight ahead counts once, aside twice.
function towards(sensors, from, [right, down]) {
  let best = from, least = Infinity;
  sensors.forEach((sensor, at) => {
    const x = sensor.x - sensors[from].x, y = sensor.y - sensors[from].y;
    const ahead = x * right + y * down, aside = Math.abs(x * down) + Math.abs(y * right);
    if (at === from || ahead <= 1e-9) return;
    if (ahead + 2 * aside < least) [best, least] = [at, ahead + 2 * aside];
  });
  return best;
}
