// Numbers, times and plans as people read them.

const NUMBER = new Intl.NumberFormat("en");
const UNITS = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];

export const NOTHING = "–";

export const count = (value) => NUMBER.format(Math.round(value));

export const percent = (share) => `${(100 * share).toFixed(share > 0 && share < 0.1 ? 1 : 0)} %`;

export const milliseconds = (seconds) => (seconds == null ? NOTHING : Number((1e3 * seconds).toPrecision(3)).toString());

export const time = (seconds) => new Date(1e3 * seconds).toLocaleString();

/** How long ago something was, in its largest unit. */
export function ago(seconds) {
  const spent = Math.max(Date.now() / 1e3 - seconds, 0);
  const [unit, length] = UNITS.find(([, one]) => spent >= one) ?? ["s", 1];
  return `${Math.floor(spent / length)} ${unit} ago`;
}

/** The plan of a specification in a few words: how its function is made parallel, or the template of its flow. */
export function planOf(specification) {
  const flow = specification.flow;
  if (specification.plan != null || flow == null) return planText(specification.plan ?? "central");
  if (typeof flow === "string") return flow;
  const degree = flow.args?.find((one) => typeof one === "number");
  return [flow.template ?? "flow", degree].filter((part) => part != null).join(" ");
}

function planText(plan) {
  if (typeof plan !== "object") return String(plan);
  if (plan.fused) return `fused: ${planText(plan.fused)}`;
  if (plan.stages) return plan.stages.map(planText).join(" | ");
  const more = [plan.shape, plan.run ? `run ${plan.run}` : null].filter(Boolean);
  return [`${plan.strategy} ${plan.degree ?? ""}`.trim(), ...more].join(", ");
}
