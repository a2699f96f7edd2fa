"""Which session the commands work on, and what they say where there can be none."""

import pytest
from pyspark.sql import SparkSession

from tenure.core.error import Unavailable
from tenure.spark.session import NEEDED, open_session, own_session


def test_without_java_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(Unavailable, match="install openjdk-17-jre-headless"):
        open_session("local[1]")


@pytest.mark.spark
def test_the_session_that_is_there_is_taken_and_its_settings_are_left_alone(spark: SparkSession) -> None:
    assert open_session().sparkContext is spark.sparkContext
    zone = "Asia/Kathmandu"
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        own = own_session(spark)
        assert own.sparkContext is spark.sparkContext
        assert all(own.conf.get(name) == value for name, value in NEEDED.items())
        assert spark.conf.get("spark.sql.session.timeZone") == zone
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
