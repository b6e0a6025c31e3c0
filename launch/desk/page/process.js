// A process of a run: the end of its log, its processor time and its memory, asked for while the dialog is open.

import { element } from "./elements.js";
import { LoadPictures } from "./load.js";

const ASK_EVERY_MS = 2000;

export class ProcessDialog {
  constructor(dialog) {
    this.dialog = dialog;
    this.timer = 0;
    dialog.addEventListener("close", () => this.ended());
  }

  // Show a process; `names` are all processes of the run, any of which can be chosen instead.
  open(run, name, names) {
    this.ended();
    this.run = run;
    this.choice = element("select", { "aria-label": "Process", change: () => this.open(run, this.choice.value, names) }, names.map((one) => element("option", { value: one }, one)));
    this.choice.value = name;
    this.load = new LoadPictures();
    this.said = element("p", { class: "soft", role: "status" }, "Asking the desk …");
    this.log = element("pre", { tabindex: "0", "aria-label": `Log of ${name}` });
    const close = element("form", { method: "dialog" }, element("button", {}, "Close"));
    this.dialog.replaceChildren(element("header", {}, this.choice, close), this.load.place, this.said, this.log);
    if (!this.dialog.open) this.dialog.showModal();
    this.ask();
  }

  async ask() {
    const { run } = this;
    const name = this.choice.value;
    let [answer, told] = [null, null];
    try {
      answer = await fetch(`processes/${run}/${encodeURIComponent(name)}`);
      if (answer.ok) told = await answer.json();
    } catch {
      answer = null;
    }
    if (!this.dialog.open || run !== this.run || name !== this.choice.value) return;
    this.timer = setTimeout(() => this.ask(), ASK_EVERY_MS);
    if (!answer) this.said.textContent = "The desk does not answer; trying again.";
    else if (told) this.show(told);
    else this.said.textContent = this.log.textContent ? "The run's folder is gone." : "This process has no log on this machine. If it runs on another node, its log is there.";
  }

  show({ log, load }) {
    const measured = load.seconds.length > 1;
    this.said.textContent = measured ? "" : "No load is known: the desk measures processes of this machine while it runs, and keeps the last ten minutes.";
    const at_end = this.log.scrollTop + this.log.clientHeight >= this.log.scrollHeight - 20;
    if (this.log.textContent !== log) this.log.textContent = log || "The log is empty.";
    if (measured) this.load.show(load);
    if (at_end) this.log.scrollTop = this.log.scrollHeight;
  }

  ended() {
    clearTimeout(this.timer);
    this.load?.end();
    this.load = null;
  }

  close() {
    if (this.dialog.open) this.dialog.close();
  }
}
