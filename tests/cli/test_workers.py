"""`tenure workers`."""

from pathlib import Path

from tests.cli.rig import Place


def test_workers_are_listed(place: Place) -> None:
    place.enqueue()
    with place.client() as client:
        client.claim("none", worker=f"{place.tenant}-w")
        client.configure("worker", f"{place.tenant}-w", version="1.2", tasks=["send", "resize"])
        lines = place.run("workers", "list", "--json").lines
        text = place.run("workers", "list").out
    [found] = [line for line in lines if line["name"] == f"{place.tenant}-w"]
    assert (found["version"], found["tasks"]) == ("1.2", ["send", "resize"])
    assert found["seen_at"].endswith("Z")
    assert f"{place.tenant}-w" in text
    assert "send, resize" in text


def test_store_without_workers_says_so(tmp_path: Path) -> None:
    place = Place(f"sqlite:///{tmp_path / 'jobs.db'}", "acme")
    place.enqueue()
    assert place.run("workers", "list").out == "no worker has shown a sign of life in the last minute\n"
