"""Command lines: words left out, repeated and replaced; nothing that would train or measure for long."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

from tests.fuzz.contract import Case, Kind, command
from tests.fuzz.run_folder import copy_to

# A valid ``train`` would start Ray; each of these is refused at last by its configuration.
LINES = (
    "train smoke --set learner.updates=-1 --run-dir RUN",
    "train --resume --run-dir RUN --set run.seed=-1",
    "train smoke --start-or-resume --set x",
    "imitate --out OUT --games 0",
    "doctor smoke --run-dir RUN",
    "doctor --run RUN",
    "report RUN",
    "report OUT",
    "groups audit RUN",
    "play --seat FRANCE=hold --default hold --until 1901 --seed 7 --out OUT",
    "population list RUN",
    "population show RUN bot/random",
    "evaluate hold --against hold --games-per-country 1 --until 1901 --seed 1 --json OUT",
    "population rate RUN --games 1 --until 1901",
    "evaluate remote:x --against random --config smoke",
    "population add dumbbot --to RUN",
    "population promote RUN --checkpoint 1",
    "population retire RUN bot/random",
    "population pin RUN bot/random --undo",
    "buffer inspect RUN",
    "monitoring --out OUT",
    "monitoring --out OUT --target h:1 --kubernetes ns --interval 5 --prometheus-url http://p:9090",
)
WORDS = (
    "",
    " ",
    "-",
    "--",
    "---",
    "-x",
    "--no-such",
    "--help",
    "=",
    "NaN",
    "inf",
    "-1",
    "0",
    "9" * 5000,
    "1e3",
    "2" * 30,
    "x" * 100_000,
    "n" * 300,
    "a/" * 3000,
    "FIFO",
    "LOOP",
    "HOLES",
    "ZERO",
    "PARENT",
    "FOLDER",
    "\x1b[31mred",
    "a\nb",
    "\udcff\udc80",
    "\u202etxt",
    "remote:",
    "remote:x",
    "FRANCE=",
    "=dumbbot",
    "NOBODY=hold",
    "FRANCE=RUN",
    "learner.updates=1",
    "redis.url=redis://a..b:1",
    "policy/v1",
    "policy/../../x",
    "bot/random",
    "--json",
    "--set",
    "--run",
    "--seed",
    "--until",
    "dumbbot,,random",
    "hold",
    "http://[::1",
    "a..b:1",
    "[red]x[/]",
    "{0}",
    "%s",
    "~",
    "*",
    "@file",
    "smoke",
    "laptop",
)


def cases(rng: random.Random) -> Iterator[Case]:
    """A good line with one to three changes."""
    while True:
        words = rng.choice(LINES).split()
        for _ in range(rng.choice((0, 1, 1, 1, 2))):
            at, how = rng.randrange(len(words) + 1), rng.random()
            if how < 0.6 and at < len(words) and (at > 0 or rng.random() < 0.1):
                words[at] = rng.choice(WORDS)
            elif how < 0.8:
                words.insert(max(at, 1), rng.choice(WORDS))
            elif at < len(words) and at > 0:
                del words[at]
        if words[:1] == ["train"] and not {"learner.updates=-1", "run.seed=-1", "x"} & set(words):
            words.append("--set=x")
        if words[:1] == ["imitate"]:
            words += ["--games", "0", "--set=x"]
        yield Case(" ".join(word[:60] for word in words), words)


def run(case: Case, folder: Path, shared: object) -> None:
    """Run the line in a folder where only the words in capitals name something; root may write anywhere else."""
    os.mkfifo(folder / "FIFO")
    (folder / "LOOP").symlink_to("LOOP")
    (folder / "ZERO").symlink_to("/dev/zero")
    (folder / "PARENT").symlink_to("..")
    (folder / "FOLDER").mkdir()
    (folder / "HOLES").write_bytes(b"")
    os.truncate(folder / "HOLES", 1 << 42)
    os.chdir(folder)
    run_dir = copy_to(folder)
    names = {"RUN": run_dir, "FRANCE=RUN": f"FRANCE={run_dir}", "OUT": folder / "out.json"}
    command(*(names.get(word, word) for word in case.input))


KIND = Kind("command lines", cases, run, quick=20)
