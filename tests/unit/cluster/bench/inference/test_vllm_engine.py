"""The parts of the vLLM bench that need no vLLM."""

import pytest

from cluster.bench import suite
from cluster.bench.figure import MissingRequirementError
from cluster.bench.inference import vllm_engine as vllm
from cluster.bench.models import random_model


def test_a_missing_vllm_gives_one_line_that_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "vllm" in suite.SUITE
    monkeypatch.setattr(vllm, "vllm_installed", lambda: False)
    with pytest.raises(MissingRequirementError, match="make vllm") as refused:
        vllm.run(rounds=1)
    assert "\n" not in str(refused.value)


def test_the_large_shape_has_half_a_billion_parameters_and_is_skipped_without_memory(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    large = vllm.LARGE
    assert large.config is not None
    parameters = sum(weight.numel() for weight in random_model(large.config, "meta").parameters())
    assert parameters == pytest.approx(0.494e9, rel=0.01)  # of Qwen2.5-0.5B
    monkeypatch.setattr(vllm, "available_bytes", lambda: large.needed_bytes - 1)
    assert vllm.measure(large, rounds=1) == []
    assert "0.5B shape is left out" in capsys.readouterr().out


def test_time_outside_the_engine_is_a_share_of_the_games() -> None:
    played = vllm.Played(decisions=50, seconds=10.0, busy_seconds=7.0)
    figure = vllm.outside_share("small policy", "actor", vllm.ONE_SEAT, played)
    assert figure.ours == pytest.approx(30.0)
    assert figure.ratio == pytest.approx(20 / 30)  # below 1: the goal is missed
    assert "5/s" in figure.note
