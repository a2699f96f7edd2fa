"""`tenure tenants export` and `tenure tenants import`."""

from pathlib import Path

from tests.cli.rig import Place, run


def test_tenant_goes_to_files_and_comes_back(place: Place, tmp_path: Path) -> None:
    place.fail(1)
    place.enqueue(3, queue="mail")
    folder = str(tmp_path / "out")
    said = run("tenants", "export", place.tenant, folder, "--url", place.url)
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith(f"exported 4 jobs of {place.tenant} to {folder}: 1 file, ")
    new = Place(f"sqlite:///{tmp_path}/new.db", "renamed")
    done = run("tenants", "import", "renamed", folder, "--url", new.url)
    assert (done.code, done.err) == (0, "")
    assert "imported 4 jobs as renamed: 4 new, 0 there already, 0 refused" in done.out
    assert "verified 4 jobs in 1 queue" in done.out
    assert new.count("mail") == {"ready": 3, "failed": 1}
    again = run("tenants", "import", "renamed", folder, "--url", new.url, "--json").json
    assert (again["is_repeated"], again["verified"]["same"]) == (True, True)
    assert new.count_all() == 4


def test_difference_after_an_import_is_named(tmp_path: Path) -> None:
    old, new = Place(f"sqlite:///{tmp_path}/old.db", "default"), Place(f"sqlite:///{tmp_path}/new.db", "default")
    [id] = old.enqueue(1, queue="mail")
    folder = str(tmp_path / "out")
    assert run("tenants", "export", "default", folder, "--url", old.url, "--json").json["rows"] == 1
    assert run("tenants", "import", "default", folder, "--url", new.url, "--no-verify").code == 0
    new.run("jobs", "cancel", str(id))
    said = run("tenants", "import", "default", folder, "--url", new.url)
    assert (said.code, "state" in said.out, "2 differences" in said.err) == (1, True, True)
    assert run("tenants", "export", "default", folder, "--url", old.url).code == 2
    assert run("tenants", "import", "default", str(tmp_path), "--url", new.url).code == 2
