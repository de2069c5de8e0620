"""Prometheus' configuration: it scrapes the exporter of each run's driver and, on a cluster, Ray's own metrics.

A submitted job's driver runs on the cluster's head, so its exporter is at the head's address and the configured port.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

from grpo_core.errors import one_line
from services.metrics.catalogue import MetricsError

PORT = 9464  # metrics.port in cluster/configs/cluster.toml and the manifests
PORT_NAME = "entente"  # the name of the head's container port in the manifests
_TARGET = re.compile(r"(\[[0-9A-Fa-f:]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})")
_NAMESPACE = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class ScrapeConfig:
    """The addresses of runs and of Ray."""

    targets: Sequence[str] = ()  # host:port of exporters
    ray_file: str = ""  # the path of Ray's discovery file where Prometheus runs
    ray_url: str = ""  # the same list from Ray's dashboard: http://head:8265/api/prometheus/sd
    ray_token_file: str = ""  # the token that the dashboard may ask for
    namespace: str = ""  # the Kubernetes namespace of KubeRay's pods
    interval_s: int = 15


def prometheus_yaml(config: ScrapeConfig, command: str) -> str:
    """Make the configuration that ``command`` writes. Raises ``MetricsError`` if a value or target is unusable."""
    _check(config)
    jobs = ""
    if config.targets:
        listed = "".join(f"          - '{target}'\n" for target in config.targets)
        jobs += f"""  - job_name: entente          # a run's driver, with metrics.port set
    static_configs:
      - targets:
{listed}"""
    if config.ray_file:
        jobs += f"""  - job_name: ray              # every node of the Ray cluster, as Ray lists them
    file_sd_configs:
      - files: ['{config.ray_file}']
"""
    if config.ray_url:
        name = "ray-url" if config.ray_file else "ray"  # its targets have the label job=ray in both cases
        jobs += f"""  - job_name: {name}              # every node of the Ray cluster, as its dashboard lists them
    http_sd_configs:
      - url: '{config.ray_url}'
"""
        if config.ray_token_file:
            jobs += f"        authorization: {{credentials_file: '{config.ray_token_file}'}}\n"
    if config.namespace:
        jobs += _pods(config.namespace)
    return f"""# Written by: {one_line(command, 10_000)}
global:
  scrape_interval: {config.interval_s}s
  evaluation_interval: {config.interval_s}s
rule_files:
  - rules/*.yml
# Alerts are shown on the dashboards; for messages add your Alertmanager here:
# alerting: {{alertmanagers: [{{static_configs: [{{targets: ["alertmanager:9093"]}}]}}]}}
scrape_configs:
{jobs}"""


def rules_yaml() -> str:
    """Return the file of recording rules and alerts."""
    return files("services.metrics").joinpath("alert_rules.yml").read_text(encoding="utf-8")


def prometheus_rule_yaml() -> str:
    """Return the same rules as a resource of the Prometheus operator."""
    body = "".join(f"  {line}\n" if line else "\n" for line in rules_yaml().splitlines() if not line.startswith("#"))
    return f"""# For the Prometheus operator; written by `entente monitoring` from services/metrics/alert_rules.yml.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: entente
  labels: {{app.kubernetes.io/part-of: entente}}
spec:
{body}"""


def pod_monitor_yaml() -> str:
    """Return the resources with which the Prometheus operator scrapes KubeRay's clusters."""
    return f"""# For the Prometheus operator, in the namespace of the clusters; written by `entente monitoring`.
# The head's container has a port named {PORT_NAME} (metrics.port; metrics.host must be 0.0.0.0 or the pod's address).
apiVersion: monitoring.coreos.com/v1
kind: PodMonitor
metadata:
  name: entente
  labels: {{app.kubernetes.io/part-of: entente}}
spec:
  selector:
    matchLabels: {{ray.io/node-type: head}}
  podMetricsEndpoints:
    - port: {PORT_NAME}
      relabelings: [{{targetLabel: job, replacement: entente}}]
---
apiVersion: monitoring.coreos.com/v1
kind: PodMonitor
metadata:
  name: entente-ray
  labels: {{app.kubernetes.io/part-of: entente}}
spec:
  selector:
    matchExpressions: [{{key: ray.io/node-type, operator: In, values: [head, worker]}}]
  podMetricsEndpoints:
    - port: metrics      # KubeRay adds it to every Ray container
      relabelings: [{{targetLabel: job, replacement: ray}}]
"""


def _check(config: ScrapeConfig) -> None:
    if not (config.targets or config.namespace):
        raise MetricsError(f"there is no run to scrape: name a --target such as 127.0.0.1:{PORT}, or --kubernetes")
    for target in config.targets:
        match = _TARGET.fullmatch(target)
        if match is None or not 0 < int(match[2]) < 1 << 16:
            raise MetricsError(f"--target {target!r} is not HOST:PORT, such as 127.0.0.1:{PORT}")
    if config.ray_url and not config.ray_url.startswith(("http://", "https://")):
        raise MetricsError(f"--ray-url {config.ray_url!r} is no address such as http://head:8265/api/prometheus/sd")
    if config.ray_token_file and not config.ray_url:
        raise MetricsError("--ray-token-file is for --ray-url; Ray's discovery file asks for no token")
    if config.namespace and not _NAMESPACE.fullmatch(config.namespace):
        raise MetricsError(f"--kubernetes {config.namespace!r} is no name of a namespace")
    for text in (config.ray_file, config.ray_url, config.ray_token_file):
        if any(mark in text for mark in "'\n"):
            raise MetricsError(f"{text!r} holds a quote or a line end, which the configuration cannot")


def _pods(namespace: str) -> str:
    """Make two jobs for the pods of KubeRay's clusters: the drivers on heads, and Ray's own metrics on all nodes."""
    return "".join(
        f"""  - job_name: {job}
    kubernetes_sd_configs:
      - role: pod
        namespaces: {{names: ['{namespace}']}}
    relabel_configs:
      - {{source_labels: [__meta_kubernetes_pod_label_ray_io_node_type], regex: '{nodes}', action: keep}}
      - {{source_labels: [__meta_kubernetes_pod_container_port_name], regex: '{port}', action: keep}}
      - {{source_labels: [__meta_kubernetes_pod_label_ray_io_cluster], target_label: ray_cluster}}
      - {{source_labels: [__meta_kubernetes_pod_name], target_label: pod}}
      - {{target_label: job, replacement: {label}}}
"""
        for job, label, nodes, port in (
            ("entente-pods", "entente", "head", PORT_NAME),
            ("ray-pods", "ray", "head|worker", "metrics"),
        )
    )
