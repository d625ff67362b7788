// What people know of a sensor: its history in maintenance.csv, and a form for one more line where the server accepts it.
import { button, element, field, isAborted } from "./elements.js";
import { moment, time } from "./format.js";

// What each action is called, and what it does. Those of `fixed` say when its level became right.
const ACTIONS = {
  recalibrated: { text: "Accept the level", help: "from then on its level is right", fixed: true },
  real: { text: "Mark as real", help: "these readings are right, whatever they look like" },
  ignore: { text: "Ignore", help: "nothing is learned from these readings, and none is judged" },
  acknowledged: { text: "Acknowledge", help: "somebody knows of it: it goes to the end of the list" },
  muted: { text: "Mute until To", help: "its alerts are held back until then" },
  cleaned: { text: "Cleaned", help: "", fixed: true },
  replaced: { text: "Replaced", help: "", fixed: true },
  moved: { text: "Moved", help: "", fixed: true },
  comment: { text: "Only a comment", help: "" },
};
const HELP = `${Object.values(ACTIONS).filter(({ help }) => help).map(({ text, help }) => `${text}: ${help}.`).join(" ")} Cleaned, replaced, moved: `
  + "from To on, or from From where To is empty, its level is right.";
const DONE = {
  recalibrated: "its level is right", real: "real", ignore: "ignored", acknowledged: "acknowledged", muted: "muted",
  cleaned: "cleaned", replaced: "replaced", moved: "moved", comment: "comment", removed: "removed",
};
const NAME_KEY = "sensormend-name";
const stored = () => {
  try { return localStorage.getItem(NAME_KEY) ?? ""; } catch { return ""; }
};

export async function mountNotes(root, info, context) {
  const { sensor, variable } = info;
  const list = element("ul", { class: "note-list" });
  const outcome = element("p", { class: "note-message", role: "status" });
  const box = (name, more) => element("input", { type: "text", autocomplete: "off", spellcheck: "false", "aria-label": name, ...more });
  const [from, to] = ["From", "To"].map((name) => box(name, { placeholder: "2024-03-01 06:00", maxlength: 40, oninput: () => level(from.value.trim()) }));
  const by = box("Your name", { value: stored(), maxlength: 100, onchange: () => {
    try { localStorage.setItem(NAME_KEY, by.value.trim()); } catch { /* the name is typed again next time */ }
  } });
  const comment = box("Comment", { maxlength: 500, class: "note-comment" });
  const buttons = Object.entries(ACTIONS).map(([action, { text, help }]) =>
    button(text, () => write(action), { class: "button", title: help || null, "data-action": action }));
  let accepted = "";
  let notes = await context.get("notes", { sensor });
  // What was noted is its history, also where nothing can be added.
  if (!notes.editable && !notes.items.length) return { offer: null };
  root.append(element("h2", { text: notes.editable ? "What people know" : "What was noted" }), list);
  if (notes.editable) {
    root.append(
      element("div", { class: "controls note-form", role: "group", "aria-label": `Add a note to ${notes.file}` },
        field("From", from), field("To (may be empty)", to)),
      element("div", { class: "controls note-words" }, field("Your name", by), field("Comment", comment, "note-comment-field")),
      element("div", { class: "steering note-actions" }, buttons),
      outcome,
      element("p", { class: "small quiet", text: `${HELP} Times are typed as they are stored. A note is a line in ${notes.file} and holds ${notes.applies}.` }));
  }
  root.hidden = false;
  show();

  // From when on a level would be taken as right, as the button shows it.
  function level(text) {
    accepted = text;
    outcome.textContent = "";
    buttons[0].textContent = read(text) ? `Accept the level from ${time(read(text))} on` : ACTIONS.recalibrated.text;
  }

  function words(note) {
    const whom = note.sensor === "*" ? "every sensor: " : "";
    const what = `${DONE[note.action]}${note.variable && info.variables.length > 1 ? ` (${note.variable})` : ""}`;
    const always = note.action === "comment" || note.action === "acknowledged" ? "" : ", always";
    const span = `${note.from ? ` from ${time(note.from)}` : ""}${note.to ? ` to ${time(note.to)}` : note.from ? " on" : always}`;
    const signed = [note.by && `by ${note.by}`, note.at && time(`${note.at.slice(0, 16)}Z`)].filter(Boolean).join(", ");
    return `${whom}${what}${span}${note.comment ? `: ${note.comment}` : ""}${signed ? ` (${signed})` : ""}`;
  }

  function show() {
    const entries = notes.items.map((note) => element("li", {}, element("span", { text: words(note) }),
      // A note on every sensor is not this one's to take back.
      notes.editable && note.sensor === sensor && note.action !== "removed"
        ? button("Undo", () => undo(note), { class: "link-button note-undo", "aria-label": `undo: ${words(note)}` }) : null));
    list.replaceChildren(...(entries.length ? entries : [element("li", { class: "quiet", text: `Nothing is noted on it in ${notes.file}.` })]));
  }

  async function write(action) {
    const typed = [from, to].map((input) => input.value.trim());
    const { fixed } = ACTIONS[action];
    // A level is right from a moment on; it has no end.
    const [begin, end] = action === "recalibrated" ? [accepted, ""] : fixed ? [typed[1] || typed[0], ""] : typed;
    if (![begin, end].every((text) => !text || read(text))) return showOutcome("A time is written like 2024-03-01 or 2024-03-01 06:00.", true);
    if (fixed && !begin) return showOutcome("From when on is its level right? Say it in From.", true);
    if (action === "muted" && !end) return showOutcome("Until when? Say it in To.", true);
    if (action === "comment" && !comment.value.trim()) return showOutcome("Write the comment first.", true);
    if ((action === "real" || action === "ignore") && !begin && !end) return showOutcome("Which readings? Say from when to when.", true);
    return send({ action, from: read(begin) || null, to: read(end) || null, by: by.value.trim(), comment: comment.value.trim() }, () => {
      comment.value = "";
      return `Written to ${notes.file}: ${words(notes.items.at(-1))}. It holds ${notes.applies}.`;
    });
  }

  const undo = (note) => send({ ...note, undo: true }, () => `Taken back: ${words(note)}.`);

  async function send(note, done) {
    const presses = [...buttons, ...list.querySelectorAll("button")];
    presses.forEach((press) => { press.disabled = true; });
    try {
      notes = await context.post("notes", { sensor, variable, ...note });
      show();
      showOutcome(done());
    } catch (error) {
      if (!isAborted(error)) showOutcome(`Nothing was written: ${error.message}.`, true);
    } finally {
      presses.forEach((press) => { press.disabled = false; });
    }
    return undefined;
  }

  function showOutcome(text, wrong = false) {
    outcome.textContent = text;
    outcome.classList.toggle("wrong", wrong);
  }

  return {
    /** Fill in the times of a fault: a level is taken as right from where an offset began, or from where a drift has come to. */
    offer: notes.editable ? (fault) => {
      from.value = written(fault.from);
      to.value = written(fault.to);
      level(fault.reason === "drift" ? to.value : from.value);
      root.scrollIntoView({ block: "nearest" });
      buttons[fault.reason === "offset" || fault.reason === "drift" ? 0 : 1].focus({ preventScroll: true });
    } : null,
  };
}

const written = (value) => moment(value)?.toISOString().slice(0, 16).replace("T", " ") ?? "";

// What was typed as the API takes it; empty where it is not a time. Without a zone it is UTC.
function read(text) {
  const [, date, clock = "00:00", zone = "Z"] = text.match(/^(\d{4}-\d{2}-\d{2})(?:[T ](\d{2}:\d{2}(?::\d{2})?))?(Z|[+-]\d{2}:\d{2})?$/) ?? [];
  const full = date ? new Date(`${date}T${clock}${zone}`) : null;
  return full && !Number.isNaN(full.getTime()) ? full.toISOString().replace(".000Z", "Z") : "";
}
