// The list of queries, and the page of one.

import { askIfThere, askJson } from "./coordinator.js";
import { OPTIONAL, bar, element, facts, failure, link, section, specification, state, table } from "./elements.js";
import { Driving } from "./driving.js";
import { Meter } from "./figures.js";
import { LiveView, keptStreams } from "./live.js";
import { optimizationsTable } from "./optimizing.js";
import { Picture } from "./pictures.js";
import { NOTHING, ago, count, percent, planOf, time } from "./texts.js";

const LISTED = 200;
const METERED = 20; // queries of the list whose rate is asked for
const EVENTS = 50;
const AT_WORK = ["active", "stopping"];
const COLUMNS = [
  ["query"], ["state"], ["desired"], ["since"], ["plan"], ["sites", "number"], ["windows/s", "number"], ["why", "why", OPTIONAL],
];
const TOTAL_COLUMNS = [["stream"], [""], ["windows", "number"], ["MB", "number"], ["dropped windows", "", OPTIONAL]];
const SITE_COLUMNS = [
  ["site"], ["does"], ["host"], ["machine"], ["busy", "number"], ["", "bars"], ["windows in", "number"],
  ["out", "number"], ["windows/s", "number"], ["MB/s", "number"], ["blocks waiting", "number"],
];

/** Which action failed, when and why. */
function failed({ error, failure }) {
  if (!error || !failure) return error?.detail;
  return `${failure.action} failed ${ago(failure.at)}: ${error.detail}`;
}

/** What went wrong with a query, or what it waits for. */
const why = (query) => failed(query) ?? (query.waiting ? `waits for hosts: ${query.waiting}` : null);

const since = (seconds) => element("time", { title: time(seconds) }, ago(seconds));

/** The plan and the meter of a query; the plan is asked for only when the query has changed. */
class Metered {
  #meter = new Meter();
  #plan = null;
  #version = null;

  constructor(name) {
    this.path = `/v1/queries/${encodeURIComponent(name)}`;
  }

  async plan(query) {
    if (this.#version !== query.version) {
      this.#plan = await askIfThere(`${this.path}/plan`);
      this.#version = query.version;
    }
    return this.#plan;
  }

  async measured() {
    this.#meter.take((await askIfThere(`${this.path}/statistics`)) ?? {});
    return this.#meter;
  }
}

export function listOfQueries() {
  const metered = new Map();

  async function rate(query) {
    if (!metered.has(query.name)) metered.set(query.name, new Metered(query.name));
    const one = metered.get(query.name);
    const [plan, meter] = await Promise.all([one.plan(query), one.measured()]);
    return [query.name, plan && meter.read(plan)];
  }

  return async () => {
    const [page, plans, optimizations] = await Promise.all(
      [`queries?limit=${LISTED}`, `plans?limit=${LISTED}`, "optimizations?limit=10"].map((one) => askJson(`/v1/${one}`)),
    );
    const sites = new Map(plans.items.map((one) => [one.query, one.sites]));
    const atWork = page.items.filter((query) => AT_WORK.includes(query.state)).slice(0, METERED);
    const rates = new Map(await Promise.all(atWork.map(rate)));
    const rows = page.items.map((query) => ({
      key: query.name,
      cells: [
        link("queries", query.name),
        state(query.state),
        query.desired,
        since(query.since),
        planOf(query.specification),
        String(sites.get(query.name) ?? NOTHING),
        rates.get(query.name) == null ? NOTHING : count(rates.get(query.name)),
        why(query) ?? "",
      ],
    }));
    const more = page.next ? element("p", { class: "quiet" }, `These are the first ${LISTED}.`) : null;
    const shown = [
      element("h1", {}, "Queries"),
      table(COLUMNS, rows, "There are no queries yet: gsdm submit SPEC makes one."),
      more,
      section("Optimizations", optimizationsTable(optimizations.items, "Nothing has been optimized yet.")),
    ];
    return { title: "Queries", shown };
  };
}

export function pageOfQuery(name) {
  const metered = new Metered(name);
  const picture = new Picture();
  const asked = encodeURIComponent(name);
  const driving = new Driving(metered.path);
  const live = new LiveView(metered.path);

  return async () => {
    const query = await askJson(metered.path);
    const keeps = keptStreams(query.specification).length > 0;
    if (keeps) live.show(query);
    await driving.show(query);
    const [plan, meter, events, places, optimizations] = await Promise.all([
      metered.plan(query),
      metered.measured(),
      askJson(`${metered.path}/events?limit=${EVENTS}`),
      askJson(`/v1/sites?query=${asked}&limit=500`),
      askJson(`/v1/optimizations?query=${asked}&limit=10`),
    ]);
    const drawn = JSON.stringify(plan?.sites.map((site) => [site.id, site.host]) ?? query.specification);
    const image = picture.shown(`${metered.path}/graph?format=svg`, drawn, `The data flow of ${name}`);
    const shown = [
      element("h1", {}, name),
      driving.node,
      facts(
        ["state", state(query.state)],
        ["desired", query.desired],
        ["since", since(query.since)],
        ["plan", planOf(query.specification)],
        ["windows/s", rateOf(query, plan, meter)],
        ["reads", sharing(query.shared)],
      ),
      element("div", { class: "reason" }, failure(why(query)), query.error?.trace ? element("pre", {}, query.error.trace) : null),
      keeps ? live.node : null,
      section("Data flow", element("figure", {}, image)),
      section("In all runs", table(TOTAL_COLUMNS, totalRows(query.totals), "It has read nothing yet.")),
      section("Sites", table(SITE_COLUMNS, siteRows(query, plan, meter, places.items), "It has not been compiled yet.")),
      section("Events", table([["when"], ["state"], ["detail", "why wide"]], eventRows(events.items), "Nothing has happened.")),
      section("Optimizations", optimizationsTable(optimizations.items, "It has not been optimized.")),
      specification(query.specification),
    ];
    return { title: name, shown };
  };
}

function rateOf(query, plan, meter) {
  const rate = plan && AT_WORK.includes(query.state) ? meter.read(plan) : null;
  return rate == null ? NOTHING : count(rate);
}

/** With whom its input streams are read, if they are shared. */
function sharing(shared) {
  const told = Object.entries(shared).map(([stream, { part, with: others }]) =>
    `${stream} through ${part}${others.length ? `, together with ${others.join(", ")}` : ""}`,
  );
  return told.length ? told.join("; ") : null;
}

/** What a query has read, delivered and dropped so far, whether its sites have begun to count anew or not. */
function totalRows(totals) {
  if (!totals) return [];
  const rows = ["read", "delivered"].flatMap((verb) =>
    Object.entries(totals[verb]).map(([stream, { windows, bytes, dropped }]) => ({
      key: `${verb} ${stream}`,
      cells: [stream, verb, count(windows), (bytes / 1e6).toFixed(1), reasons(dropped)],
    })),
  );
  const merges = { key: "merges", cells: ["", "merges", NOTHING, NOTHING, reasons(totals.dropped)] };
  return Object.keys(totals.dropped).length ? [...rows, merges] : rows;
}

const reasons = (dropped) => Object.entries(dropped).map(([reason, windows]) => `${reason} ${count(windows)}`).join(", ");

function siteRows(query, plan, meter, places) {
  const machines = new Map(places.map((one) => [one.site, one.machine]));
  const atWork = AT_WORK.includes(query.state);
  return (plan?.sites ?? []).map((site) => {
    const told = meter.of(plan, site.id);
    const now = atWork ? told : null; // of a query that stands still, only its counts mean something
    const does = new Set(site.operators.map((operator) => operator.function.name));
    return {
      key: site.id,
      cells: [
        site.id,
        [...does].join(", "),
        site.host,
        machines.get(site.id) ?? "",
        now ? percent(now.busy) : NOTHING,
        bar(["busy", now?.busy ?? 0]),
        told ? count(told.windowsIn) : NOTHING,
        told ? count(told.windowsOut) : NOTHING,
        now ? count(now.windowsPerSecond) : NOTHING,
        now ? now.megabytesPerSecond.toFixed(1) : NOTHING,
        now ? count(now.waiting) : NOTHING,
      ],
    };
  });
}

const eventRows = (events) =>
  events.map((event) => ({
    key: `${event.at} ${event.state}`,
    cells: [element("time", {}, time(event.at)), state(event.state), event.detail ?? ""],
  }));
