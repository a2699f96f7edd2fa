"""`tenure tenants`."""

import pytest

from tests.cli.rig import Place


def test_tenant_is_set_shown_and_reset(place: Place) -> None:
    place.enqueue(3, queue="mail")
    name = place.tenant
    said = place.run(
        *(
            "tenants",
            "set",
            name,
            "--weight",
            "3",
            "--jobs-max",
            "10000",
            "--bytes-max",
            "1000000",
            "--running-max",
            "5",
        ),
        *(
            "--queues-max",
            "7",
            "--rate",
            "100/s",
            "--enqueue-rate",
            "6/m",
            "--keep-completed",
            "1h",
            "--keep-failed",
            "7d",
        ),
    )
    assert said.out.startswith(
        f"{name}: weight 3, jobs_max 10,000, bytes_max 1.0 MB, running_max 5, queues_max 7, rate 100/s"
    )
    found = place.run("tenants", "show", name, "--json").json
    assert (found["tenant"], found["queues"], found["counts"]["ready"]) == (name, 1, 3)
    assert found["settings"]["rate"] == {"tokens": 100, "period_ms": 1_000, "burst": 100}
    assert (found["settings"]["keep_completed_ms"], found["settings"]["keep_failed_ms"]) == (3_600_000, 604_800_000)
    assert "7 d 0 h" in place.run("tenants", "show", name).out
    [listed] = [line for line in place.run("tenants", "list", "--json").lines if line["tenant"] == name]
    assert listed["settings"] == found["settings"]
    assert f"{name}" in place.run("tenants", "list").out
    settings = place.run("tenants", "set", name, "--reset", "jobs-max", "--reset", "rate", "--json").json["settings"]
    assert settings.keys() == found["settings"].keys() - {"jobs_max", "rate"}


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("set", "acme"), "say what to set"),
        (("set", "acme", "--weight", "0"), "weight"),
        (("set", "acme", "--weight", "heavy"), "--weight"),
        (("set", "acme", "--jobs-max", "-1"), "jobs_max"),
        (("set", "acme", "--rate", "fast"), "100/s"),
        (("set", "acme", "--keep-failed", "long"), "keep_failed"),
        (("set", "acme", "--reset", "wieght"), "did you mean weight?"),
        (("set", "a/b", "--weight", "1"), "tenant"),
        (("set", "*", "--weight", "1"), "name one"),
        (("show", "*"), "name one"),
        (("show",), "TENANT"),
    ],
)
def test_wrong_use_of_tenants_is_named(arguments: tuple[str, ...], word: str, served: Place) -> None:
    served.enqueue()
    assert word in served.run("tenants", *arguments, code=2).err
