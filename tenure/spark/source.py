"""`format("tenure")`: what Spark is told of the source and the sink."""

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from tenure.core.error import InvalidRequest
from tenure.spark.option import Reading, read_columns, read_reading, read_writing
from tenure.spark.read import PushingReader, TenureReader
from tenure.spark.sink import TenureStreamWriter
from tenure.spark.stream import TenureStreamReader
from tenure.spark.table import schema_of
from tenure.spark.write import TenureWriter


class TenureSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "tenure"

    def schema(self) -> StructType:
        return from_arrow_schema(schema_of(*read_columns(self.options)))

    def reader(self, schema: StructType) -> DataSourceReader:
        reading = read_reading(self.options, is_stream=False)
        check_schema(reading, schema)
        return PushingReader(reading) if reading.pushdown else TenureReader(reading)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        reading = read_reading(self.options, is_stream=True)
        check_schema(reading, schema)
        return TenureStreamReader(reading)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        refuse_overwrite(overwrite, 'say mode("append")')
        return TenureWriter(read_writing(self.options, is_stream=False), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        refuse_overwrite(overwrite, 'say outputMode("append")')
        return TenureStreamWriter(read_writing(self.options, is_stream=True), schema)


def check_schema(reading: Reading, schema: StructType) -> None:
    """A table has its own schema; one that was given by hand may repeat it and no more."""
    own = schema_of(reading.table, reading.columns)
    if schema.names != own.names or schema != from_arrow_schema(own):
        rule = f"{reading.table} has a schema of its own; leave it out, and name columns by the option columns"
        raise InvalidRequest("schema", schema.names, rule)


def refuse_overwrite(overwrite: bool, fix: str) -> None:
    if overwrite:
        raise InvalidRequest("overwrite", True, f"jobs are added and none is replaced; {fix}")
