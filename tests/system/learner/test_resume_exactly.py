"""Resume continues exactly: a few kills; ``make soak`` makes many."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.system.support.resumed_learner import WITHOUT_AVX512, check_kills

pytestmark = [pytest.mark.system, pytest.mark.timeout(1800)]


@pytest.mark.parametrize("variables", [{}, WITHOUT_AVX512], ids=["native", "avx2"])
def test_a_killed_learner_reaches_the_weights_of_an_uninterrupted_one(
    variables: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    check_kills(tmp_path, kills=2, seed=1)
