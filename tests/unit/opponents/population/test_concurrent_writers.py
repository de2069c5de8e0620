"""Many processes change one population: no member is lost, stale changes are refused, and changes are seen by all."""

from __future__ import annotations

import fcntl
import multiprocessing
import os
from pathlib import Path

import pytest

from opponents.population.member import PopulationError
from opponents.population.population import Population

WRITERS, MEMBERS = 4, 10


def write(path: str, writer: int) -> None:
    population = Population(Path(path))
    for number in range(MEMBERS):
        with population.transaction() as newest:
            newest.add_bot(f"{writer}-{number}")


def die_in_a_change(path: str) -> None:
    with Population(Path(path)).transaction() as population:
        population.add_bot("never")
        os._exit(9)


def fail_half_way(population: Population) -> None:
    with population.transaction():
        population.add_bot("hold")
        population.advance_to(7)
        population.add_bot("random")


def run(processes: list[multiprocessing.Process]) -> list[int | None]:
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
        if process.exitcode is None:
            process.kill()
    return [process.exitcode for process in processes]


def test_four_processes_add_forty_members_and_lose_none(tmp_path: Path) -> None:
    path = tmp_path / "population.json"
    context = multiprocessing.get_context("fork")  # a fresh start would import everything four times
    assert run([context.Process(target=write, args=(str(path), writer)) for writer in range(WRITERS)]) == [0] * WRITERS
    population = Population.load(path)
    assert {member.name for member in population.members} == {
        f"{writer}-{number}" for writer in range(WRITERS) for number in range(MEMBERS)
    }
    assert population.revision == WRITERS * MEMBERS
    for writer in range(WRITERS):
        own = [member.name for member in population.members if member.name.startswith(f"{writer}-")]
        assert own == [f"{writer}-{number}" for number in range(MEMBERS)]


def test_a_writer_that_dies_in_a_transaction_leaves_the_old_state_and_no_lock(tmp_path: Path) -> None:
    path = tmp_path / "population.json"
    with Population(path).transaction() as population:
        population.add_bot("random")
    before = path.read_bytes()
    assert run([multiprocessing.get_context("fork").Process(target=die_in_a_change, args=(str(path),))]) == [9]
    assert path.read_bytes() == before
    with population.transaction(timeout_s=120):
        population.add_bot("hold")
    assert [member.name for member in Population.load(path).members] == ["random", "hold"]


def test_a_process_that_holds_the_lock_too_long_is_named(tmp_path: Path) -> None:
    population = Population(tmp_path / "population.json")
    with (
        population.transaction(),
        pytest.raises(PopulationError, match=rf"held by process {os.getpid()} on .* then try again") as caught,
        Population(population.path).transaction(timeout_s=0.05),
    ):
        raise AssertionError("two at once")
    assert "\n" not in str(caught.value)
    with (tmp_path / ".population.json.lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # free again


def test_stale_changes_are_refused_and_refresh_reads_the_newest_state(tmp_path: Path) -> None:
    driver = Population(tmp_path / "population.json")
    driver.add_bot("random")
    driver.save()
    assert driver.refresh() is False
    other = Population.load(driver.path)
    with other.transaction():
        other.add_bot("hold")
        other.retire("bot/random")
    assert driver.refresh() is True
    assert driver.document() == other.document()
    with other.transaction():
        other.reactivate("bot/random")
    driver.add_bot("greedy")
    with pytest.raises(PopulationError, match="another process, and changes here were not saved"):
        driver.save()
    with pytest.raises(PopulationError, match="another process, and changes here were not saved"):
        driver.refresh()
    assert Population.load(driver.path).document() == other.document()
    fresh = Population(driver.path)
    fresh.add_bot("dumbbot")
    with pytest.raises(PopulationError, match="another process, and changes here were not saved"):
        fresh.save()


def test_a_failed_or_empty_transaction_makes_no_revision(tmp_path: Path) -> None:
    saved: list[int] = []
    population = Population(tmp_path / "population.json", on_saved=lambda now, _: saved.append(now.revision))
    with population.transaction():
        population.add_bot("random")
    before = population.document()
    with pytest.raises(PopulationError, match="already has"):
        fail_half_way(population)
    assert population.document() == before == Population.load(population.path).document()
    with population.transaction():
        population.advance_to(0)
    assert (population.revision, saved) == (1, [1, 1])  # published again: a mirror may have lost it


def test_a_missing_or_older_file_is_refused(tmp_path: Path) -> None:
    population = Population(tmp_path / "population.json")
    with population.transaction():
        population.add_bot("random")
    old = population.path.read_bytes()
    with population.transaction():
        population.add_bot("hold")
    population.path.write_bytes(old)
    with pytest.raises(PopulationError, match="went back from revision 2 to 1"), population.transaction():
        raise AssertionError("an older state was changed")
    population.path.unlink()
    with pytest.raises(PopulationError, match="no population file"):
        population.refresh()
