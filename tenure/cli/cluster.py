"""The session of Spark that a command works with: it is started when it is needed, and not before."""

from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

import typer

from tenure.core.error import Unavailable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Master = Annotated[
    str,
    typer.Option(
        metavar="M",
        help="Where Spark runs: local[4], spark://host:7077, yarn; this machine, or what spark-submit says.",
    ),
]


def check_installed(*modules: str) -> None:
    """Spark is half a gigabyte, which not every user of Tenure wants."""
    for module in modules or ("pyspark", "pyarrow"):
        if find_spec(module) is None:
            raise Unavailable(f"this needs {module}, which is not installed; pip install tenure[spark]")


def open_session(master: str) -> "SparkSession":
    check_installed()
    from tenure.spark import session

    return session.open_session(master)
