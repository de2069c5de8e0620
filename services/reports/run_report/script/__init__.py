"""The page's scripts: they draw the charts, fill their tables and answer the controls."""
