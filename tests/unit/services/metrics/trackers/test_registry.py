"""Which trackers there are, and what is said about a missing one."""

from __future__ import annotations

import math
from typing import Any, get_args

import pytest
from pydantic import ValidationError

from cluster.cli.training import train
from cluster.configs.loader import load_config
from cluster.diagnostics.doctor import examine
from cluster.driver.training import check_machine
from services.metrics.catalogue import METRICS, MetricsError, key
from services.metrics.trackers import registry
from services.metrics.trackers.registry import LIBRARIES, TrackerLibrary, check_trackers, missing_trackers
from services.metrics.trackers.tracker import series, series_name
from services.settings import MetricsSettings


@pytest.fixture
def without_wandb(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.LIBRARIES, "wandb", TrackerLibrary("no_such_package_anywhere", "nowhere"))


def test_settings_take_exactly_the_trackers_that_there_are() -> None:
    assert MetricsSettings(trackers=list(LIBRARIES)).trackers == tuple(LIBRARIES)  # type: ignore[arg-type]
    assert MetricsSettings().trackers == ()
    annotation: Any = MetricsSettings.model_fields["trackers"].annotation
    assert get_args(get_args(annotation)[0]) == tuple(LIBRARIES)
    for wrong in (["mlflow"], ["wandb", "wandb"]):
        with pytest.raises(ValidationError):
            MetricsSettings(trackers=wrong)  # type: ignore[arg-type]


def test_a_missing_library_is_one_line_before_anything_starts(without_wandb: None) -> None:
    assert missing_trackers(["tensorboard", "wandb"]) == ["wandb"]
    check_trackers(["tensorboard"])
    config = load_config("smoke", ["metrics.trackers=['tensorboard','wandb']"])
    with pytest.raises(MetricsError) as caught:
        check_machine(config)
    assert str(caught.value) == (
        "metrics.trackers names wandb, which is not installed: pip install 'entente[wandb]', or leave it out"
    )
    (finding,) = [finding for finding in examine(config) if finding.subject == "trackers"]
    assert (finding.level, finding.text) == ("fault", "wandb: not installed; pip install 'entente[wandb]'")


def test_the_command_says_so_before_ray_starts(without_wandb: None, tmp_path: Any) -> None:
    with pytest.raises(MetricsError, match="is not installed"):
        train("smoke", ["metrics.trackers=['wandb']"], tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_every_metric_of_the_catalogue_has_a_name_of_its_own() -> None:
    keys = [key(metric.name, **dict.fromkeys(metric.labels, "x")) for metric in METRICS]
    names = [series_name(text) for text in keys]
    assert len(set(names)) == len(METRICS)
    assert series_name("entente_evaluation_win_rate{against=dumbbot,country=ITALY}") == (
        "entente_evaluation_win_rate/dumbbot/ITALY"
    )
    with pytest.raises(MetricsError):
        series_name("entente_los")
    message = series(3, 1.5, {"entente_loss": 1, "entente_weight_swap_seconds": (0.5, 1.0)})
    assert message.values == {"entente_loss": 1.0, "entente_weight_swap_seconds": [0.5, 1.0]}
    assert math.isclose(message.time, 1.5)
