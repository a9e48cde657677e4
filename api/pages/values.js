// The values of windows as texts in a table: numbers in full, of vectors the least and the greatest.

import { NOTHING, count } from "./texts.js";

const CLOCK = { hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3 };
const CLOCK_NS = 1e18; // later timestamps are of a clock that counts from 1970

/** Columns for windows with these attributes; `latest` tells how long its vectors are. */
export function valueColumns(attributes, latest) {
  const columns = attributes.filter(({ name }) => name !== "ts").map(({ name }) => {
    const length = latest?.values[name]?.length;
    return [typeof latest?.values[name] === "object" && length != null ? `${name} (${count(length)})` : name, "number"];
  });
  return [["window", "number"], ["time", "number"], ...columns];
}

/** A row of the table: the window's number, its time, its values. */
export function rowOf({ seq, values }, attributes) {
  const shown = attributes.filter(({ name }) => name !== "ts").map(({ name }) => textOf(values[name]));
  return { key: String(seq), cells: [count(seq), timeOf(values.ts), ...shown] };
}

function timeOf(ns) {
  if (ns < CLOCK_NS) return `${(ns / 1e9).toFixed(3)} s`;
  return new Date(ns / 1e6).toLocaleTimeString("en-GB", CLOCK);
}

function textOf(value) {
  if (value == null) return NOTHING;
  if (typeof value === "number") return plain(value);
  if (typeof value !== "object") return String(value);
  const listed = value.magnitude ?? value.minmax ?? (Array.isArray(value) ? value.flat(Infinity) : value.re);
  if (!Array.isArray(listed)) return value.re === undefined ? NOTHING : `${plain(value.re)} ${value.im < 0 ? "−" : "+"} ${plain(Math.abs(value.im))}i`;
  const known = listed.filter((one) => one !== null);
  return known.length ? `${plain(Math.min(...known))} … ${plain(Math.max(...known))}` : NOTHING;
}

const plain = (value) => (Number.isInteger(value) ? String(value) : Number(value.toPrecision(3)).toString());
