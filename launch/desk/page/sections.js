// Sections of the page that are not curves: the list of runs, groups, and one run in full.

import { bar, behind, element, table } from "./elements.js";
import { written } from "./curves.js";
import { topology } from "./graph.js";

const STAGE_COLOURS = { simulate: "#56B4E9", infer: "#CC79A7", learn: "#E69F00", copy: "#0072B2", publish: "#009E73", wait: "var(--line)" };

// A state as a dot and its word.
export function status(word) {
  return element("span", { class: `status ${word}` }, word);
}

function section(title, ...children) {
  return element("section", { class: "card" }, element("h3", {}, title), children);
}

// A metric: its value, its label, and what it says on hover.
function tile(figure) {
  return element("div", { class: "tile", title: figure.description }, element("b", {}, figure.text), " ", element("span", {}, figure.label));
}

function progress(run) {
  return element("progress", { max: 1, value: run.done, "aria-label": run.progress });
}

// One line of the list of runs.
export function run_item(run, href, current, colour) {
  const swatch = element("i", { class: "swatch", "aria-hidden": "true" });
  swatch.style.background = colour;
  return element(
    "li",
    {},
    element(
      "a",
      { href, "aria-current": current ? "page" : null },
      element("span", { class: "line" }, swatch, element("b", { title: run.name }, run.name), element("span", { title: run.figures[0].description }, run.figures[0].text)),
      element("span", { class: "line soft" }, element("span", {}, run.env), status(run.status)),
      progress(run),
    ),
  );
}

// Groups of runs as a legend: what is drawn in which colour, and the newest number.
export function groups(all, runs, bands, curves, colours, hidden, toggle) {
  const rows = all.groups.map((group, number) => {
    const band = bands(number)?.by_steps;
    const own = group.runs.map((id) => curves(id)?.by_steps[1].at(-1));
    const last = band
      ? `${written(band[1].at(-1))} (${written(band[2].at(-1))} to ${written(band[3].at(-1))})`
      : own.filter((value) => value !== undefined).map(written).join(", ") || "–";
    const swatch = element("i", { class: "swatch", "aria-hidden": "true" });
    swatch.style.background = colours(number);
    const shown = element("button", { type: "button", class: "plain", "aria-pressed": String(!hidden.has(number)), click: () => toggle(number) }, swatch, group.name);
    const members = group.runs.map((id) => runs.get(id)).filter(Boolean);
    const seeds = members.map((run) => run.seed).join(", ");
    const states = [...new Set(members.map((run) => run.status))].map(status);
    return [shown, `${members.length} (${seeds})`, states, last];
  });
  return table("Groups of runs that differ only in their seeds", ["group", "runs (seeds)", "state", "latest interquartile mean and its 95 % interval"], rows);
}

// What differs between the topologies of groups.
export function differences(all) {
  if (!all.keys.length) return null;
  const values = (group) => group.values.map((value) => element("code", {}, value));
  const few = all.groups.length <= all.keys.length; // the longer list goes down the page
  const headings = few ? ["key", ...all.groups.map((group) => group.name)] : ["group", ...all.keys];
  const rows = few
    ? all.keys.map((key, at) => [key, ...all.groups.map((group) => values(group)[at])])
    : all.groups.map((group) => [group.name, ...values(group)]);
  return section("Differences", element("div", { class: "wide", tabindex: "0", "aria-label": "Differences" }, table("Keys in which the topologies differ", headings, rows)));
}

// One run: the part above its curves.
export function heading(head) {
  return [
    element("h2", {}, head.name, " ", status(head.status)),
    element("p", { class: "soft" }, `${head.env} · ${head.progress} · ${head.elapsed}${head.left ? ` · ${head.left} left` : ""}`),
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
  stages,
  histograms,
  events,
  learning: (part) => part.length && section("Learning", figures(part)),
  about,
  dropped: (part) => part.length && section("Steps dropped, by reason", figures(part)),
  films: (part) => part.length && section("Films", element("div", { class: "films" }, part.map(film))),
  evaluations: (part) =>
    part.length &&
    section("Evaluations", table("Newest evaluations first", ["steps", "mean score", "deviation", "games"], part.slice(0, 20).map((one) => [one.steps, one.mean, one.deviation, one.games]))),
  chosen: (part) => part.length && section("Values chosen automatically", table("Keys that the topology does not set", ["key", "value", "reason"], part.map((one) => [one.key, one.value, one.why]))),
  topology: (part) => part && section("topology.yaml", element("details", {}, element("summary", {}, "All keys of the run, with defaults"), element("pre", { tabindex: "0" }, part))),
};

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
  const items = part.map((one) => element("li", { class: one.alarm ? "alarm" : null }, element("time", {}, one.time), " ", one.text));
  return section("Events, newest first", element("ol", { class: "events", reversed: true, tabindex: "0", "aria-label": "Events" }, items));
}

function film({ said, file, data }) {
  const source = data ?? (file && `films/${film.run}/${file.replace(/^0+(?=\d)/, "")}`);
  return element("figure", {}, source ? element("video", { src: source, controls: true, preload: "metadata", "aria-label": said }) : null, element("figcaption", {}, said));
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
