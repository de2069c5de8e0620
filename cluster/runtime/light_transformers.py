"""Keeps transformers from importing packages for features that no actor uses."""

from __future__ import annotations

_UNUSED = ("is_sklearn_available", "is_scipy_available", "is_pandas_available")


def leave_out_optional_packages() -> None:
    """Let transformers find no scikit-learn, SciPy and pandas in this process.

    It would import them for assisted generation and for losses of vision models: a third of the time in which an actor
    imports its modules, and 170 MiB. For processes of our own that import models later; what imports those packages
    itself still finds them.
    """
    import transformers.utils
    from transformers.utils import import_utils

    for module in (transformers.utils, import_utils):
        for name in _UNUSED:
            setattr(module, name, _is_absent)


def _is_absent() -> bool:
    return False
