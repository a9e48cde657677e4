// Buttons that run, stop, resume and scale a query, for those whose token may. Others see why they may not.

import { askJson, send, token } from "./coordinator.js";
import { element } from "./elements.js";

export const DRIVEN = "driven"; // the event that the coordinator has taken or refused a request

const AT_REST = ["specified", "compiled", "failed"];
const LOOKS_ONLY = "This token may look, but not run or change queries: that takes an operator's or an admin's.";

/** The degree of parallelism that a specification names; null if it names none. */
function degreeOf({ plan, flow }) {
  const degree = plan?.degree ?? flow?.plan?.degree ?? flow?.args?.find((one) => typeof one === "number");
  return typeof degree === "number" ? degree : null;
}

export class Driving {
  #path;
  #query = null;
  #role = null;
  #asked = null; // whose role it is
  #sending = false;
  #buttons;
  #degree = element("input", { type: "number", min: 1, max: 1024, id: "degree", placeholder: "degree", "aria-label": "degree of parallelism" });
  #scale = element("button", { type: "button", id: "scale" }, "Scale");
  #said = element("span", { class: "quiet", id: "drive-said", role: "status" });

  constructor(path) {
    this.#path = path;
    this.#buttons = {
      run: this.#button("run", "Run", "POST", "run"),
      activate: this.#button("activate", "Resume", "POST", "activate"),
      deactivate: this.#button("deactivate", "Stop", "POST", "deactivate"),
    };
    const scaling = element("form", { class: "scaling" }, this.#degree, this.#scale);
    scaling.addEventListener("submit", (event) => event.preventDefault());
    this.#scale.addEventListener("click", () => this.#sendScale());
    this.#degree.addEventListener("keydown", (event) => event.key === "Enter" && this.#sendScale());
    this.node = element("div", { class: "driving", "data-key": "driving" }, Object.values(this.#buttons), scaling, this.#said);
  }

  /** Fit the buttons to a query's state. */
  async show(query) {
    const before = this.#query && degreeOf(this.#query.specification);
    this.#query = query;
    if (this.#asked !== token.get()) {
      this.#asked = token.get();
      this.#role = (await askJson("/v1/own-token")).role;
    }
    const degree = degreeOf(query.specification);
    if (degree !== before && document.activeElement !== this.#degree) this.#degree.value = degree ?? "";
    this.#fit();
  }

  #button(id, text, method, action) {
    const button = element("button", { type: "button", id: `drive-${id}` }, text);
    button.addEventListener("click", () => this.#send(method, action));
    return button;
  }

  #fit() {
    const { state, desired, allowed } = this.#query;
    const mayDrive = this.#role !== "viewer";
    const usable = (action) => mayDrive && !this.#sending && allowed.includes(action);
    const { run, activate, deactivate } = this.#buttons;
    run.hidden = !AT_REST.includes(state);
    activate.hidden = state !== "installed";
    deactivate.hidden = !run.hidden || !activate.hidden;
    run.disabled = !usable("run") || desired === "active";
    activate.disabled = !usable("activate") || desired === "active";
    deactivate.disabled = !usable("deactivate") || desired !== "active";
    this.#scale.disabled = this.#degree.disabled = !usable("scale");
    if (!mayDrive) this.#say(LOOKS_ONLY);
    for (const button of [run, activate, deactivate, this.#scale]) button.title = mayDrive ? "" : LOOKS_ONLY;
  }

  #sendScale() {
    if (this.#degree.reportValidity() && this.#degree.value) {
      this.#send("PATCH", "parallelism", { degree: Number(this.#degree.value) });
    }
  }

  async #send(method, action, document = null) {
    this.#sending = true;
    this.#fit();
    this.#say("");
    try {
      await send(method, `${this.#path}/${action}`, document);
    } catch (problem) {
      this.#say(problem.message);
    } finally {
      this.#sending = false;
      dispatchEvent(new Event(DRIVEN));
    }
  }

  #say(text) {
    if (this.#said.textContent !== text) this.#said.textContent = text;
  }
}
