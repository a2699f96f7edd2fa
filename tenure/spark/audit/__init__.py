"""The audit: what the contract promises, asked of the events that a store left.

`audit(events)` answers a `Verdict`. `violations(events)` is the same as a table, for those who go on from there.
"""

from tenure.spark.audit.run import audit, violations
from tenure.spark.audit.verdict import Verdict

__all__ = ["Verdict", "audit", "violations"]
