"""Protection of a run on a shared network: TLS with verified certificates, a user with few rights, Ray's token."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import grpc
import numpy as np
import psutil
import pytest
import redis
from safetensors.numpy import save_file
from typer.testing import CliRunner

from cluster.cli.app import app
from cluster.configs.loader import load_config
from cluster.diagnostics.security import replay_access
from cluster.runs.folder import last_update
from cluster.runtime.replay.addresses import PASSWORD_VARIABLE
from opponents.population.population import Population
from opponents.population.redis_mirror import PopulationMirror
from services.replay.buffer import ReplayError, ServerLostError
from services.replay.redis_store.buffer import RedisBuffer
from services.replay.server.embedded import EmbeddedServer
from services.replay.synthetic_episodes import synthetic_episode
from tests.system.support.tls_terminator import Authority, TlsTerminator
from tests.system.support.training_process import QUICK, TrainingProcess
from tests.unit.cluster.manifests.manifest_files import run_rights

pytestmark = pytest.mark.system

PASSWORD = "a run's own"
URL_PASSWORD = "a%20run%27s%20own"
runs = (f"run-{number}" for number in count())


@dataclass
class Place:
    """A replay server with an administrator and a run's user, plain and behind TLS."""

    server: EmbeddedServer
    admin: redis.Redis
    ours: Authority
    others: Authority
    tls: int  # port; its certificate is for localhost
    mutual: int  # port; asks for a certificate of our CA too
    expired: int  # port; with an old certificate

    def url(self, port: int, host: str = "localhost", scheme: str = "rediss", **query: str | Path) -> str:
        asked = "&".join(f"{name}={value}" for name, value in query.items())
        return f"{scheme}://entente:{URL_PASSWORD}@{host}:{port}/0?{asked}"

    def mutual_url(self, client: tuple[Path, Path], **query: str) -> str:
        return self.url(self.mutual, ssl_ca_certs=self.ours.ca, ssl_certfile=client[0], ssl_keyfile=client[1], **query)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("place")
    ours, others = Authority(folder, "ours"), Authority(folder, "others")
    shown = ours.certificate("localhost")
    with ExitStack() as stack:
        server = stack.enter_context(EmbeddedServer.start(folder / "redis"))
        admin = stack.enter_context(redis.Redis.from_url(server.url))
        allow(admin, run_rights())
        tls, mutual, expired = (
            stack.enter_context(TlsTerminator(server.port, *how)).port
            for how in ((shown,), (shown, ours.ca), (ours.certificate("localhost", days=-1),))
        )
        yield Place(server, admin, ours, others, tls, mutual, expired)


def allow(admin: redis.Redis, rights: list[str]) -> None:
    """Give the run's user these rights and no other."""
    admin.execute_command("ACL", "SETUSER", "entente", "reset", "on", f">{PASSWORD}", *rights)


def use_everything(place: Place, url: str, folder: Path) -> None:
    """Every kind of request that a run makes of its server, once."""
    run = next(runs)
    block = [synthetic_episode("a", member, role="FRANCE", block_size=2, turns=1) for member in range(2)]
    folder.mkdir(exist_ok=True)
    weights = folder / f"{run}.safetensors"
    save_file({"w": np.zeros(8, np.float32)}, weights)
    with ExitStack() as stack:
        mirror = stack.enter_context(closing(PopulationMirror(url, run, connect_timeout_s=5, limit_mib=1)))
        mirror.clear()
        population = Population(folder / f"{run}.json", on_saved=mirror.publish)
        with population.transaction():
            member = population.add_snapshot(weights, version=1)
        assert mirror.read() == population.document()
        assert mirror.weights(member) == weights.read_bytes()
        none_kept = stack.enter_context(closing(PopulationMirror(url, run, connect_timeout_s=5, limit_mib=0)))
        assert none_kept.publish(population.document(), population.path)
        assert mirror.weights(member) is None
        rollout, learner, rival = (stack.enter_context(closing(RedisBuffer(url, run, 60, 5))) for _ in range(3))
        assert rollout.append(block[:1]) == 1
        assert rollout.append(block) == 1
        place.admin.xadd(f"entente:{run}:episodes:FRANCE", {"episode": b"garbage"})
        assert rollout.stored_ids(["a/0", "b/0"]) == {"a/0"}
        learner.redeliver()
        assert learner.take({"FRANCE": 1}, 5).episodes
        assert rollout.stats()["delivered"]
        try:
            rival.redeliver()
        except ReplayError as error:
            if "already has a learner" not in str(error):
                raise
        else:
            raise AssertionError("a run had two learners")
        learner._lock._renew(keys=[learner._lock.key], args=[learner._lock.owner, 30_000])
        learner.redeliver()
        learner.acknowledge(learner.take({"FRANCE": 1}, 5).receipts)
        stats = rollout.stats()
        assert (stats["acknowledged"], stats["duplicates"], stats["poison"]) == (2, 1, 1)
        assert rollout.memory()["used"] > 0


def test_a_run_needs_exactly_the_rights_that_the_manifest_gives_it(place: Place, tmp_path: Path) -> None:
    """With all rights nothing is refused; without one of them the error is one line that names it."""
    url, rights = place.url(place.server.port, "127.0.0.1", "redis"), run_rights()
    use_everything(place, url, tmp_path)
    needed = [right for right in rights if right[0] in "+~"]
    assert len(needed) > 20
    for right in needed:
        place.admin.script_flush()  # otherwise the cached scripts need not be loaded
        allow(place.admin, [rule for rule in rights if rule != right])
        if right == "+info":  # without INFO the checks that need it are skipped
            with pytest.raises(KeyError, match="used"):
                use_everything(place, url, tmp_path)
            continue
        with pytest.raises(ReplayError) as told:
            use_everything(place, url, tmp_path)
        assert f"grant it {right};" in str(told.value), right
        assert "refuses its user" in str(told.value)
        assert "\n" not in str(told.value)
    allow(place.admin, rights)
    for command in ("FLUSHALL", "CONFIG GET requirepass", "KEYS *", "ACL LIST", "GET other:key", "FUNCTION LIST"):
        with redis.Redis.from_url(url) as client, pytest.raises(redis.exceptions.NoPermissionError):
            client.execute_command(*command.split())


def test_a_run_works_over_tls_with_its_own_ca_and_a_client_certificate(place: Place, tmp_path: Path) -> None:
    use_everything(place, place.url(place.tls, ssl_ca_certs=place.ours.ca), tmp_path)
    use_everything(place, place.mutual_url(place.ours.certificate("plain")), tmp_path)
    locked = place.ours.certificate("locked", password="of the key")
    use_everything(place, place.mutual_url(locked, ssl_password="of%20the%20key"), tmp_path)
    for query in ({}, {"ssl_password": "wrong"}):  # redis-py must not prompt on the terminal
        with pytest.raises(ReplayError, match="ssl_password where the key has one"):
            RedisBuffer(place.mutual_url(locked, **query), "run", 60, 5)


def test_tls_errors_are_one_line_that_says_what_to_do(place: Place) -> None:
    ca, other_ca = place.ours.ca, place.others.ca
    theirs = place.others.certificate("client")
    plain_port = place.server.port
    cases = {
        place.url(place.tls): r"of a CA that is unknown here: name the CA's file by \?ssl_ca_certs=",
        place.url(place.tls, ssl_ca_certs=other_ca): "of a CA that is unknown here",
        place.url(place.tls, "127.0.0.1", ssl_ca_certs=ca): r"a certificate that is not for 127\.0\.0\.1: write a name",
        place.url(place.expired, ssl_ca_certs=ca): r"not valid \(certificate has expired\): renew it",
        place.url(place.mutual, ssl_ca_certs=ca): r"a certificate\? Name one of its CA by \?ssl_certfile",
        place.mutual_url(theirs): "does it ask for a certificate",
        place.url(place.tls, scheme="redis"): r"does it want TLS \(then write rediss://\)",
        place.url(plain_port, ssl_ca_certs=ca): r"port speak TLS \(else name the one that does, or write redis",
    }
    for url, told in cases.items():
        # Errors of a server that may still be starting are retried until the limit; the others are raised at once.
        may_be_starting = " TLS " in told
        with pytest.raises(ReplayError, match=told) as caught:
            RedisBuffer(url, "run", 60, 2 if may_be_starting else 30)
        assert isinstance(caught.value, ServerLostError) is may_be_starting
        assert "\n" not in str(caught.value)
        assert URL_PASSWORD not in str(caught.value)


def test_a_run_trains_over_tls_with_few_rights_and_its_ray_requires_the_token(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = secrets.token_hex(16)
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)  # the command must set it itself
    monkeypatch.setenv("RAY_AUTH_TOKEN", token)
    monkeypatch.setenv(PASSWORD_VARIABLE, PASSWORD)
    url = place.mutual_url(place.ours.certificate("client")).replace(f":{URL_PASSWORD}@", "@")
    allow(place.admin, run_rights())
    run = tmp_path / "run"
    asked = ("--set", f"redis.url={url}", "--set", "learner.updates=1")
    with TrainingProcess(run, *QUICK, *asked) as training:
        training.wait_until(lambda: gcs_address(training) is not None, "Ray")
        address = gcs_address(training)
        assert address is not None
        assert answer_of(address) == grpc.StatusCode.UNAUTHENTICATED
        assert answer_of(address, "not " + token) == grpc.StatusCode.UNAUTHENTICATED
        assert answer_of(address, token) == grpc.StatusCode.OK
        assert training.finish() == 0, training.output()
    assert last_update(run) == 1
    for shown in (training.output(), (run / "config.toml").read_text(), (run / "report.html").read_text()):
        assert PASSWORD not in shown
        assert URL_PASSWORD not in shown
    looked = CliRunner().invoke(app, ["buffer", "inspect", str(run)])
    assert looked.exit_code == 0, looked.output
    assert re.search(r"acknowledged\D+14\b", looked.output)
    config = load_config(run / "config.toml")
    [finding] = replay_access(config.redis)
    assert (finding.level, finding.text) == ("ok", "the external server answers (encrypted)")
    both = config.redis.model_copy(update={"url": None, "urls": (config.redis.url, "redis://127.0.0.1:1")})
    there, away = replay_access(both)
    assert (there.level, there.text.startswith("the external server rediss://")) == ("ok", True)
    assert (away.level, "127.0.0.1:1" in away.text) == ("fault", True)
    monkeypatch.setenv(PASSWORD_VARIABLE, "wrong")
    [finding] = replay_access(config.redis)
    assert (finding.level, "check user and password" in finding.text) == ("fault", True)


def gcs_address(training: TrainingProcess) -> str | None:
    """The address of the GCS of a run's own Ray; None before it has started."""
    training.look()
    for process in training.family.values():
        try:
            found = re.search(r"--gcs-address=(\S+)", " ".join(process.cmdline()))
        except psutil.NoSuchProcess:
            continue
        if found:
            return found[1]
    return None


def answer_of(address: str, token: str | None = None) -> grpc.StatusCode:
    """The status of Ray's answer to a request for its nodes."""
    with grpc.insecure_channel(address) as channel:
        ask = channel.unary_unary("/ray.rpc.NodeInfoGcsService/GetAllNodeInfo")
        try:
            ask(
                b"", timeout=60, wait_for_ready=True, metadata=[("authorization", f"Bearer {token}")] if token else None
            )
        except grpc.RpcError as error:
            return error.code()
    return grpc.StatusCode.OK
