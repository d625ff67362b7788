// Times, numbers and words as people write them. Times are shown as they are stored, which is UTC, or as they came where
// they came without a zone; or in the zone of this browser, where that was chosen.

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const two = (number) => String(number).padStart(2, "0");

/** Return a Date of ISO text, unix seconds or a Date; null where there is none. */
export function moment(value) {
  if (value === null || value === undefined || value === "") return null;
  // A text without a zone is UTC too, which a browser would read as its own.
  const text = typeof value === "string" && /\dT[\d:.]+$/.test(value) ? `${value}Z` : value;
  const date = value instanceof Date ? value : new Date(typeof value === "number" ? value * 1000 : text);
  return Number.isNaN(date.getTime()) ? null : date;
}

const ZONE_KEY = "sensormend-zone";
let local = false;
try { local = localStorage.getItem(ZONE_KEY) === "local"; } catch { /* as stored */ }

export const localZone = Intl.DateTimeFormat().resolvedOptions().timeZone;

export const isLocal = () => local;

/** Show times in the zone of this browser, or as they are stored. */
export function setLocal(chosen) {
  local = chosen;
  try { localStorage.setItem(ZONE_KEY, local ? "local" : "stored"); } catch { /* for this page only */ }
}

/** What is said of the zone of times: nothing where they are as stored. */
export const zoneWords = () => (local ? ` ${localZone}` : "");

/** A Date whose UTC fields are what to show. */
export function clockOf(value) {
  const date = moment(value);
  return date && local ? new Date(date.getTime() - date.getTimezoneOffset() * 60_000) : date;
}

/** 1 Mar 2024 */
export function day(value, absent = "never") {
  const date = clockOf(value);
  return date ? `${date.getUTCDate()} ${MONTHS[date.getUTCMonth()]} ${date.getUTCFullYear()}` : absent;
}

/** 05:00, with seconds only where there are some */
export function clock(value, absent = "") {
  const date = clockOf(value);
  if (!date) return absent;
  const seconds = date.getUTCSeconds();
  return `${two(date.getUTCHours())}:${two(date.getUTCMinutes())}${seconds ? `:${two(seconds)}` : ""}`;
}

/** 1 Mar 2024, 05:00 */
export function time(value, absent = "never") {
  return moment(value) ? `${day(value)}, ${clock(value)}` : absent;
}

/** A sentence of the API with its times as the page writes them, in the chosen zone: since 1 Mar 2024, 05:00 */
export function worded(sentence) {
  return sentence
    .replaceAll(/\b(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d(?::\d\d)?)\b/g, (_, date, at) => time(`${date}T${at}Z`))
    .replaceAll(/\b\d{4}-\d\d-\d\d\b(?!T)/g, (date) => dayOf(date));
}

// A date is that of the tables, whatever the zone.
function dayOf(date) {
  const [year, month, number] = date.split("-").map(Number);
  return month >= 1 && month <= 12 ? `${number} ${MONTHS[month - 1]} ${year}` : date;
}

/** 2024-03-01, as the API takes it */
export function isoDay(value) {
  return moment(value)?.toISOString().slice(0, 10) ?? "";
}

export const monthName = (month) => MONTHS[month];

/** A length of time in its two largest units: 3 days 4 h */
export function span(seconds) {
  if (seconds === null || seconds === undefined) return "";
  const length = Math.abs(seconds);
  if (length < 59.5) return `${Math.round(length)} s`;
  const minutes = Math.round(length / 60);
  if (minutes < 60) return `${minutes} min`;
  if (minutes < 1440) return `${Math.floor(minutes / 60)} h${minutes % 60 ? ` ${minutes % 60} min` : ""}`;
  // As in sentences: 33 days and 22 hours are 34 days.
  const days = minutes < 14_400 ? Math.floor(minutes / 1440) : Math.round(minutes / 1440);
  const hours = Math.floor((minutes % 1440) / 60);
  return `${plural(days, "day")}${hours && days < 10 ? ` ${hours} h` : ""}`;
}

/** 1 day, 2 days, 1,200 days */
export function plural(count, word, words = `${word}s`) {
  return `${whole(count)} ${count === 1 ? word : words}`;
}

/** 12,345 */
export function whole(number) {
  return number === null || number === undefined ? "" : Math.round(number).toLocaleString("en-GB");
}

/** A measured value in so many significant digits, without trailing zeros and never as 1e+3 */
export function value(number, digits = 4, absent = "none") {
  if (number === null || number === undefined || !Number.isFinite(number)) return absent;
  const shown = Math.abs(number) >= 10 ** digits ? Math.round(number) : Number(number.toPrecision(digits));
  return shown.toLocaleString("en-GB", { maximumSignificantDigits: 15 }).replace("-", "\u2212");
}

/** The two ends of an interval, to a tenth of its width. */
export function interval(lower, upper) {
  if (lower === null || upper === null) return "unknown";
  const width = upper - lower;
  const decimals = width > 0 ? Math.min(Math.max(0, 1 - Math.floor(Math.log10(width))), 12) : 12;
  const shown = (number) => value(Number(number.toFixed(decimals)), 6);
  return width > 0 ? `${shown(lower)} to ${shown(upper)}` : value(lower);
}

/** A distance with its sign and two digits: +2.1, −0.046, +123 */
export function signed(number) {
  if (!number) return "0";
  const digits = Math.max(0, 1 - Math.floor(Math.log10(Number(Math.abs(number).toPrecision(2)))));
  return `${number > 0 ? "+" : "\u2212"}${Math.abs(number).toFixed(Math.min(digits, 20))}`;
}

/** A share as a percentage: 0 %, 0.4 %, 3.1 %, 42 % */
export function percent(share, absent = "unknown") {
  if (share === null || share === undefined) return absent;
  const points = share * 100;
  if (points === 0 || points >= 99.95) return `${Math.round(points)} %`;
  if (points < 0.05) return "< 0.1 %";
  return `${points < 10 ? points.toFixed(1).replace(/\.0$/, "") : Math.round(points)} %`;
}

/** The name of a series for people: the sensor, and its variable where it has one */
export function seriesName(sensor, variable = "") {
  return variable ? `${sensor}, ${variable}` : sensor;
}

/** The variables of a fault: of several that failed together the first three. */
export function variableNames(fault) {
  const names = [fault.variable, ...(fault.together ?? fault.others)].sort();
  return names.length > 4 ? `${names.slice(0, 3).join(", ")} and ${names.length - 3} more` : names.join(", ");
}

/** The address of the page of a fault: its sensor's, or its station's where several variables failed together. */
export function faultLink(fault, span) {
  return (fault.together ?? fault.others).length ? sensorLink(fault.sensor, fault.variable, span).replace("#/sensor?", "#/station?")
    : sensorLink(fault.sensor, fault.variable, span);
}

/** The address of a sensor's page, around a time where one is given */
export function sensorLink(sensor, variable = "", { from = "", to = "" } = {}) {
  const query = new URLSearchParams({ sensor });
  if (variable) query.set("variable", variable);
  if (from) query.set("from", from);
  if (to) query.set("to", to);
  return `#/sensor?${query}`;
}
