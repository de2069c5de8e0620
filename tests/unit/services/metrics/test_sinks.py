from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.parser import text_string_to_metric_families

from grpo_core.errors import StorageError
from services.metrics.catalogue import MetricsError, key
from services.metrics.jsonl import JsonlSink, MetricsLine, read_metrics
from services.metrics.prometheus_exporter import Exporter, LatestValues
from services.metrics.sink import FanOut
from tests import measured

assert measured.DIPLOMACY.role_name == "country"  # declared by this import
FRANCE = "entente_country_centers{country=FRANCE}"


@pytest.fixture
def exporter() -> Iterator[Exporter]:
    made = Exporter(0)
    yield made
    made.close()


Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def scrape(exporter: Exporter) -> Samples:
    with urllib.request.urlopen(exporter.url, timeout=120) as answer:
        return samples_of(text_string_to_metric_families(answer.read().decode()))


def collected(latest: LatestValues) -> Samples:
    """What a scrape would find, without a server."""
    return samples_of(latest.collect())


def samples_of(families: Iterable[Family]) -> Samples:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def write_updates(path: Path, updates: range, resume_after: int | None = None) -> None:
    sink = JsonlSink(path, resume_after, clock=lambda: 1000.0)
    for update in updates:
        sink.record(update, {"entente_updates_total": update, FRANCE: 3.5, "entente_weight_swap_seconds": (0.1, 0.2)})
    sink.close()


def test_read_metrics_returns_the_recorded_lines(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    write_updates(path, range(1, 3))
    expected = {"entente_updates_total": 2, FRANCE: 3.5, "entente_weight_swap_seconds": [0.1, 0.2]}
    assert read_metrics(path)[1] == MetricsLine(2, 1000.0, expected)


def test_recorded_line_is_readable_at_once(tmp_path: Path) -> None:
    sink = JsonlSink(tmp_path / "metrics.jsonl")
    sink.record(1, {"entente_loss": 0.5})
    assert [line.update for line in read_metrics(tmp_path / "metrics.jsonl")] == [1]
    sink.close()


def test_resume_cuts_lines_after_the_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    write_updates(path, range(1, 8))
    write_updates(path, range(5, 7), resume_after=4)
    assert [line.update for line in read_metrics(path)] == [1, 2, 3, 4, 5, 6]


def test_torn_last_line_is_skipped_and_cut_on_resume(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    write_updates(path, range(1, 3))
    path.write_text(path.read_text() + '{"update":3,"time":10')
    assert [line.update for line in read_metrics(path)] == [1, 2]
    write_updates(path, range(3, 4), resume_after=2)
    assert [json.loads(text)["update"] for text in path.read_text().splitlines()] == [1, 2, 3]


def test_damaged_middle_line_raises(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    write_updates(path, range(1, 2))
    path.write_text("[]\n" + path.read_text())
    with pytest.raises(MetricsError, match=r"line 1 is no measurement"):
        read_metrics(path)


def test_a_line_that_a_full_disk_refuses_is_one_error_and_cut_on_resume(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.symlink_to("/dev/full")
    sink = JsonlSink(path)
    with pytest.raises(StorageError, match=r"metrics\.jsonl: the disk is full; free space there"):
        sink.record(1, {"entente_loss": 0.5})
    sink.close()
    sink.close()


def test_new_run_refuses_a_file_with_measurements(tmp_path: Path) -> None:
    write_updates(tmp_path / "metrics.jsonl", range(1, 2))
    with pytest.raises(MetricsError, match="already holds measurements"):
        JsonlSink(tmp_path / "metrics.jsonl")


def test_exporter_serves_the_latest_values(exporter: Exporter) -> None:
    exporter.record(1, {"entente_games_total": 7, FRANCE: 3.0, "entente_loss": 0.5})
    exporter.record(2, {"entente_games_total": 9, FRANCE: 4.0})
    samples = scrape(exporter)
    assert samples["entente_games_total", ()] == 9
    assert samples["entente_country_centers", (("country", "FRANCE"),)] == 4
    assert samples["entente_loss", ()] == 0.5
    assert not any(name.startswith("entente_kl") for name, _ in samples)


def test_exporter_accumulates_histogram_observations(exporter: Exporter) -> None:
    exporter.record(1, {"entente_weight_swap_seconds": [0.005, 0.02]})
    exporter.record(2, {"entente_weight_swap_seconds": [99.0]})
    samples = scrape(exporter)
    name = "entente_weight_swap_seconds"
    assert samples[f"{name}_bucket", (("le", "0.005"),)] == 1
    assert samples[f"{name}_bucket", (("le", "0.025"),)] == 2
    assert samples[f"{name}_bucket", (("le", "+Inf"),)] == samples[f"{name}_count", ()] == 3
    assert samples[f"{name}_sum", ()] == pytest.approx(99.025)


def test_named_run_labels_every_sample() -> None:
    latest = LatestValues("first")
    latest.update({FRANCE: 3.0, "entente_weight_swap_seconds": [0.02]})
    samples = collected(latest)
    assert samples["entente_country_centers", (("country", "FRANCE"), ("run", "first"))] == 3
    assert samples["entente_weight_swap_seconds_bucket", (("le", "+Inf"), ("run", "first"))] == 1


def test_worlds_that_share_a_name_stay_apart() -> None:
    latest = LatestValues()
    latest.update({"entente_curriculum_level{country=ITALY}": 2.0, "entente_curriculum_level{chair=A}": 1.0})
    latest.update({"entente_curriculum_level{chair=B}": 3.0})
    found = {labels: value for (name, labels), value in collected(latest).items() if name == "entente_curriculum_level"}
    assert found == {(("country", "ITALY"),): 2.0, (("chair", "B"),): 3.0}


def test_hostile_labels_reach_prometheus_as_plain_text(exporter: Exporter) -> None:
    hostile = 'a"} 1\nentente_loss 5 # \\ \x1b[31m{b=c,d}\ud800'
    exporter.record(1, {key("entente_rating", player=hostile): 1200.0})
    assert scrape(exporter) == {("entente_rating", (("player", 'a"} 1 entente_loss 5 # \\ {b=c,d}'),)): 1200.0}


def test_lines_that_are_not_strict_json_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    write_updates(path, range(1, 3))
    lines = path.read_text().splitlines()
    for constant in ("NaN", "Infinity", "-Infinity"):
        path.write_text(lines[0].replace("3.5", constant) + "\n" + lines[1] + "\n")
        with pytest.raises(MetricsError, match="line 1 is no measurement"):
            read_metrics(path)


def test_whole_metric_drops_label_values_that_are_gone() -> None:
    latest = LatestValues()
    old, new = "entente_rating{player=policy/v2}", "entente_rating{player=policy/v4}"
    latest.update({old: 1200.0, "entente_loss": 0.5, "entente_evaluation_centers{against=random}": 4.0})
    latest.update({new: 1300.0, "entente_evaluation_centers{against=greedy}": 3.0})
    samples = collected(latest)
    assert [labels for name, labels in samples if name == "entente_rating"] == [(("player", "policy/v4"),)]
    assert samples["entente_loss", ()] == 0.5
    # One record has one anchor: the others stay.
    assert len([name for name, _ in samples if name == "entente_evaluation_centers"]) == 2


def test_shares_of_what_was_not_counted_are_dropped_with_the_next_record_of_episodes() -> None:
    latest = LatestValues()
    honest = {f"entente_country_honesty{end}{{country=FRANCE}}": 0.25 for end in ("", "_low", "_high")}
    pair = {"entente_country_promises_kept{country=FRANCE,partner=ITALY}": 0.5}
    rewards = {"entente_country_reward{country=FRANCE}": 3.0, "entente_country_reward{country=ITALY}": 1.0}
    latest.update(honest | pair | rewards)
    latest.update({"entente_games_total": 7.0})  # between updates
    assert len([name for name, _ in collected(latest) if "honesty" in name or "kept" in name]) == 4
    latest.update(rewards | {"entente_country_honesty{country=ITALY}": 1.0})
    samples = collected(latest)
    assert [labels for name, labels in samples if "honesty" in name] == [(("country", "ITALY"),)]
    assert not [name for name, _ in samples if "kept" in name]
    assert samples["entente_country_reward", (("country", "FRANCE"),)] == 3.0


@pytest.mark.parametrize("host", ["203.0.113.7", "no-such-host.invalid"])
def test_host_of_another_machine_raises_one_line(host: str) -> None:
    with pytest.raises(MetricsError, match=f"on {host} cannot be used .*; set metrics.host to an address") as raised:
        Exporter(0, host)
    assert "\n" not in str(raised.value)


def test_taken_port_raises_one_line_and_close_frees_it(exporter: Exporter) -> None:
    with pytest.raises(MetricsError, match=f"metrics port {exporter.port} ") as raised:
        Exporter(exporter.port)
    assert "\n" not in str(raised.value)
    exporter.close()
    exporter.close()
    again = Exporter(exporter.port)
    again.close()


def test_fan_out_records_in_all_sinks_or_none(tmp_path: Path, exporter: Exporter) -> None:
    path = tmp_path / "metrics.jsonl"
    sink = FanOut(JsonlSink(path), exporter)
    sink.record(1, {"entente_loss": 0.25})
    with pytest.raises(MetricsError, match="unknown metric"):
        sink.record(2, {"entente_loss": 0.75, "entente_nonsense": 1.0})
    assert [line.metrics for line in read_metrics(path)] == [{"entente_loss": 0.25}]
    assert scrape(exporter)["entente_loss", ()] == 0.25
    sink.close()
