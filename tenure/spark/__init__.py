"""Tenure on Spark: a source and a sink, the pipeline from events to metrics, the audit, bulk operations, workers."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tenure.spark.load import load_report
    from tenure.spark.partition import Part
    from tenure.spark.workers import Report, process

# Where each name is. It is imported when it is first asked for: Spark imports this package in every process to look for
# sources, and most of those run no handler.
_HOMES = {
    "Part": "tenure.spark.partition",
    "Report": "tenure.spark.workers",
    "load_report": "tenure.spark.load",
    "process": "tenure.spark.workers",
}

__all__ = ["Part", "Report", "load_report", "process"]

if not TYPE_CHECKING:

    def __getattr__(name):
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = globals()[name] = getattr(import_module(home), name)
        return found
