"""``entente monitoring`` writes dashboards of every metric and scrape configurations; its errors are one line."""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator
from typer.testing import CliRunner

from cluster.cli.app import app
from cluster.cli.monitoring import PROMETHEUS_URL, monitoring_files
from services.metrics.catalogue import MetricsError, whole_table
from services.metrics.dashboards.all_dashboards import dashboards as all_dashboards
from services.metrics.dashboards.panels import Dashboard, metric_of, series
from services.metrics.prometheus_config import PORT, PORT_NAME, ScrapeConfig, prometheus_yaml
from tests.measured import DIPLOMACY
from tests.paths import ROOT, SCHEMAS

DASHBOARDS = all_dashboards((DIPLOMACY,))
COMMITTED = ROOT / "docker" / "monitoring"
SCHEMA = SCHEMAS / "grafana-dashboard-11.6.schema.json"
# Metrics of the catalogue that no panel shows, with the reason. Empty so far.
NOT_SHOWN: Mapping[str, str] = {}


@pytest.fixture(scope="module")
def written() -> Mapping[str, str]:
    """The present output of the command that made ``docker/monitoring``."""
    return monitoring_files(ScrapeConfig(("train:9464",)), PROMETHEUS_URL, Path("docker/monitoring"))


@pytest.fixture(scope="module")
def dashboards(written: Mapping[str, str]) -> list[dict[str, Any]]:
    return [json.loads(text) for name, text in written.items() if name.endswith(".json")]


def test_committed_files_are_up_to_date(written: Mapping[str, str]) -> None:
    committed = {str(file.relative_to(COMMITTED)): file.read_text() for file in COMMITTED.rglob("*") if file.is_file()}
    assert committed.keys() == written.keys()
    for name, text in written.items():
        assert committed[name] == text, f"{name} is not up to date; its prometheus.yml names the command that writes it"


def names_in(expr: str) -> set[str]:
    return set(re.findall(r"\b(?:entente|ray)_[a-z_]+", expr))


def test_every_metric_of_the_catalogue_is_in_a_panel() -> None:
    asked = {
        name
        for dashboard in DASHBOARDS
        for row in dashboard.rows
        for panel in row.panels
        for query in panel.queries
        for name in names_in(query.expr)
    }
    shown = {metric_of(name).name for name in asked if name.startswith("entente_")}
    assert shown | NOT_SHOWN.keys() == {metric.name for metric in whole_table(DIPLOMACY)}
    assert not shown & NOT_SHOWN.keys()
    # Ray's own, by the source of the Ray that is installed.
    spec = importlib.util.find_spec("ray")
    assert spec is not None
    assert spec.origin is not None
    source = (Path(spec.origin).parent / "dashboard" / "modules" / "reporter" / "reporter_agent.py").read_text()
    rays = {name.removeprefix("ray_") for name in asked if name.startswith("ray_")}
    assert len(rays) > 5
    for name in rays:
        assert f'"{name}": Gauge(' in source, name


def test_series_of_unknown_metric_or_label_raises() -> None:
    with pytest.raises(KeyError, match="entente_nonsense"):
        series("entente_nonsense")
    with pytest.raises(KeyError, match="has no label player"):
        series("entente_loss", player="learner")
    assert series("entente_rating", player="learner") == 'entente_rating{run="$run",player="learner"}'


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda dashboard: dashboard.uid)
def test_panels_have_titles_descriptions_and_distinct_series(dashboard: Dashboard) -> None:
    for row in dashboard.rows:
        titles = [panel.title for panel in row.panels]
        assert len(set(titles)) == len(titles)
    for panel in (panel for row in dashboard.rows for panel in row.panels):
        assert panel.text.endswith(".")
        assert panel.queries
        legends = [query.legend for query in panel.queries]
        assert len(set(legends)) == len(legends), panel.title


def test_dashboards_fit_grafanas_schema(dashboards: list[dict[str, Any]]) -> None:
    if not SCHEMA.exists():
        pytest.skip(f"Grafana's published schema of dashboards is not at {SCHEMA}")
    schema = json.loads(SCHEMA.read_text())
    # Its generator wrote "anything" as "an object"; Grafana's own dashboards have names and numbers there.
    schema["definitions"]["MatcherConfig"]["properties"]["options"] = {}
    schema["definitions"]["DynamicConfigValue"]["properties"]["value"] = {}
    for dashboard in dashboards:
        Draft7Validator(schema).validate(dashboard)
        for panel in dashboard["panels"]:
            # Of the two kinds that the list takes, by itself: then an error names the place.
            kind = "RowPanel" if panel["type"] == "row" else "Panel"
            Draft7Validator({**schema, "$ref": f"#/definitions/{kind}"}).validate(panel)


def test_panels_do_not_overlap_and_use_known_variables(dashboards: list[dict[str, Any]]) -> None:
    uids = [*(dashboard.uid for dashboard in DASHBOARDS), "entente-press"]
    assert [dashboard["uid"] for dashboard in dashboards] == uids
    for dashboard in dashboards:
        panels = dashboard["panels"]
        assert len({panel["id"] for panel in panels}) == len(panels)
        taken: set[tuple[int, int]] = set()
        for panel in panels:
            place = panel["gridPos"]
            assert place["x"] + place["w"] <= 24, panel["title"]
            cells = {(place["x"] + i, place["y"] + j) for i in range(place["w"]) for j in range(place["h"])}
            assert not cells & taken, panel["title"]
            taken |= cells
        variables = {variable["name"] for variable in dashboard["templating"]["list"]}
        assert set(re.findall(r"\$\{?([a-z]+)", json.dumps(panels))) <= variables


def test_bands_are_filled_between_their_edges(dashboards: list[dict[str, Any]]) -> None:
    filled = 0
    for panel in dashboards[0]["panels"]:
        names = {target.get("legendFormat") for target in panel.get("targets", ())}
        for override in panel.get("fieldConfig", {}).get("overrides", ()):
            for one in override["properties"]:
                if one["id"] == "custom.fillBelowTo":
                    assert {override["matcher"]["options"], one["value"]} <= names
                    filled += 1
    assert filled == 6  # evaluations, and five of a country


def jobs(config: ScrapeConfig) -> dict[str, dict[str, Any]]:
    written = yaml.safe_load(prometheus_yaml(config, "a command"))
    return {job["job_name"]: job for job in written["scrape_configs"]}


def test_the_scrape_config_has_jobs_for_runs_ray_and_pods() -> None:
    found = jobs(
        ScrapeConfig(("127.0.0.1:9464", "[::1]:9000"), "/tmp/ray/prom.json", "http://h:8265/api/prometheus/sd", "/t")
    )
    assert found["entente"]["static_configs"] == [{"targets": ["127.0.0.1:9464", "[::1]:9000"]}]
    assert found["ray"]["file_sd_configs"] == [{"files": ["/tmp/ray/prom.json"]}]
    url = "http://h:8265/api/prometheus/sd"
    assert found["ray-url"]["http_sd_configs"] == [{"url": url, "authorization": {"credentials_file": "/t"}}]
    assert list(jobs(ScrapeConfig(("h:1",), ray_url="http://h:8265/api/prometheus/sd"))) == ["entente", "ray"]
    pods = jobs(ScrapeConfig(namespace="training"))
    assert list(pods) == ["entente-pods", "ray-pods"]
    for job, port in (("entente-pods", PORT_NAME), ("ray-pods", "metrics")):
        (discovery,) = pods[job]["kubernetes_sd_configs"]
        assert discovery == {"role": "pod", "namespaces": {"names": ["training"]}}
        assert {
            "source_labels": ["__meta_kubernetes_pod_container_port_name"],
            "regex": port,
            "action": "keep",
        } in pods[job]["relabel_configs"]


def test_manifests_name_the_scraped_port() -> None:
    """The head of KubeRay's clusters, and the config for clusters."""
    for name in ("raycluster.yaml", "rayjob.yaml"):
        (document,) = yaml.safe_load_all((ROOT / "cluster" / "manifests" / name).read_text())
        spec = document["spec"].get("rayClusterSpec", document["spec"])
        (container,) = spec["headGroupSpec"]["template"]["spec"]["containers"]
        assert {"name": PORT_NAME, "containerPort": PORT} in container["ports"]
    monitors = list(yaml.safe_load_all((COMMITTED / "kubernetes" / "podmonitor.yaml").read_text()))
    assert [monitor["spec"]["podMetricsEndpoints"][0]["port"] for monitor in monitors] == [PORT_NAME, "metrics"]
    rules = yaml.safe_load((COMMITTED / "kubernetes" / "prometheusrule.yaml").read_text())["spec"]
    assert rules == yaml.safe_load((COMMITTED / "prometheus" / "rules" / "entente.yml").read_text())


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (("--target", "localhost"), "HOST:PORT, such as 127.0.0.1:9464"),
        (("--target", "a:99999"), "HOST:PORT"),
        (("--target", "http://a:9464"), "HOST:PORT"),
        (("--ray-url", "head:8265"), "http://head:8265/api/prometheus/sd"),
        (("--ray-token-file", "/run/token"), "--ray-url"),
        (("--ray-file", "a'b"), "quote"),
        (("--kubernetes", "A_B"), "namespace"),
        (("--prometheus-url", "prometheus:9090"), "http://prometheus:9090"),
        (("--prometheus-url", "http://a\n    basicAuth: true"), "no address"),
    ],
)
def test_invalid_options_raise_with_a_hint(tmp_path: Path, arguments: tuple[str, ...], hint: str) -> None:
    done = CliRunner().invoke(app, ["monitoring", "--out", str(tmp_path / "out"), *arguments])
    assert isinstance(done.exception, MetricsError)
    assert hint in str(done.exception)
    assert "\n" not in str(done.exception)
    assert not (tmp_path / "out").exists()


def test_the_command_writes_files_and_prints_how_to_try_them(tmp_path: Path, written: Mapping[str, str]) -> None:
    out = tmp_path / "monitoring"
    done = CliRunner().invoke(app, ["monitoring", "--out", str(out), "--target", "train:9464", "--interval", "5"])
    assert done.exit_code == 0, done.output
    assert f"--config.file={out}/prometheus/prometheus.yml" in done.output
    assert {str(file.relative_to(out)) for file in out.rglob("*") if file.is_file()} == written.keys()
    config = (out / "prometheus" / "prometheus.yml").read_text()
    assert config.startswith(f"# Written by: entente monitoring --out {out} --target train:9464 --interval 5\n")
    assert yaml.safe_load(config)["global"]["scrape_interval"] == "5s"
    (out / "grafana").rename(tmp_path / "grafana")
    (out / "grafana").write_text("in the way")
    done = CliRunner().invoke(app, ["monitoring", "--out", str(out)])
    assert "name another folder" in str(done.exception)
