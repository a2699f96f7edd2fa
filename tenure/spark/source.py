"""`format("tenure")`: what Spark is told of the source and the sink."""

import msgspec
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from tenure.core import bound
from tenure.core.error import InvalidRequest
from tenure.spark.brief import brief
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

    @brief
    def schema(self) -> StructType:
        return from_arrow_schema(schema_of(*read_columns(self.options)))

    @brief
    def reader(self, schema: StructType) -> DataSourceReader:
        reading = with_schema(read_reading(self.options, is_stream=False), schema)
        return PushingReader(reading) if reading.pushdown == "true" else TenureReader(reading)

    @brief
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return TenureStreamReader(with_schema(read_reading(self.options, is_stream=True), schema))

    @brief
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        refuse_overwrite(overwrite, 'say mode("append")')
        return TenureWriter(read_writing(self.options, is_stream=False), schema)

    @brief
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        refuse_overwrite(overwrite, 'say outputMode("append")')
        return TenureStreamWriter(read_writing(self.options, is_stream=True), schema)


def with_schema(reading: Reading, schema: StructType) -> Reading:
    """A schema that was given by hand names some columns of the table, in any order, as the option columns does."""
    whole = from_arrow_schema(schema_of(reading.table, ()))
    for field in schema.fields:
        if field.name not in whole.names:
            rule = f"{reading.table} has no such column; {bound.nearest(field.name, whole.names)}"
            raise InvalidRequest("schema", field.name, rule)
        kind = whole[field.name].dataType
        if field.dataType != kind:
            rule = f"{field.name} is {kind.simpleString()} in {reading.table}"
            raise InvalidRequest("schema", field.dataType.simpleString(), rule)
    if reading.columns and tuple(schema.names) != reading.columns:
        raise InvalidRequest("schema", schema.names, "the option columns says otherwise; leave one of them out")
    columns = () if schema.names == whole.names else tuple(schema.names)
    loose = tuple(field.name for field in schema.fields if field.nullable and not whole[field.name].nullable)
    return msgspec.structs.replace(reading, columns=columns, loose=loose)


def refuse_overwrite(overwrite: bool, fix: str) -> None:
    if overwrite:
        raise InvalidRequest("overwrite", True, f"jobs are added and none is replaced; {fix}")
