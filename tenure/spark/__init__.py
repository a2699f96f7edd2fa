"""Tenure on Spark: a source and a sink, the pipeline from events to metrics, the audit, bulk operations."""
