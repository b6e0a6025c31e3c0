// All runs: their list, the table of their groups with the columns that are chosen, and what differs between groups.

import { behind, element, swatch, table, titled } from "./elements.js";
import { dated, progress, row_of, section, sorted, sorting_head, status } from "./sections.js";
import { column_form, percent_form, placed, shortened, whole } from "./texts.js";

const LONGEST_IN_LIST = 18; // letters of a name
const MOST_SEEDS = 3; // that are listed of a group

// One line of the list of runs.
export function run_item(run, href, current, look) {
  const place = run.place && [placed(run), " · "];
  return element(
    "li",
    { "data-key": run.id },
    element(
      "a",
      { href, "aria-current": current ? "page" : null },
      element("span", { class: "line" }, swatch(look), element("b", { title: run.name }, shortened(run.name, LONGEST_IN_LIST)), element("span", { title: run.figures[0].description }, run.figures[0].text)),
      element("span", { class: "line soft" }, element("span", {}, place, run.env), status(run.status)),
      progress(run),
    ),
  );
}

// Columns --------------------------------------------------------------------------------------------------------------

// A column has a heading, `of`, which is the value of a line and sorts, and where it has numbers `form`, which makes what
// writes all of them in one precision: those of `of`, or of `written`. `text` is what stands in a cell otherwise, `csv`
// what stands in a file: headings and values.
function numbers(heading, of, form = column_form) {
  return { heading, of, form, right: true };
}

const whole_form = () => whole.format;

const COLUMNS = {
  name: { heading: "group or run", of: (one) => one.name, csv: [["group or run", titled]] },
  score: numbers("score", (one) => one.score),
  interval: {
    ...numbers("95 % interval", (one) => one.interval?.[0] ?? null),
    written: (one) => one.interval ?? [],
    text: (one, form) => (one.interval ? one.interval.map(form).join(" to ") : "–"),
    csv: [["95 % interval from", (one) => one.interval?.[0]], ["95 % interval to", (one) => one.interval?.[1]]],
  },
  at: numbers("score at step", (one) => one.at, whole_form),
  best: numbers("best", (one) => one.best),
  steps: numbers("steps", (one) => one.steps, whole_form),
  minutes: numbers("minutes", (one) => one.minutes),
  started: { heading: "started", of: (one) => one.started || null, text: (one) => dated(one.started) },
  rate: numbers("steps/s", (one) => one.rate, whole_form),
  status: { heading: "state", of: (one) => one.states.join(" "), text: (one) => one.states.flatMap((word) => [status(word), " "]) },
  env: { heading: "environment", of: (one) => one.env, text: (one) => element("span", { title: one.env }, shortened(one.env, LONGEST_IN_LIST)) },
  algorithm: { heading: "algorithm", of: (one) => one.algorithm },
  mode: { heading: "mode", of: (one) => one.mode },
  seed: { heading: "seeds", of: (one) => one.seeds.length, text: seeds, csv: [["seeds", (one) => one.seeds.join(" ")]] },
};
const FORMS = { whole: whole_form, percent: percent_form };

function seeds({ seeds: all, count }) {
  const said = all.length > MOST_SEEDS ? `${all.slice(0, MOST_SEEDS).join(", ")} … (${all.length})` : all.join(", ");
  return count < all.length ? `${said}; ${count} in the score` : said;
}

function key_column(key, at, groups) {
  const of = ({ values }) => values[at];
  const is_numeric = groups.every(({ values }) => typeof values[at] === "number");
  const form = (values) => column_form(values, true);
  return { heading: key, csv: [[key, of]], ...(is_numeric ? { of, form, right: true } : { of: (one) => String(of(one)) }) };
}

function metric_column({ name, label, description, form }) {
  const of = (one) => one.metrics[name] ?? null;
  return { ...numbers(label, of, FORMS[form]), title: description, csv: [[name, of]] };
}

// All columns that the table may have, by their names in the address.
export function columns_of(keys, groups, metrics) {
  return new Map([
    ...Object.entries(COLUMNS),
    ...keys.map((key, at) => [`key:${key}`, key_column(key, at, groups)]),
    ...metrics.map((metric) => [`metric:${metric.name}`, metric_column(metric)]),
  ]);
}

// The columns with these names; if there are none, those of every table that are not empty.
export function shown_columns(columns, names, lines) {
  const is_chosen = (name, { of }) => (names.length ? names.includes(name) : name in COLUMNS && lines.some((line) => !["", null, undefined].includes(of(line))));
  return new Map([...columns].filter(([name, column]) => name === "name" || is_chosen(name, column)));
}

// A tick for each column; `act` is called with the names of those that are to be shown.
export function column_choice(columns, shown, act) {
  const choice = ([name, { heading, title }]) => {
    const names = [...shown.keys()];
    const click = () => act(shown.has(name) ? names.filter((one) => one !== name) : [...names, name]);
    return element("label", { "data-key": name, title }, tick(shown.has(name), null, click), heading);
  };
  const kind = (legend, is_of) => {
    const own = [...columns].filter(([name]) => name !== "name" && is_of(name));
    return own.length ? element("fieldset", { "data-key": legend }, element("legend", {}, legend), own.map(choice)) : null;
  };
  return behind("Columns", () =>
    element(
      "div",
      { class: "columns" },
      kind("In general", (name) => name in COLUMNS),
      kind("Keys that differ", (name) => name.startsWith("key:")),
      kind("Metrics of the newest report", (name) => name.startsWith("metric:")),
      element("button", { type: "button", click: () => act([]) }, "default columns"),
    ),
  );
}

// The table ------------------------------------------------------------------------------------------------------------

// Lines of groups, in the order of a column, and of the runs of unfolded groups; a line has its numbers in itself.
export function lines_of_runs(groups, runs, bands, unfolded, columns, sort) {
  const lines = groups
    .map((group) => ({ group, members: group.runs.map((id) => runs.get(id)).filter(Boolean) }))
    .filter(({ members }) => members.length)
    .map(({ group, members }) => group_line(group, members, bands(group)));
  return sorted(lines, columns, sort).flatMap((line) => (line.members.length > 1 && unfolded.has(line.group.number) ? [line, ...line.members.map((run) => run_line(run, line.group))] : [line]));
}

function run_line(run, group) {
  const { algorithm, mode, values } = group;
  return { ...run.numbers, group, run, name: run.name, place: run.place, env: run.env, algorithm, mode, values, metrics: run.metrics, started: run.started, seeds: [run.seed], states: [run.status] };
}

// A group has the numbers of its runs: the most steps and minutes, the best score, else means.
function group_line(group, members, band) {
  const of = (name) => members.map((run) => run.numbers[name]).filter((value) => value !== null && value !== undefined);
  const mean = (values) => (values.length ? values.reduce((sum, value) => sum + value, 0) / values.length : null);
  const [at, score, low, high] = band?.by_steps?.map((column) => column.at(-1)) ?? [null, mean(of("score"))];
  const metrics = [...new Set(members.flatMap((run) => Object.keys(run.metrics)))];
  const mean_metric = (name) => mean(members.map((run) => run.metrics[name]).filter((value) => value !== null && value !== undefined));
  return {
    group,
    members,
    at,
    score,
    interval: at === null ? null : [low, high],
    count: at === null ? members.length : band.count,
    name: group.name,
    place: group.place,
    env: group.env,
    algorithm: group.algorithm,
    mode: group.mode,
    values: group.values,
    seeds: members.map((run) => run.seed),
    states: [...new Set(members.map((run) => run.status))],
    started: members.map((run) => run.started).sort().at(-1),
    steps: Math.max(0, ...of("steps")),
    rate: mean(of("rate").filter((rate) => rate > 0)),
    best: of("best").length ? Math.max(...of("best")) : null,
    minutes: of("minutes").length ? Math.max(...of("minutes")) : null,
    metrics: Object.fromEntries(metrics.map((name) => [name, mean_metric(name)])),
  };
}

// The table of groups, their seeds folded. `looks` gives the look of a group's line; `hrefs` the address of a run;
// `acts` has sort(column), pick(ids), unfold(number), and the sets of what is picked and unfolded.
export function runs_table(lines, columns, looks, hrefs, acts, sort) {
  const forms = new Map([...columns].filter(([, { form }]) => form).map(([name, column]) => [name, form_of(column, lines)]));
  const rows = lines.map((line) => {
    const { group, members, run } = line;
    const ids = run ? [run.id] : members.map(({ id }) => id);
    const all = ids.every((id) => acts.picked.has(id));
    const first = [tick(all, `Draw ${titled(line)}`, () => acts.pick(ids, !all)), run ? null : swatch(looks(group.number)), run ? null : fold(group, members, acts), name_of(line, hrefs)];
    return row_of(columns, line, run ? { class: "member", "data-key": run.id } : { "data-key": `group ${group.number}` }, first, forms);
  });
  const caption = "Runs that differ only in name and seed are one group; its score is the interquartile mean, in its 95 % interval, at the last step that all its finished and living seeds have reached. Tick groups or runs to draw and compare only these.";
  return element("table", { class: "sortable" }, element("caption", {}, caption), sorting_head(columns, sort, acts.sort), element("tbody", {}, rows));
}

function form_of({ of, written = of, form }, lines) {
  return form(lines.flatMap(written).filter((value) => value !== null && value !== undefined));
}

function fold(group, members, acts) {
  if (members.length < 2) return null;
  const open = acts.unfolded.has(group.number);
  return element("button", { type: "button", class: "plain fold", "aria-expanded": String(open), "aria-label": `Seeds of ${titled(group)}`, click: () => acts.unfold(group.number) }, open ? "▾" : "▸");
}

// The name of a group or a run, which is a link to the run, and its place if others have this name.
function name_of({ name, place, members, run }, hrefs) {
  const only = run ?? (members.length > 1 ? null : members[0]);
  const link = only ? element("a", { href: hrefs(only.id), title: only.name }, shortened(name)) : element("b", { title: name }, shortened(name));
  return [link, placed({ place })];
}

function tick(checked, label, click) {
  return element("input", { type: "checkbox", checked, "aria-label": label, click });
}

// The table as rows for a file: headings, and the values of all lines.
export function csv_rows(lines, columns) {
  const cells = [...columns.values()].flatMap(({ heading, of, csv }) => csv ?? [[heading, of]]);
  return [cells.map(([heading]) => heading), ...lines.map((line) => cells.map(([, of]) => of(line)))];
}

// What differs between the topologies of groups.
export function differences(keys, groups) {
  const differing = [...keys.keys()].filter((at) => groups.some((group) => group.values[at] !== groups[0].values[at]));
  if (!differing.length) return null;
  const columns = differing.map((at) => key_column(keys[at], at, groups));
  const texts = columns.map(({ of, form }) => (form ? form(groups.map(of)) : String));
  const values = (group) => columns.map(({ of }, at) => element("code", {}, texts[at](of(group))));
  const few = groups.length <= differing.length; // the longer list goes down the page
  const headings = few ? ["key", ...groups.map(titled)] : ["group", ...columns.map(({ heading }) => heading)];
  const rows = few
    ? columns.map(({ heading }, row) => [heading, ...groups.map((group) => values(group)[row])])
    : groups.map((group) => [titled(group), ...values(group)]);
  const is_right = (at) => !few && at > 0 && columns[at - 1].right;
  return section("Differences", element("div", { class: "wide", tabindex: "0", "aria-label": "Differences" }, table("Keys in which the topologies differ", headings, rows, { class: "fitted" }, is_right)));
}
