// Pictures of the processor time and the memory of the last ten minutes: of a process, or of the whole machine.

import { element } from "./elements.js";
import { Trace } from "./curves.js";

const MIB = 2 ** 20;
const GIB = 2 ** 30;

export class LoadPictures {
  // `all` are the cores and the bytes of the machine where the pictures are of all of it; their axes then end there.
  constructor(all = null) {
    const bytes = all ? (value) => `${(value / GIB).toFixed(1)} GiB` : (value) => `${Math.round(value / MIB).toLocaleString("en")} MiB`;
    this.cores = new Trace("cores in use", (value) => value.toFixed(value < 10 ? 2 : 0), 1, all?.cores);
    this.memory = new Trace(all ? "memory in use" : "memory", bytes, all ? GIB : MIB, all?.bytes);
    this.place = element("div", { class: "traces" }, this.cores.place, this.memory.place);
  }

  show({ seconds, cores, bytes }) {
    this.cores.show(seconds, cores);
    this.memory.show(seconds, bytes);
  }

  redraw() {
    this.cores.redraw();
    this.memory.redraw();
  }

  end() {
    this.cores.end();
    this.memory.end();
  }
}

// The machine of the desk. There is one, so its pictures stay when another run is shown.
class Machine {
  draw(load) {
    if (!load || load.seconds.length < 2) return null;
    this.pictures ??= new LoadPictures({ cores: load.all_cores, bytes: load.all_bytes });
    this.said ??= element("p", { class: "soft" });
    this.card ??= element("section", { class: "card" }, element("h3", {}, "Machine"), this.said, this.pictures.place);
    this.pictures.show(load);
    const gib = (bytes) => (bytes / GIB).toFixed(1);
    const cores = load.cores.at(-1).toFixed(1);
    this.said.textContent = `All programs on the desk's machine together: ${cores} of ${load.all_cores} cores and ${gib(load.bytes.at(-1))} of ${gib(load.all_bytes)} GiB in use.`;
    return this.card;
  }

  redraw() {
    this.pictures?.redraw();
  }
}

export const machine = new Machine();
