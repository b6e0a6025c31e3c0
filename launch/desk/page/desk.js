// The page: what it looks at, the parts that the server sends of it (launch/desk/stream.py), and keys.

import { address, chosen, rewrite } from "./address.js";
import { is_dark, look_of, use_colours } from "./colours.js";
import { element, refill, titled } from "./elements.js";
import { Pictures } from "./curves.js";
import { machine } from "./load.js";
import { MetricField, metric_option } from "./metrics.js";
import { ProcessDialog } from "./process.js";
import { column_choice, columns_of, csv_rows, differences, lines_of_runs, run_item, runs_table, shown_columns } from "./runs.js";
import { SECTIONS, figures, films_of, heading, sort_processes } from "./sections.js";
import { csv_link } from "./texts.js";

const by_id = (id) => document.getElementById(id);
const parts = new Map();
const pictures = new Pictures(by_id("curves"));
const metric_field = new MetricField(by_id("metric"), (name) => (location.hash = address({ metric: [name, ...chosen().metric.slice(1).filter((one) => one !== name)] })));
const more_field = new MetricField(by_id("more"), (name) => (location.hash = address({ metric: [...new Set([...parts.get("desk").shown.map((one) => one.name), name])] })));
const process_dialog = new ProcessDialog(by_id("process"));
const unfolded = new Set(); // groups whose runs are listed
let stream = null;
let streamed = null; // what the stream was asked for
let focused = ""; // the run whose sections stand there
let announced = new Map(); // newest alarm of each run
const alarms = new Map(); // those of them that stand at the top
let pointer_down = false;
const waiting = new Set(); // parts that changed while a pointer was down
let silence = 0; // the timer that takes the alarm from the top again; it stays among the events
const ALARM_MS = 60_000;

// Parts ----------------------------------------------------------------------------------------------------------------

function receive(changed) {
  for (const [name, value] of Object.entries(changed)) parts.set(name, value);
  show(Object.keys(changed));
}

function show(changed) {
  if (pointer_down) {
    changed.forEach((name) => waiting.add(name));
    return;
  }
  const desk = parts.get("desk");
  const runs = parts.get("runs");
  if (!desk || !runs) return;
  const { run } = chosen();
  const is_new = (...names) => names.some((name) => changed.includes(name));
  if (is_new("desk")) show_desk(desk);
  if (is_new("runs", "groups")) show_list(runs, run);
  announce(runs);
  if (run !== focused) clear(run);
  document.body.classList.toggle("one", Boolean(run));
  if (!changed.every((name) => name.startsWith("run/")) || !changed.length) show_curves(run);
  if (run) show_run(run, changed);
  else if (is_new("groups", "runs") || changed.some((name) => name.startsWith("curve/") || name.startsWith("band/"))) show_all();
  requestAnimationFrame(() => (document.documentElement.dataset.drawn = String(performance.now())));
}

function show_desk(desk) {
  use_colours(desk.colours);
  if (desk.live) document.documentElement.dataset.live = "yes";
  const offered = by_id("metrics");
  const names = desk.metrics.map(({ name }) => name);
  if (names.join() !== [...offered.options].map(({ value }) => value).join()) offered.replaceChildren(...desk.metrics.map(metric_option));
  const drawn = new Set(desk.shown.map(({ name }) => name));
  const is_full = drawn.size >= desk.most_metrics || desk.metrics.every(({ name }) => drawn.has(name));
  metric_field.show(desk.metrics, desk.shown[0].label);
  more_field.show(desk.metrics, "");
  by_id("metric").title = desk.shown[0].description;
  by_id("metric").disabled = by_id("more").disabled = !desk.live;
  by_id("more").hidden = is_full;
  const others = desk.shown.slice(1).map(({ name, label }) =>
    element("button", { type: "button", title: `Do not draw ${label}`, click: () => (location.hash = address({ metric: chosen().metric.filter((one) => one !== name) })) }, `${label} ×`),
  );
  by_id("others").replaceChildren(...others);
  if (!desk.live) by_id("connection").textContent = `report by actorlearn ${desk.version}`;
}

// The runs that the filter leaves: each of its words is in the name, environment, algorithm, mode or state.
function filtered(runs) {
  const words = chosen().filter.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return runs;
  const groups = new Map(parts.get("groups").groups.map((group) => [group.number, group]));
  return runs.filter((run) => {
    const { name, algorithm, mode } = groups.get(run.group) ?? {};
    const text = [run.name, name, run.env, algorithm, mode, run.status].join(" ").toLowerCase();
    return words.every((word) => text.includes(word));
  });
}

function show_list(runs, current) {
  const order = [...filtered(runs)].sort((a, b) => (a.status !== "running") - (b.status !== "running"));
  const items = order.map((run) => run_item(run, address({ run: run.id }), run.id === current, look_of(run.group)));
  const none = runs.length ? "No run matches the filter." : "There are no runs yet. Start one with `actorlearn run TOPOLOGY`.";
  refill(by_id("runs"), items.length ? items : element("li", { class: "soft" }, none));
}

// Say deaths and the like as they happen, of whatever run; a mere warning stands among the events. It is calmer once the
// processes run again.
function announce(runs) {
  const before = announced;
  announced = new Map(runs.map((run) => [run.id, run.alarm ? `${run.alarm.time} ${run.alarm.text}` : ""]));
  const is_grave = (alarm) => alarm && !["warned", "slow"].includes(alarm.kind);
  const fresh = runs.filter((run) => before.has(run.id) && is_grave(run.alarm) && before.get(run.id) !== announced.get(run.id));
  if (fresh.length) {
    alarms.clear();
    for (const { id } of fresh) alarms.set(id, announced.get(id));
    clearTimeout(silence);
    silence = setTimeout(silent, ALARM_MS);
  }
  const standing = runs.filter((run) => alarms.get(run.id) === announced.get(run.id));
  if (!standing.length || standing.length < alarms.size) return; // a warning came after one of them
  const links = standing.map((run) => element("a", { href: address({ run: run.id }) }, `${titled(run)}: ${run.alarm.text}${run.alarm.restarted ? "; restarted" : ""}`));
  by_id("alarm").classList.toggle("restarted", standing.every((run) => run.alarm.restarted));
  refill(by_id("alarm"), ...links, element("button", { type: "button", "aria-label": "Hide the alarm", click: silent }, "×"));
}

function silent() {
  alarms.clear();
  by_id("alarm").replaceChildren();
}

// Pictures -------------------------------------------------------------------------------------------------------------

// Runs that are drawn: those of the filter, and if some of them are ticked, only these.
function drawn_runs() {
  const left = filtered(parts.get("runs"));
  const picked = new Set(chosen().picked);
  const ticked = left.filter((run) => picked.has(run.id));
  return new Set((ticked.length ? ticked : left).map((run) => run.id));
}

function show_curves(run) {
  const { smooth, log } = chosen();
  by_id("smoothed").textContent = smooth || "0";
  const groups = parts.get("groups").groups;
  const shown = parts.get("desk").shown;
  const pairs = run ? pairs_of_run(run, groups, shown) : pairs_of_all(groups, shown);
  pictures.show(pairs, { smooth: Math.min(0.99, Number(smooth) || 0), log });
}

function pairs_of_all(groups, shown) {
  const runs = drawn_runs();
  const left = groups.map((group) => ({ ...group, runs: group.runs.filter((id) => runs.has(id)), whole: group.runs.every((id) => runs.has(id)) })).filter((group) => group.runs.length);
  const environments = [...new Set(left.map((group) => group.env))].sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
  return shown.flatMap(({ name, label }) =>
    environments.map((env) => ({
      key: `${env} ${name}`,
      synced: env,
      env,
      metric: name,
      title: environments.length > 1 ? (shown.length > 1 ? `${env}: ${label}` : env) : label,
      label,
      curves: left.filter((group) => group.env === env).flatMap((group) => group_curves(group, name)),
      marks: [],
    })),
  );
}

function pairs_of_run(run, groups, shown) {
  const group = groups.find(({ runs }) => runs.includes(run));
  if (!group) return [];
  const marks = parts.get(`curve/${run}`)?.marks ?? [];
  return shown.map(({ name, label }) => ({ key: `run ${name}`, synced: run, env: group.env, metric: name, title: label, label, curves: run_curves(run, group, name), marks }));
}

// A group: its band, where several seeds have come far enough, and the line of each of its runs.
function group_curves(group, metric) {
  const look = look_of(group.number);
  const band = group.whole ? parts.get(`band/${group.number}`)?.[metric] : null;
  const alone = !band?.by_steps;
  const lines = group.runs.map((id) => line_of(id, metric, { ...look, width: alone ? 2 : 1.1 })).filter(Boolean);
  const { name, place } = group;
  if (alone) return lines.map((line) => (lines.length === 1 ? { ...line, name, place } : line));
  const middle = { ...look, name, place, width: 2.2, by_steps: [[], []], by_minutes: [[], []], band };
  return [middle, ...lines.map((line) => ({ ...line, colour: `${look.colour}cc` }))];
}

// A run, in front of others of its group.
function run_curves(run, group, metric) {
  const others = group.runs.filter((id) => id !== run).map((id) => line_of(id, metric, { colour: is_dark() ? "#8a949c" : "#8a9298", width: 1 }));
  return [line_of(run, metric, { colour: look_of(group.number).colour, width: 2.2 }), ...others].filter(Boolean);
}

function line_of(id, metric, look) {
  const curve = parts.get(`curve/${id}`)?.metrics[metric];
  if (!curve) return null;
  const { name, place } = run_of(id) ?? {};
  return { ...look, name, place, by_steps: curve.by_steps, by_minutes: curve.by_minutes, band: null };
}

function run_of(id) {
  return parts.get("runs").find((run) => run.id === id);
}

// All runs -------------------------------------------------------------------------------------------------------------

const ACTS = {
  unfolded,
  sort: (column) => (location.hash = address({ sort: column })),
  unfold: (number) => {
    unfolded.has(number) ? unfolded.delete(number) : unfolded.add(number);
    show_all();
  },
  pick: (ids, on) => {
    const picked = new Set(chosen().picked);
    for (const id of ids) on ? picked.add(id) : picked.delete(id);
    location.hash = address({ picked: [...picked] });
  },
};

// What is said where no run is left to be drawn.
function nothing() {
  const { filter } = chosen();
  if (!parts.get("runs").length) return element("p", {}, "There are no runs yet. Start one with ", element("code", {}, "actorlearn run TOPOLOGY"), ".");
  return element("p", {}, `No run matches '${filter}'. `, element("button", { type: "button", click: () => (location.hash = address({ filter: "" })) }, "Clear the filter"));
}

function show_all() {
  by_id("top").hidden = true;
  const { sort, picked, column } = chosen();
  const left = new Map(filtered(parts.get("runs")).map((run) => [run.id, run]));
  const { keys, groups } = parts.get("groups");
  const there = groups.filter((group) => group.runs.some((id) => left.has(id)));
  const band = (group) => (group.runs.every((id) => left.has(id)) ? parts.get(`band/${group.number}`)?.episode_return_mean : null);
  const columns = columns_of(keys, groups, parts.get("desk").metrics);
  const lines = lines_of_runs(there, left, band, unfolded, columns, sort);
  const shown = shown_columns(columns, column, lines);
  const made = runs_table(lines, shown, look_of, (id) => address({ run: id }), { ...ACTS, picked: new Set(picked) }, sort);
  const drawn = drawn_runs();
  const compared_groups = there.filter((group) => group.runs.some((id) => drawn.has(id)));
  const card = left.size ? element("section", { class: "card wide", tabindex: "0", "aria-label": "Runs" }, made) : null;
  const save = csv_link("table as CSV", "runs.csv", () => csv_rows(lines, shown));
  refill(by_id("tools"), left.size ? [column_choice(columns, shown, (names) => (location.hash = address({ column: names }))), save, curves_link()] : null);
  refill(by_id("table"), card ?? nothing());
  refill(by_id("rest"), compared_groups.length > 1 ? differences(keys, compared_groups) : null);
}

function curves_link() {
  return csv_link("curves as CSV", "curves.csv", () => pictures.csv_rows());
}

// One run --------------------------------------------------------------------------------------------------------------

function clear(run) {
  focused = run;
  by_id("table").replaceChildren();
  by_id("tools").replaceChildren(...(run ? [curves_link()] : []));
  films_of(run);
  by_id("top").replaceChildren(...(run ? [element("div", { id: "head" }), element("div", { id: "changes" }), element("div", { id: "figures" })] : []));
  by_id("rest").replaceChildren(...(run ? Object.keys(SECTIONS).map((name) => element("div", { id: `part-${name}`, class: `part ${name}` })) : []));
  if (!run) show_all();
}

function show_run(run, changed) {
  by_id("top").hidden = false;
  if (!run_of(run)) {
    clear(run);
    by_id("tools").replaceChildren();
    const gone = "The desk knows no run of this address: its folder is gone, or is not in the folder that the desk shows.";
    by_id("head").replaceChildren(element("p", {}, gone, " ", element("a", { href: address({ run: "" }) }, "Show all runs.")));
    return;
  }
  const all = by_id("head").children.length === 0; // it has just been turned to
  const part = (name) => (all || changed.includes(`run/${run}/${name}`) ? parts.get(`run/${run}/${name}`) : undefined);
  const head = part("head") ?? (changed.includes("groups") ? parts.get(`run/${run}/head`) : null); // a run of its name may have come
  if (head) {
    refill(by_id("head"), element("a", { href: address({ run: "" }) }, "‹ all runs"), heading(head, run_of(run).place));
    document.title = `${titled(run_of(run))} · actorlearn`;
  }
  const numbers = part("figures");
  if (numbers) refill(by_id("figures"), figures(numbers));
  sort_processes(chosen().processes, (column) => {
    rewrite({ processes: column });
    show([`run/${run}/processes`]);
  });
  for (const [name, draw] of Object.entries(SECTIONS)) {
    const value = part(name);
    if (value === undefined) continue;
    refill(by_id(`part-${name}`), draw(value));
  }
  show_changes(run);
}

// Buttons that change the run, where the desk allows it and as long as it is alive.
function show_changes(run) {
  const place = by_id("changes");
  const head = parts.get(`run/${run}/head`);
  const allowed = parts.get("desk").changes && head && ["starting", "running"].includes(head.status);
  if (!allowed) {
    place.replaceChildren();
    return;
  }
  if (!place.children.length) place.append(change_form(run));
  const boxes = parts.get(`run/${run}/graph`)?.boxes ?? [];
  const names = boxes.filter((box) => box.role === "simulator").flatMap((box) => box.processes);
  const choice = by_id("leaving");
  if (names.join() !== [...choice.options].slice(1).map((option) => option.value).join()) {
    const kept = names.includes(choice.value) ? choice.value : "";
    const first = element("option", { value: "" }, "choose a simulator");
    choice.replaceChildren(first, ...names.map((name) => element("option", { value: name }, name)));
    choice.value = kept;
  }
}

function change_form(run) {
  const count = element("input", { type: "number", min: 1, max: 64, value: 1, "aria-label": "Number of simulators to attach" });
  const choice = element("select", { id: "leaving", "aria-label": "Simulator to detach" });
  const said = element("output", { role: "status" });
  const name = parts.get(`run/${run}/head`).name;
  const button = (word, asked, body) =>
    element("button", { type: "button", click: async (event) => {
      const question = asked();
      if (question.refused) said.textContent = question.refused;
      if (question.refused || (question.sure && !confirm(question.sure))) return;
      const buttons = event.target.form.querySelectorAll("button");
      const begun = performance.now();
      const tell = () => (said.textContent = `${word} … ${Math.round((performance.now() - begun) / 1000)} s`);
      buttons.forEach((one) => (one.disabled = true));
      tell();
      const ticking = setInterval(tell, 1000);
      const answer = await change(run, word, body());
      clearInterval(ticking);
      buttons.forEach((one) => (one.disabled = false));
      said.textContent = answer;
    } }, word);
  return element(
    "form",
    { class: "changes", "aria-label": "Change the run", submit: (event) => event.preventDefault() },
    button("attach", () => attach_question(run, name, count), () => ({ simulators: Number(count.value) })), count,
    button("detach", () => (choice.value ? { sure: `Detach ${choice.value} from ${name}? Its environments end with its next rollout.` } : { refused: "choose the simulator to detach" }), () => ({ names: [choice.value] })), choice,
    button("save", () => ({}), () => ({})),
    button("stop", () => ({ sure: `Save a checkpoint of ${name} and end it?` }), () => ({})),
    said,
  );
}

// Attaching asks first if the processes of the run will be more than the cores.
function attach_question(run, name, count) {
  if (!count.checkValidity() || !count.value) return { refused: `attach: a number from 1 to 64` };
  const boxes = parts.get(`run/${run}/graph`)?.boxes ?? [];
  const running = boxes.flatMap((box) => (["exited", "fatal"].includes(box.state) ? [] : box.processes)).length;
  const after = running + Number(count.value);
  const { cores } = parts.get("desk");
  if (after <= cores) return {};
  return { sure: `Attach ${count.value} simulators to ${name}? Its ${after} processes will share ${cores} cores, and the run may become slower.` };
}

async function change(run, word, body) {
  try {
    const reply = await fetch(`runs/${run}/${word}`, { method: "POST", body: JSON.stringify(body) });
    return reply.headers.get("content-type")?.includes("json") ? (await reply.json()).text : await reply.text();
  } catch {
    return "the desk does not answer";
  }
}

// The stream -----------------------------------------------------------------------------------------------------------

// What the stream is to be asked for.
function wanted_of_stream() {
  const { run, metric, column } = chosen();
  const in_table = column.filter((name) => name.startsWith("metric:")).map((name) => ["column", name.slice("metric:".length)]);
  return String(new URLSearchParams([...(run ? [["run", run]] : in_table), ...metric.map((name) => ["metric", name])]));
}

function connect() {
  stream?.close();
  streamed = wanted_of_stream();
  stream = new EventSource(`stream?${streamed}`);
  const tell = (text, bad) => {
    by_id("connection").textContent = text;
    by_id("connection").classList.toggle("bad", bad);
  };
  stream.onopen = () => tell("live", false);
  stream.onerror = (event) => {
    const refused = event.target.readyState === EventSource.CLOSED; // a browser does not ask again then
    tell(refused ? "refused: open the address that `actorlearn desk` printed last" : "the desk does not answer; trying again", true);
  };
  stream.onmessage = (event) => receive(JSON.parse(event.data));
}

// Follow the address: ask for other parts where it names another run or metric, and draw what there is.
function turn() {
  const { run, filter, smooth, log } = chosen();
  by_id("filter").value = filter;
  by_id("smooth").value = smooth || "0";
  by_id("log").value = log;
  process_dialog.close();
  show(["runs", "groups"]);
  if (by_id("parts")) show([...parts.keys()]);
  else if (wanted_of_stream() !== streamed) connect();
  if (!run) document.title = "actorlearn";
}

// Light and keys -------------------------------------------------------------------------------------------------------

function lighten(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
  by_id("theme").textContent = is_dark() ? "light" : "dark";
  pictures.redraw();
  machine.redraw();
  show(["runs", "groups"]);
}

function switch_theme() {
  const theme = is_dark() ? "light" : "dark";
  try {
    localStorage.setItem("theme", theme);
  } catch {} // a file may have no storage; then it is dark or light until it is closed
  lighten(theme);
}

function redrawn(change) {
  rewrite(change);
  show(["runs", "groups"]);
}

// While a pointer is down, lists and the table stay as they are: a click on what has been replaced would be lost.
document.addEventListener("pointerdown", () => (pointer_down = true));
for (const kind of ["pointerup", "pointercancel", "blur"]) {
  window.addEventListener(kind, () => setTimeout(() => {
    pointer_down = false;
    const changed = [...waiting];
    waiting.clear();
    if (changed.length) show(changed);
  }));
}

// Show the log and the load of a process; a report has neither.
function show_process(name) {
  const { run } = chosen();
  const boxes = parts.get(`run/${run}/graph`)?.boxes ?? [];
  if (parts.get("desk").live) process_dialog.open(run, name, boxes.flatMap((box) => box.processes));
}

function step(by) {
  const links = [...by_id("runs").querySelectorAll("a")];
  const at = links.findIndex((link) => link.hasAttribute("aria-current"));
  const link = links[Math.min(links.length - 1, Math.max(0, at + by))];
  if (link) {
    location.hash = link.getAttribute("href");
    link.scrollIntoView({ block: "nearest" });
  }
}

const KEYS = {
  j: () => step(1),
  k: () => step(-1),
  o: () => (location.hash = address({ run: "" })),
  Escape: () => (location.hash = address({ run: "" })),
  "/": () => by_id("filter").focus(),
  m: () => by_id("metric").focus(),
  t: switch_theme,
  "?": () => by_id("help").showModal(),
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (event.target.closest("input, select, textarea")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const act = KEYS[event.key];
  if (act) {
    event.preventDefault();
    act();
  }
});
for (const kind of ["input", "search"]) by_id("filter").addEventListener(kind, (event) => redrawn({ filter: event.target.value })); // Esc is a search
by_id("smooth").addEventListener("input", (event) => redrawn({ smooth: Number(event.target.value) ? event.target.value : "" }));
by_id("log").addEventListener("change", (event) => redrawn({ log: event.target.value }));
by_id("rest").addEventListener("click", (event) => {
  const box = event.target.closest?.("[data-process]");
  if (box) show_process(box.dataset.process);
});
by_id("rest").addEventListener("keydown", (event) => {
  if (!["Enter", " "].includes(event.key) || !event.target.matches?.("[data-process]")) return;
  event.preventDefault();
  show_process(event.target.dataset.process);
});
by_id("theme").addEventListener("click", switch_theme);
by_id("keys").addEventListener("click", () => by_id("help").showModal());
for (const [link, place] of [["skip", "main"], ["to-list", "list"]]) {
  by_id(link).addEventListener("click", (event) => {
    event.preventDefault(); // the address says which run is shown
    by_id(place).scrollIntoView();
    by_id(place).focus({ preventScroll: true });
  });
}
by_id("runs").addEventListener("click", () => {
  if (matchMedia("(max-width: 760px)").matches) scrollTo(0, 0); // the list stands below the run there
});
by_id("home").addEventListener("click", (event) => {
  event.preventDefault();
  location.hash = address({ run: "" });
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => lighten());
window.addEventListener("hashchange", turn);

try {
  lighten(localStorage.getItem("theme"));
} catch {
  lighten();
}
const given = by_id("parts"); // a report has its parts in itself
if (given) {
  for (const [name, value] of Object.entries(JSON.parse(given.textContent))) parts.set(name, value);
  if (!chosen().run && parts.get("runs").length === 1) location.replace(address({ run: parts.get("runs")[0].id }));
  turn();
} else {
  if (new URLSearchParams(location.search).has("token")) history.replaceState(null, "", location.pathname + location.hash);
  turn();
  // A browser has six connections to a host: pages that nobody sees leave theirs to others.
  document.addEventListener("visibilitychange", () => (document.hidden ? stream.close() : connect()));
}
