"""Scripted players: the fixed anchors that progress is measured against."""
