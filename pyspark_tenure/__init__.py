"""Spark imports modules of this name by itself, and registers what they call `DefaultSource`: format("tenure")."""

from tenure.spark.source import TenureSource as DefaultSource

__all__ = ["DefaultSource"]
