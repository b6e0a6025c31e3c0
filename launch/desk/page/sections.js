// Sections of one run that are not curves, and what they share with those of all runs: tables that sort, names, states.

import { bar, behind, element, table } from "./elements.js";
import { topology } from "./graph.js";
import { machine } from "./load.js";
import { column_texts, placed } from "./texts.js";

const MOST_EVALUATIONS = 20;
const STAGE_COLOURS = { simulate: "#56B4E9", infer: "#CC79A7", learn: "#E69F00", copy: "#0072B2", publish: "#009E73", wait: "var(--line)" };

// A state as a dot and its word.
export function status(word) {
  return element("span", { class: `status ${word}` }, word);
}

export function section(title, ...children) {
  return element("section", { class: "card" }, element("h3", {}, title), children);
}

// A metric: its value, its label, and what it says on hover.
function tile(figure) {
  return element("div", { class: "tile", title: figure.description }, element("b", {}, figure.text), " ", element("span", {}, figure.label));
}

export function progress(run) {
  return element("progress", { max: 1, value: run.done, "aria-label": run.progress });
}

// A time as the reader's clock and calendar have it: 2026-01-31 14:05.
const calendar = new Intl.DateTimeFormat("sv", { dateStyle: "short", timeStyle: "short" });

export function dated(at) {
  return at ? element("time", { datetime: at, title: at }, calendar.format(new Date(at))) : "–";
}

// The name of the column that a table is sorted by, and 1 for ascending or -1 for descending.
function column_of(sort) {
  return [sort.replace(/^-/, ""), sort.startsWith("-") ? -1 : 1];
}

// Headings that sort by their column: upwards, then downwards, then not.
export function sorting_head(columns, sort, act) {
  const [column, way] = column_of(sort);
  const head = [...columns].map(([name, { heading, title, right }]) => {
    const is_sorted = name === column;
    const button = element("button", { type: "button", class: "plain", click: () => act(is_sorted && way > 0 ? `-${name}` : is_sorted ? "" : name) }, heading, is_sorted ? (way > 0 ? " ▲" : " ▼") : "");
    return element("th", { scope: "col", class: right ? "number" : null, title, "aria-sort": is_sorted ? (way > 0 ? "ascending" : "descending") : null }, button);
  });
  return element("thead", {}, element("tr", {}, head));
}

// Lines in the order of a column; what is missing comes last in either order.
export function sorted(lines, columns, sort) {
  const [column, way] = column_of(sort);
  if (!columns.has(column)) return lines;
  const value = (line) => columns.get(column).of(line) ?? null;
  return [...lines].sort((a, b) => {
    const [one, other] = [value(a), value(b)];
    if (one === null || other === null) return (one === null) - (other === null);
    return way * (typeof one === "string" ? one.localeCompare(other, "en", { numeric: true }) : one - other);
  });
}

// A line in its columns. `name` stands in the first instead of its value; `forms` write the numbers of columns.
export function row_of(columns, line, attributes, name, forms = new Map()) {
  const [first, ...rest] = [...columns].map(([column, { of, text, right }]) => ({ right, cell: cell_of(line, of, text, forms.get(column)) }));
  return element("tr", attributes, element("th", { scope: "row" }, name ?? first.cell), rest.map(({ right, cell }) => element("td", { class: right ? "number" : null }, cell)));
}

function cell_of(line, of, text, form) {
  if (text) return text(line, form);
  const value = of(line) ?? null;
  return form ? (value === null ? "–" : form(value)) : value;
}

// One run: the part above its curves.
export function heading(head, place) {
  return [
    element("h2", {}, head.name, placed({ place }), " ", status(head.status)),
    element("p", { class: "soft" }, `${head.env} · ${head.progress} · ${head.elapsed}${head.left ? ` · ${head.left} left` : ""}`, head.started && [" · started ", dated(head.started)]),
    progress(head),
    ...head.ill.map((one) => element("p", { class: "ill" }, `learning fails: ${one.rule}`, one.try ? `; try: ${one.try}` : "")),
  ];
}

export function figures(list) {
  return element("div", { class: "tiles" }, list.map(tile));
}

// Sections below the curves by the name of their part, in the order in which they matter; each part is drawn alone.
export const SECTIONS = {
  graph: (part) => section("Topology", topology(part)),
  processes: (part) => part.length && section("Processes", element("div", { class: "wide", tabindex: "0", "aria-label": "Processes" }, processes(part))),
  machine: (part) => machine.draw(part),
  stages,
  histograms,
  events,
  learning: (part) => part.length && section("Learning", figures(part)),
  about,
  dropped: (part) => part.length && section("Steps dropped, by reason", figures(part)),
  films: (part) => part.length && section("Films", element("div", { class: "films" }, part.map(film))),
  evaluations,
  chosen: (part) => part.length && section("Values chosen automatically", table("Keys that the topology does not set", ["key", "value", "reason"], part.map((one) => [one.key, one.value, one.why]))),
  topology: (part) => part && section("topology.yaml", element("details", {}, element("summary", {}, "All keys of the run, with defaults"), element("pre", { tabindex: "0" }, part))),
};

const PROCESS_COLUMNS = new Map(
  Object.entries({
    name: { heading: "process", of: (one) => one.name, text: process_name },
    state: { heading: "state", of: (one) => one.state, text: (one) => status(one.state) },
    restarts: { heading: "restarts", of: (one) => one.restarts[0], text: (one) => one.restarts[1], right: true },
    cores: { heading: "CPU", of: (one) => one.cores[0], text: (one) => one.cores[1], right: true },
    memory: { heading: "memory", of: (one) => one.memory[0], text: (one) => one.memory[1], right: true },
    busy: { heading: "busy", of: (one) => one.busy[0], text: (one) => one.busy[1], right: true },
    age: { heading: "age", of: (one) => one.age[0], text: (one) => one.age[1], right: true },
    role: { heading: "role", of: (one) => one.role },
    node: { heading: "node", of: (one) => one.node || null },
    cause: { heading: "last death", of: (one) => one.cause || null },
  }),
);

// The table of processes; it is sorted by the choice that `processes.sort` was given.
function processes(part) {
  const { sort, act } = processes;
  const rows = sorted(part, PROCESS_COLUMNS, sort).map((one) => row_of(PROCESS_COLUMNS, one, { "data-key": one.name }));
  const caption = "CPU: 100% is one core. CPU and memory are those of processes on the desk's machine; busy is the share of time without waiting.";
  return element("table", { class: "sortable" }, element("caption", {}, caption), sorting_head(PROCESS_COLUMNS, sort, act), element("tbody", {}, rows));
}

function process_name({ name }) {
  return document.documentElement.dataset.live ? element("button", { type: "button", class: "plain", "data-process": name, title: "Log and load" }, name) : name;
}

// How the table of processes is sorted, and what is called to sort it otherwise.
export function sort_processes(sort, act) {
  Object.assign(processes, { sort, act });
}

function stages({ shares, most_work, limit }) {
  if (!shares.length) return null;
  const strip = element("div", { class: "strip", "aria-hidden": "true" }, shares.map(({ stage, share }) => stage_piece(stage, share)));
  const rows = shares.map(({ stage, text }) => [[stage_dot(stage), stage], stage === most_work ? `${text}, most work` : text]);
  const close = limit.share === null || limit.share === undefined ? null : element("p", { title: limit.description }, "Simulators spend ", element("b", {}, limit.text), " of their time simulating: the rate is that share of the simulation limit.", bar(limit.share, STAGE_COLOURS.simulate));
  return section("Time by stage", strip, table("Share of each stage in the time of all processes", ["stage", "share"], rows, { class: "short" }), close);
}

function stage_piece(stage, share) {
  const piece = element("span", {});
  piece.style.width = `${100 * share}%`;
  piece.style.background = STAGE_COLOURS[stage];
  return piece;
}

function stage_dot(stage) {
  const dot = element("i", { class: "swatch", "aria-hidden": "true" });
  dot.style.background = STAGE_COLOURS[stage];
  return dot;
}

function histograms(part) {
  if (!part.length) return null;
  return section("Age of weights and gradients", part.map(({ title, bars }) => table(title, ["age", "share"], bars.map(({ words, share, text }) => [words, [bar(share), text]]), { class: "histogram" })));
}

function events(part) {
  if (!part.length) return null;
  const items = part.map((one) => element("li", { class: one.alarm ? "alarm" : null, "data-key": `${one.time} ${one.text}` }, element("time", {}, one.time), " ", one.text));
  return section("Events, newest first", element("ol", { class: "events", reversed: true, tabindex: "0", "aria-label": "Events" }, items));
}

function evaluations(part) {
  if (!part.length) return null;
  const newest = part.slice(0, MOST_EVALUATIONS);
  const columns = ["steps", "mean", "deviation", "games"].map((name) => column_texts(newest.map((one) => one[name])));
  const rows = newest.map((_, row) => columns.map((texts) => texts[row]));
  return section("Evaluations", table("Newest evaluations first", ["steps", "mean score", "deviation", "games"], rows, {}, () => true));
}

function film({ said, file, data }) {
  const source = data ?? (file && `films/${film.run}/${file.replace(/^0+(?=\d)/, "")}`);
  return element("figure", { "data-key": said }, source ? element("video", { src: source, controls: true, preload: "metadata", "aria-label": said }) : null, element("figcaption", {}, said));
}

// Films are asked for by the id of their run.
export function films_of(run) {
  film.run = run;
}

function about({ facts, repeat }) {
  return section(
    "Commands that repeat the run",
    element("pre", { tabindex: "0", "aria-label": "Commands" }, repeat.join("\n")),
    behind("Machine, versions, folder", () => table("Machine, versions and folder of the run", ["fact", "value"], facts)),
  );
}
