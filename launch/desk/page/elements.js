// Elements of the page, made without markup: text stays text, whatever a run is called.

const SVG = "http://www.w3.org/2000/svg";

// An element of HTML. Children are elements, texts, or lists of them; null and "" are left out. An attribute that is a
// function is the listener of an event, one that is true stands without a value, one that is null or false is left out.
export function element(tag, attributes, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

// An element of a drawing.
export function drawn(tag, attributes, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (typeof value === "function") node[`on${name}`] = value;
    else if (value !== null && value !== false && value !== undefined) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== ""));
  return node;
}

// The name of a run or a group, with what tells it from others of its name.
export function titled({ name, place }) {
  return place ? `${name} · ${place}` : name;
}

// A table with headings over its columns; the first column names the row. Cells are as children of `element`. `is_right`
// says by its place whether a column has numbers, which end at its right edge.
export function table(caption, headings, rows, attributes, is_right = () => false) {
  const number = (at) => (is_right(at) ? "number" : null);
  return element(
    "table",
    attributes,
    element("caption", {}, caption),
    element("thead", {}, element("tr", {}, headings.map((heading, at) => element("th", { scope: "col", class: number(at) }, heading)))),
    element(
      "tbody",
      {},
      rows.map((row) =>
        element("tr", {}, row.map((cell, at) => (at ? element("td", { class: number(at) }, cell) : element("th", { scope: "row", class: number(at) }, cell)))),
      ),
    ),
  );
}

// What stands behind a picture for those who do not see it, or want numbers; it is made when it is opened.
export function behind(title, make) {
  const details = element("details", { class: "behind", toggle: (event) => renew(event.currentTarget) }, element("summary", {}, title));
  details.make = make;
  return details;
}

// Make what stands behind a picture anew where it is open.
export function renew(details) {
  refill(details, details.firstChild, details.open && details.make());
}

// Make the children of a place like the given ones. A child that is there already and is alike stays the same element: what
// is open, scrolled, selected, focused and under the pointer stays so. Alike are elements of one tag and one data-key.
export function refill(place, ...children) {
  const held = document.activeElement;
  patch_children(place, children.flat().filter(Boolean));
  if (held !== document.activeElement && place.contains(held)) held.focus({ preventScroll: true }); // it was moved
}

function patch_children(place, given) {
  const left = [...place.childNodes];
  const key = (node) => node.getAttribute?.("data-key");
  const wanted = given.map((node) => {
    const at = left.findIndex((old) => old.nodeName === node.nodeName && key(old) === key(node));
    return at < 0 ? node : patched(left.splice(at, 1)[0], node);
  });
  left.forEach((node) => node.remove());
  wanted.forEach((node, at) => node !== place.childNodes[at] && place.insertBefore(node, place.childNodes[at] ?? null));
}

// A node that is made like another; what a reader has opened stays open.
function patched(node, wanted) {
  if (node === wanted) return node;
  if (node.nodeType === Node.TEXT_NODE) {
    if (node.data !== wanted.data) node.data = wanted.data;
    return node;
  }
  for (const { name } of [...node.attributes]) if (name !== "open" && !wanted.hasAttribute(name)) node.removeAttribute(name);
  for (const { name, value } of wanted.attributes) if (name !== "style" && node.getAttribute(name) !== value) node.setAttribute(name, value);
  if (node.style.cssText !== wanted.style.cssText) node.style.cssText = wanted.style.cssText; // the page's policy forbids the attribute
  if (node.checked !== wanted.checked) node.checked = wanted.checked;
  [node.onclick, node.ontoggle, node.make] = [wanted.onclick, wanted.ontoggle, wanted.make];
  if (node.open && node.make) wanted.append(node.make());
  patch_children(node, [...wanted.childNodes]);
  return node;
}

// A short piece of a line of a picture: its colour and its dashes.
export function swatch({ colour, dash }) {
  const line = drawn("line", { x1: 0, y1: 5, x2: 22, y2: 5, "stroke-width": 3, "stroke-dasharray": dash?.join(" ") ?? null });
  line.style.stroke = colour;
  return drawn("svg", { class: "swatch", width: 22, height: 10, "aria-hidden": "true" }, line);
}

// A bar of a share, 0 to 1.
export function bar(share, colour) {
  const inner = element("span", {});
  inner.style.width = `${100 * Math.min(1, Math.max(0, share))}%`;
  if (colour) inner.style.background = colour;
  return element("span", { class: "bar", "aria-hidden": "true" }, inner);
}
