"""How fast a page of ``entente explore`` opens and answers: ``python -m tests.benchmarks.explorer.speed PAGE``.

Opening is from the navigation's start to the first drawing. An answer is from the change of the choice to the next
frame after the page was drawn again; each is measured several times, and the slowest counts. Offline Chromium.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

_ROUNDS = 5
# What a user can do, as changes of the choice; each view first.
_CHANGES = {
    "open groups": {"view": "groups"},
    "form the groups": {"formed": True},
    "scatter": {"formed": False},
    "strategy by role": {"strategy": "role"},
    "strategy role and own centres": {"strategy": "centers"},
    "strategy by outcome": {"strategy": "outcome"},
    "strategy as in training": {"strategy": "trained"},
    "weights": {"weights": "balanced"},
    "leave one out": {"baseline": "leave_one_out"},
    "shrinkage": {"shrinkage": True},
    "no shrinkage": {"shrinkage": False},
    "all roles": {"role": "all"},
    "colour by role": {"color": "role"},
    "open advantages": {"view": "advantages"},
    "compare": {"compare": True, "other": "role"},
    "open course": {"view": "course"},
    "open formulas": {"view": "formulas", "episode": 3},
    "another episode": {"episode": 5},
    "another loss": {"loss": "dapo"},
    "open pitfalls": {"view": "pitfalls"},
    "another update": {"view": "groups", "update": 1},
    "back to the newest": {"update": None},
}
_ANSWER = """async (changes) => {
  const start = performance.now();
  await choose(changes);
  await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  return performance.now() - start;
}"""


def opening_times(page: Page, address: str) -> list[float]:
    """Milliseconds from the start of each of several visits to the first drawing."""
    times = []
    for _ in range(_ROUNDS):
        page.goto("about:blank")
        page.goto(address)
        page.wait_for_selector("body[data-drawn]")
        times.append(page.evaluate("() => performance.getEntriesByName('first-drawing')[0].startTime"))
    return times


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path)
    file = parser.parse_args().page.resolve()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 800}, offline=True)
        opened = opening_times(page, file.as_uri())
        print(f"{file.stat().st_size / 1e6:.2f} MB")
        print(f"opens in {statistics.median(opened):.0f} ms (median of {_ROUNDS}), at most {max(opened):.0f} ms")
        answers: dict[str, list[float]] = {name: [] for name in _CHANGES}
        for _ in range(_ROUNDS):
            for name, changes in _CHANGES.items():
                answers[name].append(page.evaluate(_ANSWER, changes))
        for name, times in answers.items():
            print(f"{name:32} {statistics.median(times):6.0f} ms, at most {max(times):6.0f} ms")
        browser.close()


if __name__ == "__main__":
    main()
