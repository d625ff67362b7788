// The maintenance notes on a sensor, and a form for one more where the server accepts them.
import { button, element, field, isAborted } from "./elements.js";
import { moment, time } from "./format.js";

// What each action is called, and what it does.
const ACTIONS = {
  recalibrated: ["Accept the level", "from then on its level is right"],
  real: ["Mark as real", "these readings are right, whatever they look like"],
  ignore: ["Ignore", "nothing is learned from these readings, and none is judged"],
};

export async function mountNotes(root, info, context) {
  const { sensor, variable } = info;
  const list = element("ul", { class: "note-list" });
  const outcome = element("p", { class: "note-message", role: "status" });
  const [from, to] = ["From", "To"].map((name) => element("input", { type: "text", placeholder: "2024-03-01 06:00", maxlength: 40,
    autocomplete: "off", spellcheck: "false", "aria-label": `${name}, UTC`, oninput: () => level(from.value.trim()) }));
  const buttons = Object.entries(ACTIONS).map(([action, [text, help]]) =>
    button(text, () => write(action), { class: "button", title: help, "data-action": action }));
  let accepted = "";
  let notes = await context.get("notes", { sensor });
  if (!notes.editable) return { offer: null };
  root.append(
    element("h2", { text: "What people know" }),
    list,
    element("div", { class: "controls note-form", role: "group", "aria-label": `Add a note to ${notes.file}` },
      field("From (UTC)", from), field("To (UTC, may be empty)", to),
      element("div", { class: "steering" }, buttons)),
    outcome,
    element("p", { class: "small quiet", text: Object.values(ACTIONS).map(([text, help]) => `${text}: ${help}.`).join(" ")
      + ` A note is a line in ${notes.file} and holds ${notes.applies}; to take it back, delete the line.` }));
  root.hidden = false;
  show();

  // From when on a level would be taken as right, as the button shows it.
  function level(text) {
    accepted = text;
    outcome.textContent = "";
    buttons[0].textContent = read(text) ? `Accept the level from ${time(read(text))} on` : ACTIONS.recalibrated[0];
  }

  function words(note) {
    const whom = note.sensor === "*" ? "every sensor: " : "";
    const what = `${ACTIONS[note.action][0].toLowerCase()}${note.variable && info.variables.length > 1 ? ` (${note.variable})` : ""}`;
    return `${whom}${what}${note.from ? ` from ${time(note.from)}` : ""}${note.to ? ` to ${time(note.to)}` : note.from ? " on" : ", always"}`;
  }

  function show() {
    list.replaceChildren(...(notes.items.length ? notes.items.map((note) => element("li", { text: words(note) }))
      : [element("li", { class: "quiet", text: `Nothing is noted on it in ${notes.file}.` })]));
  }

  async function write(action) {
    const isLevel = action === "recalibrated";
    // A level is right from a moment on; it has no end.
    const [begin, end] = isLevel ? [accepted, ""] : [from, to].map((box) => box.value.trim());
    if (![begin, end].every((text) => !text || read(text))) return showOutcome("A time is written like 2024-03-01 or 2024-03-01 06:00.", true);
    if (isLevel && !begin) return showOutcome("From when on is its level right? Say it in From.", true);
    if (!begin && !end) return showOutcome("Which readings? Say from when to when.", true);
    buttons.forEach((press) => { press.disabled = true; });
    try {
      notes = await context.post("notes", { sensor, variable, action, from: read(begin) || null, to: read(end) || null });
      show();
      showOutcome(`Written to ${notes.file}: ${words(notes.items.at(-1))}. It holds ${notes.applies}.`);
    } catch (error) {
      if (!isAborted(error)) showOutcome(`Nothing was written: ${error.message}.`, true);
    } finally {
      buttons.forEach((press) => { press.disabled = false; });
    }
    return undefined;
  }

  function showOutcome(text, wrong = false) {
    outcome.textContent = text;
    outcome.classList.toggle("wrong", wrong);
  }

  return {
    /** Fill in the times of a fault: a level is taken as right from where an offset began, or from where a drift has come to. */
    offer(fault) {
      from.value = written(fault.from);
      to.value = written(fault.to);
      level(fault.reason === "drift" ? to.value : from.value);
      root.scrollIntoView({ block: "nearest" });
      buttons[fault.reason === "offset" || fault.reason === "drift" ? 0 : 1].focus({ preventScroll: true });
    },
  };
}

const written = (value) => moment(value)?.toISOString().slice(0, 16).replace("T", " ") ?? "";

// What was typed as the API takes it; empty where it is no time. Without a zone it is UTC.
function read(text) {
  const [, date, clock = "00:00", zone = "Z"] = text.match(/^(\d{4}-\d{2}-\d{2})(?:[T ](\d{2}:\d{2}(?::\d{2})?))?(Z|[+-]\d{2}:\d{2})?$/) ?? [];
  const full = date ? new Date(`${date}T${clock}${zone}`) : null;
  return full && !Number.isNaN(full.getTime()) ? full.toISOString().replace(".000Z", "Z") : "";
}
