// Elements of the page, made without markup: text stays text, whatever a run is called.

const SVG = "http://www.w3.org/2000/svg";

// An element of HTML. Children are elements, texts, or lists of them; null and "" are left out. An attribute that is a
// function is a listener, one that is true stands without a value, one that is null or false is left out.
export function element(tag, attributes, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

// An element of a drawing.
export function drawn(tag, attributes, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (typeof value === "function") node.addEventListener(name, value);
    else if (value !== null && value !== false && value !== undefined) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== ""));
  return node;
}

// A table with headings over its columns; the first column names the row. Cells are as children of `element`.
export function table(caption, headings, rows, attributes) {
  return element(
    "table",
    attributes,
    element("caption", {}, caption),
    element("thead", {}, element("tr", {}, headings.map((heading) => element("th", { scope: "col" }, heading)))),
    element(
      "tbody",
      {},
      rows.map((row) =>
        element("tr", {}, row.map((cell, at) => (at ? element("td", {}, cell) : element("th", { scope: "row" }, cell)))),
      ),
    ),
  );
}

// What stands behind a picture for those who do not see it, or want numbers; it is made when it is opened.
export function behind(title, make) {
  const details = element("details", { class: "behind" }, element("summary", {}, title));
  details.addEventListener("toggle", () => {
    if (details.open && details.children.length === 1) details.append(make());
  });
  return details;
}

// Make what stands behind a picture anew where it is open; else it will be made when it is opened.
export function renew(details, make) {
  const made = details.children[1];
  if (details.open) made?.replaceWith(make());
  else made?.remove();
}

const FOCUSED = "a, button, input, select, summary, [tabindex]";
const SCROLLED = "ol, pre, .wide";

// Put other children into a place; what is open, scrolled and focused there stays so.
export function refill(place, ...children) {
  const held = [...place.querySelectorAll(FOCUSED)].indexOf(document.activeElement);
  const open = [...place.querySelectorAll("details")].map((details) => details.open);
  const scrolled = [...place.querySelectorAll(SCROLLED)].map(({ scrollLeft, scrollTop }) => [scrollLeft, scrollTop]);
  place.replaceChildren(...children.filter(Boolean));
  place.querySelectorAll("details").forEach((details, at) => (details.open = open[at] ?? false));
  place.querySelectorAll(SCROLLED).forEach((made, at) => made.scrollTo(...(scrolled[at] ?? [0, 0])));
  if (held >= 0) place.querySelectorAll(FOCUSED)[held]?.focus({ preventScroll: true });
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
