"""Policy weights as checked safetensors bytes."""

from services.weights.payload import Payload, WeightsError, pack, seal, seal_roles, unpack, verify

__all__ = ["Payload", "WeightsError", "pack", "seal", "seal_roles", "unpack", "verify"]
