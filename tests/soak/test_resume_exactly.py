"""Resume continues exactly: twenty kills at random, on the CPU's own instruction set and on one without AVX-512."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.system.support.resumed_learner import WITHOUT_AVX512, check_kills

KILLS = 20


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("variables", [{}, WITHOUT_AVX512], ids=["native", "avx2"])
def test_twenty_kills_do_not_change_the_weights(
    variables: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    seed = random.SystemRandom().randrange(1 << 30)
    print("seed", seed)  # shown when the test fails
    check_kills(tmp_path, KILLS, seed)
