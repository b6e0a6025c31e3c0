// Learning curves against steps and against minutes: lines of runs, bands of seeds, marks of events.

import { behind, element, renew, table } from "./elements.js";

const HEIGHT = 250;
const NEAR = 6; // pixels between the pointer and a mark whose event is then said
const ROWS = 12; // rows of the table behind a picture
const MOST_SAID = 8; // curves whose numbers are said
const CELLS = 400_000; // most numbers of a picture: all curves at all places of any of them
const PLACES = 2_000; // places of a picture of more: more than it has pixels

const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 2 });
const plain = new Intl.NumberFormat("en", { maximumSignificantDigits: 4 });
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

const AXES = {
  by_steps: { title: "steps", tick: (value) => compact.format(value), said: (value) => `${whole.format(value)} steps` },
  by_minutes: { title: "minutes", tick: (value) => plain.format(value), said: (value) => `${plain.format(value)} min` },
};

// A number as it stands beside a curve.
export function written(value) {
  return value === null || value === undefined ? "–" : plain.format(value);
}

// Two pictures of the same curves. A curve is {name, colour, width, dash, by_steps: [at, numbers], by_minutes: …,
// band: {by_steps: [at, middle, low, high], …} or null}; a mark is an event with its steps and minutes.
export class CurvePair {
  constructor(place) {
    this.pictures = Object.keys(AXES).map((axis) => new Picture(axis));
    place.replaceChildren(...this.pictures.map((picture) => picture.figure));
  }

  show(label, curves, marks) {
    for (const picture of this.pictures) picture.show(label, curves, marks);
  }

  // Draw anew, in the colours and the size of now.
  redraw() {
    for (const picture of this.pictures) picture.redraw();
  }
}

class Picture {
  constructor(axis) {
    this.axis = axis;
    this.place = element("div", { class: "plot", role: "img" });
    this.said = element("p", { class: "said", "aria-hidden": "true" });
    this.rows = behind("As a table", () => this.table());
    this.figure = element("figure", {}, this.place, this.said, this.rows);
    this.shape = "";
    new ResizeObserver(() => this.resize()).observe(this.place);
  }

  show(label, curves, marks) {
    Object.assign(this, { label, marks, curves: curves.filter((curve) => points(curve, this.axis)[0].length) });
    const last = this.curves.slice(0, MOST_SAID).map((curve) => `${curve.name} ${written(points(curve, this.axis)[1].at(-1))}`);
    if (this.curves.length > MOST_SAID) last.push(`and ${this.curves.length - MOST_SAID} more`);
    this.place.setAttribute("aria-label", `${label} against ${AXES[this.axis].title}; last: ${last.join(", ") || "none yet"}`);
    renew(this.rows, () => this.table());
    this.draw();
  }

  draw() {
    const data = joined(this.curves, this.axis);
    const shape = JSON.stringify([this.label, this.curves.map((curve) => [curve.name, curve.colour, curve.width, curve.dash, !!curve.band?.[this.axis]])]);
    if (this.plot && shape === this.shape) {
      const zoomed = this.zoomed();
      this.plot.setData(data, !zoomed);
      if (zoomed) this.plot.redraw();
    } else {
      this.plot?.destroy();
      this.plot = new uPlot(this.options(), data, this.place);
      this.shape = shape;
    }
    this.said.textContent = "";
  }

  redraw() {
    this.shape = "";
    if (this.curves) this.draw();
  }

  resize() {
    const width = this.place.clientWidth;
    if (this.plot && width && width !== this.plot.width) this.plot.setSize({ width, height: HEIGHT });
  }

  zoomed() {
    const { min, max } = this.plot.scales.x;
    const at = this.plot.data[0];
    return at.length > 1 && (min > at[0] || max < at.at(-1)) && min !== null;
  }

  options() {
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    const ink = (given) => given.replace("#000000", colour("--ink")); // black is ink, also where it is pale
    const series = [{}];
    const bands = [];
    for (const curve of this.curves) {
      const stroke = ink(curve.colour);
      const line = { stroke, width: curve.width, dash: curve.dash, points: { show: false }, spanGaps: true };
      if (points(curve, this.axis)[0].length === 1) line.points = { show: true, size: 7, fill: stroke };
      series.push(line);
      if (curve.band?.[this.axis]) {
        const edge = { stroke: "transparent", points: { show: false }, spanGaps: true };
        bands.push({ series: [series.length + 1, series.length], fill: `${stroke}30` });
        series.push(edge, edge);
      }
    }
    const grid = { stroke: colour("--line"), width: 1 };
    const axis = { stroke: colour("--soft"), grid, ticks: grid, font: "12px system-ui, sans-serif" };
    return {
      width: this.place.clientWidth || 480,
      height: HEIGHT,
      series,
      bands,
      legend: { show: false },
      cursor: { points: { show: false }, drag: { x: true, y: false } },
      scales: { x: { time: false } },
      axes: [
        { ...axis, values: (_, ticks) => ticks.map(AXES[this.axis].tick), label: AXES[this.axis].title, labelSize: 18, labelFont: axis.font, size: 34 },
        { ...axis, values: (_, ticks) => ticks.map((value) => compact.format(value)), label: this.label, labelSize: 18, labelFont: axis.font, size: 52 },
      ],
      hooks: { draw: [(plot) => this.mark(plot, colour)], setCursor: [(plot) => this.say(plot)] },
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

  // Say what is under the pointer.
  say(plot) {
    const { left, idx } = plot.cursor;
    if (left === undefined || left < 0 || idx === null || idx === undefined) {
      this.said.textContent = "";
      return;
    }
    const at = plot.posToVal(left, "x");
    const values = this.curves.map((curve) => `${curve.name} ${written(value_at(points(curve, this.axis), at))}`);
    const near = this.marks.filter((mark) => {
      const x = this.place_of(mark);
      return x !== null && Math.abs(plot.valToPos(x, "x") - left) <= NEAR;
    });
    const events = near.slice(-2).map((mark) => mark.text);
    this.said.textContent = [AXES[this.axis].said(at), ...events, ...values.slice(0, MOST_SAID)].join(" · ");
  }

  table() {
    const all = this.curves.flatMap((curve) => [points(curve, this.axis)[0][0], points(curve, this.axis)[0].at(-1)]);
    if (!all.length) return element("p", {}, "No numbers yet.");
    const [first, last] = [Math.min(...all), Math.max(...all)];
    const places = Array.from({ length: ROWS }, (_, row) => first + ((last - first) * row) / (ROWS - 1));
    const cells = places.map((at) => [
      AXES[this.axis].said(at),
      ...this.curves.map((curve) => written(value_at(points(curve, this.axis), at))),
    ]);
    return table(`${this.label} against ${AXES[this.axis].title}`, [AXES[this.axis].title, ...this.curves.map((curve) => curve.name)], cells);
  }
}

// The line of a curve: the middle of its band, where it has one, else its points.
function points(curve, axis) {
  return curve.band?.[axis]?.slice(0, 2) ?? curve[axis];
}

// The number at the last place that is not behind this one; null outside of the curve.
function value_at([at, numbers], place) {
  if (!at.length || place < at[0] || place > at.at(-1)) return null;
  let [low, high] = [0, at.length - 1];
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (at[middle] <= place) low = middle;
    else high = middle - 1;
  }
  return numbers[low];
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
