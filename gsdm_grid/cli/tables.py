"""How things look on a terminal: tables, lines, plots. Pure: documents and windows in, text or renderables out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table

    from gsdm_grid.client import Bundle, Operation, Query, ResultEvent, Trial, TrialResult
    from gsdm_grid.model import Array, LogicalWindow

STATE_STYLES = {
    "active": "green",
    "stopping": "yellow",
    "failed": "bold red",
    "succeeded": "green",
    "running": "cyan",
    "pending": "bright_black",
}
_BLOCKS = " ▁▂▃▄▅▆▇█"
_AROUND_1973_NS = 10**17
_LABEL_WIDTH = 10
_BUSIEST = "▸"


# -- functions --------------------------------------------------------------------------------------------------------


def signature(described: Mapping[str, Any]) -> str:
    """A function with what it takes and gives."""
    arrow = described["output"] if described["output"] != "derived from the input" else "…"
    several = described["kind"] in ("combining", "combine")
    taken = f"[{described['input']}]" if several else described["input"]
    return f"{described['name']}({', '.join(filter(None, (taken, parameters(described))))}) → {arrow}"


def parameters(described: Mapping[str, Any]) -> str:
    """The parameters of a function or template, with their defaults."""
    return ", ".join(
        one["name"] if one["required"] or one["name"].startswith("*") else f"{one['name']}={one['default']}"
        for one in described["parameters"]
    )


def strategies(described: Mapping[str, Any]) -> str:
    """The parallel strategies that are valid for a function."""
    return ", ".join(strategy["name"].replace("_", " ") for strategy in described["strategies"]) or "none"


# -- tables -----------------------------------------------------------------------------------------------------------


def table(*columns: str, right: Iterable[str] = (), wrapped: Iterable[str] = ("why",)) -> Table:
    """An empty table in the style of all of them; only columns that are ``wrapped`` take several lines."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    made = Table(
        box=SIMPLE_HEAD, header_style="bold", border_style="bright_black", padding=(0, 1, 0, 0), pad_edge=False
    )
    for name in columns:
        whole = name not in wrapped
        made.add_column(name, justify="right" if name in right else "left", no_wrap=whole, overflow="fold")
    return made


def _with_reasons(columns: Sequence[str], rows: Sequence[Sequence[Any]], right: Iterable[str] = ()) -> Table:
    """A table of rows that end with a reason; that column is only there if something went wrong."""
    reasons = any(row[-1] for row in rows)
    made = table(*columns, *(["why"] if reasons else []), right=right)
    for row in rows:
        made.add_row(*row if reasons else row[:-1])
    return made


def queries_table(found: Iterable[Query], now: datetime) -> Table:
    """Queries with their states."""
    rows = [(query.name, state(query.state), ago(query.since, now), query.desired, _why(query, now)) for query in found]
    return _with_reasons(("name", "state", "since", "wanted"), rows)


def failed(query: Query, now: datetime) -> str:
    """Which action on a query failed, when and why; empty if none did."""
    if query.error is None:
        return ""
    if query.failure is None:
        return str(query.error)
    at = datetime.fromtimestamp(query.failure["at"], UTC)
    return f"{query.failure['action']} failed {ago(at, now)}: {query.error}"


def _why(query: Query, now: datetime) -> str:
    """What went wrong with a query, or what it waits for."""
    return failed(query, now) or (f"waits for hosts: {query.waiting}" if query.waiting else "")


def title(query: Query, now: datetime) -> Any:
    """A query and its state in a line."""
    from rich.text import Text

    wanted = f", wanted: {query.desired}" if query.desired != query.state else ""
    wanted += f"; it waits for hosts: {query.waiting}" if query.waiting else ""
    warnings = "".join(f"\nwarning: {warning}" for warning in query.warnings)
    reached = f", reached {ago(query.since, now)}{wanted}{warnings}"
    return Text.assemble((query.name, "bold"), " is ", state(query.state), reached)


def sharing(read: Mapping[str, Any]) -> str:
    """How an input stream is read that may be shared.

    >>> sharing({"part": "shared:4f.1", "with": ["b"], "stalled_s": 0.25, "dropped_oldest": 0})
    'read through shared:4f.1, together with b; others waited for it for 0.25 s'
    """
    told = [f"together with {', '.join(read['with'])}" if read["with"] else "alone at present"]
    stalled_s = read.get("stalled_s", 0.0)
    told += [f"others waited for it for {stalled_s:.2f} s"] if stalled_s and read["with"] else []
    told += [f"{key.replace('_', ' ')}: {count}" for key, count in read.items() if key.startswith("dropped_") and count]
    return f"read through {read['part']}, {'; '.join(told)}"


def operations_table(found: Iterable[Operation], now: datetime) -> Table:
    """Operations with what became of them."""
    rows = []
    for one in found:
        took = short_time(one.finished - one.created) if one.finished else ""
        begun = ago(one.created, now)
        rows.append((one.id, one.query, one.action, state(one.status), begun, took, str(one.error or "")))
    return _with_reasons(("operation", "query", "action", "status", "begun", "took"), rows)


def sites_table(found: Iterable[Mapping[str, Any]]) -> Table:
    """Which queries run where."""
    made = table("query", "site", "does", "host", "machine", "process", "utilization", right=("process", "utilization"))
    for one in found:
        process = "" if one.get("pid") is None else str(one["pid"])
        does = ", ".join(dict.fromkeys(one["functions"]))
        busy = f"{one['utilization']:.0%}"
        made.add_row(one["query"], one["site"], does, one["host"], one.get("machine") or "", process, busy)
    return made


def statistics_table(rows: Iterable[Mapping[str, Any]]) -> Table:
    """Figures of a query's sites; see `site_figures`."""
    numbers = ("busy", "windows in", "out", "MB/s", "waiting")
    made = table("site", "does", "host", *numbers, right=numbers)
    for row in rows:
        waiting = f"{row['buffered_blocks']:,} block{'' if row['buffered_blocks'] == 1 else 's'}"
        figures = (f"{row['utilization']:.0%}", f"{row['windows_in']:,}", f"{row['windows_out']:,}")
        made.add_row(row["site"], row["does"], row["host"], *figures, f"{row['mb_s']:,.1f}", waiting)
    return made


def totals_lines(totals: Mapping[str, Any], since_s: float, now: datetime) -> list[str]:
    """What a query has counted in all, and since when its sites, which begin anew when it is scaled, have counted."""
    lines = [
        f"{verb} {stream}: {counted['windows']:,} windows"
        + (f"; dropped: {_reasons(counted['dropped'])}" if counted["dropped"] else "")
        for verb in ("read", "delivered")
        for stream, counted in totals[verb].items()
    ]
    lines += [f"dropped by merges: {_reasons(totals['dropped'])}"] if totals["dropped"] else []
    since = ago(datetime.fromtimestamp(since_s, UTC), now)
    return [*lines, f"sites have counted since {since}, and report twice a second"]


def _reasons(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{reason} {count:,}" for reason, count in counts.items())


def site_figures(
    plan: Mapping[str, Any], statistics: Mapping[str, Any], before: Mapping[str, Any] | None = None
) -> list[dict[str, Any]]:
    """Figures of each site at work: counts in all; rates since ``before`` (earlier statistics), or else in all.

    MB/s is what comes in or what goes out, whichever is more.
    """
    made = []
    for site in plan["sites"]:
        told, earlier = statistics.get(site["id"]), (before or {}).get(site["id"])
        if told is None:
            continue
        if earlier is not None and earlier["since_s"] != told["since_s"]:
            earlier = None  # it began anew in between
        taken, given = (_totals(plan, site["id"], end, told) for end in ("to_site", "from_site"))
        taken_before, given_before = (_totals(plan, site["id"], end, earlier) for end in ("to_site", "from_site"))
        active_s, idle_s = (told[name] - (earlier[name] if earlier else 0.0) for name in ("active_s", "idle_s"))
        moved = max(taken["bytes"] - taken_before["bytes"], given["bytes"] - given_before["bytes"], 0)
        made.append(
            {
                "site": site["id"],
                "role": site["role"],
                "does": ", ".join(dict.fromkeys(operator["function"]["name"] for operator in site["operators"])),
                "host": site["host"],
                "since_s": told["since_s"],
                "utilization": min(max(1 - idle_s / active_s, 0.0), 1.0) if active_s > 0 else 0.0,
                "windows_in": taken["windows"],
                "windows_out": given["windows"],
                "mb_s": moved / active_s / 1e6 if active_s > 0 else 0.0,
                "buffered_blocks": taken["buffered_blocks"],
            }
        )
    return made


def _totals(plan: Mapping[str, Any], site: str, end: str, told: Mapping[str, Any] | None) -> dict[str, int]:
    """Sums over the streams that end, or begin, at a site; ``told`` are the site's statistics."""
    known = told["streams"] if told else {}
    found = [known[stream["name"]] for stream in plan["streams"] if stream[end] == site and stream["name"] in known]
    return {name: sum(stream[name] for stream in found) for name in ("windows", "bytes", "buffered_blocks")}


def bundles_table(found: Iterable[Bundle], now: datetime) -> Table:
    """Uploaded function code."""
    rows = []
    for one in found:
        uploaded = ago(one.created, now) if one.created else ""
        brought = "\n".join((*one.functions, *one.templates, *one.interfaces))
        rows.append((one.name, str(one.version), uploaded, brought, one.error or ""))
    return _with_reasons(("bundle", "version", "uploaded", "brings"), rows, right=("version",))


# -- trials and resources ---------------------------------------------------------------------------------------------


def trials_table(found: Iterable[Trial], now: datetime) -> Table:
    """Trials with what they cost."""
    numbers = ("windows", "cost", "MB/s")
    rows = []
    for one in found:
        measured = one.result
        figures = (f"{measured.cost_s:.3f} s", f"{measured.mb_s:,.1f}") if measured else ("", "")
        status, begun, why = state(one.status), ago(one.created, now), str(one.error or "")
        rows.append((one.id, one.query, status, begun, f"{one.count:,}", *figures, why))
    return _with_reasons(("trial", "query", "status", "begun", *numbers), rows, right=numbers)


def trial_title(trial: Trial, now: datetime) -> Any:
    """A trial and how it fares in a line."""
    from rich.text import Text

    begun = f", {trial.count:,} windows, begun {ago(trial.created, now)}"
    return Text.assemble("trial ", (trial.id, "bold"), " of ", trial.query, ": ", state(trial.status), begun)


def costs_table(result: TrialResult) -> Table:
    """CPU seconds of each site of a trial; the busiest one, which sets the cost, is marked."""
    numbers = ("process-\ning", "communi-\ncation", "system", "all")
    made = table("  site", "role", "does", "host", *numbers, right=numbers, wrapped=("does",))
    for site in result.sites:
        busiest = site.site == result.busiest
        times = (site.processing_s, site.communication_s, site.system_s, site.utilization_s)
        made.add_row(
            f"{_BUSIEST if busiest else ' '} {site.site}",
            site.role,
            ", ".join(dict.fromkeys(site.functions)),
            site.host,
            *(f"{time_s:.3f}" for time_s in times),
            style="bold" if busiest else "",
        )
    return made


def costs(result: TrialResult) -> str:
    """What a trial cost and how fast it was, in two lines."""
    return (
        f"cost: {result.cost_s:.3f} CPU s, of the busiest site {_BUSIEST}; with a core per site, "
        f"{result.derived_windows_s:,.0f} windows/s\nreached: {result.windows_s:,.0f} windows/s, "
        f"{result.mb_s:,.1f} MB/s ({result.windows:,} windows in {result.seconds:.2f} s)"
    )


def resources_table(kinds: Mapping[str, Mapping[str, Any]]) -> Table:
    """What each kind of host has and uses; of named pools too."""
    wrapped = ("host", "started", "where")
    made = table("host", "started", "where", "used of what it has", "sites", right=("sites",), wrapped=wrapped)
    for kind, told in _by_pool(kinds):
        started = "yes" if told.get("started") else "when needed"
        where = told.get("address") or told.get("master") or "this process"
        if machines := len(told.get("nodes", ())):
            where = f"{where}, {machines} machine{'' if machines == 1 else 's'}"
        made.add_row(kind, started, where, "\n".join(_amounts(told)), str(told.get("sites", 0)))
    return made


def _by_pool(kinds: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for kind, told in kinds.items():
        if kind != "pools":
            yield kind, told
    for pool, its_kinds in kinds.get("pools", {}).items():
        for kind, told in its_kinds.items():
            yield f"{kind} of {pool}", told


def cpus(kinds: Mapping[str, Mapping[str, Any]]) -> int | None:
    """How many CPUs the kind of host with most of them has; None if nobody knows.

    >>> ray = {"total": {"CPU": 64.0}}
    >>> cpus({"thread": {"cores": 2}, "ray": {**ray, "cores": 8}}), cpus({"thread": {"cores": 2}, "ray": ray}), cpus({})
    (8, 64, None)
    """
    known = [pool.get("cores") or pool.get("slots") or pool.get("total", {}).get("CPU") for _, pool in _by_pool(kinds)]
    return max((int(number) for number in known if number), default=None)


def leases_table(kinds: Mapping[str, Mapping[str, Any]]) -> Group | None:
    """What queries hold of Ray clusters: requested, for how many planned sites, and observed; and under the table why
    a lease still waits. None if they hold nothing."""
    from rich.console import Group
    from rich.text import Text

    wrapped = ("host", "query")
    leases = table("host", "query", "lease", "requested", "observed", wrapped=wrapped)
    reasons = []
    for kind, pool in _by_pool(kinds):
        for lease in pool.get("leases", ()):
            amounts = [_amount(name, amount) for name, amount in lease["requested"].items()]
            requested = "\n".join([*amounts, f"for {len(lease['planned'])} sites"])
            placed = Counter(machine or "nowhere yet" for machine in lease["observed"].values())
            observed = "\n".join(f"{count} on {machine}" for machine, count in placed.items())
            leases.add_row(kind, lease["query"], state(lease["state"]), requested, observed)
            if lease["reason"]:
                reasons.append(Text(f"{lease['query']} waits: {lease['reason']}"))
    return Group(leases, *reasons) if leases.row_count else None


def _amount(name: str, amount: float) -> str:
    """An amount of a resource.

    >>> _amount("CPU", 2.0), _amount("object_store_memory", 3 * 2.0**29)
    ('2 CPU', '1.5 GiB object store')
    """
    if "memory" in name:
        return f"{amount / 2**30:.1f} GiB {name.removesuffix('_memory').replace('_', ' ')}"
    return f"{amount:g} {name}"


def _amounts(told: Mapping[str, Any]) -> Iterator[str]:
    """What a kind of host has, and as far as it says so, what of it is used; without what only names a machine.

    Nor does it show what Ray keeps of its placement groups, ``CPU_group_…``: that is part of the CPUs.

    >>> total = {"CPU": 2.0, "memory": 3 * 2.0**30, "node:10.0.0.1": 1.0}
    >>> list(_amounts({"total": total, "available": {**total, "CPU": 0.5}})), list(_amounts({"cores": 4}))
    (['1.5 of 2 CPU', '0.0 of 3.0 GiB memory'], ['4 cores'])
    """
    for name in ("cores", "slots"):
        if told.get(name):
            yield f"{told[name]} {name if told[name] != 1 else name[:-1]}"
    available = told.get("available", {})
    for name, amount in sorted(told.get("total", {}).items()):
        used = amount - available.get(name, 0.0)
        if "memory" in name:
            yield f"{used / 2**30:.1f} of {_amount(name, amount)}"
        elif not name.startswith("node:") and "_group_" not in name:
            logical = name == "CPU" and told.get("cores")  # as many as Ray was told, whatever the machine has
            yield f"{used:g} of {_amount('logical CPUs' if logical else name, amount)}"


def state(name: str) -> Any:
    """A state in its color."""
    from rich.text import Text

    return Text(name, style=STATE_STYLES.get(name, ""))


# -- times ------------------------------------------------------------------------------------------------------------


def ago(then: datetime, now: datetime) -> str:
    """How long ago.

    >>> noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    >>> ago(noon, noon + timedelta(minutes=3, seconds=5))
    '3 min ago'
    """
    return f"{short_time(max(now - then, timedelta()))} ago"


def short_time(span: timedelta) -> str:
    """A span of time in its largest unit.

    >>> [short_time(timedelta(seconds=s)) for s in (0.25, 59, 7200, 200000)]
    ['0.2 s', '59 s', '2 h', '2 d']
    """
    seconds = span.total_seconds()
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds // length:.0f} {unit}"
    return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"


def timestamp(ts_ns: int) -> str:
    """A window's timestamp: a date if it looks like one, else seconds since the stream's beginning.

    >>> timestamp(1_500_000), timestamp(1_767_268_800_000_000_000)
    ('0.001500 s', '2026-01-01T12:00:00.000Z')
    """
    if ts_ns < _AROUND_1973_NS:
        return f"{ts_ns / 1e9:.6f} s"
    return datetime.fromtimestamp(ts_ns / 1e9, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


# -- windows ----------------------------------------------------------------------------------------------------------


def window_line(seq: int, window: LogicalWindow) -> str:
    """A window in one line: its number, its time, and what its attributes hold; vectors of one kind side by side."""
    values = dict(window.values())
    ts = values.pop("ts")
    alike: dict[str, dict[str, Any]] = {}
    for name, value in values.items():
        alike.setdefault(_kind(value) or name, {})[name] = value
    told = (f"{', '.join(some)}: {summary(*some.values())}" for some in alike.values())
    return f"{seq:>6}  {timestamp(int(ts))}  {'  '.join(told)}"


def summary(*values: Any) -> str:
    """What an attribute holds, or several of one kind, in a few words: of vectors, what the peaks are and where.

    >>> import numpy as np
    >>> summary(np.array([1, 3 - 4j], np.complex64), np.array([1j, 0], np.complex64)), summary(2.5), summary("a")
    ('2 complex64, |max| 5@1, 1@0', '2.5', "'a'")
    """
    first, kind = values[0], _kind(values[0])
    if not kind:
        return repr(first) if isinstance(first, str) else f"{first:.6g}" if isinstance(first, float) else str(first)
    if not first.size:
        return kind
    peak = "|max|" if first.dtype.kind == "c" else "max"
    return f"{kind}, {peak} {', '.join(map(_peak, values))}"


def _kind(value: Any) -> str:
    """Shape and type of a vector; empty for what is none."""
    import numpy as np

    if not isinstance(value, np.ndarray) or value.ndim == 0:
        return ""
    return f"{'×'.join(map(str, value.shape))} {value.dtype}"


def _peak(value: Any) -> str:
    import numpy as np

    size = np.abs(value) if value.dtype.kind == "c" else value
    place = np.unravel_index(int(np.argmax(size)), size.shape)
    return f"{float(size[place]):.4g}@{','.join(str(int(one)) for one in place)}"


def event_lines(event: ResultEvent) -> list[dict[str, Any]]:
    """What a result stream tells, as documents of one line each."""
    if event.missed:
        return [{"missed": event.missed}]
    return [dict(window) for window in event.windows]


def series_text(values: Sequence[float] | Array, width: int = 80, height: int = 12) -> str:
    """Numbers as lines of block characters that fit the space, the scale at the left; no numbers, no lines.

    >>> print(series_text([0, 1, 2, 4], width=14, height=2))
           4 ┤   █
           0 ┤ ▄██
    """
    import numpy as np

    numbers = np.asarray(values, np.float64).ravel()
    numbers = numbers[np.isfinite(numbers)]
    columns, rows = max(width - _LABEL_WIDTH, 4), max(height, 1)
    if not numbers.size:
        return ""
    if numbers.size > columns:
        numbers = np.array([part[np.argmax(np.abs(part))] for part in np.array_split(numbers, columns)])
    low, high = float(numbers.min()), float(numbers.max())
    filled = (numbers - low) / ((high - low) or 1.0) * rows * 8
    lines = []
    for row in range(rows, 0, -1):
        steps = np.clip(np.ceil(filled - (row - 1) * 8), 0, 8).astype(int)
        label = f"{high:.4g}" if row == rows else f"{low:.4g}" if row == 1 else ""
        lines.append(f"{label:>{_LABEL_WIDTH - 2}} {'┤' if label else '│'}" + "".join(_BLOCKS[step] for step in steps))
    return "\n".join(line.rstrip() for line in lines)
