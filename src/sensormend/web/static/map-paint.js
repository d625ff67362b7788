// A map on a canvas: cells in the colour of their value, and marks for those in trouble.
import { colour } from "./palette.js";
import { shade } from "./map-scale.js";

// The colours of the cells are the same on a light and on a dark page, and so are the marks on them.
const INK = "#1f2933", HALO = "#ffffff";
const HATCH = { ground: "#2b3038", line: "#77818c" };

export function prepare(places) {
  const members = places.cells.map(() => []);
  places.sensors.forEach((sensor, at) => members[sensor.cell]?.push(at));
  return { ...places, members, index: new Map(places.sensors.map((sensor, at) => [sensor.sensor, at])) };
}

// The moment's columns in the order of the places; a place the moment does not know has nothing.
export function inOrder(moment, places) {
  const rowOf = new Map(moment.sensor.map((name, at) => [name, at]));
  const of = (column, absent) => places.sensors.map(({ sensor }) => {
    const at = rowOf.get(sensor);
    return at === undefined ? absent : column[at];
  });
  return {
    ...moment, value: of(moment.value, null), cleaned: of(moment.cleaned, null), lower: of(moment.lower, null),
    upper: of(moment.upper, null), state: of(moment.state, "nothing"), reason: of(moment.reason, ""),
  };
}

export function makePainter(canvas, places) {
  const pen = canvas.getContext("2d");
  let width = 0, cells = [], edges = null, hatch = null;

  function fit() {
    const now = canvas.clientWidth;
    if (!now) return false;
    const ratio = devicePixelRatio;
    if (now === width && canvas.width === Math.round(now * ratio)) return true;
    width = now;
    canvas.width = Math.round(now * ratio);
    canvas.height = Math.round(now * places.height * ratio);
    edges = new Path2D();
    cells = places.cells.map((corners) => {
      const cell = new Path2D();
      for (let at = 0; at < corners.length; at += 2) {
        const x = corners[at] * width, y = corners[at + 1] * width;
        if (at) cell.lineTo(x, y);
        else cell.moveTo(x, y);
      }
      cell.closePath();
      edges.addPath(cell);
      return cell;
    });
    hatch = hatching(pen, ratio);
    return true;
  }

  function draw(moment, column, chosen) {
    if (!fit()) return;
    pen.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
    pen.clearRect(0, 0, width, width * places.height);
    const values = moment[column];
    cells.forEach((cell, at) => {
      const own = places.members[at].find((sensor) => values[sensor] !== null);
      pen.fillStyle = own === undefined ? hatch : shade(values[own], moment.low, moment.high);
      pen.fill(cell);
    });
    const many = places.sensors.length > 400;
    pen.strokeStyle = colour("page");
    pen.globalAlpha = many ? 0.5 : 0.85;
    pen.lineWidth = many ? 0.5 : 1;
    pen.stroke(edges);
    pen.globalAlpha = 1;
    marks(moment, values, many);
    if (chosen !== null) {
      outline(cells[places.sensors[chosen].cell]);
    }
  }

  function marks(moment, values, many) {
    const size = Math.min(7, Math.max(3, (width / Math.sqrt(places.sensors.length)) * 0.14));
    places.sensors.forEach((sensor, at) => {
      const x = sensor.x * width, y = sensor.y * width;
      const state = moment.state[at];
      if (state === "faulty" || state === "suspect" || state === "silent") drawMark(pen, state, x, y, size);
      else if (!many || width > 700) {
        pen.fillStyle = values[at] === null ? HALO : INK;
        pen.globalAlpha = 0.75;
        pen.beginPath();
        pen.arc(x, y, many ? 0.8 : 1.5, 0, 7);
        pen.fill();
        pen.globalAlpha = 1;
      }
    });
  }

  function outline(cell) {
    if (!cell) return;
    pen.lineJoin = "round";
    for (const [ink, strength] of [[HALO, 5], [INK, 2.5]]) {
      pen.strokeStyle = ink;
      pen.lineWidth = strength;
      pen.stroke(cell);
    }
  }

  return { draw };
}

// A ring for faulty, a dotted ring for suspect, a cross for silent; white under each, for any ground.
export function drawMark(pen, state, x, y, size) {
  const dot = () => {
    pen.fillStyle = INK;
    pen.beginPath();
    pen.arc(x, y, size * 0.3, 0, 7);
    pen.fill();
  };
  const path = new Path2D();
  if (state === "silent") {
    const arm = size * 0.8;
    path.moveTo(x - arm, y - arm);
    path.lineTo(x + arm, y + arm);
    path.moveTo(x + arm, y - arm);
    path.lineTo(x - arm, y + arm);
  } else path.arc(x, y, size, 0, 7);
  pen.lineCap = "round";
  for (const [ink, strength] of [[HALO, size * 0.75], [INK, size * 0.34]]) {
    pen.setLineDash(state === "suspect" && ink === INK ? [0.1, size * 0.62] : []);
    pen.strokeStyle = ink;
    pen.lineWidth = strength;
    pen.stroke(path);
  }
  pen.setLineDash([]);
  if (state !== "silent") dot();
}

function hatching(pen, ratio) {
  const side = Math.round(7 * ratio);
  const tile = new OffscreenCanvas(side, side);
  const brush = tile.getContext("2d");
  paintHatch(brush, side);
  const pattern = pen.createPattern(tile, "repeat");
  pattern.setTransform(new DOMMatrix().scale(1 / ratio));
  return pattern;
}

export function paintHatch(brush, side) {
  brush.fillStyle = HATCH.ground;
  brush.fillRect(0, 0, side, side);
  brush.strokeStyle = HATCH.line;
  brush.lineWidth = side / 7;
  for (const shift of [-side, 0, side]) {
    brush.beginPath();
    brush.moveTo(shift, side);
    brush.lineTo(shift + side, 0);
    brush.stroke();
  }
}
