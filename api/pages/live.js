// The live view of a query's result streams: drawings of the newest vectors or numbers, the last values, the rate.
//
// It asks for the newest windows since the time before, a few times a second however fast the query is, and never for
// what it cannot draw: so it does not fall behind. While nobody looks it asks for nothing. When it is to hold still it
// asks once more, for all attributes of the newest windows: from these it draws whatever is chosen then.

import { askJson } from "./coordinator.js";
import { element, renew, table } from "./elements.js";
import { Line, Waterfall } from "./plots.js";
import { rowOf, valueColumns } from "./values.js";
import { count } from "./texts.js";
import { Rows, attributesOf, axisOf, centred, decibels, numberOf, sampleRateOf, vectorOf } from "./vectors.js";

const LOOK_MS = 250;
const QUIET_MS = 1000; // nothing new came
const REST_MS = 2000; // the query does not run, or did not answer
const VALUES_MS = 1000; // the table of values is for reading
const WINDOWS_AT_ONCE = 64;
const WINDOWS_HELD = 120; // of vectors; numbers are as many as are asked for at once
const ROWS_AT_ONCE = 16; // of the waterfall; of more windows, a row has the greatest of several
const POINTS = 600;
const NUMBERS_AT_ONCE = 1000;
const NUMBERS_KEPT = 4000;
const VALUES = 8;
const RATE_S = 300;
const CLOCK_S = 1e9; // timestamps beyond are of a clock that counts from 1970
const GAP_S = 6; // longer without a look: nobody knows the rate

/** The result streams of a specification that the coordinator keeps. */
export function keptStreams({ outputs }) {
  if (!outputs?.length) return ["results"];
  const isKept = (one) => typeof one === "object" && !one.interface && !one.sink;
  return outputs.flatMap((one, number) => (isKept(one) ? [one.name ?? (number ? `results${number}` : "results")] : []));
}

const NOTHING_YET = "Nothing has come yet.";
const WRONG = "Something went wrong in this view; trying again.";
const FORMS = [["both", "line and waterfall"], ["line", "line"], ["waterfall", "waterfall"]];
const SCALES = [["dB", "dB"], ["plain", "linear"]];
const AXES = [["frequency", "frequency"], ["place", "place"]];
const CHOICES = { stream: "Stream", attribute: "Attribute", form: "As", scale: "Scale", axis: "Along" };

export class LiveView {
  #path;
  #query = null;
  #type = null;
  #spectra = false; // whether vectors of the stream are spectra, as the coordinator says
  #chosen = {}; // scale and axis, if a person has chosen them
  #held = null; // the newest windows with all their attributes, from which is drawn on hold
  #next = null; // the number of the window to go on with
  #turn = 0; // grows when something else is chosen: what was asked before that is not drawn any more
  #numbers = []; // number, time and value of windows, where the attribute is no vector
  #counted = null; // when windows were counted last, and how many there were
  #rates = [[], []];
  #valuesMs = 0;
  #valuesNext = null; // the number after the last window in the table of values
  #rows = new Rows(ROWS_AT_ONCE);
  #idle = true;
  #wake = null;
  #latest = new Line();
  #waterfall = new Waterfall();
  #rate = new Line({ height: 130, floor: 0, filled: true });
  #drawings = element("div", { class: "drawings" }, this.#latest.node, this.#waterfall.node);
  #said = element("p", { class: "quiet", id: "live-said" }, NOTHING_YET);
  #values = element("div", { id: "live-values" });
  #hold = element("input", { type: "checkbox", id: "live-hold" });
  #choices = {};

  constructor(path) {
    this.#path = `${path}/results`;
    const tools = element("div", { class: "tools" });
    for (const [name, title] of Object.entries(CHOICES)) {
      const select = element("select", { id: `live-${name}` });
      select.addEventListener("change", () => this.#choose(name));
      this.#choices[name] = select;
      tools.append(element("label", {}, title, select));
    }
    this.#hold.addEventListener("change", () => {
      this.#held = null;
      this.#wake?.();
    });
    tools.append(element("label", {}, this.#hold, "Hold"));
    this.#drawings.hidden = true;
    const beside = [element("h3", {}, "Rate"), this.#rate.node, element("h3", {}, "Last values"), this.#values];
    const body = element("div", { class: "live" }, element("div", {}, tools, this.#drawings, this.#said), element("div", {}, beside));
    this.node = element("section", { "data-key": "live" }, element("h2", {}, "Results"), body);
    for (const name of Object.keys(CHOICES)) this.#offer(name, []);
    document.addEventListener("visibilitychange", () => document.hidden || this.#wake?.());
  }

  /** Take note of the query as it is now. From the first time on the view follows its results by itself. */
  show(query) {
    const changed = this.#query?.state !== query.state;
    this.#query = query;
    this.#offer("stream", keptStreams(query.specification).map((name) => [name, name]));
    if (this.#wake === null) {
      this.#wake = () => {};
      setTimeout(() => this.#keep(), 0); // when the page has it
    } else if (this.#idle || changed) {
      setTimeout(() => this.#wake(), 0);
    }
  }

  async #keep() {
    for (;;) {
      this.#idle = document.hidden || this.#held !== null || !this.node.isConnected;
      await this.#pause(this.#idle ? null : await this.#look());
    }
  }

  #pause(milliseconds) {
    return new Promise((resolve) => {
      const timer = milliseconds === null ? null : setTimeout(resolve, milliseconds);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  /** Ask for what is new and draw it; gives how long to wait before the next time, in milliseconds. */
  async #look() {
    const turn = this.#turn;
    try {
      if (this.#type === null) {
        const first = await this.#ask({ last: 1, points: 0 });
        if (turn !== this.#turn) return 0;
        this.#learn(first);
      }
      const holds = this.#hold.checked;
      const answer = await this.#ask(holds ? this.#parametersOfHold() : this.#parameters());
      if (turn !== this.#turn || holds !== this.#hold.checked) return 0;
      if (answer.spectra !== this.#spectra) {
        this.#learn(answer);
        this.#restart();
      }
      this.#count(answer.next);
      if (this.#next !== null && answer.next < this.#next) this.#restart(); // another log: the query was removed and came back
      if (holds) return this.#holdStill(answer);
      const drawn = this.#draw(answer);
      if (this.#valuesNext !== this.#next && (!drawn || Date.now() - this.#valuesMs > VALUES_MS)) await this.#askValues();
      if (this.#query.state !== "active") return this.#valuesNext === this.#next ? REST_MS : QUIET_MS;
      return drawn ? LOOK_MS : QUIET_MS;
    } catch (problem) {
      if (problem.kind !== "unreachable") {
        this.#type = null; // the query may have been replaced
        this.#restart();
      }
      if (!problem.kind) console.error(problem);
      this.#say(problem.kind ? problem.message : WRONG);
      return REST_MS;
    }
  }

  #ask(parameters) {
    const known = Object.entries({ stream: this.#choices.stream.value, ...parameters }).filter(([, value]) => value != null);
    return askJson(`${this.#path}?${new URLSearchParams(known)}`);
  }

  #parameters() {
    const attribute = this.#attribute;
    const amount = attribute?.form === "vector" ? { last: WINDOWS_AT_ONCE, points: POINTS } : { last: NUMBERS_AT_ONCE, points: 0 };
    return { ...amount, from: this.#next, attributes: attribute?.name ?? "ts" };
  }

  /** All attributes, as many windows as are drawn: vectors in full, or numbers if there are no vectors. */
  #parametersOfHold() {
    const hasVectors = attributesOf(this.#type).some(({ form }) => form === "vector");
    return hasVectors ? { last: WINDOWS_HELD, points: POINTS } : { last: NUMBERS_AT_ONCE, points: 0 };
  }

  /** Draw what came since the time before, and its values, and keep it all; then there is nothing to wait for. */
  #holdStill({ windows, next }) {
    const since = this.#next ?? 0;
    this.#held = { windows, next };
    this.#draw({ windows: windows.filter(({ seq }) => seq >= since), next });
    this.#showValues(windows.slice(-VALUES), next);
    return null;
  }

  get #attribute() {
    return attributesOf(this.#type).find(({ name }) => name === this.#choices.attribute.value);
  }

  // -- what is chosen ------------------------------------------------------------------------------------------------

  /** Offer what a stream can be drawn as. */
  #learn({ type, spectra }) {
    this.#type ??= type;
    this.#spectra = spectra;
    const drawable = attributesOf(this.#type).filter(({ form }) => form !== null);
    drawable.sort((one, other) => (other.form === "vector") - (one.form === "vector"));
    this.#offer("attribute", drawable.map(({ name }) => [name, name]));
    this.#fit();
  }

  /** Offer what can be chosen for the attribute, and choose what fits it. */
  #fit() {
    const isVector = this.#attribute?.form === "vector";
    this.#offer("form", isVector ? FORMS : []);
    this.#offer("scale", isVector ? SCALES : [], this.#attribute?.isComplex ? "dB" : "plain");
    this.#offer("axis", isVector ? AXES : [], this.#spectra ? "frequency" : "place");
  }

  /** Offer options of a choice; what a person has chosen stays, as long as it is offered, else it is the preferred one. */
  #offer(name, options, preferred = undefined) {
    const select = this.#choices[name];
    const offered = [...select.options].map((option) => [option.value, option.text]);
    if (JSON.stringify(offered) !== JSON.stringify(options)) {
      select.replaceChildren(...options.map(([value, text]) => element("option", { value }, text)));
    }
    if (preferred !== undefined && options.length) select.value = this.#chosen[name] ?? preferred;
    select.parentElement.hidden = options.length < 2;
  }

  #choose(name) {
    if (name === "scale" || name === "axis") this.#chosen[name] = this.#choices[name].value;
    if (name === "stream") {
      this.#held = null;
      this.#type = null;
      this.#counted = null;
      this.#rates = [[], []];
    }
    if (name === "attribute") this.#fit();
    this.#restart();
    if (this.#held) this.#holdStill(this.#held);
    else this.#wake?.();
  }

  #restart() {
    this.#turn += 1;
    this.#next = null;
    this.#numbers = [];
    this.#valuesMs = 0;
    this.#valuesNext = null;
    this.#rows.clear();
    this.#waterfall.clear();
  }

  // -- what is drawn -------------------------------------------------------------------------------------------------

  /** Draw what came; gives whether there was something new. */
  #draw({ windows, next }) {
    const since = this.#next;
    this.#next = next;
    if (!windows.length) {
      this.#say(next ? `Window ${count(next - 1)}.` : NOTHING_YET);
      return false;
    }
    const attribute = this.#attribute;
    this.#drawings.hidden = !attribute;
    if (attribute?.form === "vector") this.#drawVectors(windows, attribute);
    else if (attribute) this.#drawNumbers(windows, attribute);
    const came = since === null ? windows.length : next - since;
    const part = windows.length < came ? `; ${count(windows.length)} of the last ${count(came)} are drawn` : "";
    this.#say(`Window ${count(next - 1)}${part}.`);
    return true;
  }

  #drawVectors(windows, { name, isComplex }) {
    const { form, scale, axis } = this.#choices;
    const vectors = windows.map(({ values }) => vectorOf(values[name]));
    const latest = vectors.at(-1);
    const ends = axisOf(latest.length, axis.value === "frequency", sampleRateOf(this.#query.specification));
    const shaped = (values) => {
      const placed = axis.value === "frequency" ? centred(values) : values;
      return scale.value === "dB" ? decibels(placed) : placed;
    };
    const unit = scale.value === "dB" ? " dB" : "";
    const line = shaped(latest.values);
    const step = (ends.to - ends.from) / line.length;
    this.#latest.node.hidden = form.value === "waterfall";
    this.#waterfall.node.hidden = form.value === "line";
    this.#latest.draw(Array.from(line, (_, place) => ends.from + (place + 0.5) * step), line, {
      xLabel: form.value === "both" ? null : ends.label,
      yLabel: `${isComplex ? `|${name}|` : name}${unit && ` [${unit.trim()}]`}`,
      ends: [ends.from, ends.to],
    });
    if (form.value === "line") return;
    const came = windows.map(({ values }, row) => ({ time: values.ts / 1e9, cells: shaped(vectors[row].peaks) }));
    const { rows, anew } = this.#rows.take(came);
    if (anew) this.#waterfall.clear();
    this.#waterfall.add(rows, ends, unit);
  }

  #drawNumbers(windows, { name }) {
    const came = windows.map(({ seq, values }) => [seq, values.ts / 1e9, numberOf(values[name])]);
    this.#numbers = [...this.#numbers, ...came].slice(-NUMBERS_KEPT);
    const rises = this.#numbers.every(([, time], row, all) => !row || time > all[row - 1][1]);
    const column = (place) => this.#numbers.map((row) => row[place]);
    const isClock = rises && came[0][1] > CLOCK_S;
    const xLabel = isClock ? "time of the window" : rises ? "time of the window [s]" : "window";
    [this.#latest.node.hidden, this.#waterfall.node.hidden] = [false, true];
    this.#latest.draw(column(rises ? 1 : 0), column(2), { xLabel, yLabel: name, times: isClock });
  }

  async #askValues() {
    const turn = this.#turn;
    const { windows, next } = await this.#ask({ last: VALUES, points: 2 });
    if (turn === this.#turn && next >= this.#next) this.#showValues(windows, this.#next);
  }

  /** Show these windows as a table, which is up to date until the drawing is at a later window than `next`. */
  #showValues(windows, next) {
    this.#valuesMs = Date.now();
    this.#valuesNext = next;
    const attributes = attributesOf(this.#type);
    const rows = windows.toReversed().map((window) => rowOf(window, attributes));
    renew(this.#values, [table(valueColumns(attributes, windows.at(-1)), rows, "There are none.")]);
  }

  /** The rate since the time before, about once a second; nobody knows it for the time in which nobody looked. */
  #count(next) {
    const now = Date.now() / 1e3;
    const [since, before] = this.#counted ?? [now, next];
    if (this.#counted && now - since < 1) return;
    this.#counted = [now, next];
    if (now === since) return;
    const rate = now - since > GAP_S || next < before ? null : (next - before) / (now - since);
    this.#rates = [[...this.#rates[0], now], [...this.#rates[1], rate]];
    const old = this.#rates[0].findIndex((time) => time > now - RATE_S);
    this.#rates = this.#rates.map((column) => column.slice(old));
    const labels = { xLabel: null, yLabel: "windows/s", times: true };
    if (this.#rates[0].length > 1) this.#rate.draw(...this.#rates, labels); // an axis needs two times
  }

  #say(text) {
    if (this.#said.textContent !== text) this.#said.textContent = text;
  }
}
