"""``make adapters`` with a stand-in for uv: which failures of an installation are skipped, and which end it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.paths import ROOT

UV = """#!/bin/bash
# "uv venv ... FOLDER" makes a Python whose tests pass; an installation whose words contain REFUSED fails.
[[ $* != *REFUSED* ]] || exit 1
[[ $1 == venv ]] || exit 0
mkdir -p "${@: -1}/bin"
printf '#!/bin/bash\\necho "tested $5"\\n' > "${@: -1}/bin/python"
chmod +x "${@: -1}/bin/python"
"""


@pytest.mark.parametrize(
    ("refused", "strict", "code", "says"),
    [
        ("nothing", "", 0, "tested"),
        ("openenv==", "", 0, "openenv==0.10.0 cannot be installed: its tests are skipped"),
        ("openenv==", "1", 2, "openenv==0.10.0 cannot be installed: see above"),
        ("--editable", "", 2, "this project cannot be installed"),
    ],
)
def test_an_adapter_that_cannot_be_installed(tmp_path: Path, refused: str, strict: str, code: int, says: str) -> None:
    program = tmp_path / "venv" / "bin" / "uv"
    program.parent.mkdir(parents=True)
    program.write_text(UV.replace("REFUSED", refused))
    program.chmod(0o755)
    (tmp_path / "venv" / ".ready").touch()
    words = ["make", "adapters", f"VENV={tmp_path / 'venv'}", f"ADAPTERS={tmp_path / 'adapters'}", f"STRICT={strict}"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == code, done.stdout + done.stderr
    assert says in done.stdout
