"""Roles as the page shows them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from grpo_core.types import RoleMeasures, role_label
from services.reports.colors import line_color


def roles_of(measured: RoleMeasures, found: Sequence[str]) -> dict[str, Any]:
    """Return the roles with labels and colours, those of the world first and then others that were ``found``."""
    roles = [*measured.roles, *(role for role in found if role not in measured.roles)]
    colors = {role: line_color(role, roles) or "@ALL" for role in roles}
    return {
        "role_name": measured.role_name,
        "roles": [
            {"name": role, "label": role_label(role), "color": f"var(--line-{colors[role].removeprefix('@')})"}
            for role in roles
        ],
    }
