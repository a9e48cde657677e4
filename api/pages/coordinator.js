// The coordinator, as these pages ask it: by fetch, with the token of whoever looks in a header.

const KEPT = "gsdm.token";
const PATIENCE_MS = 15_000;
const TRY_AGAIN = "The coordinator does not answer; trying again.";

/** Why there is no answer: `kind` of the problem document, or "unreachable"; the message is for people. */
export class Problem extends Error {
  constructor(kind, message, shown) {
    super(message);
    this.kind = kind;
    this.shown = shown; // the token
  }
}

export const token = {
  get: () => localStorage.getItem(KEPT),

  /** Forget the token; if one is given, only that: another one may have been entered meanwhile. */
  forget(given = token.get()) {
    if (token.get() === given) localStorage.removeItem(KEPT);
  },

  /** Keep a token; gives whether it can be one. */
  keep(given) {
    const trimmed = given.trim();
    const possible = /^[\x21-\x7e]+$/.test(trimmed);
    if (possible) localStorage.setItem(KEPT, trimmed);
    return possible;
  },

  /** Take the token out of the address, where only this browser has seen it; gives whether there was one. */
  takeFromAddress() {
    const given = new URLSearchParams(location.hash.slice(1)).get("token");
    if (given === null) return false;
    history.replaceState(null, "", location.pathname + location.search);
    return token.keep(given);
  },
};

export const askJson = async (path) => (await asked(path)).json();
export const askBlob = async (path) => (await asked(path)).blob();

/** The same, but null where there is nothing. */
export async function askIfThere(path) {
  try {
    return await askJson(path);
  } catch (problem) {
    if (problem.kind === "not-found") return null;
    throw problem;
  }
}

/** Ask for a change. */
export async function send(method, path, document = null) {
  const body = document === null ? {} : { headers: { "Content-Type": "application/json" }, body: JSON.stringify(document) };
  return (await asked(path, { method, ...body })).json();
}

async function asked(path, request = {}) {
  const shown = token.get();
  const headers = { Authorization: `Bearer ${shown}`, ...request.headers };
  const signal = AbortSignal.timeout(PATIENCE_MS);
  let answer;
  try {
    answer = await fetch(path, { ...request, headers, credentials: "omit", signal });
  } catch {
    throw new Problem("unreachable", TRY_AGAIN);
  }
  if (answer.ok) return answer;
  const told = await answer.json().catch(() => null);
  if (!told?.type) throw new Problem("unreachable", TRY_AGAIN);
  throw new Problem(told.type.replace("urn:gsdm:problem:", ""), told.detail, shown);
}
