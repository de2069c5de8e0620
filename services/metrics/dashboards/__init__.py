"""Grafana dashboards, built from the catalogue of metrics."""
