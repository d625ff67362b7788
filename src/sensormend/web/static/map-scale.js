// Values as colours: ColorBrewer's RdYlBu turned around, light in the middle and apart for every kind of colour blindness.

const STOPS = ["#313695", "#4575b4", "#74add1", "#abd9e9", "#e0f3f8", "#ffffbf", "#fee090", "#fdae61", "#f46d43", "#d73027", "#a50026"];
const LEVELS = 96;
const CODES = STOPS.map((stop) => [1, 3, 5].map((at) => Number.parseInt(stop.slice(at, at + 2), 16)));
const TABLE = Array.from({ length: LEVELS }, (_, level) => {
  const place = (level / (LEVELS - 1)) * (CODES.length - 1);
  const at = Math.min(Math.floor(place), CODES.length - 2);
  const mixed = CODES[at].map((code, part) => Math.round(code + (CODES[at + 1][part] - code) * (place - at)));
  return `rgb(${mixed.join(" ")})`;
});

export const GRADIENT = `linear-gradient(90deg, ${STOPS.join(", ")})`;

// What lies past an end takes the colour of the end.
export function shade(value, low, high) {
  const share = high > low ? (value - low) / (high - low) : 0.5;
  return TABLE[Math.round(Math.min(Math.max(share, 0), 1) * (LEVELS - 1))];
}

export function ticks(low, high, count = 6) {
  if (!(high > low)) return [low];
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((factor) => factor * power >= rough) * power;
  const first = Math.ceil(low / step - 1e-9);
  const list = [];
  for (let at = first; at * step <= high + step * 1e-9; at += 1) list.push(Number((at * step).toPrecision(12)));
  return list;
}
