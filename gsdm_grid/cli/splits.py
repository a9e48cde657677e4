"""Commands about splitting streams: what it costs here, and what each plan of a split would do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from gsdm_grid.cli.commands import HERE, AsJson, Secret, ServerUrl, app, console, end_on_signals, print_json
from gsdm_grid.cli.flows import document_of, stored_specification
from gsdm_grid.errors import QueryError

if TYPE_CHECKING:
    from gsdm_grid.reports import Explanation
    from gsdm_grid.splitting import Prediction
    from gsdm_grid.tuning import SplitProfile

profile = typer.Typer(no_args_is_help=True, help="Measure what things cost on this installation, and keep it.")
app.add_typer(profile, name="profile", rich_help_panel=HERE)


@profile.command("split")
def profile_split(
    placement: Annotated[
        str, typer.Option(help="Where sites run: threads, processes, ray, spark or grid.")
    ] = "threads",
    quick: Annotated[bool, typer.Option("--quick", help="Shorter runs: for a look, not for a choice.")] = False,
    as_json: AsJson = False,
) -> None:
    """Measure what splitting a stream costs here, and keep it for `gsdm explain`.

    The size of physical windows that queries use is left as it is: that is `gsdm tune`.
    """
    from gsdm_grid.plan import placement_policy
    from gsdm_grid.trials import split_trials
    from gsdm_grid.tuning import keep_profile

    end_on_signals()
    placement_policy(placement)
    measured = split_trials.profile_split(placement, lambda line: typer.echo(line, err=True), quick=quick)
    path = keep_profile(measured)
    if as_json:
        print_json({**measured.to_json(), "kept_in": str(path)})
        return
    console().print(_coefficients(measured))
    typer.echo(f"median error {measured.error:.0%}, kept in {path}")


@app.command(rich_help_panel=HERE)
def explain(
    spec: Annotated[
        str, typer.Argument(help="A query's name, a file in YAML or JSON, '-' for standard input, or the query itself.")
    ],
    rate: Annotated[float | None, typer.Option(min=1e-9, help="Desired rate, in tuples per second.")] = None,
    b: Annotated[float | None, typer.Option("-b", min=0, max=1, help="Share of tuples that are broadcast.")] = None,
    o: Annotated[float | None, typer.Option("-o", min=0, max=1, help="Share of tuples that are omitted.")] = None,
    p: Annotated[int | None, typer.Option("-p", min=1, help="Window splitters of parasplit.")] = None,
    sample: Annotated[int, typer.Option(min=0, help="Tuples of the source to look at; 0: do not open it.")] = 100_000,
    server: ServerUrl = None,
    token: Secret = None,
    as_json: AsJson = False,
) -> None:
    """Show what each plan of the split in a query would do here, which one to take, and why.

    Where nothing is split, it shows the data flow of the query.

    Rates are for one core per site. What splitting costs here is measured by `gsdm profile split`; what becomes of the
    tuples is seen from a sample of the source, unless -b and -o say it.
    """
    from gsdm_grid.reports import Assumptions, explain_split, has_split
    from gsdm_grid.trials import used_block_bytes

    document = stored_specification(spec, server, token) or document_of(spec)
    if isinstance(document, str):
        raise QueryError(f"there is no query {document!r}, and no file of that name")
    if not isinstance(document, dict):
        raise QueryError(f"a query is a mapping with name, inputs and flow, got {type(document).__name__}")
    if not has_split(document.get("flow")):
        _show_flow(document, as_json)
        return
    told = explain_split(document, _profile_for(document), used_block_bytes(), Assumptions(rate, b, o, p, sample))
    if as_json:
        print_json(told.to_json())
        return
    _show(told)


def _show_flow(document: dict[str, Any], as_json: bool) -> None:
    """A query in which nothing is split: its data flow as it is."""
    from gsdm_grid.spec import flow_of

    flow = flow_of(document)
    if as_json:
        print_json({"query": document.get("name"), "split": None, "flow": flow.to_json()})
        return
    typer.echo(f"{document.get('name')}: no stream is split, so there is no plan of a split to choose. Its data flow:")
    typer.echo(flow.to_text())
    typer.echo("to find its best parallel plan: gsdm optimize")


def _profile_for(document: dict[str, Any]) -> SplitProfile:
    """The profile for the query's placement; if there is none, the one on threads, which is quick to get."""
    from gsdm_grid.reports import DEFAULT_PLACEMENT
    from gsdm_grid.tuning import kept_profile, needed_profile

    wanted = str(document.get("placement") or DEFAULT_PLACEMENT)
    return kept_profile(wanted) or kept_profile("threads") or needed_profile(wanted)


def _show(told: Explanation) -> None:
    out = console()
    shares = told.shares
    bfn = "" if told.split.bfn is None else f", bfn {told.split.bfn}"
    out.print(f"{told.query}: {told.split.template} into {told.split.w}, rfn {told.split.rfn}{bfn}", soft_wrap=True)
    source = "as given" if told.sample is None else f"from {told.sample.tuples:,} tuples of the source"
    out.print(
        f"o ≥ {shares.o:.2%}, b ≤ {shares.b:.2%}, {shares.n:,.0f} tuples per physical window ({source})", soft_wrap=True
    )
    if told.sample is not None and told.sample.hot is not None and told.split.w > 1:
        output, share = told.sample.hot
        if share > 2 / told.split.w:
            out.print(f"output {output} gets {share:.0%} of what is routed", style="yellow", soft_wrap=True)
    out.print(_plans(told))
    chosen = told.choice.chosen
    out.print(f"take {chosen.plan}: it {told.choice.reason}", style="bold", soft_wrap=True)
    p = told.choice.named("parasplit").shape["p"]
    out.print(f"parasplit has p = {p} by {told.choice.p_reason}", soft_wrap=True)
    for note in told.notes:
        out.print(f"note: {note}", style="yellow", soft_wrap=True)


def _plans(told: Explanation) -> Any:
    from rich.table import Table

    table = Table()
    for name in ("plan", "shape", "million tuples/s", "CPU ns per tuple", "sites", "bottleneck"):
        table.add_column(name, justify="left" if name in ("plan", "shape", "bottleneck") else "right")
    for one in told.choice.predictions:
        mark = " ←" if one.plan == told.choice.chosen.plan else ""
        table.add_row(
            one.plan + mark,
            _shape(one),
            f"{one.rate / 1e6:,.3g}",
            f"{one.cost_s * 1e9:,.3g}",
            str(one.site_count),
            one.bottleneck,
        )
    return table


def _shape(one: Prediction) -> str:
    if one.plan == "parasplit":
        return f"p = {one.shape['p']}" + (f", routers {one.shape['routers']}" if len(one.shape["routers"]) > 1 else "")
    fanouts = " · ".join(str(fanout) for fanout in one.shape["fanouts"])
    return f"{one.shape['is']}: {fanouts}" if "is" in one.shape else fanouts


def _coefficients(measured: SplitProfile) -> Any:
    from rich.table import Table

    per_window = ("crW", "ceW", "cmW", "cpoll", "router")
    table = Table(title=f"splitting on {measured.placement}, tuples of {measured.tuple_bytes:.0f} bytes")
    for name in ("coefficient", "value", "unit"):
        table.add_column(name, justify="right" if name == "value" else "left")
    for name, value in measured.coefficients.to_json().items():
        scale, unit = (1e6, "µs per physical window") if name in per_window else (1e9, "ns per tuple")
        table.add_row(name, f"{value * scale:,.3g}", unit)
    return table
