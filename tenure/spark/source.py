"""`format("tenure")`: what Spark is told of the source and the sink."""

from pyspark.sql.datasource import DataSource


class TenureSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "tenure"
