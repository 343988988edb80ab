"""Verbs that show a round and its plan: `show` and `report`."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from placewright.cli.format.output import (
    STANDARD,
    check_output,
    note_written,
    out,
    warn_of_invalid_jobs,
    warn_of_quantities,
)
from placewright.cli.interrupts import interrupts
from placewright.cli.verbs.options import SOLVING_TIME, Lenient, Output
from placewright.cli.verbs.verify import check_one_stdin, check_pair, report_violations, valid_plan

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from placewright.instances.documents.cluster import ClusterDocument
    from placewright.instances.documents.plan import Plan
    from placewright.instances.documents.round import Round


class GraphDetail(StrEnum):
    """How far down a graph goes."""

    HOST = "host"
    GPU = "gpu"


def show(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="Cluster, round or plan; - is stdin.")
    ],
    plan_file: Annotated[
        str | None, typer.Option("--plan", metavar="PLAN", help="Plan to draw, if FILE is a round.")
    ] = None,
    round_file: Annotated[
        str | None, typer.Option("--round", metavar="ROUND", help="Its round, if FILE is a plan.")
    ] = None,
    picture: Annotated[
        str | None,
        typer.Option("-o", "--output", metavar="FILE", help="Draw a map as .png or .svg instead."),
    ] = None,
    graph: Annotated[
        bool, typer.Option("--graph", help="Write the graph as .json or .graphml, or draw it.")
    ] = False,
    detail: Annotated[
        GraphDetail, typer.Option(help="Whether the graph has hosts alone, or GPUs and links, too.")
    ] = GraphDetail.GPU,
    lenient: Lenient = False,
) -> None:
    """Draw a cluster as a tree, a round as a tree with its jobs, a plan as a map of its GPUs.

    A plan is drawn on the cluster of its round, and only if it is valid (else exit 7). Below the
    map is a timeline of each group of jobs that take turns, or a chart of the leases in which jobs
    do what was promised of them, or the load of regions and links, before and after. With --graph
    the cluster is written as a graph, which convert graph and NetworkX read, and a plan as the job
    of each GPU in it; as a picture it shows the links between the GPUs of up to 256 hosts.

    Example: placewright show round.yaml --plan plan.json -o plan.png
    """
    check_one_stdin(file, plan_file, round_file)
    if graph:
        output = picture or STANDARD
        drawn = output.lower().endswith((".png", ".svg"))
        if drawn:
            from placewright.cli.views.picture import check_picture

            check_picture(output)
            check_output(output, file)
        else:
            _check_graph_output(output, file, detail, plan_file or round_file)
        read = _read(file, plan_file, round_file, lenient)
        if drawn:
            _draw_graph(*read, output)
        else:
            _write_graph(*read, output, detail)
        return
    if picture is not None:
        from placewright.cli.views.picture import check_picture

        check_picture(picture)
        check_output(picture, file)
    document, plan = _read(file, plan_file, round_file, lenient)
    warn_of_quantities(document)
    from placewright.cli.views.gang.facts import occupancy_of
    from placewright.cli.views.policies import VIEWS
    from placewright.cli.views.tables import document_text
    from placewright.instances.documents.round import Round

    round_ = document if isinstance(document, Round) else Round(cluster=document)
    views = VIEWS[round_.policy.formulation]
    # A plan that places no jobs is drawn without a map.
    mapped = plan is None or round_.policy.spec.places_jobs
    occupancy = occupancy_of(round_, plan)
    if picture is not None and not occupancy.cluster.num_gpus:
        raise typer.BadParameter(f"{file} has no GPUs to draw; expected no -o", param_hint="FILE")
    title = f"{'Plan for round' if plan else document.kind} {document.name}"
    summary = document_text(plan or document)
    if picture is not None:
        from placewright.cli.views.picture import draw

        def add_panels(figure: Figure) -> None:
            views.panels(figure, round_, plan)

        draw(occupancy, picture, title, summary, add_panels, mapped=mapped)
        note_written(picture)
        return
    console = out()
    console.print(f"{title}: {summary}", soft_wrap=True)
    console.print()
    from placewright.cli.views.gang.chart import MAX_HOSTS, print_map, print_utilisation
    from placewright.cli.views.gang.tables import print_pools, print_uplinks
    from placewright.report.facts.usage import pool_usage, uplink_usage

    cluster = occupancy.cluster
    large = cluster.num_gpus and cluster.num_hosts > MAX_HOSTS
    print_cluster = print_utilisation if large else print_map
    if plan is not None:
        if mapped:
            print_cluster(console, occupancy)
        pools = pool_usage(round_, cluster, plan)
        uplinks = uplink_usage(round_, cluster, plan)
        if pools or uplinks:
            console.print()
        print_pools(console, pools)
        print_uplinks(console, uplinks)
        views.plan_charts(console, round_, plan)
        return
    from placewright.cli.views.gang.chart import cluster_tree

    console.print(cluster_tree(occupancy))
    if occupancy.jobs or occupancy.conditions:
        console.print()
        print_cluster(console, occupancy)
    pools, uplinks = pool_usage(round_, cluster), uplink_usage(round_, cluster)
    if pools or uplinks or round_.jobs:
        console.print()
    print_pools(console, pools, planned=False)
    print_uplinks(console, uplinks, planned=False)
    if round_.jobs:
        from placewright.cli.views.gang.tables import print_jobs_of_round

        print_jobs_of_round(console, round_)
    views.round_charts(console, round_)


def _check_graph_output(output: str, file: str, detail: GraphDetail, with_plan: str | None) -> None:
    from placewright.instances.io.graph_files import GRAPH_SUFFIXES

    if output != STANDARD and not output.lower().endswith(GRAPH_SUFFIXES):
        raise typer.BadParameter(
            f"{output}: expected {' or '.join(GRAPH_SUFFIXES)} with --graph", param_hint="-o"
        )
    if with_plan is not None and detail is GraphDetail.HOST:
        raise typer.BadParameter("a plan is of GPUs; expected --detail gpu", param_hint="--detail")
    check_output(output, file)


def _draw_graph(document: Round | ClusterDocument, plan: Plan | None, output: str) -> None:
    """Draw the hosts of a cluster with the links of their GPUs, and who holds these."""
    from placewright.cli.views.gang.facts import occupancy_of
    from placewright.cli.views.gang.graph_picture import draw_links
    from placewright.cli.views.picture import save_figure
    from placewright.instances.documents.round import Round

    round_ = document if isinstance(document, Round) else Round(cluster=document)
    try:
        figure = draw_links(occupancy_of(round_, plan))
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--graph") from None
    save_figure(figure, output, f"Links of {round_.cluster.name}")
    note_written(output)


def _write_graph(
    document: Round | ClusterDocument, plan: Plan | None, output: str, detail: GraphDetail
) -> None:
    """Write the graph of a cluster or of that of a round, with the jobs of a plan on its GPUs."""
    from placewright.instances.derived.phrases import count
    from placewright.instances.documents.cluster import ClusterDocument
    from placewright.instances.io.graph_files import write_graph

    cluster = document if isinstance(document, ClusterDocument) else document.cluster
    graph = cluster.to_graph(detail.value)
    if plan is not None:
        plan.on(graph)
    with interrupts.writing(output):
        write_graph(graph, output)
    nodes, edges = graph.number_of_nodes(), graph.number_of_edges()
    made = f"{count(nodes, 'node')}, {count(edges, 'edge')}"
    note_written(output, f"graph of {cluster.name}: {made}")


def _read(
    file: str, plan_file: str | None, round_file: str | None, lenient: bool
) -> tuple[Round | ClusterDocument, Plan | None]:
    """Read the documents to draw, without invalid jobs; a plan must fit its round."""
    from placewright.instances.documents.edits import Edits
    from placewright.instances.documents.plan import Plan
    from placewright.instances.documents.round import Round
    from placewright.instances.io.files import load, load_plan, load_round
    from placewright.instances.verify import verify

    document = load(file, lenient=lenient)
    if isinstance(document, Edits):
        raise typer.BadParameter(f"{file} is an Edits; expected a Round, a Plan or a Cluster")
    if isinstance(document, Round):
        warn_of_invalid_jobs(document)
    if plan_file is None and round_file is None and not isinstance(document, Plan):
        return document.valid_part() if isinstance(document, Round) else document, None
    if isinstance(document, Plan) and round_file is not None and plan_file is None:
        plan, plan_file = document, file
        round_ = load_round(round_file, lenient=lenient)
        warn_of_invalid_jobs(round_)
    elif isinstance(document, Round) and plan_file is not None and round_file is None:
        plan, round_file, round_ = load_plan(plan_file), file, document
    else:
        raise typer.BadParameter(
            f"{file} is a {document.kind}; expected a Round with --plan, a Plan with --round, "
            "or a Round or Cluster alone"
        )
    check_pair(round_, plan, round_file, plan_file)
    verification = verify(round_, plan)
    if not verification.ok:
        raise typer.Exit(report_violations(verification, plan_file))
    valid = round_.valid_part()
    return valid, plan.completed(valid.names)


def report(
    round_file: Annotated[str, typer.Argument(metavar="ROUND", help="The round; - is stdin.")],
    plan_file: Annotated[str, typer.Argument(metavar="PLAN", help="A plan of it; - is stdin.")],
    other_file: Annotated[
        str | None, typer.Argument(metavar="[PLAN2]", help="Another plan to show beside it.")
    ] = None,
    output: Output = STANDARD,
    explain: Annotated[
        float,
        typer.Option(
            metavar="TIME",
            parser=SOLVING_TIME,
            help="To look for what would let waiting jobs start; 0: not at all.",
        ),
    ] = 30.0,
    lenient: Lenient = False,
) -> None:
    """Write one HTML page: terms and bounds, a map of all GPUs, why jobs wait, tenants, moves.

    It loads nothing from anywhere, so it can be sent and kept. With two plans both are shown side
    by side. Plans have to be valid (else exit 7).

    Example: placewright report round.yaml plan.json -o report.html
    """
    check_one_stdin(round_file, plan_file, other_file)
    inputs = [one for one in (round_file, plan_file, other_file) if one is not None]
    check_output(output, *inputs)
    from placewright.instances.io import streams
    from placewright.instances.io.files import load_round
    from placewright.report.page import render_report

    round_ = load_round(round_file, lenient=lenient)
    warn_of_invalid_jobs(round_)
    plan = valid_plan(round_, round_file, plan_file)
    other = None if other_file is None else valid_plan(round_, round_file, other_file)
    page = render_report(round_, plan, other, time_limit=explain)
    with interrupts.writing(output):
        streams.write(output, page.encode())
    note_written(output)
