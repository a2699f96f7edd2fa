"""Tenure on Spark: a source and a sink, the pipeline from events to metrics, the audit, bulk operations."""

from tenure.spark.load import load_report

__all__ = ["load_report"]
