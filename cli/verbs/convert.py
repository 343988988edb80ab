"""The verb `convert`, by the name of the trace, configuration or system."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from placewright.cli.format.output import (
    STANDARD,
    Panels,
    check_output,
    note,
    note_written,
    read_whole_seconds,
    register,
    wrong_argument,
)
from placewright.cli.interrupts import interrupts
from placewright.cli.verbs.options import (
    Accelerators,
    Output,
    PolicyFile,
    RegionPolicy,
    Seed,
    labels_of_accelerators,
    write_conversion,
    write_dump,
    write_noted,
)

if TYPE_CHECKING:
    from placewright.instances.documents.base import Document


def convert_slurm(
    sources: Annotated[
        list[str], typer.Argument(metavar="DIR|FILE...", help="What squeue and scontrol print.")
    ],
    output: Output,
    movable: Annotated[
        bool, typer.Option("--movable", help="Running jobs that may be requeued can be moved.")
    ] = False,
    policy: PolicyFile = None,
) -> None:
    """Turn a dump of a Slurm cluster (squeue and scontrol as JSON) into a round.

    The queue, its reservations and who may be preempted are Slurm's own unless --policy says
    otherwise. Running jobs stay where they are unless --movable. What is not in the round is
    counted by the reason why not, on stderr.

    Example: placewright convert slurm dump -o round.json
    """
    check_output(output, *sources, *([policy] if policy else []))
    from placewright.instances.converters import read_slurm

    made = read_slurm(sources, movable=movable)
    write_dump(made, output, policy)


def convert_kubernetes(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...", help="What kubectl get ... -o json (or yaml) prints; folders of it."
        ),
    ],
    output: Output,
    levels: Annotated[
        str | None,
        typer.Option(
            metavar="KEY,...", help="Label keys of the topology, outermost first; else known ones."
        ),
    ] = None,
    movable: Annotated[
        bool,
        typer.Option(
            "--movable", help="Running pods that are made anew when stopped can be moved."
        ),
    ] = False,
    accelerator: Accelerators = None,
    policy: PolicyFile = None,
) -> None:
    """Turn a dump of a Kubernetes cluster (kubectl get ... -o json) into a round.

    Running pods stay where they are unless --movable. What is not in the round is counted by the
    reason why not, on stderr.

    Example: placewright convert kubernetes nodes-pods.json queues.json -o round.json
    """
    check_output(output, *files, *([policy] if policy else []))
    from placewright.instances.converters import read_kubernetes
    from placewright.instances.errors import InvalidInputError

    keys = tuple(key.strip() for key in levels.split(",")) if levels is not None else ()
    also = labels_of_accelerators(accelerator)
    try:
        made = read_kubernetes(files, levels=keys, movable=movable, accelerators=also)
    except InvalidInputError as error:
        if error.file is None:
            raise wrong_argument(error, "--levels") from None
        raise
    write_dump(made, output, policy)


def convert_ray(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE...", help="What ray list ... --detail prints.")
    ],
    output: Output,
    levels: Annotated[
        str | None,
        typer.Option(metavar="KEY,...", help="Label keys of the topology, outermost first."),
    ] = None,
) -> None:
    """Turn a dump of a Ray cluster (ray list nodes, placement-groups, as JSON) into a round.

    Placement groups that have their nodes stay there. What is not in the round is counted by the
    reason why not, on stderr.

    Example: placewright convert ray nodes.json placement-groups.json -o round.json
    """
    check_output(output, *files)
    from placewright.instances.converters import read_ray
    from placewright.instances.errors import InvalidInputError

    keys = tuple(key.strip() for key in levels.split(",")) if levels is not None else ()
    try:
        made = read_ray(files, levels=keys)
    except InvalidInputError as error:
        if error.file is None:
            raise wrong_argument(error, "--levels") from None
        raise
    write_dump(made, output)


def convert_manifest(
    manifest: Annotated[
        str, typer.Argument(metavar="MANIFEST", help="A JobSet or a LeaderWorkerSet, in YAML.")
    ],
    output: Annotated[
        str,
        typer.Option("-o", "--output", metavar="FILE", help="Where to write it; - is stdout."),
    ],
    level: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=LEVEL", help="The level that an exclusive topology means."),
    ] = None,
) -> None:
    """Turn a JobSet, a LeaderWorkerSet or a Workflow (Argo) into jobs, for whatif -e.

    What jobs cannot say is counted on stderr.

    Example: placewright convert manifest jobset.yaml -o job.yaml
    """
    check_output(output, manifest)
    levels: dict[str, str] = {}
    for text in level or ():
        key, _, name = text.partition("=")
        if not key or not name:
            raise typer.BadParameter(f"{text}: expected KEY=LEVEL", param_hint="--level")
        levels[key] = name
    from placewright.instances.converters import read_manifest
    from placewright.instances.derived.phrases import count
    from placewright.instances.io import streams, yaml_json

    made = read_manifest(manifest, levels=levels)
    jobs = [job.model_dump(mode="json", exclude_defaults=True) for job in made.jobs]
    with interrupts.writing(output):
        streams.write(output, yaml_json.dump_yaml({"jobs": jobs}).encode())
    for line in made.book.lines():
        note(line)
    note_written(output, f"manifest: {count(len(jobs), 'job')}")


def convert_skypilot(
    task: Annotated[str, typer.Argument(metavar="TASK", help="A task of SkyPilot, in YAML.")],
    output: Annotated[
        str,
        typer.Option("-o", "--output", metavar="FILE", help="Where to write it; - is stdout."),
    ],
) -> None:
    """Turn a task of SkyPilot into a job, each of its alternatives an option, for whatif -e.

    Example: placewright convert skypilot task.yaml -o job.yaml
    """
    check_output(output, task)
    from placewright.instances.converters import read_skypilot
    from placewright.instances.derived.phrases import count
    from placewright.instances.io import streams, yaml_json

    job = read_skypilot(task)
    text = yaml_json.dump_yaml(job.model_dump(mode="json", exclude_defaults=True))
    with interrupts.writing(output):
        streams.write(output, text.encode())
    note_written(output, f"skypilot: job {job.name} with {count(len(job.options), 'option')}")


def convert_psplib(
    project: Annotated[
        str, typer.Argument(metavar="PROJECT", help="A project of PSPLIB, a .sm or .mm file.")
    ],
    output: Output,
) -> None:
    """Turn a project of PSPLIB into a round of policy stages, each of its activities a job.

    Example: placewright convert psplib j301_1.sm -o round.yaml
    """
    check_output(output, project)
    from placewright.cli.views.tables import document_text
    from placewright.instances.converters import read_psplib

    made = read_psplib(project)
    write_noted(made, output, (), f"psplib: {document_text(made)}")


def convert_hived(
    config: Annotated[
        str, typer.Argument(metavar="CONFIG", help="HiveD's scheduler configuration, in YAML.")
    ],
    output: Output,
) -> None:
    """Turn the configuration of HiveD into a round: a cluster, and tenants that own cells of it.

    What a round cannot say is counted on stderr.

    Example: placewright convert hived hivedscheduler.yaml -o round.yaml
    """
    check_output(output, config)
    from placewright.instances.converters import read_hived

    made = read_hived(config)
    write_dump(made, output)


def convert_fabric(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...",
            help="What ibnetdiscover or a cloud's command prints; also lists of instances.",
        ),
    ],
    output: Output,
    into: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="A round or cluster whose hosts get the levels by name."),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(metavar="MODEL", help="Host model of all hosts, without --into: dgx-h100."),
    ] = None,
) -> None:
    """Turn a network (ibnetdiscover, AWS, GCP, OCI, Slurm, Topograph) into levels and domains.

    The content tells what a file is. What is guessed, and what a tree of levels cannot say, is on
    stderr.

    Example: placewright convert fabric topology.json nodes.json --into round.json -o placed.json
    """
    check_output(output, *files, *([into] if into else []))
    if into is not None and model is not None:
        raise typer.BadParameter(f"{model}: expected it without --into", param_hint="--model")
    from placewright.cli.views.tables import document_text
    from placewright.instances.converters import read_fabric
    from placewright.instances.errors import InvalidInputError

    try:
        made = read_fabric(files, into=into, model=model)
    except InvalidInputError as error:
        if error.file is None:
            raise wrong_argument(error, "--model") from None
        raise
    summary = f"fabric: {document_text(made.document)}"
    write_noted(made.document, output, made.book.lines(), summary)


def convert_graph(
    graph: Annotated[
        str, typer.Argument(metavar="GRAPH", help="Node-link JSON or GraphML; - is stdin.")
    ],
    output: Output = STANDARD,
) -> None:
    """Turn a graph of hosts, GPUs, switches and links into a cluster.

    What of the graph is not in the cluster is counted on stderr.

    Example: placewright convert graph graph.json -o cluster.yaml
    """
    check_output(output, graph)
    from placewright.cli.views.tables import document_text
    from placewright.instances.io.graph_files import load_cluster_of_graph

    cluster, left_out = load_cluster_of_graph(graph)
    write_noted(cluster, output, left_out, f"graph: {document_text(cluster)}")


def convert_gpu_links(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="What nvidia-smi topo -m or rocm-smi --showtopo prints, or NCCL dumps.",
        ),
    ],
    output: Output,
    name: Annotated[
        str | None, typer.Option(metavar="N", help="Name of the matrix; else that of the file.")
    ] = None,
    gpu_model: Annotated[
        str | None,
        typer.Option(metavar="M", help="Of the GPUs, such as A100: how fast their links are."),
    ] = None,
    into: Annotated[
        str | None, typer.Option(metavar="FILE", help="A cluster or round whose --hosts get it.")
    ] = None,
    hosts: Annotated[
        str | None, typer.Option(metavar="LIST", help="Those hosts, such as h[0-3],a1.")
    ] = None,
) -> None:
    """Turn what tools print of the links in a host into a link matrix: a cluster of one host.

    What is guessed, such as rates that the tool does not print, is said on stderr.

    Example: placewright convert gpu-links topo.txt --gpu-model A100 -o links.yaml
    """
    check_output(output, file)
    if (into is None) != (hosts is None):
        raise typer.BadParameter("expected --into and --hosts, or neither", param_hint="--hosts")
    from placewright.instances.converters import read_gpu_links
    from placewright.instances.converters.gpu_links.convert import model_of_hosts, with_gpu_links
    from placewright.instances.errors import InvalidInputError
    from placewright.instances.io.files import load

    try:
        if into is None or hosts is None:
            made = read_gpu_links(file, name=name, gpu_model=gpu_model)
            document: Document = made.cluster()
        else:
            document = load(into)
            model = gpu_model or model_of_hosts(document, hosts)
            made = read_gpu_links(file, name=name, gpu_model=model)
            document = with_gpu_links(document, made.matrix, hosts)
    except InvalidInputError as error:
        if error.path and error.path[0] in ("name", "gpu_model", "hosts") and error.value:
            raise wrong_argument(error, f"--{error.path[0]}".replace("_", "-")) from None
        raise
    write_noted(document, output, made.book.lines(), made.summary)


def convert_openb(
    nodes: Annotated[str, typer.Argument(metavar="NODES", help="CSV of the trace's nodes.")],
    pods: Annotated[str, typer.Argument(metavar="PODS", help="CSV of the trace's pods.")],
    output: Output,
    all_pending: Annotated[
        bool, typer.Option("--all-pending", help="Every pod waits; the cluster is empty (default).")
    ] = False,
    at: Annotated[
        int | None,
        typer.Option(
            metavar="TIME", parser=read_whole_seconds(), help="The pods alive at this second."
        ),
    ] = None,
    running: Annotated[
        float | None,
        typer.Option(
            metavar="F", min=0, max=1, help="This fraction of the demand runs, by best fit."
        ),
    ] = None,
    seed: Seed = 0,
) -> None:
    """Turn Alibaba's openb trace (GPU pods on GPU nodes) into a round.

    The trace records no host, so --running and --at place what runs by best fit, in file order.

    Example: placewright convert openb nodes.csv pods.csv --running 0.7 -o openb.json
    """
    if sum((all_pending, at is not None, running is not None)) > 1:
        raise typer.BadParameter("--all-pending, --at and --running exclude one another; give one")
    check_output(output, nodes, pods)
    from placewright.instances.converters import read_openb
    from placewright.instances.io.files import write

    made = read_openb(nodes, pods, running=running, at=at, seed=seed)
    with interrupts.writing(output):
        write(made.round, output)
    note_written(output, made.summary)


def convert_muri(
    trace: Annotated[str, typer.Argument(metavar="TRACE", help="CSV of the jobs.")],
    output: Output,
    nodes: Annotated[
        str | None, typer.Argument(metavar="NODES", help="CSV of the cluster.")
    ] = None,
    at: Annotated[
        int | None,
        typer.Option(
            metavar="TIME", parser=read_whole_seconds(), help="The jobs alive at this second."
        ),
    ] = None,
    first: Annotated[
        int | None, typer.Option(metavar="N", help="The first jobs of the trace.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(metavar="N", help="So many jobs, drawn with --seed.")
    ] = None,
    gpus: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Hosts of 8 GPUs instead of NODES; without either a quarter of what jobs ask.",
        ),
    ] = None,
    seed: Seed = 0,
) -> None:
    """Turn a trace of Muri (jobs with the stage times of an iteration) into a round.

    All jobs of the trace wait, or those that --at, --first or --jobs name.

    Example: placewright convert muri trace1.csv n8g8.csv --at 3855623 -o muri.json
    """
    inputs = (trace,) if nodes is None else (trace, nodes)
    check_output(output, *inputs)
    from placewright.instances.converters import read_muri

    write_conversion(
        lambda: read_muri(trace, nodes, at=at, first=first, jobs=jobs, gpus=gpus, seed=seed), output
    )


def convert_synergy(
    profiles: Annotated[str, typer.Argument(metavar="PROFILES", help="JSON of the matrices.")],
    output: Output,
    servers: Annotated[
        int, typer.Option(metavar="N", help="Hosts of 8 GPUs, 24 cores and 500 GB.")
    ] = 16,
    jobs: Annotated[
        int | None, typer.Option(metavar="N", help="Jobs; by default enough to ask for all GPUs.")
    ] = None,
    split: Annotated[
        str, typer.Option(metavar="I,L,S", help="Parts of image, language and speech models.")
    ] = "20,70,10",
    gpus: Annotated[
        str, typer.Option(metavar="N,...", help="Numbers of GPUs of jobs, each as likely.")
    ] = "1",
    seed: Seed = 0,
) -> None:
    """Draw jobs from Synergy's models (speed by cores and memory) into a round.

    Example: placewright convert synergy synergy_profiles.json --servers 64 -o synergy.json
    """
    check_output(output, profiles)
    from placewright.instances.converters import read_synergy

    write_conversion(
        lambda: read_synergy(
            profiles,
            servers=servers,
            jobs=jobs,
            split=_whole_numbers(split, "--split"),
            gpus=_whole_numbers(gpus, "--gpus"),
            seed=seed,
        ),
        output,
    )


def _whole_numbers(text: str, option: str) -> list[int]:
    """Return the whole numbers of a list with commas."""
    parts = text.split(",")
    if not all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts):
        raise typer.BadParameter(
            f"{text!r}: expected whole numbers with commas between", param_hint=option
        )
    return [int(part) for part in parts]


Asked = Annotated[int, typer.Option("--gpus", metavar="N", help="GPUs, on hosts of 8.")]
Drawn = Annotated[
    int | None, typer.Option("--jobs", metavar="N", help="So many jobs, drawn with --seed.")
]
Lease = Annotated[
    int,
    typer.Option(
        "--lease", metavar="TIME", parser=read_whole_seconds(), help="Length of a lease: 20m."
    ),
]
Slack = Annotated[
    float, typer.Option(metavar="F", help="Part by which jobs run longer than recorded.")
]


def convert_chronus(
    trace: Annotated[str, typer.Argument(metavar="TRACE", help="CSV of the jobs.")],
    output: Output,
    gpus: Asked,
    at: Annotated[
        int | None, typer.Option(metavar="T", help="The jobs alive at this minute of the trace.")
    ] = None,
    ahead: Annotated[
        int, typer.Option(metavar="T", help="Also those submitted up to T minutes after --at.")
    ] = 0,
    jobs: Drawn = None,
    seed: Seed = 0,
    lease: Lease = 1200,
    slack: Slack = 0.0,
    locality: Annotated[
        str | None, typer.Option(metavar="FILE", help="JSON of speeds on several hosts.")
    ] = None,
) -> None:
    """Turn a trace of Chronus (jobs with hard and soft deadlines) into a deadline round.

    All jobs of the trace, each ready when it is submitted, or those that --at or --jobs name.

    Example: placewright convert chronus trace.csv --gpus 120 --at 2000 -o chronus.json
    """
    check_output(output, *((trace,) if locality is None else (trace, locality)))
    from placewright.instances.converters import read_chronus

    write_conversion(
        lambda: read_chronus(
            trace,
            gpus=gpus,
            at=at,
            ahead=ahead,
            jobs=jobs,
            seed=seed,
            lease_s=lease,
            slack=slack,
            locality=locality,
        ),
        output,
    )


def convert_elasticflow(
    trace: Annotated[str, typer.Argument(metavar="TRACE", help="CSV of the jobs.")],
    output: Output,
    gpus: Asked,
    at: Annotated[
        int | None,
        typer.Option(
            metavar="TIME", parser=read_whole_seconds(), help="The jobs alive at this second."
        ),
    ] = None,
    ahead: Annotated[
        int,
        typer.Option(
            metavar="TIME", parser=read_whole_seconds(), help="Also those submitted so long after."
        ),
    ] = 0,
    jobs: Drawn = None,
    seed: Seed = 0,
    lease: Lease = 1200,
    slack: Slack = 0.0,
    elastic: Annotated[
        int | None, typer.Option(metavar="N", help="Jobs may have 1, 2, 4 ... up to N GPUs.")
    ] = None,
    profiles: Annotated[
        str | None, typer.Option(metavar="FILE", help="CSV of iterations by model and GPUs.")
    ] = None,
) -> None:
    """Turn a deadline trace of ElasticFlow into a deadline round.

    All jobs of the trace, each ready when it is submitted, or those that --at or --jobs name. With
    --elastic a job may have more GPUs than it asks, and is faster by --profiles or Amdahl's law.

    Example: placewright convert elasticflow cluster10.csv --gpus 64 --elastic 16 -o round.json
    """
    check_output(output, *((trace,) if profiles is None else (trace, profiles)))
    from placewright.instances.converters import read_elasticflow

    write_conversion(
        lambda: read_elasticflow(
            trace,
            gpus=gpus,
            at=at,
            ahead=ahead,
            jobs=jobs,
            seed=seed,
            lease_s=lease,
            slack=slack,
            elastic=elastic,
            profiles=profiles,
        ),
        output,
    )


class RegionMix(StrEnum):
    """Demand over supply of all regions: 0.95 or 1.2."""

    SPARE = "spare"
    SCARCE = "scarce"


def convert_wan(
    throughput: Annotated[str, typer.Argument(metavar="THROUGHPUT", help="CSV of Gbit/s.")],
    rtt: Annotated[str, typer.Argument(metavar="RTT", help="CSV of milliseconds.")],
    egress: Annotated[str, typer.Argument(metavar="EGRESS", help="CSV of USD per GB.")],
    output: Output,
    regions: Annotated[
        str | None, typer.Option(metavar="A,B,...", help="These regions, in this order.")
    ] = None,
    count: Annotated[
        int | None, typer.Option(metavar="N", help="So many regions, drawn with --seed.")
    ] = None,
    gpus: Annotated[
        int, typer.Option(metavar="N", help="GPUs of each region, on hosts of 8.")
    ] = 512,
    seed: Seed = 0,
) -> None:
    """Turn measured grids of cloud regions into a round of regions and links, without data or jobs.

    All regions of which throughput was measured, or those that --regions or --count name.

    Example: placewright convert wan throughput.csv rtt.csv egress.csv --count 10 -o wan.json
    """
    check_output(output, throughput, rtt, egress)
    from placewright.instances.converters import read_wan

    names = None if regions is None else regions.split(",")
    write_conversion(
        lambda: read_wan(throughput, rtt, egress, regions=names, count=count, seed=seed, gpus=gpus),
        output,
    )


def convert_itp(
    traces: Annotated[list[str], typer.Argument(metavar="TRACE...", help="CSV of jobs each.")],
    output: Output,
    regions: Annotated[
        int, typer.Option(metavar="N", help="Those beyond the traces are resampled from them.")
    ] = 10,
    datasets: Annotated[int, typer.Option(metavar="N", help="Datasets, drawn.")] = 100,
    at: Annotated[
        int | None,
        typer.Option(
            metavar="TIME",
            parser=read_whole_seconds(),
            help="The jobs alive at this second; by default the busiest.",
        ),
    ] = None,
    mix: Annotated[
        RegionMix, typer.Option(help="Demand is 95 % of all GPUs, or 120 %.")
    ] = RegionMix.SPARE,
    policy: Annotated[
        RegionPolicy, typer.Option(help="Which region runs which job, or where data lives.")
    ] = RegionPolicy.REPLICAS,
    wan: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="Measured links, as convert wan reads.")
    ] = None,
    seed: Seed = 0,
) -> None:
    """Turn traces of Microsoft's ITP clusters, published with ElasticFlow, into regions.

    Example: placewright convert itp cluster03.csv cluster06.csv cluster10.csv -o itp.json
    """
    check_output(output, *traces)
    from placewright.instances.converters import read_itp
    from placewright.instances.converters.traces.wan import read_folder

    grid = None if wan is None else read_folder(wan).grid
    write_conversion(
        lambda: read_itp(
            traces,
            regions=regions,
            datasets=datasets,
            at=at,
            mix=mix.value,
            seed=seed,
            policy=policy.value,
            grid=grid,
        ),
        output,
    )


convert = typer.Typer(
    name="convert",
    cls=Panels,
    help="Turn a trace or a dump into a round, a graph into a cluster.",
    no_args_is_help=True,
)
register(
    convert,
    {
        "Systems": (
            convert_slurm,
            convert_kubernetes,
            convert_ray,
        ),
        "Configurations": (
            convert_manifest,
            convert_skypilot,
            convert_psplib,
            convert_hived,
            convert_gpu_links,
            convert_graph,
        ),
        "Networks": (convert_fabric,),
        "Traces": (
            convert_openb,
            convert_muri,
            convert_synergy,
            convert_chronus,
            convert_elasticflow,
            convert_wan,
            convert_itp,
        ),
    },
)
