// The page: what it looks at, the parts that the server sends of it (launch/desk/stream.py), and keys.

import { element, refill } from "./elements.js";
import { CurvePair } from "./curves.js";
import { SECTIONS, differences, figures, films_of, groups, heading, run_item } from "./sections.js";

const by_id = (id) => document.getElementById(id);
const parts = new Map();
const curve_pair = new CurvePair(by_id("curves"));
const hidden = new Set(); // groups that are not drawn
let stream = null;
let focused = ""; // the run whose sections stand there
let announced = new Map(); // newest alarm of each run
let silence = 0; // the timer that takes the alarm from the top again; it stays among the events
const ALARM_MS = 60_000;
const DASHES = [undefined, [8, 4], [2, 3]]; // of lines, where there are more groups than colours

// What it looks at: the run in full, or "" for all, and the metric. It stands in the address, so it can be kept.
function looked_at() {
  const hash = new URLSearchParams(location.hash.slice(1));
  return { run: hash.get("run") ?? "", metric: hash.get("metric") ?? "" };
}

function address(change) {
  const wanted = { ...looked_at(), ...change };
  const kept = Object.entries(wanted).filter(([, value]) => value);
  return `#${new URLSearchParams(kept)}`;
}

// Parts ----------------------------------------------------------------------------------------------------------------

function receive(changed) {
  for (const [name, value] of Object.entries(changed)) parts.set(name, value);
  show(Object.keys(changed));
}

function show(changed) {
  const desk = parts.get("desk");
  const runs = parts.get("runs");
  if (!desk || !runs) return;
  const { run } = looked_at();
  const is_new = (...names) => names.some((name) => changed.includes(name));
  if (is_new("desk")) show_desk(desk);
  if (is_new("runs", "groups")) show_list(runs, run);
  announce(runs);
  if (run !== focused) clear(run);
  if (!changed.every((name) => name.startsWith("run/")) || !changed.length) show_curves(run);
  if (run) show_run(run, changed);
  else if (is_new("groups", "runs") || changed.some((name) => name.startsWith("curve/") || name.startsWith("band/"))) show_all();
  requestAnimationFrame(() => (document.documentElement.dataset.drawn = String(performance.now())));
}

function show_desk(desk) {
  const choice = by_id("metric");
  const names = desk.metrics.map(({ name }) => name);
  if (names.join() !== [...choice.options].map(({ value }) => value).join()) {
    choice.replaceChildren(...desk.metrics.map(({ name, label }) => element("option", { value: name }, label)));
  }
  choice.value = desk.metric.name;
  choice.title = desk.metric.description;
  choice.disabled = !desk.live;
  if (!desk.live) by_id("connection").textContent = `report by actorlearn ${desk.version}`;
}

function colour_of(number) {
  const { colour } = look_of(number);
  return colour === "#000000" ? "var(--ink)" : colour;
}

function show_list(runs, current) {
  const words = by_id("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
  const wanted = runs.filter((run) => words.every((word) => `${run.name} ${run.env} ${run.status}`.toLowerCase().includes(word)));
  const order = [...wanted].sort((a, b) => (a.status !== "running") - (b.status !== "running"));
  const held = document.activeElement?.closest?.("#runs a")?.getAttribute("href");
  by_id("runs").replaceChildren(...order.map((run) => run_item(run, address({ run: run.id }), run.id === current, colour_of(run.group))));
  if (held) by_id("runs").querySelector(`a[href="${held}"]`)?.focus();
  if (!runs.length) by_id("runs").replaceChildren(element("li", { class: "soft" }, "There are no runs yet. Start one with `actorlearn run TOPOLOGY`."));
}

// Say deaths and the like as they happen, of whatever run; a mere warning stands among the events.
function announce(runs) {
  const before = announced;
  announced = new Map(runs.map((run) => [run.id, run.alarm ? `${run.alarm.time} ${run.alarm.text}` : ""]));
  const is_grave = (alarm) => alarm && !["warned", "slow"].includes(alarm.kind);
  const fresh = runs.filter((run) => before.has(run.id) && is_grave(run.alarm) && before.get(run.id) !== announced.get(run.id));
  if (!fresh.length) return;
  by_id("alarm").textContent = fresh.map((run) => `${run.name}: ${run.alarm.text}`).join("; ");
  clearTimeout(silence);
  silence = setTimeout(() => (by_id("alarm").textContent = ""), ALARM_MS);
}

// Pictures -------------------------------------------------------------------------------------------------------------

function show_curves(run) {
  const desk = parts.get("desk");
  const all = parts.get("groups").groups;
  const curves = run ? run_curves(run, all) : all.flatMap((group, number) => (hidden.has(number) ? [] : group_curves(group, number)));
  const marks = run ? (parts.get(`curve/${run}`)?.marks ?? []) : [];
  curve_pair.show(desk.metric.label, curves, marks);
}

// How the lines of a group look; ``colour_of`` is the same for what is no line.
function look_of(number) {
  const { colours } = parts.get("desk");
  return { colour: colours[number % colours.length], dash: DASHES[Math.floor(number / colours.length) % DASHES.length] };
}

// A group: its band, where several seeds have come far enough, and the line of each of its runs.
function group_curves(group, number) {
  const { colour, dash } = look_of(number);
  const band = parts.get(`band/${number}`);
  const names = new Map(parts.get("runs").map((run) => [run.id, run.name]));
  const alone = !band?.by_steps;
  const lines = group.runs.map((id) => line_of(id, names.get(id), colour, alone ? 2 : 0.7, dash)).filter(Boolean);
  if (alone) return lines.map((line) => (lines.length === 1 ? { ...line, name: group.name } : line));
  return [{ name: group.name, colour, dash, width: 2.2, by_steps: [[], []], by_minutes: [[], []], band }, ...lines.map((line) => ({ ...line, colour: `${colour}80` }))];
}

// A run, in front of others of its group.
function run_curves(run, all) {
  const number = all.findIndex((group) => group.runs.includes(run));
  if (number < 0) return [];
  const names = new Map(parts.get("runs").map((one) => [one.id, one.name]));
  const others = all[number].runs.filter((id) => id !== run).map((id) => line_of(id, names.get(id), "#8888887f", 0.8));
  return [line_of(run, names.get(run), look_of(number).colour, 2.2), ...others].filter(Boolean);
}

function line_of(id, name, colour, width, dash) {
  const curve = parts.get(`curve/${id}`);
  return curve ? { name, colour, width, dash, by_steps: curve.by_steps, by_minutes: curve.by_minutes, band: null } : null;
}

// All runs -------------------------------------------------------------------------------------------------------------

function show_all() {
  by_id("top").hidden = true;
  const runs = new Map(parts.get("runs").map((run) => [run.id, run]));
  const legend = groups(parts.get("groups"), runs, (number) => parts.get(`band/${number}`), (id) => parts.get(`curve/${id}`), colour_of, hidden, (number) => {
    hidden.has(number) ? hidden.delete(number) : hidden.add(number);
    show(["groups"]);
  });
  refill(by_id("rest"), element("section", { class: "card wide", tabindex: "0", "aria-label": "Groups" }, legend), differences(parts.get("groups")));
}

// One run --------------------------------------------------------------------------------------------------------------

function clear(run) {
  focused = run;
  films_of(run);
  by_id("top").replaceChildren(...(run ? [element("div", { id: "head" }), element("div", { id: "changes" }), element("div", { id: "figures" })] : []));
  by_id("rest").replaceChildren(...(run ? Object.keys(SECTIONS).map((name) => element("div", { id: `part-${name}`, class: `part ${name}` })) : []));
  if (!run) show_all();
}

function show_run(run, changed) {
  by_id("top").hidden = false;
  const all = by_id("head").children.length === 0; // it has just been turned to
  const part = (name) => (all || changed.includes(`run/${run}/${name}`) ? parts.get(`run/${run}/${name}`) : undefined);
  const head = part("head");
  if (head) {
    by_id("head").replaceChildren(...heading(head));
    document.title = `${head.name} · actorlearn`;
  }
  const numbers = part("figures");
  if (numbers) by_id("figures").replaceChildren(figures(numbers));
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
  if (names.join() !== [...choice.options].map((option) => option.value).join()) {
    choice.replaceChildren(...names.map((name) => element("option", { value: name }, name)));
  }
}

function change_form(run) {
  const count = element("input", { type: "number", min: 1, max: 64, value: 1, "aria-label": "Number of simulators to attach" });
  const choice = element("select", { id: "leaving", "aria-label": "Simulator to detach" });
  const said = element("output", { role: "status" });
  const button = (word, body, sure) =>
    element("button", { type: "button", click: async () => {
      if (sure && !confirm(sure)) return;
      said.textContent = `${word} …`;
      said.textContent = await change(run, word, body());
    } }, word);
  return element(
    "form",
    { class: "changes", "aria-label": "Change the run", submit: (event) => event.preventDefault() },
    button("attach", () => ({ simulators: Number(count.value) })), count,
    button("detach", () => ({ names: [choice.value] })), choice,
    button("save", () => ({})),
    button("stop", () => ({}), "Save a checkpoint and end this run?"),
    said,
  );
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

function connect() {
  stream?.close();
  const { run, metric } = looked_at();
  const asked = new URLSearchParams(Object.entries({ run, metric }).filter(([, value]) => value));
  stream = new EventSource(`stream?${asked}`);
  stream.onopen = () => (by_id("connection").textContent = "live");
  stream.onerror = (event) => {
    const refused = event.target.readyState === EventSource.CLOSED; // a browser does not ask again then
    by_id("connection").textContent = refused ? "refused: open the address that `actorlearn desk` printed last" : "the desk does not answer; trying again";
  };
  stream.onmessage = (event) => receive(JSON.parse(event.data));
}

function turn() {
  if (document.querySelector("#parts")) show([...parts.keys()]);
  else {
    show([]);
    connect();
  }
  if (!looked_at().run) document.title = "actorlearn";
  if (parts.get("runs")) show_list(parts.get("runs"), looked_at().run);
}

// Light and keys -------------------------------------------------------------------------------------------------------

const dark_wanted = matchMedia("(prefers-color-scheme: dark)");

function is_dark() {
  return (document.documentElement.dataset.theme ?? (dark_wanted.matches ? "dark" : "light")) === "dark";
}

function lighten(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
  by_id("theme").textContent = is_dark() ? "light" : "dark";
  curve_pair.redraw();
}

function switch_theme() {
  const theme = is_dark() ? "light" : "dark";
  try {
    localStorage.setItem("theme", theme);
  } catch {} // a file may have no storage; then it is dark or light until it is closed
  lighten(theme);
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
  if (event.ctrlKey || event.metaKey || event.altKey || by_id("help").open) return;
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
by_id("filter").addEventListener("input", () => show_list(parts.get("runs") ?? [], looked_at().run));
by_id("metric").addEventListener("change", (event) => (location.hash = address({ metric: event.target.value })));
by_id("theme").addEventListener("click", switch_theme);
by_id("keys").addEventListener("click", () => by_id("help").showModal());
by_id("skip").addEventListener("click", (event) => {
  event.preventDefault(); // the address says which run is shown
  by_id("main").focus();
});
by_id("home").addEventListener("click", (event) => {
  event.preventDefault();
  location.hash = address({ run: "" });
});
dark_wanted.addEventListener("change", () => lighten());
window.addEventListener("hashchange", turn);

try {
  lighten(localStorage.getItem("theme"));
} catch {
  lighten();
}
const kept = by_id("parts"); // a report has its parts in itself
if (kept) {
  for (const [name, value] of Object.entries(JSON.parse(kept.textContent))) parts.set(name, value);
  if (!looked_at().run && parts.get("runs").length === 1) location.replace(address({ run: parts.get("runs")[0].id }));
  turn();
} else {
  if (new URLSearchParams(location.search).has("token")) history.replaceState(null, "", location.pathname + location.hash);
  connect();
  // A browser has six connections to a host: pages that nobody sees leave theirs to others.
  document.addEventListener("visibilitychange", () => (document.hidden ? stream.close() : connect()));
}
