// The page: which one it is by its address, whose token it shows, and renewing it for as long as somebody looks.

import { token } from "./coordinator.js";
import { renew } from "./elements.js";
import { download, pageOfOptimization, pageOfTrial } from "./optimizing.js";
import { DRIVEN } from "./driving.js";
import { DRAWN } from "./pictures.js";
import { listOfQueries, pageOfQuery } from "./queries.js";

const RENEWED_EVERY_MS = 2000;
const PAGES = { "": listOfQueries, queries: pageOfQuery, trials: pageOfTrial, optimizations: pageOfOptimization };

const FIRST_TIME = "Enter a token to see this page.";
const NOT_KNOWN = "The coordinator does not know this token: it was mistyped, was revoked or has expired.";

const part = (id) => document.getElementById(id);
const [, kind, id = ""] = location.pathname.split("/");
const made = PAGES[kind](decoded(id));
let whyAsked = FIRST_TIME;
let wake = () => {};

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Ask for what the page shows, and show it; or say in a sentence why not. */
async function renewPage() {
  try {
    const { title, shown } = await made();
    renew(part("shown"), shown.filter(Boolean));
    document.title = `${title} – GSDM-grid`;
    notice("");
    part("renewed").textContent = `as of ${new Date().toLocaleTimeString()}`;
  } catch (problem) {
    tell(problem);
  }
}

function tell(problem) {
  if (problem.kind === "unauthorized") {
    whyAsked = NOT_KNOWN;
    token.forget(problem.shown);
  } else if (problem.kind === "not-found") {
    renew(part("shown"), []);
    notice(`${problem.message}. Looking for it again.`);
  } else if (problem.kind) {
    notice(problem.kind === "forbidden" ? `This token may not look at this: ${problem.message}.` : problem.message);
  } else {
    notice("Something went wrong in this page; trying again.");
    console.error(problem);
  }
}

/** Say something as a sentence. Only what has changed is written: it is read out to those who do not see it. */
function notice(text) {
  const sentence = text.charAt(0).toUpperCase() + text.slice(1);
  if (part("notice").textContent !== sentence) part("notice").textContent = sentence;
}

function askForToken() {
  renew(part("shown"), []);
  notice("");
  part("renewed").textContent = "";
  part("why").textContent = whyAsked;
  if (part("asking").hidden) {
    part("asking").hidden = false;
    part("token").focus();
  }
}

/** Until the time is over, or something happened that is to be seen at once. */
function pause(milliseconds) {
  return new Promise((resolve) => {
    const timer = milliseconds === undefined ? undefined : setTimeout(resolve, milliseconds);
    wake = () => {
      clearTimeout(timer);
      resolve();
    };
  });
}

/** One request after the other, so that they never pile up; none while nobody looks, or has a token. */
async function keepRenewed() {
  for (;;) {
    part("forget").hidden = token.get() === null;
    if (token.get() === null) {
      askForToken();
      await pause();
    } else if (document.hidden) {
      await pause();
    } else {
      part("asking").hidden = true;
      await renewPage();
      if (token.get() !== null) await pause(RENEWED_EVERY_MS);
    }
  }
}

part("asking").addEventListener("submit", (event) => {
  event.preventDefault();
  const possible = token.keep(part("token").value);
  part("token").value = "";
  if (possible) wake();
  else part("why").textContent = "That is no token: it begins with gsdm_ and has no spaces.";
});
part("forget").addEventListener("click", () => {
  whyAsked = FIRST_TIME;
  token.forget();
  wake();
});
part("shown").addEventListener("click", (event) => {
  const { download: path, name } = event.target.dataset;
  if (path) download(path, name).catch(tell);
});
addEventListener("hashchange", () => token.takeFromAddress() && wake());
for (const event of [DRAWN, DRIVEN]) addEventListener(event, () => wake());
addEventListener("storage", () => wake()); // another tab was given a token, or forgot it
document.addEventListener("visibilitychange", () => document.hidden || wake());

token.takeFromAddress();
keepRenewed();
