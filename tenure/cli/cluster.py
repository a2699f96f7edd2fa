"""The session of Spark that a command works with: it is started when it is needed, and not before."""

import os
import shutil
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from tenure.core.error import Unavailable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Master = Annotated[
    str,
    typer.Option(
        metavar="MASTER",
        help="Where Spark runs, as in local[4] or spark://host:7077. By default as spark-submit says, else all cores of"
        " this machine.",
        show_default=False,
    ),
]


def open_session(master: str) -> "SparkSession":
    """The session that is there, or a new one."""
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise Unavailable("pyspark is not installed; install tenure[spark]") from None

    active = SparkSession.getActiveSession()
    if active is not None and not master:
        return active
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        raise Unavailable("Spark needs Java 17 or later; install openjdk-17-jre-headless, or set JAVA_HOME")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("tenure").config("spark.sql.session.timeZone", "UTC")
    if master or "PYSPARK_GATEWAY_PORT" not in os.environ:
        builder = builder.master(master or "local[*]")
    if not master or master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        builder = builder.config("spark.ui.enabled", "false").config("spark.ui.showConsoleProgress", "false")
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session
