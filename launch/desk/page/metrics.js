// The fields in which metrics are chosen: one types a part of a name or a label, or takes one of those that are offered.

import { element } from "./elements.js";

const MOST_NAMED = 5; // metrics of several that are named

export class MetricField {
  // `choose` is called with the name of the metric; `shown` is what stands in the field while nobody types.
  constructor(input, choose) {
    Object.assign(this, { input, choose, metrics: [], shown: "", is_typing: false });
    this.empty = input.placeholder;
    input.addEventListener("focus", () => this.begin());
    input.addEventListener("click", () => this.is_typing || this.begin()); // it stays focused after a metric was taken
    input.addEventListener("blur", () => this.restore());
    input.addEventListener("input", (event) => this.changed(event));
    input.addEventListener("keydown", (event) => {
      if (event.key === "Enter") this.enter();
    });
  }

  show(metrics, shown) {
    Object.assign(this, { metrics, shown });
    if (!this.is_typing && this.input.value !== shown) this.write();
  }

  // Empty the field, because a browser offers only what contains the text in it.
  begin() {
    this.is_typing = true;
    this.input.placeholder = this.shown || this.empty;
    this.input.value = "";
  }

  restore() {
    this.is_typing = false;
    this.input.setCustomValidity("");
    this.write();
  }

  write() {
    this.input.value = this.shown;
    if (document.activeElement === this.input) this.input.select(); // what is typed next replaces it
  }

  changed({ inputType }) {
    this.is_typing = true;
    this.input.setCustomValidity("");
    const is_typed = inputType && inputType !== "insertReplacementText"; // else one of those offered was taken
    const found = this.metrics.find(({ name }) => name === this.input.value);
    if (found && !is_typed) this.take(found);
  }

  enter() {
    const text = this.input.value.trim();
    if (!text || !this.is_typing) return;
    const found = matching(this.metrics, text);
    if (found.length === 1) return this.take(found[0]);
    const named = found.slice(0, MOST_NAMED).map(({ name }) => name);
    this.input.setCustomValidity(found.length ? `${found.length} metrics contain '${text}', such as ${named.join(", ")}; type more of the name` : `no metric contains '${text}'`);
    this.input.reportValidity();
  }

  take({ name }) {
    this.restore();
    this.choose(name);
  }
}

// The metric of this name or label, or else all whose name or label contains the text.
function matching(metrics, text) {
  const wanted = text.toLowerCase();
  const texts = ({ name, label }) => [name.toLowerCase(), label.toLowerCase()];
  const same = metrics.filter((metric) => texts(metric).includes(wanted));
  return same.length === 1 ? same : metrics.filter((metric) => texts(metric).some((one) => one.includes(wanted)));
}

// What a field offers. A browser shows the label beside the name.
export function metric_option({ name, label }) {
  return element("option", { value: name, label: label === name ? null : label });
}
