"""On the path of Ray's processes: its agent finds a GPU where there is none, and reports it as any other."""

import sys

if any(word.endswith("dashboard/agent.py") for word in sys.orig_argv):
    from ray.dashboard.modules.reporter.gpu_providers import GpuUtilizationInfo, NvidiaGpuProvider

    GPU = GpuUtilizationInfo(
        index=0, name="a GPU", uuid="GPU-0", utilization_gpu=40, memory_used=2000, memory_total=8000, processes_pids={}
    )
    NvidiaGpuProvider.is_available = lambda self: True
    NvidiaGpuProvider._initialize = lambda self: True
    NvidiaGpuProvider.get_gpu_utilization = lambda self: [GPU]
