"""One Spark session for the whole run: it takes ten seconds to start. One server for the tests that do not stop it."""

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.rig import TENANTS, Make, Served, Shop


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.fail("Spark needs Java 17 or later: run make java, or install openjdk-17-jre-headless")
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)  # of the workers: the build under test
    place: Path = tmp_path_factory.mktemp("spark")
    session = (
        SparkSession.builder.master("local[2]")
        .appName("tenure-tests")
        .config("spark.ui.enabled", "false")
        # For a few rows, compiling costs more than it gains. The programs that tests start leave it to Spark.
        .config("spark.sql.codegen.wholeStage", "false")
        .config("spark.sql.codegen.factoryMode", "NO_CODEGEN")
        .config("spark.sql.adaptive.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.default.parallelism", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "2g")
        .config("spark.local.dir", str(place / "local"))
        .config("spark.sql.warehouse.dir", str(place / "warehouse"))
        .config(
            "spark.driver.extraJavaOptions",
            f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Dderby.system.home={place} -Duser.timezone=UTC",
        )
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    served = Served(tmp_path_factory.mktemp("server")).start()
    yield served
    served.stop()


@pytest.fixture
def shop(server: Served) -> Shop:
    """A tenant of its own for each test."""
    return Shop(server.url, f"shop-{next(TENANTS)}")


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Make]:
    """Starts servers that the test may stop."""
    made: list[Served] = []

    def start(*arguments: str, **more: str) -> Served:
        folder = tmp_path / f"server-{len(made)}"
        folder.mkdir()
        made.append(Served(folder, *arguments, **more))
        return made[-1].start()

    yield start
    for served in made:
        served.stop()
