"""What of a configuration may leave the machine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cluster.configs.loader import load_config
from cluster.configs.shareable import shareable

REMOTE = 'opponents.remotes={gpt={base_url="http://10.0.0.6:8000/v1",model="m"}}'


def test_no_account_host_or_folder_of_this_machine_is_told() -> None:
    url = "rediss://me:p@ssw0rd@10.0.0.5:6379/0?ssl_ca_certs=/home/alice/ca.pem&ssl_keyfile=/home/alice/key.pem"
    config = load_config(
        "smoke",
        [f"redis.url={url}", "run.ray_address=10.0.0.5:6380", "metrics.host=10.0.0.7", REMOTE,
         "policy.path=/home/alice/models/base", "imitation.saved_games=alice/games"],
    )  # fmt: skip
    told = shareable(config)
    for private in ("ssw0rd", "alice", "10.0.0.", "://", "pem"):
        assert private not in json.dumps(told)
    assert (told["policy"]["path"], told["imitation"]["saved_games"]) == ("base", "games")
    assert told["opponents"]["remotes"]["gpt"]["model"] == "m"
    assert told["redis"]["away_timeout_s"] == config.redis.away_timeout_s
    several = shareable(load_config("smoke", [f'redis.urls=["{url}", "redis://10.0.0.6:6379"]']))
    assert "10.0.0." not in json.dumps(several)


@pytest.mark.parametrize("name", ["Qwen/Qwen3-0.6B", "Qwen/Qwen3-0.6B@refs/pr/1"])
def test_a_name_on_the_hub_stays_whole_unless_it_is_a_folder_here(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    config = load_config("smoke", [f"policy.path={name}"])
    assert shareable(config)["policy"]["path"] == name
    (tmp_path / name).mkdir(parents=True)
    assert shareable(config)["policy"]["path"] == Path(name).name
