"""Results as rows: a list of dictionaries, and a pandas table where pandas is installed."""

from __future__ import annotations

from typing import Any

from cluster.errors import RunError


class Rows(list[dict[str, Any]]):
    """A list of rows, which all map the names of columns to values."""

    def to_frame(self) -> Any:
        """Return a ``pandas.DataFrame`` with these rows. Raises RunError if pandas is not installed."""
        try:
            import pandas as pd  # type: ignore[import-untyped, unused-ignore]
        except ModuleNotFoundError:
            raise RunError(
                "a table needs pandas, which is not installed: pip install pandas; the rows themselves are a list of "
                "dictionaries"
            ) from None
        return pd.DataFrame(list(self))
