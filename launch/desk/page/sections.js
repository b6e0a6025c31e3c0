// Sections of the page that are not curves: the list of runs, groups, and one run in full.

import { bar, behind, element, swatch, table } from "./elements.js";
import { compact, written } from "./curves.js";
import { topology } from "./graph.js";

const LONGEST = 44; // letters of a name in the table
const LONGEST_IN_LIST = 18;
const MOST_SEEDS = 3; // that are listed of a group
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

function written_whole(value) {
  return value === null || value === undefined ? "–" : Math.round(value).toLocaleString("en");
}

function progress(run) {
  return element("progress", { max: 1, value: run.done, "aria-label": run.progress });
}

// One line of the list of runs.
export function run_item(run, href, current, look) {
  return element(
    "li",
    { "data-key": run.id },
    element(
      "a",
      { href, "aria-current": current ? "page" : null },
      element("span", { class: "line" }, swatch(look), element("b", { title: run.name }, shortened(run.name, LONGEST_IN_LIST)), element("span", { title: run.figures[0].description }, run.figures[0].text)),
      element("span", { class: "line soft" }, element("span", {}, run.env), status(run.status)),
      progress(run),
    ),
  );
}

// A long name with its middle left out: names of runs often differ at their end.
function shortened(name, most = LONGEST) {
  const letters = [...name];
  return letters.length > most ? `${letters.slice(0, most - 11).join("")}…${letters.slice(-10).join("")}` : name;
}

function seeds(numbers) {
  return numbers.length > MOST_SEEDS ? `${numbers.slice(0, MOST_SEEDS).join(", ")} … (${numbers.length})` : numbers.join(", ");
}

// A time as the reader's clock and calendar have it: 2026-01-31 14:05.
const calendar = new Intl.DateTimeFormat("sv", { dateStyle: "short", timeStyle: "short" });

function dated(at) {
  return at ? element("time", { datetime: at, title: at }, calendar.format(new Date(at))) : "–";
}

// Columns of the table of runs: heading, value to sort by, text. A group has the numbers of its runs.
const COLUMNS = {
  name: { heading: "group or run", of: (one) => one.name },
  score: { heading: "score", of: (one) => one.score, text: (one) => [written(one.score), one.interval ? element("span", { class: "soft" }, ` (${one.interval})`) : null] },
  best: { heading: "best", of: (one) => one.best, text: (one) => written(one.best) },
  steps: { heading: "steps", of: (one) => one.steps, text: (one) => written_whole(one.steps) },
  minutes: { heading: "minutes", of: (one) => one.minutes, text: (one) => written(one.minutes) },
  started: { heading: "started", of: (one) => one.started || null, text: (one) => dated(one.started) },
  rate: { heading: "steps/s", of: (one) => one.rate, text: (one) => written_whole(one.rate) },
  status: { heading: "state", of: (one) => one.states.join(), text: (one) => one.states.flatMap((word) => [status(word), " "]) },
  env: { heading: "environment", of: (one) => one.env, text: (one) => element("span", { title: one.env }, shortened(one.env, LONGEST_IN_LIST)) },
  algorithm: { heading: "algorithm", of: (one) => one.algorithm },
  mode: { heading: "mode", of: (one) => one.mode },
  seed: { heading: "seeds", of: (one) => one.seeds.length, text: (one) => seeds(one.seeds) },
};

// The table of groups, their seeds folded. `looks` gives the look of a group's line; `hrefs` the address of a run;
// `acts` has sort(column), pick(ids), unfold(number), and the sets of what is picked and unfolded.
export function runs_table(groups, runs, bands, looks, hrefs, acts, sort) {
  const rows = groups.map((group) => ({ group, members: group.runs.map((id) => runs.get(id)).filter(Boolean) })).filter(({ members }) => members.length);
  const lines = rows.map(({ group, members }) => ({ group, members, numbers: numbers_of_group(group, members, bands(group)) }));
  const ordered = sorted(lines, COLUMNS, sort, ({ numbers }) => numbers);
  const body = ordered.flatMap(({ group, members, numbers }) => {
    const many = members.length > 1;
    const open = many && acts.unfolded.has(group.number);
    const ids = members.map((run) => run.id);
    const all = ids.every((id) => acts.picked.has(id));
    const unfold = many ? element("button", { type: "button", class: "plain fold", "aria-expanded": String(open), "aria-label": `Seeds of ${group.name}`, click: () => acts.unfold(group.number) }, open ? "▾" : "▸") : null;
    const name = many ? element("b", { title: group.name }, shortened(group.name)) : element("a", { href: hrefs(ids[0]), title: members[0].name }, shortened(group.name));
    const first = [tick(all, `Draw ${group.name}`, () => acts.pick(ids, !all)), swatch(looks(group.number)), unfold, name];
    const own = open ? members.map((run) => run_row(run, group, hrefs, acts)) : [];
    return [row_of(COLUMNS, numbers, { "data-key": `group ${group.number}` }, first), ...own];
  });
  const caption = "Runs that differ only in name and seed are one group; its score is the interquartile mean, in its 95 % interval, at the last step that all its finished and living seeds have reached. Tick groups or runs to draw and compare only these.";
  return element("table", { class: "sortable" }, element("caption", {}, caption), sorting_head(COLUMNS, sort, acts.sort), element("tbody", {}, body));
}

// The name of the column that a table is sorted by, and 1 for ascending or -1 for descending.
function column_of(sort) {
  return [sort.replace(/^-/, ""), sort.startsWith("-") ? -1 : 1];
}

// Headings that sort by their column: upwards, then downwards, then not.
function sorting_head(columns, sort, act) {
  const [column, way] = column_of(sort);
  const head = Object.entries(columns).map(([name, { heading }]) => {
    const is_sorted = name === column;
    const button = element("button", { type: "button", class: "plain", click: () => act(is_sorted && way > 0 ? `-${name}` : is_sorted ? "" : name) }, heading, is_sorted ? (way > 0 ? " ▲" : " ▼") : "");
    return element("th", { scope: "col", "aria-sort": is_sorted ? (way > 0 ? "ascending" : "descending") : null }, button);
  });
  return element("thead", {}, element("tr", {}, head));
}

// Lines in the order of a column; what is missing comes last in either order.
function sorted(lines, columns, sort, numbers = (line) => line) {
  const [column, way] = column_of(sort);
  if (!columns[column]) return lines;
  const value = (line) => columns[column].of(numbers(line)) ?? null;
  return [...lines].sort((a, b) => {
    const [one, other] = [value(a), value(b)];
    if (one === null || other === null) return (one === null) - (other === null);
    return way * (typeof one === "string" ? one.localeCompare(other, "en", { numeric: true }) : one - other);
  });
}

function run_row(run, group, hrefs, acts) {
  const picked = acts.picked.has(run.id);
  const first = [tick(picked, `Draw ${run.name}`, () => acts.pick([run.id], !picked)), element("a", { href: hrefs(run.id), title: run.name }, shortened(run.name))];
  return row_of(COLUMNS, numbers_of_run(run, group), { class: "member", "data-key": run.id }, first);
}

function row_of(columns, numbers, attributes, name) {
  const [first, ...rest] = Object.values(columns).map(({ of, text = of }) => text(numbers));
  return element("tr", attributes, element("th", { scope: "row" }, name ?? first), rest.map((cell) => element("td", {}, cell)));
}

function tick(checked, label, click) {
  return element("input", { type: "checkbox", checked, "aria-label": label, click });
}

function numbers_of_run(run, group) {
  return { ...run.numbers, name: run.name, env: run.env, algorithm: group.algorithm, mode: group.mode, started: run.started, seeds: [run.seed], states: [run.status] };
}

function numbers_of_group(group, members, band) {
  const of = (name) => members.map((run) => run.numbers[name]).filter((value) => value !== null && value !== undefined);
  const mean = (values) => (values.length ? values.reduce((sum, value) => sum + value, 0) / values.length : null);
  const last = band?.by_steps?.map((column) => column.at(-1));
  return {
    name: group.name,
    env: group.env,
    algorithm: group.algorithm,
    mode: group.mode,
    seeds: members.map((run) => run.seed),
    states: [...new Set(members.map((run) => run.status))],
    started: members.map((run) => run.started).sort().at(-1),
    steps: Math.max(0, ...of("steps")),
    rate: mean(of("rate").filter((rate) => rate > 0)),
    score: last ? last[1] : mean(of("score")),
    interval: last ? `${written(last[2])} to ${written(last[3])} at ${compact.format(last[0])} steps${band.count < members.length ? `, ${band.count} of ${members.length} seeds` : ""}` : "",
    best: of("best").length ? Math.max(...of("best")) : null,
    minutes: of("minutes").length ? Math.max(...of("minutes")) : null,
  };
}

// What differs between the topologies of groups.
export function differences(keys, groups) {
  const differing = [...keys.keys()].filter((at) => groups.some((group) => group.values[at] !== groups[0].values[at]));
  if (!differing.length) return null;
  const values = (group) => differing.map((at) => element("code", {}, group.values[at]));
  const few = groups.length <= differing.length; // the longer list goes down the page
  const headings = few ? ["key", ...groups.map((group) => group.name)] : ["group", ...differing.map((at) => keys[at])];
  const rows = few
    ? differing.map((at, row) => [keys[at], ...groups.map((group) => values(group)[row])])
    : groups.map((group) => [group.name, ...values(group)]);
  return section("Differences", element("div", { class: "wide", tabindex: "0", "aria-label": "Differences" }, table("Keys in which the topologies differ", headings, rows)));
}

// One run: the part above its curves.
export function heading(head) {
  return [
    element("h2", {}, head.name, " ", status(head.status)),
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

const PROCESS_COLUMNS = {
  name: { heading: "process", of: (one) => one.name, text: process_name },
  state: { heading: "state", of: (one) => one.state, text: (one) => status(one.state) },
  restarts: { heading: "restarts", of: (one) => one.restarts[0], text: (one) => one.restarts[1] },
  cores: { heading: "CPU", of: (one) => one.cores[0], text: (one) => one.cores[1] },
  memory: { heading: "memory", of: (one) => one.memory[0], text: (one) => one.memory[1] },
  busy: { heading: "busy", of: (one) => one.busy[0], text: (one) => one.busy[1] },
  age: { heading: "age", of: (one) => one.age[0], text: (one) => one.age[1] },
  role: { heading: "role", of: (one) => one.role },
  node: { heading: "node", of: (one) => one.node || null },
  cause: { heading: "last death", of: (one) => one.cause || null },
};

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
