"""Imported policies: the weights are unchanged, the origin is recorded, and incompatible ones are refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from cluster.cli.population.population import add
from grpo_core.errors import CheckpointError
from grpo_core.models.lora import adapter_config_of, folder_payload, merged
from grpo_core.models.named_tensors import from_safetensors, named_tensors
from grpo_core.models.pretrained import load_model
from grpo_core.models.role_adapters import add_role_adapters
from grpo_core.settings import PolicySettings
from opponents.population.compatibility import compatible_weights
from opponents.population.importer import find_source, import_policy, member_id_of
from opponents.population.member import Member, PopulationError
from opponents.population.population import Population
from opponents.population.weights import form_of
from services.environments.diplomacy.position import POWERS
from tests.unit.opponents import population_cases
from tests.unit.opponents.population_cases import TINY, tiny_model, train_a_little, write_checkpoint

MADE = {"here": {"seed": 1}, "there": {"seed": 2}, "lora": {"seed": 3, "lora": True}}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs that tests copy, because making one is slower than most tests."""
    parent = tmp_path_factory.mktemp("runs")
    for name, options in MADE.items():
        population_cases.make_run(parent / name, **options)  # type: ignore[arg-type]
    return parent


@pytest.fixture
def runs(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path / "runs")
    return tmp_path / "runs"


def joined(folder: Path, run: Path, member: str | None = None, name: str = "guest") -> tuple[Member, bytes]:
    population = Population.load(run / "population.json")
    source = find_source(folder, member)
    taken = import_policy(population, source, compatible_weights(source, run), member_id=member_id_of(name, POWERS))
    assert Population.load(population.path)[taken.id] == taken
    population.verify(taken)
    return taken, population.weights_path(taken).read_bytes()


def same(data: bytes, folder: Path) -> bool:
    """Whether weights are those of a model's folder."""
    found, wanted = from_safetensors(data), named_tensors(load_model(folder)[0])
    return found.keys() == wanted.keys() and all((found[name] == wanted[name]).all() for name in wanted)


def test_a_runs_newest_checkpoint_is_imported_with_its_origin(runs: Path) -> None:
    here, there = runs / "here", runs / "there"
    assert find_source(there).name == "there-v4"
    member, data = joined(there, here)
    assert same(data, there / "checkpoints" / "4")
    assert member == Member(
        id="policy/guest",
        kind="policy",
        name="population/guest.safetensors",
        version=4,
        checksum=member.checksum,
        parent=None,
        created_at_update=6,  # training has reached 5: line-ups up to there may be drawn
        weight=1.0,
        form="full",
        config_digest="digest-4",
        source="there-0f",
    )


def test_a_member_of_another_population_is_imported_unchanged(runs: Path) -> None:
    here, there = runs / "here", runs / "there"
    assert find_source(there, "policy/v2").name == "there-v2"
    member, data = joined(there, here, "policy/v2")
    assert data == (there / "population" / "v2.safetensors").read_bytes()
    assert (member.version, member.parent, member.source, member.config_digest) == (
        2, "policy/v2", "there-0f", "digest-2",
    )  # fmt: skip
    assert member.checksum == Population.load(there / "population.json")["policy/v2"].checksum


def test_adapters_are_kept_on_their_own_base_and_merged_on_another(runs: Path) -> None:
    lora, other = runs / "lora", runs / "here"
    snapshot = lora / "population" / "v2.safetensors"
    # They are recognised by the header, as in the code that merges them.
    for path in (snapshot, lora / "checkpoints" / "4" / "model.safetensors"):
        assert (form_of("x", path) == "adapter") == (adapter_config_of(path.read_bytes()) is not None)
    base = named_tensors(load_model(lora / "checkpoints" / "0")[0])
    member, data = joined(lora / "checkpoints" / "4", lora)
    assert member.form == "adapter"
    checkpoint = named_tensors(load_model(lora / "checkpoints" / "4")[0])
    for name, tensor in merged(base, data).items():
        assert (tensor == checkpoint[name]).all()
    member, data = joined(lora, other)
    assert member.form == "full"
    assert same(data, lora / "checkpoints" / "4")
    member, data = joined(lora, other, "policy/v2", name="frozen")
    assert member.form == "full"
    wanted = merged(base, snapshot.read_bytes())
    assert all((tensor == wanted[name]).all() for name, tensor in from_safetensors(data).items())


def test_a_specialist_is_imported_for_its_country_alone(runs: Path, tmp_path: Path) -> None:
    seven, other = tmp_path / "seven", runs / "here"
    settings = PolicySettings.model_validate({**TINY, "use_peft": True, "specialists": True, "lora_r": 1})
    model = add_role_adapters(tiny_model(4), settings, 4, POWERS)  # type: ignore[arg-type]
    for version in (0, 4):
        train_a_little(model, version)
        write_checkpoint(seven, model, version)
    adapter = folder_payload(seven / "checkpoints" / "4" / "adapter" / "ITALY")
    base = named_tensors(load_model(seven / "checkpoints" / "0", shared_base=True)[0])
    source = find_source(seven)
    wanted, own = merged(base, adapter), compatible_weights(source, seven, "ITALY")
    assert adapter_config_of(own) is not None
    for found in (merged(base, own), from_safetensors(compatible_weights(source, other, "ITALY"))):
        assert all((tensor == found[name]).all() for name, tensor in wanted.items())
    for country in (None, "ATLANTIS"):
        with pytest.raises(PopulationError, match=r"has specialists, for AUSTRIA, .*: say with --country whose"):
            compatible_weights(source, seven, country)
    # A frozen specialist keeps its country, also on another base.
    (seven / "population").mkdir()
    frozen = seven / "population" / "v4-ITALY.safetensors"
    frozen.write_bytes(adapter)
    population = Population(seven / "population.json")
    population.add_snapshot(frozen, version=4, config_digest="digest", country="ITALY")
    population.save()
    add(str(seven), to=other, member="policy/v4-ITALY")
    taken = Population.load(other / "population.json")["policy/seven-v4-ITALY"]
    assert (taken.country, taken.form) == ("ITALY", "full")


def test_incompatible_policies_are_refused_and_leave_no_files(runs: Path, tmp_path: Path) -> None:
    here, damaged = runs / "here", runs / "there"
    before = sorted(path.name for path in here.rglob("*"))
    wider = write_checkpoint(tmp_path / "wider", tiny_model(2, intermediate_size=64), 1)
    with pytest.raises(PopulationError, match=r"wider.* cannot play in .*here: weights of another shape"):
        joined(wider, here)
    speaks = write_checkpoint(tmp_path / "speaks", tiny_model(2), 1, words=("nord", "sud"))
    with pytest.raises(PopulationError, match=r"speaks.* has another tokenizer than .*here"):
        joined(speaks, here)
    weights = damaged / "checkpoints" / "4" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-4] + b"\0\0\0\1")
    with pytest.raises(CheckpointError, match=r"model\.safetensors is not what was written"):
        joined(damaged, here)
    (damaged / "population" / "v2.safetensors").write_bytes(weights.read_bytes())
    with pytest.raises(PopulationError, match=r"v2\.safetensors has SHA-256"):
        joined(damaged, here, "policy/v2")
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(PopulationError, match="is no run with a checkpoint, and no model's folder"):
        joined(empty, here)
    with pytest.raises(PopulationError, match="there is no folder"):
        joined(tmp_path / "nowhere", here)
    with pytest.raises(PopulationError, match=r"bot/random of .* is a bot; add it by its name"):
        joined(damaged, here, "bot/random")
    assert sorted(path.name for path in here.rglob("*")) == before


def test_a_model_folder_is_imported_and_the_same_weights_twice_are_refused(runs: Path, tmp_path: Path) -> None:
    here = runs / "here"
    model = tiny_model(5)
    train_a_little(model, 5)
    folder = write_checkpoint(tmp_path / "made", model, 1)
    for name in ("manifest.json", "trainer_state.json", "optimizer.safetensors"):
        (folder / name).unlink()
    member, data = joined(folder, here)
    assert same(data, folder)
    assert (member.version, member.source, member.config_digest) == (0, str(folder), None)
    with pytest.raises(PopulationError, match=r"policy/guest of .* plays these very weights already"):
        joined(folder, here, name="again")
    with pytest.raises(PopulationError, match="already has a member 'policy/guest'"):
        joined(runs / "there", here)
    assert not [path for path in (here / "population").iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("v7", "calls its own"),
        ("v7-ITALY", "calls its own"),
        ("../x", "letters, digits"),
        ("", "letters"),
    ],
)
def test_names_must_be_plain_and_not_those_of_snapshots(name: str, message: str) -> None:
    with pytest.raises(PopulationError, match=message):
        member_id_of(name, POWERS)
    assert member_id_of("strong", POWERS) == member_id_of("policy/strong", POWERS) == "policy/strong"
    assert member_id_of("v7-best", POWERS) == "policy/v7-best"


def test_a_specialist_and_a_generalist_may_share_weights(runs: Path) -> None:
    here = runs / "here"
    source = find_source(runs / "there")
    data = compatible_weights(source, here)
    population = Population.load(here / "population.json")
    import_policy(population, source, data, member_id="policy/any")
    import_policy(population, source, data, member_id="policy/french", country="FRANCE", pinned=True)
    document = json.loads(population.path.read_text())
    assert [(m["id"], m["country"], m["pinned"]) for m in document["members"][-2:]] == [
        ("policy/any", None, False),
        ("policy/french", "FRANCE", True),
    ]
