// Pictures of curves: lines of runs, bands of seeds, marks of events. All pictures share one crosshair.

import { behind, element, renew, swatch, table, titled } from "./elements.js";
import { column_form, column_texts, compact, placed, plain, whole, written } from "./texts.js";

const HEIGHT = 250;
const TRACE_HEIGHT = 150;
const NEAR = 6; // pixels between the pointer and a mark whose event is then said
const ROWS = 12; // rows of the table behind a picture
const MOST_SAID = 8; // curves whose numbers are said
const CELLS = 400_000; // most numbers of a picture: all curves at all places of any of them
const PLACES = 2_000; // places of a picture of more: more than it has pixels
const LOG_MARGIN = 0.05; // of a logarithmic y axis, on each side of the curves
const FEW_TICKS = 4; // even steps
const MOST_POWERS = 8; // of ten
const EARLY = 0.01; // of the axis: what ends so much before the longest curve has its end beside its last number
const SMOOTHED = 100; // parts of a curve: over the length of one, a number loses the share that is chosen for smoothing

const AXES = {
  by_steps: { title: "steps", unit: "steps", tick: compact.format, said: whole.format, form: () => whole.format },
  by_minutes: { title: "minutes", unit: "min", tick: plain.format, said: plain.format, form: column_form },
};

// Pairs of pictures, one pair for each metric of each environment: against steps and against minutes.
export class Pictures {
  constructor(place) {
    this.place = place;
    this.pairs = new Map();
  }

  // Show pairs of {key, synced, title, env, metric, label, curves, marks}; pictures that are synced share zoom and
  // crosshair. A curve is {name, place, colour, width, dash, by_steps: [at, numbers], by_minutes: …,
  // band: {by_steps: [at, middle, low, high], …} or null}; a mark is an event with its steps and minutes.
  // The manner is {smooth: share of the earlier curve, log: which of x and y are logarithmic}.
  show(pairs, manner) {
    const before = this.pairs;
    this.pairs = new Map(pairs.map((pair) => [pair.key, before.get(pair.key) ?? made_pair()]));
    for (const [key, { pictures }] of before) if (!this.pairs.has(key)) pictures.forEach((picture) => picture.end());
    const boxes = [...this.pairs.values()].map(({ box }) => box);
    if (boxes.length !== this.place.children.length || boxes.some((box, at) => box !== this.place.children[at])) this.place.replaceChildren(...boxes);
    for (const pair of pairs) {
      const { heading, pictures } = this.pairs.get(pair.key);
      heading.textContent = pairs.length > 1 ? pair.title : "";
      for (const picture of pictures) picture.show(pair, manner);
    }
  }

  // What is drawn as rows for a file: headings, and a row for each point.
  csv_rows() {
    const pictures = [...this.pairs.values()].flatMap((pair) => pair.pictures);
    return [["environment", "metric", "curve", "smoothed", "axis", "at", "value", "interval from", "interval to"], ...pictures.flatMap((picture) => picture.csv_rows())];
  }

  // Draw anew, in the colours and the size of now.
  redraw() {
    for (const { pictures } of this.pairs.values()) pictures.forEach((picture) => picture.redraw());
  }
}

function made_pair() {
  const pictures = Object.keys(AXES).map((axis) => new Picture(axis));
  const heading = element("h3", { class: "pair-title" });
  return { pictures, heading, box: element("div", { class: "pair" }, heading, pictures.map((picture) => picture.figure)) };
}

class Picture {
  constructor(axis) {
    this.axis = axis;
    this.place = element("div", { class: "plot", role: "img" });
    this.said = element("p", { class: "said", "aria-hidden": "true" });
    this.lost = element("p", { class: "lost soft" });
    this.rows = behind("As a table", () => this.table());
    this.whole = element("button", { type: "button", class: "whole", hidden: true, click: () => this.show_whole() }, "show the whole curve");
    this.figure = element("figure", {}, this.whole, this.place, this.lost, this.said, this.rows);
    this.shape = "";
    this.zoom = null; // the range of x that was chosen by dragging
    this.pointed = false; // whether a pointer is over this picture, or over another of its environment
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(this.place);
  }

  end() {
    this.observer.disconnect();
    this.plot?.destroy();
  }

  show({ synced, env, metric, label, curves, marks }, { smooth, log }) {
    if (synced !== this.synced) [this.shape, this.zoom] = ["", null];
    Object.assign(this, { synced, env, metric, label, marks, smooth, log });
    const drawn = curves.filter((curve) => points(curve, this.axis)[0].length);
    this.curves = smooth ? drawn.map((curve) => smoothed(curve, this.axis, smooth)) : drawn;
    this.raw = smooth ? drawn.filter((curve) => !curve.band?.[this.axis]).map((curve) => ({ ...curve, width: 1, colour: `${curve.colour.slice(0, 7)}88` })) : [];
    const last = this.curves.slice(0, MOST_SAID).map((curve) => `${titled(curve)} ${written(points(curve, this.axis)[1].at(-1))}`);
    if (this.curves.length > MOST_SAID) last.push(`and ${this.curves.length - MOST_SAID} more`);
    this.place.setAttribute("aria-label", `${label} against ${AXES[this.axis].title}; last: ${last.join(", ") || "none yet"}`);
    renew(this.rows);
    this.draw();
  }

  draw() {
    const all = [...this.raw, ...this.curves];
    this.lost.textContent = said_of_lost(this.curves, this.axis, this.log);
    if (!all.length) {
      this.plot?.destroy();
      this.plot = null;
      this.place.replaceChildren(element("p", { class: "empty soft" }, `No run shown has reported ${this.label} yet.`));
      this.figure.classList.add("without");
      return;
    }
    this.figure.classList.remove("without");
    const data = positive(joined(all, this.axis), this.log);
    const shape = JSON.stringify([this.label, this.log, all.map((curve) => [curve.name, curve.colour, curve.width, curve.dash, !!curve.band?.[this.axis], is_point(curve, this.axis)])]);
    const zoomed = this.zoom;
    if (this.plot && shape === this.shape) {
      this.plot.setData(data, !zoomed);
      if (zoomed) this.plot.redraw();
    } else {
      this.plot?.destroy();
      this.place.replaceChildren();
      this.plot = new uPlot(this.options(all), data, this.place);
      this.shape = shape;
      if (zoomed) this.plot.setScale("x", zoomed);
    }
    this.say(this.plot);
  }

  redraw() {
    this.shape = "";
    if (this.curves) this.draw();
  }

  resize() {
    const width = this.place.clientWidth;
    if (this.plot && width && width !== this.plot.width) this.plot.setSize({ width, height: HEIGHT });
  }

  // Keep the range that was chosen by dragging, for new data and new plots; null where the whole curve is shown.
  keep_zoom(plot) {
    const { min, max } = plot.scales.x;
    const at = plot.data[0];
    if (min === null || min === undefined || !at.length) return;
    this.zoom = at.length > 1 && (min > at[0] || max < at.at(-1)) ? { min, max } : null;
    this.whole.hidden = !this.zoom;
  }

  show_whole() {
    const at = this.plot?.data[0];
    if (at?.length) this.plot.setScale("x", { min: at[0], max: at.at(-1) });
  }

  options(all) {
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    const series = [{}];
    const bands = [];
    const spanGaps = !this.log.includes("y"); // a line over points that the axis cannot show would make them up
    for (const curve of all) {
      const line = { stroke: curve.colour, width: curve.width, dash: curve.dash, points: { show: false }, spanGaps };
      if (is_point(curve, this.axis)) line.points = { show: true, size: 7, fill: curve.colour };
      series.push(line);
      if (curve.band?.[this.axis]) {
        const edge = { stroke: "transparent", points: { show: false }, spanGaps };
        bands.push({ series: [series.length + 1, series.length], fill: `${curve.colour}30` });
        series.push(edge, edge);
      }
    }
    const grid = { stroke: colour("--line"), width: 1 };
    const axis = { stroke: colour("--soft"), grid, ticks: grid, font: "12px system-ui, sans-serif" };
    const log_axis = (name) => (this.log.includes(name) ? { splits: log_ticks, filter: (_, ticks) => ticks } : {});
    const ticks = (form) => (_, values) => values.map((value) => (value === null ? "" : form(value)));
    return {
      width: this.place.clientWidth || 480,
      height: HEIGHT,
      series,
      bands,
      legend: { show: false },
      cursor: { y: false, points: { size: 6 }, drag: { x: true, y: false }, sync: { key: `${this.axis} ${this.synced}`, scales: ["x", null], setSeries: false } },
      scales: { x: { time: false, ...(this.log.includes("x") ? { distr: 3, range: whole_range } : {}) }, y: this.log.includes("y") ? { distr: 3, range: log_range } : {} },
      axes: [
        { ...axis, values: ticks(AXES[this.axis].tick), label: AXES[this.axis].title, labelSize: 18, labelFont: axis.font, size: 34, ...log_axis("x") },
        { ...axis, values: ticks((value) => (Math.abs(value) < 1 ? plain : compact).format(value)), label: this.label, labelSize: 18, labelFont: axis.font, size: 60, ...log_axis("y") },
      ],
      hooks: { draw: [(plot) => this.mark(plot, colour)], setCursor: [(plot) => this.say(plot)], setScale: [(plot, scale) => scale === "x" && this.keep_zoom(plot)] },
    };
  }

  place_of(mark) {
    return this.axis === "by_steps" ? mark.steps : mark.minutes;
  }

  // Draw a line for each event, dashed where it is no alarm.
  mark(plot, colour) {
    const { ctx, bbox } = plot;
    ctx.save();
    for (const mark of this.marks) {
      const at = this.place_of(mark);
      if (at === null || at < plot.scales.x.min || at > plot.scales.x.max) continue;
      const x = Math.round(plot.valToPos(at, "x", true)) + 0.5;
      ctx.strokeStyle = colour(mark.alarm ? "--bad" : "--soft");
      ctx.setLineDash(mark.alarm ? [] : [3, 4]);
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
    }
    ctx.restore();
  }

  // Say what is under the pointer, or the last numbers where none is, the highest curve first.
  say(plot) {
    const { left, idx } = plot.cursor;
    this.pointed = !(left === undefined || left < 0 || idx === null || idx === undefined);
    const at = this.pointed ? plot.posToVal(left, "x") : null;
    const value = (line) => (this.pointed ? value_at(line, at) : line[1].at(-1));
    const there = this.curves.map((curve) => ({ curve, value: value(points(curve, this.axis)) })).filter(({ value }) => value !== null);
    there.sort((a, b) => b.value - a.value);
    const { tick, unit, said } = AXES[this.axis];
    const longest = Math.max(...this.curves.map((curve) => end_of(curve, this.axis)));
    const ended = (curve) => {
      const end = end_of(curve, this.axis);
      return !this.pointed && end < (1 - EARLY) * longest ? `at ${tick(end)} ${unit}` : "";
    };
    const near = this.marks.filter((mark) => {
      const x = this.place_of(mark);
      return this.pointed && x !== null && Math.abs(plot.valToPos(x, "x") - left) <= NEAR;
    });
    const values = there.slice(0, MOST_SAID).map(({ curve, value }) => element("span", { class: "value" }, swatch(curve), element("b", {}, written(value)), ended(curve), element("span", { class: "of" }, curve.name), placed(curve)));
    this.said.replaceChildren(
      element("span", {}, this.pointed ? `${said(at)} ${unit}` : this.raw.length ? "last, smoothed" : "last"),
      ...near.slice(-2).map((mark) => element("span", { class: mark.alarm ? "ill" : null }, mark.text)),
      ...values,
      ...(there.length > MOST_SAID ? [element("span", { class: "soft" }, `and ${there.length - MOST_SAID} more`)] : []),
    );
  }

  table() {
    const all = this.curves.flatMap((curve) => [points(curve, this.axis)[0][0], points(curve, this.axis)[0].at(-1)]);
    if (!all.length) return element("p", {}, "No numbers yet.");
    const [first, last] = [Math.min(...all), Math.max(...all)];
    const { title, unit, form } = AXES[this.axis];
    const places = Array.from({ length: ROWS }, (_, row) => first + ((last - first) * row) / (ROWS - 1));
    const write = form(places);
    const texts = column_texts(places.flatMap((at) => this.curves.map((curve) => value_at(points(curve, this.axis), at))));
    const count = this.curves.length;
    const rows = places.map((at, row) => [`${write(at)} ${unit}`, ...texts.slice(row * count, (row + 1) * count)]);
    return table(`${this.label} against ${title}`, [title, ...this.curves.map(titled)], rows, {}, () => true);
  }

  csv_rows() {
    return this.curves.flatMap((curve) => {
      const about = [this.env, this.metric, titled(curve), Number(this.smooth), AXES[this.axis].title];
      const [at, values, low, high] = curve.band?.[this.axis] ?? curve[this.axis];
      return at.map((place, row) => [...about, place, values[row], low?.[row], high?.[row]]);
    });
  }
}

// The line of a curve: the middle of its band, where it has one, else its points.
function points(curve, axis) {
  return curve.band?.[axis]?.slice(0, 2) ?? curve[axis];
}

// Where a curve ends on an axis.
function end_of(curve, axis) {
  return points(curve, axis)[0].at(-1);
}

// Whether a curve has one point, which no line shows.
function is_point(curve, axis) {
  return points(curve, axis)[0].length === 1;
}

// A curve whose numbers are exponential moving averages along the axis, corrected for their start: a number weighs `share`
// as much as one that is a hundredth (SMOOTHED) of the curve's own length further, so that other curves of a picture change
// nothing. The lines between the points are averaged, so that curves with few and with many points are smoothed alike.
function smoothed(curve, axis, share) {
  const averages = (at, numbers) => {
    const length = (at.at(-1) - at[0]) / SMOOTHED || 1;
    let [sum, weight, before] = [0, 0, null];
    return numbers.map((number, index) => {
      if (number === null) return null;
      if (before !== null) {
        const distance = (-Math.log(share) * (at[index] - at[before])) / length;
        const gone = -Math.expm1(-distance);
        const mean = distance ? gone / distance : 1; // of what is left at each place of the line
        sum = (1 - gone) * sum + (mean - 1 + gone) * numbers[before] + (1 - mean) * number;
        weight = (1 - gone) * weight + gone;
      }
      before = index;
      return weight ? sum / weight : number;
    });
  };
  const columns = ([at, ...rest]) => [at, ...rest.map((numbers) => averages(at, numbers))];
  const band = curve.band?.[axis] ? { ...curve.band, [axis]: columns(curve.band[axis]) } : curve.band;
  return { ...curve, band, [axis]: columns(curve[axis]) };
}

// What can be drawn on logarithmic axes: only what is above 0. null is a gap; undefined, a place of other curves, is none.
function positive([at, ...columns], log) {
  const kept = log.includes("x") ? [...at.keys()].filter((index) => at[index] > 0) : null;
  const pick = (column) => (kept ? kept.map((index) => column[index]) : column);
  const above = (column) => (log.includes("y") ? column.map((value) => (value > 0 || value === undefined ? value : null)) : column);
  return [pick(at), ...columns.map((column) => above(pick(column)))];
}

// The ends of a logarithmic y axis, a little beyond the curves.
function log_range(_, low, high) {
  if (low === null) return [1, 10];
  const beyond = Math.max(1.02, (high / low) ** LOG_MARGIN);
  return [low / beyond, high * beyond];
}

// The ends of a logarithmic axis that is as long as the curves.
function whole_range(_, low, high) {
  return low < high ? [low, high] : log_range(_, low, high);
}

// Ticks of a logarithmic axis: powers of ten; where these are few, also 2 and 5 times them, or even steps.
function log_ticks(_, axis, low, high) {
  const decades = Math.log10(high / low);
  if (decades < 1) {
    const step = round_step((high - low) / FEW_TICKS);
    const first = Math.ceil(low / step);
    return Array.from({ length: Math.floor(high / step) - first + 1 }, (_, at) => (first + at) * step);
  }
  const every = Math.ceil(decades / MOST_POWERS);
  const factors = decades < (axis ? 4 : 3) ? [1, 2, 5] : [1]; // texts take more of the x axis than of the y axis
  const ticks = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power += every) {
    for (const factor of factors) ticks.push(Number(`${factor}e${power}`));
  }
  return ticks.filter((tick) => tick >= low && tick <= high);
}

// The least of 1, 2 and 5 times a power of ten that is not below a number.
function round_step(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  return power * [1, 2, 5, 10].find((factor) => factor * power >= least);
}

// What logarithmic axes leave out of curves; empty if nothing.
function said_of_lost(curves, axis, log) {
  let [lost, count] = [0, 0];
  for (const curve of curves) {
    const [at, ...columns] = curve.band?.[axis] ?? curve[axis];
    const is_lost = (_, row) => (log.includes("x") && at[row] <= 0) || (log.includes("y") && columns.some((column) => column[row] !== null && column[row] <= 0));
    lost += at.filter(is_lost).length;
    count += at.length;
  }
  return lost ? `${whole.format(lost)} of ${whole.format(count)} points are not above 0: a logarithmic axis cannot show them.` : "";
}

// The height of the line at a place, between its points too; null outside of the curve.
function value_at([at, numbers], place) {
  if (!at.length || place < at[0] || place > at.at(-1)) return null;
  let [low, high] = [0, at.length - 1];
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (at[middle] <= place) low = middle;
    else high = middle - 1;
  }
  const [before, after] = [numbers[low], numbers[low + 1]];
  if (at[low] === place || after === undefined || after === null || before === null) return before;
  return before + ((after - before) * (place - at[low])) / (at[low + 1] - at[low]);
}

// All curves over the places of any of them, as uPlot wants them.
function joined(curves, axis) {
  const tables = curves.map((curve) => curve.band?.[axis] ?? curve[axis]);
  const count = tables.reduce((sum, [at]) => sum + at.length, 0);
  if (!count) return [[], ...tables.flatMap((columns) => columns.slice(1))];
  return uPlot.join(count * tables.length > CELLS ? brought_together(tables) : tables);
}

// Tables with few places in common: 200 curves with places of their own would have a row for each of 100,000.
function brought_together(tables) {
  const ends = tables.filter(([at]) => at.length).flatMap(([at]) => [at[0], at.at(-1)]);
  const first = Math.min(...ends);
  const wide = (Math.max(...ends) - first) / PLACES || 1;
  return tables.map(([at, ...columns]) => {
    const places = at.map((one) => Math.round((one - first) / wide));
    const kept = [...places.keys()].filter((index) => places[index] !== places[index + 1]); // the newest of each place
    return [kept.map((index) => first + places[index] * wide), ...columns.map((numbers) => kept.map((index) => numbers[index]))];
  });
}

// A small picture of numbers over the time of day, such as the memory of a process. Ticks are round multiples of a unit.
export class Trace {
  // The y axis goes up to the largest number, or to `most`.
  constructor(label, form, unit = 1, most = null) {
    this.place = element("div", { class: "trace", role: "img" });
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(this.place);
    Object.assign(this, { label, form, unit, most });
  }

  // Show numbers at seconds since 1970; the line has a gap where a number is null.
  show(seconds, numbers) {
    this.shown = [seconds, numbers];
    this.place.setAttribute("aria-label", `${this.label}: ${numbers.length ? this.form(numbers.at(-1)) : "no numbers yet"}`);
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    if (!this.plot) {
      const font = "11px system-ui, sans-serif";
      const axis = { stroke: colour("--soft"), grid: { stroke: colour("--line"), width: 1 }, font, labelSize: 16, labelFont: font };
      const incrs = Array.from({ length: 27 }, (_, at) => [1, 2, 5][at % 3] * 10 ** (Math.floor(at / 3) - 2) * this.unit);
      const y = { ...axis, values: (_, ticks) => ticks.map(this.form), size: 64, label: this.label, incrs };
      const x = { ...axis, values: (_, ticks, __, ___, step) => ticks.map((tick) => time_of_day(tick, step)), size: 30, space: 64, label: "time of day" };
      this.plot = new uPlot(
        { width: this.place.clientWidth || 420, height: TRACE_HEIGHT, series: [{}, { stroke: colour("--accent"), width: 1.5, points: { show: false } }], axes: [x, y], legend: { show: false }, scales: { y: { range: (_, low, high) => [0, this.most ?? Math.max(high, this.unit / 100) * 1.05] } } },
        [seconds, numbers],
        this.place,
      );
    } else this.plot.setData([seconds, numbers]);
  }

  resize() {
    const width = this.place.clientWidth;
    if (this.plot && width) this.plot.setSize({ width, height: TRACE_HEIGHT });
  }

  // Draw anew, in the colours of now.
  redraw() {
    this.plot?.destroy();
    this.plot = null;
    if (this.shown) this.show(...this.shown);
  }

  end() {
    this.observer.disconnect();
    this.plot?.destroy();
  }
}

function time_of_day(second, step) {
  const form = step < 60 ? { hour: "2-digit", minute: "2-digit", second: "2-digit" } : { hour: "2-digit", minute: "2-digit" };
  return new Date(1000 * second).toLocaleTimeString("en-GB", form);
}
