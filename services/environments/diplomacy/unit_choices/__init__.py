"""Diplomacy for small networks and other libraries: one choice a unit, numbered actions under a mask, fixed vectors."""
