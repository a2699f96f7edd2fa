"""The demo runs as the documentation says."""

import pytest

from tenure import demo

PARTS = ("fair claims:", "leases:", "cancel wins:", "explain:", "events:")


@pytest.mark.slow  # One of its leases has to run out.
async def test_demo_shows_its_five_parts(capsys: pytest.CaptureFixture[str]) -> None:
    await demo.main()
    shown = capsys.readouterr().out
    assert shown.startswith("Tenure on memory://")
    assert [line.split(":")[0] + ":" for line in shown.splitlines() if line.startswith(PARTS)] == list(PARTS)
    assert "of the first 60 jobs served: acme 20, globex 20, initech 20" in shown
    assert "360 jobs claimed and completed" in shown
    assert "attempt 2 went to another worker" in shown
    assert "the stalled worker hears: the lease on job" in shown
    assert "was cancelled; its result is not taken" in shown
    assert "held by limit: limit key api:stripe has no room" in shown
