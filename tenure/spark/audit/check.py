"""What a check is, and the shape in which all of them tell what they found."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

if TYPE_CHECKING:
    from tenure.spark.audit.history import History

# Of every violation. `store` tells histories apart that are audited together; what is about no job has null there.
FOUND: Final = ("store", "check", "job", "job_seq", "seq", "what")
PLACE: Final = ("store", "job", "job_seq", "seq")


@dataclass(frozen=True)
class Check:
    """One thing that must hold."""

    invariant: str  # as in section 21 of docs/semantics.md
    name: str
    sentence: str  # what must hold, as it is told to people


@dataclass(frozen=True)
class Rule:
    """A check that one row of the steps shows: the row breaks it when `broken`, and `what` says how."""

    check: Check
    broken: Callable[[], Column]
    what: Callable[[], Column]


@dataclass(frozen=True)
class Family:
    """Checks that are answered by one query: rows with a place and the list `findings`, in which nulls mean nothing."""

    checks: tuple[Check, ...]
    find: "Callable[[History], DataFrame]"

    def violations(self, history: "History") -> DataFrame:
        rows = self.find(history).withColumn("finding", fn.explode("findings"))
        rows = rows.where(fn.col("finding").isNotNull())
        names = {name: fn.col(name) for name in PLACE} | {
            "check": fn.col("finding.check"),
            "what": fn.col("finding.what"),
        }
        return rows.select(*[names[name].alias(name) for name in FOUND])


def told(check: Check | Column, broken: Column, *what: Column | str) -> Column:
    """The finding that a row is, or null. The check may be a column that names it."""
    name = fn.lit(check.name) if isinstance(check, Check) else check
    return fn.when(broken, fn.struct(name.alias("check"), text(*what).alias("what")))


def text(*parts: Column | str) -> Column:
    """Words and values in one sentence."""
    values = [
        fn.lit(part) if isinstance(part, str) else fn.coalesce(part.cast("string"), fn.lit("none")) for part in parts
    ]
    return fn.concat(*values)
