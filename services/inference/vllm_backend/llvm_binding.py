"""Lets vLLM start in a process that has compiled functions with numba."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

_BINDING = "llvmlite.binding.ffi"


@contextmanager
def hidden_llvm_binding() -> Iterator[None]:
    """Hide numba's binding of LLVM from vLLM's start, which looks at the ``__dict__`` of every module's values.

    The binding's ``lib`` answers for any name with a function of the library, ``__dict__`` included, which vLLM takes
    for a dictionary. Code that has imported the binding goes on with it.
    """
    module = sys.modules.pop(_BINDING, None)
    try:
        yield
    finally:
        if module is not None:
            sys.modules[_BINDING] = module
