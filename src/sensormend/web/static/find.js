// The box that finds a sensor: type, choose with the arrow keys or the pointer, Enter opens its page.

import { element, isAborted } from "./elements.js";
import { plural, sensorLink, seriesName } from "./format.js";
import { calm } from "./pace.js";
import { mark } from "./palette.js";

const MAX_ITEMS = 8;

export function search(form, { get, go }) {
  const box = form.querySelector("input");
  const list = form.querySelector("ul");
  const status = form.querySelector("[role=status]");
  let items = [];
  let chosen = -1;
  let request = new AbortController();

  const close = () => {
    queryLater.cancel();
    request.abort();
    list.hidden = true;
    box.setAttribute("aria-expanded", "false");
    box.removeAttribute("aria-activedescendant");
    chosen = -1;
  };
  const choose = (index) => {
    chosen = index;
    [...list.children].forEach((one, at) => one.setAttribute("aria-selected", String(at === index)));
    if (index >= 0) {
      box.setAttribute("aria-activedescendant", `find-${index}`);
      list.children[index].scrollIntoView({ block: "nearest" });
    } else box.removeAttribute("aria-activedescendant");
  };
  const open = (item) => {
    close();
    box.value = "";
    go(sensorLink(item.sensor, item.variable));
  };
  const show = (page) => {
    items = page.items;
    list.replaceChildren(
      ...items.map((item, index) => element(
        "li",
        {
          id: `find-${index}`, role: "option", "aria-selected": "false",
          onpointerdown: (event) => event.preventDefault(),
          onclick: () => open(item),
          onpointermove: () => { if (chosen !== index) choose(index); },
        },
        mark(item.state),
        element("span", { class: "find-name" }, seriesName(item.sensor, item.variable)),
        element("span", { class: "quiet" }, item.state),
      )),
      ...(items.length ? [] : [element("li", { class: "quiet", role: "option", "aria-disabled": "true" }, "no such sensor")]),
    );
    list.hidden = false;
    box.setAttribute("aria-expanded", "true");
    chosen = -1;
    status.textContent = items.length ? `${plural(page.total, "sensor")} found` : "no such sensor";
  };
  const query = async () => {
    const text = box.value.trim();
    if (!text) return close();
    request.abort();
    request = new AbortController();
    try {
      show(await get("sensors", { search: text, sort: "name", limit: MAX_ITEMS }, request.signal));
    } catch (error) {
      if (!isAborted(error)) status.textContent = error.message;
    }
  };
  const queryLater = calm(query, 120);

  box.addEventListener("input", queryLater);
  box.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && !list.hidden && items.length) {
      event.preventDefault();
      choose((chosen + step + items.length + (chosen < 0 && step < 0 ? 1 : 0)) % items.length);
    } else if (step && list.hidden && box.value.trim()) {
      event.preventDefault();
      query();
    } else if (event.key === "Escape" && !list.hidden) {
      event.preventDefault();
      close();
    }
  });
  box.addEventListener("blur", () => setTimeout(close, 100));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (chosen >= 0 && !list.hidden) return open(items[chosen]);
    await query();
    const exact = items.find((item) => item.sensor.toLowerCase() === box.value.trim().toLowerCase());
    if (exact) open(exact);
    else if (items.length === 1) open(items[0]);
  });
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest?.("input, textarea, select, [contenteditable]");
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      box.focus();
      box.select();
    }
  });
}
