// Pictures that need a token: fetched with it, and shown from this browser's memory.

import { askBlob } from "./coordinator.js";
import { element } from "./elements.js";

export const DRAWN = "drawn"; // the event that a picture has come

/** One picture of a page. It is fetched again only when what it shows has changed, and nothing waits for it. */
export class Picture {
  #key = null;
  #address = null;
  #told = "The picture is being drawn.";

  /** The picture of what `key` stands for, or why there is none, as an element. */
  shown(path, key, alt) {
    if (key !== this.#key) {
      this.#key = key;
      this.#fetch(path, key);
    }
    if (this.#address) return element("img", { class: "picture", src: this.#address, alt });
    return element("p", { class: "quiet" }, this.#told);
  }

  async #fetch(path, key) {
    try {
      const picture = await askBlob(path);
      if (key !== this.#key) return; // a newer one is on its way
      const old = this.#address;
      this.#address = URL.createObjectURL(picture);
      if (old) URL.revokeObjectURL(old);
      dispatchEvent(new Event(DRAWN));
    } catch (problem) {
      this.#told = `There is no picture: ${problem.message}`;
      if (["unreachable", "unauthorized"].includes(problem.kind)) this.#key = null; // asked for again
    }
  }
}
