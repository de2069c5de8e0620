"""Every alert is tested by Prometheus' promtool with series that fire it and series that do not."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import pytest

from services.metrics.dashboards.panels import metric_of
from tests.system.support.monitoring.prometheus_server import program

pytestmark = [pytest.mark.system, pytest.mark.timeout(1800)]

RULES = Path(str(files("services.metrics") / "alert_rules.yml"))
Series = Mapping[str, str]  # a series -> its values, one a minute, in promtool's notation


@dataclass(frozen=True)
class Case:
    """An alert: series that make it fire at minute ``at``, and others that do not. WHO is replaced by the scenario."""

    fires: Sequence[Series]
    quiet: Sequence[Series]
    at: int = 120
    labels: str = 'run="WHO"'


def of_run(values: Mapping[str, str], **labels: str) -> Series:
    """Series of a run; a name may already have labels."""
    more = "".join(f',{name}="{value}"' for name, value in labels.items())
    return {
        f'{name.partition("{")[0]}{{run="WHO"{more}{"," + name.partition("{")[2][:-1] if "{" in name else ""}}}': text
        for name, text in values.items()
    }


PLANNED, UPDATES = "entente_updates_planned", "entente_updates_total"
CENTERS, CENTERS_HIGH = "entente_country_centers{country='ITALY'}", "entente_country_centers_high{country='ITALY'}"
SOLOS, SOLOS_HIGH = "entente_country_win_rate{country='ITALY'}", "entente_country_win_rate_high{country='ITALY'}"
LOW, HIGH = "entente_evaluation_centers_low{against='random'}", "entente_evaluation_centers_high{against='random'}"
BUSY, RUN_SECONDS = "entente_learner_busy_seconds_total", "entente_run_seconds_total"
WAITED, LIMIT = "entente_progress_timestamp_seconds", "entente_update_timeout_seconds"
NONFINITE = "entente_nonfinite_updates_total"

CASES = {
    "EntenteRunGone": Case(
        fires=[of_run({PLANNED: "90x60 stale", UPDATES: "10x60 stale"})],
        quiet=[
            of_run({PLANNED: "90x60 stale", UPDATES: "90x60 stale"}),  # done
            of_run({PLANNED: "90x120", UPDATES: "10x120"}),  # there
            {  # resumed elsewhere
                **of_run({PLANNED: "90x60 stale", UPDATES: "10x60 stale"}, instance="a"),
                **of_run({PLANNED: "_x61 90x60", UPDATES: "_x61 10x60"}, instance="b"),
            },
        ],
        at=70,
    ),
    "EntenteNoUpdate": Case(
        fires=[of_run({WAITED: "600x120", LIMIT: "1800x120", PLANNED: "90x120", UPDATES: "10x120"})],
        quiet=[
            of_run({WAITED: "0+60x120", LIMIT: "1800x120", PLANNED: "90x120", UPDATES: "10x120"}),
            of_run({WAITED: "600x120", LIMIT: "1800x120", PLANNED: "90x120", UPDATES: "90x120"}),  # last evaluations
        ],
    ),
    "EntenteNotFinite": Case(
        fires=[
            of_run({NONFINITE: "0x60 1x60"}),
            {  # ended of it, and was resumed elsewhere
                **of_run({NONFINITE: "0x60 stale"}, instance="a"),
                **of_run({NONFINITE: "_x70 1x60"}, instance="b"),
            },
        ],
        quiet=[of_run({NONFINITE: "1x120"})],
        at=80,
    ),
    "EntenteRunRestarting": Case(
        fires=[of_run({"entente_run_restarts_total": "0x30 1x20 _x3 2x20 _x3 3x44"})],
        quiet=[of_run({"entente_run_restarts_total": "7x60 _x3 8x57"})],
    ),
    "EntenteTargetDown": Case(
        fires=[{'up{job="entente",instance="WHO"}': "0x30"}],
        quiet=[{'up{job="entente",instance="WHO"}': "1x30"}],
        at=20,
        labels='job="entente",instance="WHO"',
    ),
    "EntenteCountryCollapsing": Case(
        fires=[
            of_run({CENTERS: "6x240 3x60", CENTERS_HIGH: "6.5x240 3.5x60"}),
            of_run({SOLOS: "0.4x240 0.05x60", SOLOS_HIGH: "0.5x240 0.12x60"}),
        ],
        quiet=[
            of_run({CENTERS: "6x240 4.5x60", CENTERS_HIGH: "6.5x240 5x60"}),  # down, but not far
            of_run({CENTERS: "6x240 3x60", CENTERS_HIGH: "9x240 6x60"}),  # far, but it may be chance
            of_run({SOLOS: "0.02x240 0x60", SOLOS_HIGH: "0.07x240 0.04x60"}),
        ],
        at=280,
        labels='run="WHO",country="ITALY"',
    ),
    "EntenteEvaluationWorse": Case(
        fires=[of_run({LOW: "4x60 2x60", HIGH: "5x60 3x60"})],
        quiet=[of_run({LOW: "4x60 3x60", HIGH: "5x60 4.5x60"})],
        labels='run="WHO",against="random"',
    ),
    "EntenteZeroVariance": Case(
        fires=[of_run({"entente_zero_variance_fraction": "0.7x120"})],
        quiet=[of_run({"entente_zero_variance_fraction": "0.3x120"})],
    ),
    "EntenteStepsTooLarge": Case(
        fires=[of_run({"entente_clip_fraction": "0.4x120"})],
        quiet=[of_run({"entente_clip_fraction": "0.1x120"})],
    ),
    "EntenteLearnerStarved": Case(
        fires=[of_run({BUSY: "0+5x120", RUN_SECONDS: "0+60x120"})],
        quiet=[
            of_run({BUSY: "0+30x120", RUN_SECONDS: "0+60x120"}),
            of_run({BUSY: "30x120", RUN_SECONDS: "60x120"}),  # no update within the hour: another alert's
        ],
    ),
    "EntenteStalenessHigh": Case(
        fires=[of_run({"entente_staleness_updates_max": "3x60", "entente_staleness_updates_limit": "1x60"})],
        quiet=[of_run({"entente_staleness_updates_max": "1x60", "entente_staleness_updates_limit": "1x60"})],
        at=30,
    ),
    "EntenteEpisodesTooOld": Case(
        fires=[of_run({"entente_stale_episodes_total": "0+10x120", "entente_episodes_total": "0+100x120"})],
        quiet=[of_run({"entente_stale_episodes_total": "0+1x120", "entente_episodes_total": "0+100x120"})],
    ),
    "EntenteWorkersRestarting": Case(
        fires=[of_run({"entente_worker_restarts_total": "0x60 1 2 3x60"})],
        quiet=[of_run({"entente_worker_restarts_total": "5x60 6x60"})],
        at=65,
    ),
    "EntenteWorkersMissing": Case(
        fires=[of_run({"entente_workers_playing": "2x60", "entente_workers_wanted": "4x60"})],
        quiet=[
            of_run({"entente_workers_playing": "4x60", "entente_workers_wanted": "4x60"}),
            of_run({"entente_workers_playing": "4x40 2x10 4x10", "entente_workers_wanted": "4x60"}),  # replaced soon
        ],
        at=50,
    ),
    "EntenteWorkersNearLimit": Case(
        fires=[of_run({"entente_worker_replacements_left": "3x60", "entente_worker_restarts_total": "0x30 17x30"})],
        quiet=[
            of_run({"entente_worker_replacements_left": "12x60", "entente_worker_restarts_total": "0x30 8x30"}),
            of_run({"entente_worker_replacements_left": "0x60", "entente_worker_restarts_total": "0x60"}),  # by config
        ],
        at=50,
    ),
    "EntenteWeightSwapsFailing": Case(
        fires=[of_run({"entente_swap_failures_total{cause='timed_out'}": "0x60 3x60"})],
        quiet=[of_run({"entente_swap_failures_total{cause='timed_out'}": "0x60 1x60"})],
        at=65,
    ),
    "EntenteBufferFilling": Case(
        fires=[of_run({"entente_buffer_server_bytes": "900x60", "entente_buffer_server_bytes_limit": "1000x60"})],
        quiet=[
            of_run({"entente_buffer_server_bytes": "700x60", "entente_buffer_server_bytes_limit": "1000x60"}),
            of_run({"entente_buffer_server_bytes": "900x60"}),  # no limit is known
        ],
        at=30,
    ),
    "EntentePoisonEpisodes": Case(
        fires=[of_run({"entente_poison_episodes_total": "0x60 1x60"})],
        quiet=[of_run({"entente_poison_episodes_total": "1x120"})],
        at=65,
    ),
    "EntenteRemotePlayersFailing": Case(
        fires=[of_run({"entente_remote_failures_total": "0+1x60", "entente_remote_calls_total": "0+5x60"})],
        quiet=[of_run({"entente_remote_failures_total": "0+1x60", "entente_remote_calls_total": "0+50x60"})],
        at=40,
    ),
    "EntenteNodeMemory": Case(
        fires=[{'ray_node_mem_used{instance="WHO"}': "95x30", 'ray_node_mem_total{instance="WHO"}': "100x30"}],
        quiet=[{'ray_node_mem_used{instance="WHO"}': "60x30", 'ray_node_mem_total{instance="WHO"}': "100x30"}],
        at=20,
        labels='instance="WHO"',
    ),
    "EntenteNodeDisk": Case(
        fires=[{'ray_node_disk_utilization_percentage{instance="WHO"}': "95x30"}],
        quiet=[{'ray_node_disk_utilization_percentage{instance="WHO"}': "60x30"}],
        at=20,
        labels='instance="WHO"',
    ),
}


def severities() -> dict[str, str]:
    """Every alert of the file, in its order."""
    found = re.findall(r"- alert: (\w+)\n(?:.*\n)*?\s+labels: \{severity: (\w+)\}", RULES.read_text())
    return dict(found)


def test_alert_rules_are_complete_and_name_metrics_of_the_catalogue() -> None:
    done = subprocess.run(
        [program("promtool"), "check", "rules", str(RULES)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr
    text = RULES.read_text()
    alerts = severities()
    assert list(alerts) == re.findall(r"- alert: (\w+)", text)
    assert set(alerts.values()) <= {"critical", "warning", "info"}
    assert text.count("summary:") == text.count("description:") == len(alerts)
    names = set(re.findall(r"(?<![\w:])entente_[a-z_]+(?![\w:])", text))
    assert len(names) > 20
    for name in names:
        metric_of(name)


def test_every_alert_fires_only_on_its_cases(tmp_path: Path) -> None:
    alerts = severities()
    assert list(CASES) == list(alerts), "an alert without a case, or the reverse"
    # One simulation has all scenarios, each as a run (or a node) of its own.
    series: dict[str, str] = {}
    checks = []
    for alert, case in CASES.items():
        assert case.fires, alert
        assert case.quiet, alert
        for fires, scenarios in ((True, case.fires), (False, case.quiet)):
            for number, scenario in enumerate(scenarios):
                who = f"{alert} {'fires' if fires else 'is quiet'} {number}"
                series |= {name.replace("WHO", who): values for name, values in scenario.items()}
                selected = f'ALERTS{{alertname="{alert}",alertstate="firing",{case.labels}}}'.replace("WHO", who)
                found = selected.replace("}", f',severity="{alerts[alert]}"}}')
                samples = [{"labels": found, "value": 1}] if fires else []
                checks.append({"expr": selected, "eval_time": f"{case.at}m", "exp_samples": samples})
    test = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": checks,
    }
    file = tmp_path / "tests.yml"  # JSON is YAML
    file.write_text(json.dumps({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": [test]}))
    done = subprocess.run(
        [program("promtool"), "test", "rules", str(file)], capture_output=True, text=True, timeout=250
    )
    assert done.returncode == 0, done.stdout + done.stderr
