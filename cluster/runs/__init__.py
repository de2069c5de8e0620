"""One run on disk: its folder, recovery, provenance, counters and reports of its stages."""
