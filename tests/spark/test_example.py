"""The example runs as it says."""

import pytest
from pyspark.sql import SparkSession

from examples import embeddings_on_spark as example

pytestmark = pytest.mark.spark


def test_documents_become_vectors(spark: SparkSession) -> None:
    with example.server() as url:
        said = example.main(spark, url)
    assert said == [
        "199 of 200 documents have a vector",
        "199 vectors by 2 tasks, 1 failed",
        "dead letters: 1 x Permanent: an empty text has no meaning",
        "nearest to 'a tenant outlives a retry': doc-169, doc-173, doc-69",
    ]
