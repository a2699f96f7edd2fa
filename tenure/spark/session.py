"""A Spark session: the one given, the one that is there, or a new one on any master.

The pipeline never changes the settings of somebody else's session: `own_session` is a session beside it, on the same
context, with what the pipeline needs set.
"""

import os
import shutil
import sys
from typing import Final

from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from tenure.core.error import InvalidRequest, Unavailable

LOCAL_MASTER: Final = "local[*]"
LOOPBACK: Final = "127.0.0.1"
# Times mean the same everywhere, whatever the zone of the machine; files say of their times that they are UTC.
NEEDED: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
}


def open_session(master: str = "", app_name: str = "tenure", config: dict[str, str] | None = None) -> SparkSession:
    """The session that is there, or a new one on the master; without a master, where spark-submit says, else here."""
    active = SparkSession.getActiveSession()
    if active is not None and not master:
        return active
    is_submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    place = master or ("" if is_submitted else LOCAL_MASTER)
    if not is_submitted and shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        fix = "install openjdk-17-jre-headless, or set JAVA_HOME"
        raise Unavailable(f"Spark needs Java 17 or later, and there is none; {fix}")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(app_name)
    if place:
        builder = builder.master(place)
    if place.startswith("local"):
        # A name that leads to another address than the one of this machine is Spark's most frequent trouble at start.
        os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
        builder = builder.config("spark.driver.host", LOOPBACK).config("spark.driver.bindAddress", LOOPBACK)
        builder = builder.config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "8")
        builder = builder.config("spark.ui.showConsoleProgress", "false")
    for name, value in (NEEDED | (config or {})).items():
        builder = builder.config(name, value)
    try:
        session = builder.getOrCreate()
    except PySparkRuntimeError as error:
        raise Unavailable(f"Spark did not start: {error}; is Java 17 or later installed?") from error
    except Exception as error:
        raise InvalidRequest("master", master, f"Spark did not start there: {str(error).splitlines()[0]}") from error
    session.sparkContext.setLogLevel("ERROR")
    return session


def own_session(session: SparkSession) -> SparkSession:
    """Beside the given one: the same context and tables, settings of its own."""
    own = session.newSession()
    for name, value in NEEDED.items():
        own.conf.set(name, value)
    return own
