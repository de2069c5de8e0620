"""``entente monitoring``: writes the files that Prometheus and Grafana need to monitor runs."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from grpo_core.errors import one_line
from services.metrics.prometheus_config import PORT, ScrapeConfig

if TYPE_CHECKING:
    from services.environments.environment import World
    from services.metrics.dashboards.panels import Dashboard

PROMETHEUS_URL = "http://prometheus:9090"  # of docker/compose.yaml
INTERVAL_S = 15
EXAMPLES = (
    "Examples: `entente monitoring --out monitoring` for `entente train laptop --run-dir runs/watched --set "
    "metrics.port=9464`; "
    "`entente monitoring --out monitoring --target HEAD:9464 --ray-url http://HEAD:8265/api/prometheus/sd`"
)


def monitoring(
    out: Annotated[Path, typer.Option(help="Folder to write to; files of an earlier call are replaced.")],
    target: Annotated[
        list[str] | None,
        typer.Option(
            metavar="HOST:PORT",
            help="A run's exporter (metrics.host and metrics.port), or the head of a cluster that runs are submitted "
            "to, as Prometheus reaches it; repeatable.",
            show_default=f"127.0.0.1:{PORT}",
        ),
    ] = None,
    ray_file: Annotated[
        str,
        typer.Option(
            metavar="FILE",
            help="Ray's list of its nodes, where Prometheus runs on the head: usually "
            "/tmp/ray/prom_metrics_service_discovery.json.",
        ),
    ] = "",
    ray_url: Annotated[
        str, typer.Option(metavar="URL", help="The same list from Ray's dashboard: http://HEAD:8265/api/prometheus/sd.")
    ] = "",
    ray_token_file: Annotated[
        str, typer.Option(metavar="FILE", help="With Ray's token, which the dashboard requires by default.")
    ] = "",
    kubernetes: Annotated[
        str,
        typer.Option(
            metavar="NAMESPACE", help="Find the pods of KubeRay's clusters there; for a Prometheus inside Kubernetes."
        ),
    ] = "",
    prometheus_url: Annotated[
        str, typer.Option(metavar="URL", help="Where Grafana reaches Prometheus.")
    ] = PROMETHEUS_URL,
    world: Annotated[
        list[str] | None,
        typer.Option(
            metavar="WORLD",
            help="A world whose runs are shown, by its name or as package.module:CLASS; repeatable.",
            show_default="the world of a config that names none",
        ),
    ] = None,
    interval: Annotated[int, typer.Option(min=1, max=60, help="Seconds between two scrapes.")] = INTERVAL_S,
) -> None:
    """Write scrape configuration, alerts and dashboards for Prometheus and Grafana.

    In the folder: prometheus/ (prometheus.yml and rules/, for /etc/prometheus), grafana/ (provisioning/, for
    /etc/grafana/provisioning, and dashboards/, for /var/lib/grafana/dashboards), and kubernetes/ (for the Prometheus
    operator).
    """
    from cluster.errors import RunError

    targets = tuple(target) if target else () if kubernetes else (f"127.0.0.1:{PORT}",)
    config = ScrapeConfig(targets, ray_file, ray_url, ray_token_file, kubernetes, interval)
    files = monitoring_files(config, prometheus_url, out, tuple(world or ()))
    try:
        for name, text in files.items():
            (out / name).parent.mkdir(parents=True, exist_ok=True)
            (out / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise RunError(f"{error.filename} cannot be written ({error.strerror}); name another folder") from error
    typer.echo(f"written to {out}: " + ", ".join(sorted({name.split("/")[0] for name in files})))
    typer.echo(f"try it: prometheus --config.file={out}/prometheus/prometheus.yml --web.listen-address=127.0.0.1:9090")


def _command(config: ScrapeConfig, prometheus_url: str, out: Path, worlds: Sequence[str]) -> str:
    """The command line with these arguments."""
    options = {
        "--ray-file": config.ray_file,
        "--ray-url": config.ray_url,
        "--ray-token-file": config.ray_token_file,
        "--kubernetes": config.namespace,
        "--prometheus-url": "" if prometheus_url == PROMETHEUS_URL else prometheus_url,
        "--interval": "" if config.interval_s == INTERVAL_S else str(config.interval_s),
    }
    words = ["entente", "monitoring", "--out", str(out)]
    words += [word for target in config.targets for word in ("--target", target)]
    words += [word for name in worlds for word in ("--world", name)]
    words += [word for option, value in options.items() if value for word in (option, value)]
    return shlex.join(words)


def monitoring_files(
    config: ScrapeConfig, prometheus_url: str, out: Path, worlds: Sequence[str] = ()
) -> Mapping[str, str]:
    """Every file's text by its name under ``out``, for runs of these worlds, or of the default one.

    Raises MetricsError if Grafana's SDK or an argument is unusable, and WorldError if a world is.
    """
    from services.environments.registry import DEFAULT_WORLD
    from services.metrics.catalogue import PARTNER
    from services.metrics.dashboards.all_dashboards import dashboards
    from services.metrics.dashboards.grafana import dashboard_json, datasource_yaml, provider_yaml
    from services.metrics.prometheus_config import pod_monitor_yaml, prometheus_rule_yaml, prometheus_yaml, rules_yaml
    from services.reports.colors import DARK_COLORS  # Grafana's own theme is dark

    measured = [_world(name).measured for name in worlds or (DEFAULT_WORLD,)]
    colors = {
        each.role_name: {role: DARK_COLORS[role] for role in each.roles if role in DARK_COLORS} for each in measured
    }
    colors[PARTNER] = {role: color for of_role in colors.values() for role, color in of_role.items()}
    made = [*dashboards(measured), *_press_boards(worlds or (DEFAULT_WORLD,))]
    boards = {f"grafana/dashboards/{each.uid}.json": dashboard_json(each, colors) for each in made}
    return {
        "prometheus/prometheus.yml": prometheus_yaml(config, _command(config, prometheus_url, out, worlds)),
        "prometheus/rules/entente.yml": rules_yaml(),
        "grafana/provisioning/datasources/entente.yml": datasource_yaml(prometheus_url),
        "grafana/provisioning/dashboards/entente.yml": provider_yaml(),
        **boards,
        "kubernetes/podmonitor.yaml": pod_monitor_yaml(),
        "kubernetes/prometheusrule.yaml": prometheus_rule_yaml(),
    }


def _press_boards(worlds: Sequence[str]) -> Iterator[Dashboard]:
    """The board of press for worlds that have it."""
    from services.metrics.dashboards.press import press_board

    for world in map(_world, worlds):
        pressed = world.with_press()
        if pressed is not None:
            yield press_board(pressed.measured, world.measured)


def _world(name: str) -> World:
    """A world with the default settings of its games. Raises WorldError if it has none."""
    from services.environments.registry import WorldError, load_world

    world = load_world(name)
    try:
        return world(world.game_settings())
    except ValueError as error:
        reason = one_line(error, 200)
        raise WorldError(f"the world {one_line(name, 120)} cannot be made without settings: {reason}") from error
