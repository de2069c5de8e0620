"""Files of word problems: GSM8K, rows, questions, and what a run keeps of its starts."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

from cluster.configs.loader import load_config
from cluster.solving.questions import read_questions
from opponents.league.saved_starts import load_starts, save_starts
from services.environments.word_problems.files.rows import read_rows
from tests.fuzz.contract import Case, Kind, command
from tests.fuzz.mutations import edit

LINES = {
    "gsm8k": [
        {"question": "Ada has 3 pens and buys 4. How many are these?", "answer": "3+4=<<3+4=7>>7 pens\n#### 7"},
        {"question": "What do 2 toys cost at $1,000.50?", "answer": "2*1000.5=<<2*1000.5=2001>>2001\n#### 2,001"},
    ],
    "rows": [
        {"prompt": "What is 3 and 4?", "answer": "7", "role": "final_answer", "task": "word_problems"},
        {"prompt": "Where to?", "answer": "A PAR - BUR", "role": "FRANCE", "task": "diplomacy"},
    ],
    "questions": [{"question": "What is 3 and 4?", "answer": 7}, {"question": "What is 3/4 of 8?"}],
}
COUNTS = {"schema": 1, "state": {"buying/1": [8, 3], "ages/2": [256, 0]}}


def cases(rng: random.Random) -> Iterator[Case]:
    """A file with one line edited, or with something else in its place."""
    while True:
        what, seed = rng.choice((*LINES, "starts")), rng.randrange(1 << 30)
        yield Case(f"{what}, seed {seed}", (what, seed))


def run(case: Case, folder: Path, shared: object) -> None:
    """Read the file as a command or a resumed run does."""
    what, seed = case.input
    path = folder / what
    documents = LINES.get(what, [COUNTS])
    path.write_text("".join(json.dumps(document) + "\n" for document in documents))
    edit(random.Random(seed), path, "lines")
    if what == "starts":
        starts = load_config("word_problems", ["game.curriculum=true"]).world.starts()
        load_starts(starts, path)
        starts.draw("final_answer", seed)
        save_starts(starts, folder / "again")
    elif what == "gsm8k":
        command("data", "gsm8k", path)
    elif what == "rows":
        read_rows(path)
    else:
        read_questions(path)


KIND = Kind("problem files", cases, run, quick=30)
