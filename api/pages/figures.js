// What the sites of a query do, from the statistics that they tell: counts in all, rates since the time before.

/** Remembers the last statistics of each site and those before, as long as the page is open. */
export class Meter {
  #sites = new Map();

  take(statistics) {
    for (const [site, told] of Object.entries(statistics)) {
      const known = this.#sites.get(site);
      if (!known || told.active_s < known.latest.active_s) this.#sites.set(site, { latest: told }); // started anew
      else if (told.active_s > known.latest.active_s) this.#sites.set(site, { latest: told, before: known.latest });
    }
  }

  /** Figures of a site; null if it has told nothing yet. */
  of(plan, site) {
    const known = this.#sites.get(site);
    if (!known) return null;
    const { latest, before } = known;
    const spent_s = latest.active_s - (before?.active_s ?? 0);
    const rate = (amount) => (spent_s > 0 ? Math.max(amount, 0) / spent_s : 0);
    const ends = ["to_site", "from_site"].map((end) => {
      const [now, then] = [latest, before].map((told) => totals(plan, site, end, told));
      return { ...now, windows_s: rate(now.windows - then.windows), bytes_s: rate(now.bytes - then.bytes) };
    });
    const [taken, given] = ends;
    const idle_s = latest.idle_s - (before?.idle_s ?? 0);
    return {
      busy: spent_s > 0 ? Math.min(Math.max(1 - idle_s / spent_s, 0), 1) : 0,
      windowsIn: taken.windows,
      windowsOut: given.windows,
      windowsPerSecond: Math.max(taken.windows_s, given.windows_s),
      megabytesPerSecond: Math.max(taken.bytes_s, given.bytes_s) / 1e6,
      waiting: taken.buffered_blocks,
    };
  }

  /** Windows per second that a query reads from its input streams; null if nobody has told yet. */
  read(plan) {
    const readers = new Set(plan.streams.filter((one) => one.kind === "source").map((one) => one.to_site));
    const rates = [...readers].map((site) => this.of(plan, site)?.windowsPerSecond).filter((rate) => rate != null);
    return rates.length ? rates.reduce((sum, rate) => sum + rate) : null;
  }
}

/** Sums over the streams that end, or begin, at a site. */
function totals(plan, site, end, told) {
  const sum = { windows: 0, bytes: 0, buffered_blocks: 0 };
  for (const stream of plan.streams) {
    const counted = stream[end] === site ? told?.streams[stream.name] : null;
    if (counted) for (const name of Object.keys(sum)) sum[name] += counted[name] ?? 0;
  }
  return sum;
}
