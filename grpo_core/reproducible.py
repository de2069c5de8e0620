"""Configure MKL before its first product, so that equal inputs give equal bits in every process of an x86-64 machine.

By default MKL, which computes torch's matrix products, also chooses kernels by the operands' alignment in memory, which
differs between processes. ``MKL_CBWR=AUTO,STRICT`` lets it choose by shape and CPU alone, and keeps the CPU's best
instruction set; ``AVX2,STRICT`` would give up AVX-512 on Intel CPUs. A value set by the user stays.
"""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path

VARIABLE = "MKL_CBWR"
SETTING = "AUTO,STRICT"
_OFF = (0, 1)  # MKL_CBWR_OFF, MKL_CBWR_BRANCH_OFF
_ALL = -1  # MKL_CBWR_ALL: branch and flags


def make_reproducible() -> None:
    """Set the variable for this process and its children, unless it is set; warn if MKL has already been used."""
    os.environ.setdefault(VARIABLE, SETTING)
    if "torch" in sys.modules and mkl_mode() in _OFF:
        warnings.warn(
            f"MKL was used before grpo_core was imported, so {VARIABLE} has no effect and equal inputs may give "
            "unequal bits; import grpo_core first",
            RuntimeWarning,
            stacklevel=3,
        )


def mkl_mode() -> int | None:
    """Return the mode of ``mkl_cbwr_get``, or None if torch is built without MKL.

    MKL reads the variable at its first call, and this is such a call.
    """
    import ctypes

    import torch

    library = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
    try:
        mode: int = ctypes.CDLL(str(library)).mkl_serv_cbwr_get(_ALL)
    except (OSError, AttributeError):
        return None
    return mode
