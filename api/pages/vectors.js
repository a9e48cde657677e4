// What a result stream's JSON says about windows, as numbers to draw: which attributes there are, vectors, their axes.

const NUMBERS = /^(bool|u?int\d+|float\d+|complex\d+)$/;
const VECTOR = /^vector.* of (\S+)$/;
const CALM = 8; // looks in a row with fewer windows, after which fewer make a row

/** The attributes of a type and of those above it, with what each is: "scalar", "vector" or null if it is no number. */
export function attributesOf(type) {
  const inherited = type.under ? attributesOf(type.under) : [];
  const own = Object.entries(type.attributes).map(([name, kind]) => {
    const item = kind.match(VECTOR)?.[1] ?? kind;
    const isNumber = NUMBERS.test(item);
    return { name, isComplex: item.startsWith("complex"), form: !isNumber ? null : item === kind ? "scalar" : "vector" };
  });
  return [...inherited, ...own];
}

/** The sample rate that the inputs of a specification name, in hertz; null if none does. */
export function sampleRateOf(specification) {
  const inputs = (specification.inputs ?? []).filter((one) => typeof one === "object");
  const rate = inputs.map(({ options }) => options?.sample_rate).find((one) => one != null);
  return rate ?? (inputs.some((one) => one.interface === "synthetic_radio") ? 1e6 : null);
}

/** A number; the magnitude of a complex one. */
export function numberOf(value) {
  if (value == null) return NaN;
  return typeof value === "object" ? Math.hypot(value.re, value.im) : Number(value);
}

/**
 * A vector as numbers: magnitudes of complex ones. `peaks` are the same, but of a vector that was reduced only the
 * greater of each pair: what a pixel shows of many places. `length` is how many values the window has.
 */
export function vectorOf(value) {
  const reduced = value.magnitude ?? value.minmax;
  if (reduced) {
    const peaks = Float64Array.from({ length: reduced.length >> 1 }, (_, part) =>
      Math.max(reduced[2 * part] ?? NaN, reduced[2 * part + 1] ?? NaN),
    );
    return { values: value.magnitude ? peaks : numbers(reduced), peaks, length: value.length };
  }
  const values = value.re ? numbers(value.re.map((re, place) => Math.hypot(re, value.im[place]))) : numbers(value);
  return { values, peaks: values, length: values.length };
}

const numbers = (listed) => Float64Array.from(listed.flat(Infinity), (one) => one ?? NaN);

/** The halves of a spectrum changed over, so that frequencies rise from the lowest to the highest. */
export function centred(values) {
  const half = Math.ceil(values.length / 2);
  const shifted = new Float64Array(values.length);
  shifted.set(values.subarray(half));
  shifted.set(values.subarray(0, half), values.length - half);
  return shifted;
}

export const decibels = (values) => values.map((value) => 20 * Math.log10(Math.max(Math.abs(value), 1e-10)));

/** What lies along a vector: the ends and the name of the axis. */
export function axisOf(length, spectrum, sampleRate) {
  if (!spectrum) return { from: 0, to: length, label: "place in the vector" };
  if (!sampleRate) return { from: -0.5, to: 0.5, label: "frequency [of the sample rate]" };
  const [unit, size] = [["GHz", 1e9], ["MHz", 1e6], ["kHz", 1e3], ["Hz", 1]].find(([, one]) => sampleRate / 2 >= one) ?? ["Hz", 1];
  return { from: -sampleRate / 2 / size, to: sampleRate / 2 / size, label: `frequency [${unit}]` };
}

/** A range that shows what is in some rows of numbers: all of the greatest, but not this share of the lowest. */
export function rangeOf(rows, left = 0.01) {
  const step = Math.max(Math.floor(rows.reduce((sum, row) => sum + row.length, 0) / 4000), 1);
  const sample = [];
  let greatest = -Infinity;
  for (const row of rows) {
    for (let place = 0; place < row.length; place += 1) {
      if (row[place] > greatest) greatest = row[place];
      if (place % step === 0 && Number.isFinite(row[place])) sample.push(row[place]);
    }
  }
  if (!sample.length) return [0, 1];
  sample.sort((one, other) => one - other);
  const low = sample[Math.floor(sample.length * left)];
  return greatest > low ? [low, greatest] : [low - 1, low + 1];
}

/**
 * Rows of a waterfall made of windows as they come, look by look. Where many come, a row has the greatest cells of
 * several windows, at the time of the last: of the same number in each row, because the greatest of more is greater.
 * What is missing in the oldest row of a look are the newest windows of the look before.
 */
export class Rows {
  #most;
  #several = 1;
  #calm = [];
  #before = [];
  #looks = 0;

  /** `most` rows for each look. */
  constructor(most) {
    this.#most = most;
  }

  /**
   * The rows for windows that came, each with its time and its cells. At the first look nobody knows how fast they come,
   * and each gets a row; if the second look tells that more belong together, all rows are given once more, `anew`.
   */
  take(windows) {
    this.#looks += 1;
    const before = this.#several;
    if (this.#looks > 1) this.#adapt(Math.ceil(windows.length / this.#most));
    const [several, all] = [this.#several, [...this.#before, ...windows]];
    const anew = this.#looks === 2 && several > before;
    const count = anew ? Math.floor(all.length / several) : Math.ceil(windows.length / several);
    this.#before = this.#looks > 1 ? all.slice(-this.#most) : all;
    const rows = Array.from({ length: count }, (_, row) => {
      const end = all.length - several * (count - 1 - row);
      return greatestOf(all.slice(Math.max(end - several, 0), end));
    });
    return { rows, anew };
  }

  clear() {
    [this.#before, this.#looks, this.#several, this.#calm] = [[], 0, 1, []];
  }

  /** More windows for a row at once, fewer only after a while: so that a row here and there is no other than the rest. */
  #adapt(needed) {
    this.#calm = needed < this.#several ? [...this.#calm, needed] : [];
    if (needed > this.#several) this.#several = needed;
    if (this.#calm.length < CALM) return;
    this.#several = Math.max(...this.#calm);
    this.#calm = [];
  }
}

function greatestOf(group) {
  const { time, cells } = group.at(-1);
  return { time, cells: cells.map((_, place) => Math.max(...group.map((row) => row.cells[place] ?? -Infinity))) };
}
