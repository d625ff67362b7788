// Elements without strings of HTML: what comes from the data is always text.

/**
 * Make an element: `element("a", {class: "x", href: "#/", onclick: f}, "text", child, ...)`.
 *
 * Names with `on` become listeners; true and false set and leave out an attribute; null children are left out.
 */
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return made;
}

/** Return `act` so that it runs once things are quiet for so many milliseconds; `.cancel()` forgets it. */
export function calm(act, milliseconds) {
  let timer = 0;
  const later = (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => act(...given), milliseconds);
  };
  later.cancel = () => clearTimeout(timer);
  return later;
}

/** Return `act` so that it runs at most once for each picture the screen shows. */
export function perFrame(act) {
  let planned = 0;
  return () => {
    planned ||= requestAnimationFrame(() => {
      planned = 0;
      act();
    });
  };
}
