// The topology as a picture: boxes of processes in columns, lines for what passes between them.

import { behind, drawn, element, table } from "./elements.js";

const BOX = { width: 204, height: 46, gap: 18 };
const ALLEY = 150; // between two columns
const BAND_GAP = 48; // between two learners
const TOP = 36;
const MARGIN = 16; // left of the first column and right of the last
const ROUND = 64; // right of a column, for curves around it
const WORDS = 190; // there, for words beside such curves
const SAID = 34; // characters of a box's second line
const NAMED = 27; // characters of its first
const NODE_GAP = 30; // between boxes of different nodes in a column
const FRAME = 12; // between the boxes of a node and its frame

// Draw boxes and lines (launch/desk/graph.py) with a table behind them.
export function topology({ boxes, lines, note }) {
  if (!boxes.length) return element("p", { class: "soft" }, "No processes of this run are known.");
  const { places, width, height } = arranged(boxes, lines);
  const picture = drawn(
    "svg",
    { viewBox: `0 0 ${width} ${height}`, width, height, role: "group", "aria-label": summary(boxes) },
    drawn(
      "defs",
      {},
      drawn("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" }, drawn("path", { d: "M0 0 8 4 0 8z" })),
    ),
    frames(boxes, places).map(drawn_frame),
    lines.map((line) => drawn_line(line, places)),
    lines.filter((line) => line.said).map((line) => drawn_words(line, lines, places)),
    boxes.map((box) => drawn_box(box, places.get(box.id))),
  );
  const said = note ? element("p", { class: "soft" }, note) : null;
  return element("div", {}, said, element("div", { class: "wide", tabindex: "0", "aria-label": "Topology" }, picture), behind("Data between processes", () => listed(boxes, lines)));
}

function summary(boxes) {
  const troubled = boxes.filter((box) => !["running", "exited", "memory"].includes(box.state));
  const said = troubled.map((box) => `${box.name} ${box.said}`);
  return `${boxes.length} boxes of processes; ${said.length ? said.join("; ") : "no problems"}`;
}

function listed(boxes, lines) {
  const names = new Map(boxes.map((box) => [box.id, box.name]));
  // Of lines from or to the same trainer, one has the text for all.
  const ends = (line, end, other) => lines.filter((one) => one.kind === line.kind && one[other] === line[other]).map((one) => names.get(one[end]));
  const many = (line, end) => (line.kind === "exchange" ? names.get(line[end]) : ends(line, end, end === "from" ? "to" : "from").join(", "));
  const passing = lines.filter((line) => line.said).map((line) => [many(line, "from"), many(line, "to"), line.kind, line.said]);
  return table("Data between processes", ["from", "to", "kind", "rate"], passing);
}

// Places of boxes: a band for each learner, from top to bottom, and processes of the whole run beside all of them.
function arranged(boxes, lines) {
  const column_of = (box) => (box.column === 2 ? 1 : box.column); // servers stand below their trainer
  const columns = [...new Set(boxes.map(column_of))].sort();
  const x = (box) => MARGIN + columns.indexOf(column_of(box)) * (BOX.width + ALLEY);
  const of_run = boxes.filter((box) => box.column === 3);
  const places = new Map();
  let below = TOP;
  for (const learner of [...new Set(boxes.filter((box) => box.column !== 3).map((box) => box.learner))]) {
    const own = boxes.filter((box) => box.learner === learner && box.column !== 3).sort((a, b) => a.column - b.column || a.node.localeCompare(b.node));
    const stacks = columns.map((column) => own.filter((box) => column_of(box) === column));
    const high = Math.max(...stacks.map(stack_height));
    for (const stack of stacks) stacked(stack, x, below + (high - stack_height(stack)) / 2, places);
    below += high + BAND_GAP;
  }
  const round = rounds(lines, places);
  const room = round.some((line) => line.said) ? WORDS : round.length ? ROUND : 0;
  const more = of_run.length ? Math.max(0, room - ALLEY) : room; // the alley before the last column is room too
  const bands = below - TOP - BAND_GAP;
  // A line from the first trainer does not go through the words about curves, which are below it.
  const top = round.length ? Math.min(...round.map((line) => places.get(line.from).y)) : TOP + Math.max(0, bands - stack_height(of_run)) / 2;
  stacked(of_run, (box) => x(box) + more, top, places);
  const bottom = Math.max(TOP + bands, top + stack_height(of_run));
  return { places, width: 2 * MARGIN + columns.length * BOX.width + (columns.length - 1) * ALLEY + more, height: bottom + 20 };
}

// Lines between boxes of one column, which are curves on its right.
function rounds(lines, places) {
  return lines.filter((line) => line.kind === "exchange" && places.has(line.from) && places.get(line.from).x === places.get(line.to)?.x);
}

function stack_height(stack) {
  return stack.length * (BOX.height + BOX.gap) - (stack.length ? BOX.gap : 0) + NODE_GAP * changes_of_node(stack, stack.length);
}

// How often the node changes among the first boxes of a stack; its frames and their names need room there.
function changes_of_node(stack, count) {
  return stack.slice(1, count).filter((box, at) => box.node !== stack[at].node).length;
}

function stacked(stack, x, top, places) {
  stack.forEach((box, at) => places.set(box.id, { x: x(box), y: top + at * (BOX.height + BOX.gap) + NODE_GAP * changes_of_node(stack, at + 1) }));
}

// A frame around the boxes of each node, learner by learner; none where the run is on one machine.
function frames(boxes, places) {
  const found = new Map();
  for (const box of boxes.filter(({ node }) => node)) {
    const { x, y } = places.get(box.id);
    const key = JSON.stringify([box.node, box.column === 3 ? "run" : box.learner]);
    const frame = found.get(key) ?? { node: box.node, left: x, top: y, right: x, bottom: y };
    found.set(key, { node: box.node, left: Math.min(frame.left, x), top: Math.min(frame.top, y), right: Math.max(frame.right, x), bottom: Math.max(frame.bottom, y) });
  }
  return [...found.values()];
}

function drawn_frame({ node, left, top, right, bottom }) {
  return drawn(
    "g",
    { class: "frame" },
    drawn("rect", { x: left - FRAME, y: top - FRAME, width: right - left + BOX.width + 2 * FRAME, height: bottom - top + BOX.height + 2 * FRAME, rx: 8 }),
    drawn("text", { class: "soft", x: left - FRAME + 6, y: top - FRAME - 4 }, `node ${node}`),
  );
}

function drawn_box(box, { x, y }) {
  const cut = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
  const [process] = box.processes;
  const button = process && document.documentElement.dataset.live ? { "data-process": process, tabindex: "0", role: "button", "aria-label": `${box.name}, ${box.said}: log and load` } : {};
  return drawn(
    "g",
    { class: `box ${box.state}`, "data-key": box.id, transform: `translate(${x} ${y})`, ...button },
    drawn("title", {}, [box.name, box.said, box.cause && `last death: ${box.cause}`].filter(Boolean).join(", ")),
    drawn("rect", { width: BOX.width, height: BOX.height, rx: 5 }),
    drawn("path", { d: `M2.5 6v${BOX.height - 12}`, class: "state" }),
    drawn("text", { x: 12, y: 19, class: "name" }, cut(box.name, NAMED)),
    drawn("text", { x: 12, y: 36, class: "soft" }, cut(box.said, SAID)),
  );
}

function drawn_line(line, places) {
  const [begin, end] = [places.get(line.from), places.get(line.to)];
  if (!begin || !end) return null;
  const way = begin.x === end.x && line.kind === "exchange" ? around(begin, end) : path(begin, end, line.kind === "weights" ? 8 : 0);
  return drawn("path", { class: `line ${line.kind}`, d: way, "marker-end": "url(#arrow)" });
}

// A curve from the side of one box to the facing side of another; straight down between boxes of one column.
function path(begin, end, lower) {
  const middle = BOX.height / 2 + lower;
  if (begin.x === end.x) {
    const x = begin.x + BOX.width / 2;
    return `M${x} ${begin.y + BOX.height}L${x} ${end.y - 2}`;
  }
  const right = begin.x < end.x;
  const [from, to] = [begin.x + (right ? BOX.width : 0), end.x + (right ? -2 : BOX.width + 2)];
  const bend = (to - from) / 2;
  return `M${from} ${begin.y + middle}C${from + bend} ${begin.y + middle} ${to - bend} ${end.y + middle} ${to} ${end.y + middle}`;
}

// A curve on the right of a column, around the boxes between two of it.
function around(begin, end) {
  const x = begin.x + BOX.width;
  const [from, to] = [begin.y + BOX.height / 2, end.y + BOX.height / 2];
  return `M${x} ${from}C${x + 44} ${from} ${x + 44} ${to} ${x + 2} ${to}`;
}

// Words about a line, above or below all lines of its kind, in the alley beside the trainer.
function drawn_words(line, lines, places) {
  const [begin, end] = [places.get(line.from), places.get(line.to)];
  if (!begin || !end) return null;
  if (begin.x === end.x) {
    const is_round = line.kind === "exchange";
    const x = begin.x + (is_round ? BOX.width + 38 : BOX.width / 2 + 8);
    const nearer = is_round ? 8 * Math.sign(begin.y - end.y) : 0; // to where the line begins: there may be one back
    return drawn("text", { class: "words", x, y: (begin.y + BOX.height + end.y) / 2 + 4 + nearer }, line.said);
  }
  const [left, right] = begin.x < end.x ? [begin, end] : [end, begin];
  const trainer = line.kind === "experience" ? line.to : line.from;
  const far = places.get(line.kind === "experience" ? line.from : line.to).x;
  const is_beside = (other) => [other.from, other.to].some((name) => places.get(name)?.x === far);
  const same = lines.filter((other) => other.kind === line.kind && [other.from, other.to].includes(trainer) && is_beside(other));
  const ends = same.flatMap((other) => [places.get(other.from)?.y ?? 0, places.get(other.to)?.y ?? 0]);
  const y = line.kind === "weights" ? Math.max(...ends) + BOX.height + 4 : Math.min(...ends) + 6;
  const x = (Math.min(left.x + BOX.width, right.x) + right.x) / 2;
  return drawn("text", { class: "words", x, y, "text-anchor": "middle" }, line.said);
}
