// Elements of a page, and how a page is renewed in place. Whatever comes from the coordinator goes in as text.

export const OPTIONAL = true; // of a table's column

const OF_SVG = ["svg", "rect"];

/** An element; its children are elements or texts, and what is null is left out. */
export function element(name, attributes = {}, ...children) {
  const made = OF_SVG.includes(name)
    ? document.createElementNS("http://www.w3.org/2000/svg", name)
    : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) if (value != null) made.setAttribute(key, value);
  made.append(...children.flat().filter((child) => child != null));
  return made;
}

export const link = (kind, id, text = id) => element("a", { href: `/${kind}/${encodeURIComponent(id)}` }, text);

export const state = (name) => element("span", { class: `state ${name}` }, name);

/**
 * A table. `columns` have a name and may have a class; one that is optional is left out if it would be empty.
 * `rows` have cells and a key, by which they are known again.
 */
export function table(columns, rows, empty) {
  if (!rows.length) return element("p", { class: "quiet" }, empty);
  const needed = columns.map(([, , optional], place) => !optional || rows.some(({ cells }) => cells[place] !== ""));
  const left = (listed) => listed.filter((_, place) => needed[place]);
  const named = columns.map(([name, kind]) => element("th", { class: kind, scope: "col" }, name));
  const body = rows.map(({ key, kind, cells }) =>
    element(
      "tr",
      { "data-key": key, class: kind },
      left(cells.map((cell, place) => element("td", { class: columns[place][1] }, cell))),
    ),
  );
  const made = element("table", {}, element("thead", {}, element("tr", {}, left(named))), element("tbody", {}, body));
  return element("div", { class: "scrolling" }, made);
}

/** Facts side by side, each under its name. */
export function facts(...pairs) {
  const known = pairs.filter(([, value]) => value != null);
  const made = known.map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value)));
  return element("dl", {}, made);
}

/** A bar of parts: pairs of a class and a share from 0 to 1. The numbers stand next to it. */
export function bar(...parts) {
  let left = 0;
  const made = parts.map(([kind, share]) => {
    const [x, width] = [left, Math.max(0, Math.min(share, 1 - left))].map((one) => `${(100 * one).toFixed(2)}%`);
    left += share;
    return element("rect", { class: kind, x, y: 0, width, height: "100%" });
  });
  return element("svg", { class: "bar", "aria-hidden": "true" }, made);
}

export const section = (title, ...children) => element("section", {}, element("h2", {}, title), children);

export const failure = (text) => (text ? element("p", { class: "bad" }, text) : null);

export function specification(document) {
  const text = element("pre", {}, JSON.stringify(document, null, 2));
  return element("details", {}, element("summary", {}, "Specification"), text);
}

/**
 * Make the children of a place equal to those given and touch only what differs: focus, selection and scroll stay.
 * An element that is itself in its place (it needs a key) is left alone: it renews itself.
 */
export function renew(place, wanted) {
  const keys = new Set(wanted.map(keyOf).filter(Boolean));
  const known = new Map();
  for (const child of [...place.childNodes]) {
    const key = keyOf(child);
    if (key && !keys.has(key)) child.remove();
    else if (key) known.set(key, child);
  }
  let at = place.firstChild;
  for (const one of wanted) {
    const found = keyOf(one) ? known.get(keyOf(one)) : at;
    if (found === one) {
      if (one === at) at = at.nextSibling;
      else place.insertBefore(one, at);
    } else if (found && keyOf(found) === keyOf(one) && found.nodeName === one.nodeName) {
      if (found === at) at = at.nextSibling;
      else place.insertBefore(found, at);
      update(found, one);
    } else {
      place.insertBefore(one, at);
    }
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

const keyOf = (node) => node.dataset?.key;

function update(old, wanted) {
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== wanted.data) old.data = wanted.data;
    return;
  }
  for (const { name } of [...old.attributes]) {
    if (!wanted.hasAttribute(name) && name !== "open") old.removeAttribute(name); // what people opened stays open
  }
  for (const { name, value } of wanted.attributes) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  renew(old, [...wanted.childNodes]);
}
