"""What Prometheus is told of requests over HTTP."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tenure.server.http.metric import BUCKETS_S, Metrics
from tests.http.conftest import Served


async def test_each_bucket_has_what_took_no_longer(served: Served) -> None:
    metrics = Metrics(served.server.handler)
    for seconds in (BUCKETS_S[0], BUCKETS_S[0] + 0.0001, 100.0):
        metrics.note("PUSH", "ok", seconds)
    [family] = [
        family
        for family in text_string_to_metric_families(metrics.show({}, of_all=True).decode())
        if family.name == "tenure_request_seconds"
    ]
    told = {(sample.name.rpartition("_")[2], sample.labels.get("le", "")): sample.value for sample in family.samples}
    assert all(sample.labels["command"] == "PUSH" for sample in family.samples)
    assert [told["bucket", str(bound)] for bound in BUCKETS_S] == [1.0] + [2.0] * (len(BUCKETS_S) - 1)
    assert told["bucket", "+Inf"] == told["count", ""] == 3.0
    assert told["sum", ""] == pytest.approx(100.0 + 2 * BUCKETS_S[0] + 0.0001)
