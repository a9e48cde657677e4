// Drawings of the live view: lines by uPlot (see uplot/README.md), and a waterfall on a canvas. They keep what they show
// by themselves; none is drawn while the page is hidden, because nobody calls them then.

import { element } from "./elements.js";
import { rangeOf } from "./vectors.js";

const GUTTER = 58; // left of every drawing, for the labels of its axis; page.css says the same
const LINE_HEIGHT = 180;
const ROWS = 240;
const NOISE = 0.1; // of decibels, the lowest tenth is not worth colors
const COLUMNS = 512;
const COLORS = [
  [0, 0, 4], [28, 16, 68], [79, 18, 123], [129, 37, 129], [181, 54, 122], [229, 80, 100], [251, 135, 97], [254, 194, 135], [252, 253, 191],
];
const dark = matchMedia("(prefers-color-scheme: dark)");

/** 256 colors from dark to light, as pixels. */
const colors = Uint32Array.from({ length: 256 }, (_, step) => {
  const at = (step / 255) * (COLORS.length - 1);
  const [below, above] = [Math.floor(at), Math.ceil(at)].map((place) => COLORS[place]);
  const [red, green, blue] = below.map((part, place) => Math.round(part + (at % 1) * (above[place] - part)));
  return (255 << 24) | (blue << 16) | (green << 8) | red;
});

/** Write texts into the children of a place, which are made as they are needed. */
function texts(place, lines) {
  while (place.children.length < lines.length) place.append(element("span"));
  lines.forEach((line, number) => {
    if (place.children[number].textContent !== line) place.children[number].textContent = line;
  });
}

const styleOf = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** A number on an axis. */
export const onAxis = (value) => Number(value.toPrecision(6)).toLocaleString("en", { maximumFractionDigits: 6 });

const clock = (seconds) => new Date(1e3 * seconds).toLocaleTimeString("en-GB");

/** A line over an axis. It is as wide as its place, and follows the reader's light or dark. */
export class Line {
  #plot = null;
  #labels = "";
  #data = [[], []];
  #options;

  /** `options`: height, `floor` of the values, and whether it is `filled` down to there. */
  constructor(options = {}) {
    this.#options = { height: LINE_HEIGHT, ...options };
    this.node = element("div", { class: "line" });
    new ResizeObserver(() => this.#fit()).observe(this.node);
    dark.addEventListener("change", () => this.#anew());
  }

  /** Show values over places, which are between `ends` if those are given, or `times` in seconds since 1970. */
  draw(places, values, { xLabel, yLabel, ends = null, times = false }) {
    this.#data = [places, values];
    const labels = JSON.stringify([xLabel, yLabel, ends, times]);
    if (this.#plot && labels === this.#labels) {
      this.#plot.setData(this.#data);
      return;
    }
    this.#labels = labels;
    this.#anew();
  }

  #fit() {
    const width = this.node.clientWidth;
    if (this.#plot && width && width !== this.#plot.width) this.#plot.setSize({ width, height: this.#options.height });
  }

  #anew() {
    if (!this.#labels) return;
    this.#plot?.destroy();
    const [xLabel, yLabel, ends, times] = JSON.parse(this.#labels);
    const { height, floor = null, filled = false } = this.#options;
    const [quiet, grid, accent] = ["--quiet", "--line", "--processing"].map(styleOf);
    const thin = { stroke: grid, width: 1 };
    const fonts = { font: "11px system-ui", labelFont: "12px system-ui", labelSize: 16 };
    const axis = { stroke: quiet, grid: thin, ticks: { ...thin, size: 4 }, ...fonts };
    const range = (_, low, high) => {
      const room = (high - low || Math.abs(high) || 1) * 0.06;
      return [floor ?? low - room, high + room];
    };
    this.#plot = new window.uPlot(
      {
        width: this.node.clientWidth || 600,
        height,
        padding: [10, 14, 0, 0],
        legend: { show: false },
        cursor: { drag: { x: false, y: false }, points: { show: false } },
        scales: { x: { time: times, range: ends ? () => ends : undefined }, y: { range } },
        axes: [
          { ...axis, label: xLabel ?? undefined, size: 30, space: times ? 90 : 60, values: (_, ticks) => ticks.map(times ? clock : onAxis) },
          { ...axis, label: yLabel, size: GUTTER - 16, values: (_, ticks) => ticks.map(onAxis) },
        ],
        series: [{}, { stroke: accent, width: 1.25, points: { show: false }, fill: filled ? `${accent}33` : undefined }],
      },
      this.#data,
      this.node,
    );
  }
}

/** Rows of numbers as colors, the newest at the top; what is older moves down and out. */
export class Waterfall {
  #rows = [];
  #range = [0, 1];
  #canvas = element("canvas", { width: COLUMNS, height: ROWS, role: "img", "aria-label": "waterfall" });
  #times = element("div", { class: "times" });
  #places = element("div", { class: "places" });
  #label = element("div", { class: "label" });
  #legend = element("div", { class: "legend" });

  constructor() {
    const ramp = element("canvas", { width: 128, height: 1, class: "ramp", "aria-hidden": "true" });
    const pixels = new ImageData(128, 1);
    new Uint32Array(pixels.data.buffer).set(Array.from({ length: 128 }, (_, place) => colors[place * 2]));
    ramp.getContext("2d").putImageData(pixels, 0, 0);
    this.#legend.append(element("span"), ramp, element("span"));
    this.node = element("div", { class: "waterfall" }, this.#times, this.#canvas, this.#places, this.#label, this.#legend);
  }

  clear() {
    this.#rows = [];
  }

  /** Put rows, each with its time in seconds and its cells, on top; the last is the newest. */
  add(rows, { from, to, label }, unit) {
    if (!rows.length) return;
    this.#rows = [...rows.toReversed(), ...this.#rows].slice(0, ROWS);
    const range = rangeOf(this.#rows.slice(0, 48).map(({ cells }) => cells), unit ? NOISE : undefined);
    const still = this.#range.every((end, place) => Math.abs(end - range[place]) < 0.05 * (range[1] - range[0]));
    if (still && rows.length < this.#rows.length) {
      const shift = Math.min(rows.length, ROWS);
      this.#context.drawImage(this.#canvas, 0, shift);
      this.#paint(this.#rows.slice(0, shift));
    } else {
      this.#range = range;
      this.#context.clearRect(0, 0, COLUMNS, ROWS);
      this.#paint(this.#rows);
    }
    this.#write(from, to, label, unit);
  }

  get #context() {
    return this.#canvas.getContext("2d");
  }

  #paint(rows) {
    const pixels = new ImageData(COLUMNS, rows.length);
    const colored = new Uint32Array(pixels.data.buffer);
    const [low, high] = this.#range;
    const steps = 255 / (high - low);
    rows.forEach(({ cells }, row) => {
      for (let column = 0; column < COLUMNS; column += 1) {
        const value = cells[Math.floor((column * cells.length) / COLUMNS)];
        const step = Math.round((value - low) * steps);
        colored[row * COLUMNS + column] = colors[step > 255 ? 255 : step > 0 ? step : 0];
      }
    });
    this.#context.putImageData(pixels, 0, 0);
  }

  #write(from, to, label, unit) {
    const newest = this.#rows[0].time;
    const ago = [0, 1, 2, 3, 4].map((part) => this.#rows[Math.round((part * (ROWS - 1)) / 4)]);
    texts(this.#times, ago.map((row, part) => (!row ? "" : part ? `−${Number((newest - row.time).toPrecision(2))} s` : "now")));
    const ticks = [0, 0.25, 0.5, 0.75, 1].map((part) => onAxis(Number((from + part * (to - from)).toPrecision(3))));
    texts(this.#places, ticks);
    if (this.#label.textContent !== label) this.#label.textContent = label;
    const [low, , high] = this.#legend.children;
    [low.textContent, high.textContent] = this.#range.map((end) => `${onAxis(Number(end.toPrecision(3)))}${unit}`);
  }
}
