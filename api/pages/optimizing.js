// The pages of a trial and of an optimization, and the table of optimizations.

import { askBlob, askJson } from "./coordinator.js";
import { OPTIONAL, bar, element, facts, failure, link, section, specification, state, table } from "./elements.js";
import { Picture } from "./pictures.js";
import { NOTHING, ago, count, milliseconds, percent, planOf, time } from "./texts.js";

const KINDS = ["processing", "communication", "system"];
const COST_COLUMNS = [
  ["site"], ["role"], ["does"], ["host"], ...KINDS.map((kind) => [kind, `number ${kind}`]), ["all", "number"], ["", "bars"],
];
const TRIAL_COLUMNS = [
  ["trial"], ["plan"], ["state"], ["windows", "number"], ["cost, ms/window", "number"], ["", "bars"],
  ["predicted", "number", OPTIONAL], ["why", "why", OPTIONAL],
];
const COLUMNS = [["optimization"], ["query"], ["state"], ["begun"], ["chosen plan"], ["margin", "number"]];
const OVER = ["succeeded", "failed"];
const TRIALS = 500;

const begun = (seconds) => element("time", { title: time(seconds) }, ago(seconds));

export function optimizationsTable(found, empty) {
  const rows = found.map((one) => ({
    key: one.id,
    cells: [
      link("optimizations", one.id),
      one.query ? link("queries", one.query) : "",
      state(one.status),
      begun(one.created),
      one.choice?.key ?? NOTHING,
      one.choice?.margin == null ? NOTHING : percent(one.choice.margin),
    ],
  }));
  return table(COLUMNS, rows, empty);
}

export function pageOfTrial(id) {
  return async () => {
    const trial = await askJson(`/v1/trials/${encodeURIComponent(id)}`);
    const result = trial.result;
    const shown = [
      element("h1", {}, id),
      facts(
        ["state", state(trial.status)],
        ["query", link("queries", trial.query)],
        ["plan", planOf(trial.specification)],
        ["windows", count(trial.count)],
        ["begun", begun(trial.created)],
        ["optimization", trial.optimization && link("optimizations", trial.optimization)],
        ["cost, ms/window", result && milliseconds(result.cost_s / Math.max(result.windows, 1))],
        ["busiest site", result?.busiest],
        ["windows/s", result && count(result.windows_s)],
        ["with a core per site", result && `${count(result.derived_windows_s)} windows/s`],
      ),
      element("div", { class: "reason" }, failure(trial.error?.detail ?? result?.short)),
      section("CPU time of each site, ms", table(COST_COLUMNS, costRows(result), "It has measured nothing yet.")),
      specification(trial.specification),
    ];
    return { title: id, shown };
  };
}

function costRows(result) {
  const most = Math.max(0, ...(result?.sites ?? []).map((site) => site.utilization_s));
  return (result?.sites ?? []).map((site) => ({
    key: site.site,
    kind: site.site === result.busiest ? "chosen" : null,
    cells: [
      site.site,
      site.role,
      [...new Set(site.functions)].join(", "),
      site.host,
      ...KINDS.map((kind) => milliseconds(site[`${kind}_s`])),
      milliseconds(site.utilization_s),
      costBar(site, most),
    ],
  }));
}

const costBar = (site, most) => bar(...KINDS.map((kind) => [kind, most > 0 ? site[`${kind}_s`] / most : 0]));

export function pageOfOptimization(id) {
  const path = `/v1/optimizations/${encodeURIComponent(id)}`;
  const picture = new Picture();

  return async () => {
    const [search, { items }] = await Promise.all([
      askJson(path),
      askJson(`/v1/trials?optimization=${encodeURIComponent(id)}&limit=${TRIALS}`),
    ]);
    const trials = items.reverse(); // in the order in which they were run
    const measured = search.choice?.table.length ?? 0;
    const image = measured
      ? picture.shown(`${path}/report.png`, `${search.status} ${measured}`, "Cost of each plan by site")
      : element("p", { class: "quiet" }, "There is no picture yet: nothing has been measured.");
    const shown = [
      element("h1", {}, id),
      facts(
        ["state", state(search.status)],
        ["query", search.query ? link("queries", search.query) : null],
        ["begun", begun(search.created)],
        ["rounds", count(search.rounds)],
        ["trials", `${trials.filter((one) => OVER.includes(one.status)).length} of ${asked(search, trials)} so far`],
        ["published to", published(search.published)],
      ),
      element("div", { class: "reason" }, failure(search.error?.detail)),
      element("p", { class: "verdict" }, verdict(search.choice)),
      search.stale.length ? failure(`It does not hold here any more: ${search.stale.join("; ")}.`) : null,
      section("Trials", table(TRIAL_COLUMNS, trialRows(search, trials), "No trial has been run yet.")),
      section(
        "Report",
        element("figure", {}, image),
        element("button", { type: "button", "data-download": `${path}/report`, "data-name": `${id}.html` }, "Download report"),
      ),
      specification(search.request),
    ];
    return { title: id, shown };
  };
}

/** How many trials the search has asked for, those of the verification included. */
const asked = (search, trials) => new Set([...search.trials, ...trials].map((one) => one.key)).size;

const published = (given) => (given?.length ? given.map((one) => one.query).join(", ") : null);

function verdict(choice) {
  if (!choice?.key) return "Nothing has been chosen yet.";
  return `Chosen: ${choice.summary}.`;
}

function trialRows(search, trials) {
  const requests = new Map(search.trials.map((one) => [one.key, one]));
  const costs = trials.map((one) => busiest(one)?.utilization_s / one.result?.windows).filter(Number.isFinite);
  const most = Math.max(0, ...costs);
  const waiting = search.trials.filter((one) => !trials.some((trial) => trial.key === one.key));
  const rows = trials.map((trial) => {
    const request = requests.get(trial.key);
    const site = busiest(trial);
    const label = request?.label ?? trial.key;
    return {
      key: trial.id,
      kind: label === search.choice?.key ? "chosen" : null,
      cells: [
        link("trials", trial.id),
        label,
        state(trial.status),
        count(trial.count),
        site ? milliseconds(trial.result.cost_s / trial.result.windows) : NOTHING,
        site ? costBar(site, most * trial.result.windows) : "",
        request?.predicted == null ? "" : milliseconds(request.predicted),
        trial.error?.detail ?? "",
      ],
    };
  });
  return rows.concat(waiting.map((one) => ({
    key: one.key,
    cells: [NOTHING, one.label, state("pending"), count(one.count), NOTHING, "", one.predicted == null ? "" : milliseconds(one.predicted), ""],
  })));
}

const busiest = (trial) => trial.result?.sites.find((site) => site.site === trial.result.busiest);

/** Save what only a token opens, under a name. */
export async function download(path, name) {
  const address = URL.createObjectURL(await askBlob(path));
  element("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}
