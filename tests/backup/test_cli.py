"""The command line as people and scripts meet it: a process, its words and its exit code."""

import asyncio
import json
import re
import signal
import subprocess
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from tenure.ops.catalog import list_backups, list_chunks
from tenure.ops.place import open_place
from tests.backup.rig import Wire, command, connect, environment, fill, run_command, s3_environment
from tests.backup.test_verify import forget_size, rewrite_events, store_with_a_checkpoint

pytestmark = pytest.mark.slow  # Each starts processes.


async def test_backup_list_verify_restore(tmp_path: Path) -> None:
    jobs, place, again = tmp_path / "jobs.db", str(tmp_path / "backups"), str(tmp_path / "again.db")
    await fill(jobs, 300)
    made = run_command("backup", f"sqlite:///{jobs}", place)
    assert (made.returncode, made.stderr) == (0, "")
    assert made.stdout.startswith("backed up ")
    assert made.stdout.count("\n") == 1
    listed = run_command("backups", place)
    assert (listed.returncode, listed.stderr, len(listed.stdout.splitlines())) == (0, "", 2)
    assert listed.stdout.startswith("as of (UTC)")
    for target in (place, str(jobs)):
        sound = run_command("verify", target)
        assert (sound.returncode, sound.stderr) == (0, "")
        assert sound.stdout.startswith(f"{target} is sound (")
    restored = run_command("restore", place, again)
    assert (restored.returncode, restored.stderr) == (0, "")
    assert restored.stdout.startswith(f"restored {again} as of ")
    async with connect(Path(again)) as client:
        assert (await client.count())["work"]["ready"] == 300


async def test_json_for_programs_and_a_bucket(bucket: str, s3_port: int, tmp_path: Path) -> None:
    jobs = str(tmp_path / "jobs.db")
    await fill(tmp_path / "jobs.db", 300)
    made = [json.loads(run_command("backup", jobs, bucket, "--keep", "1", "--json").stdout) for _ in range(2)]
    assert made[0]["new_chunks"] == made[0]["chunks"] > 0
    assert (made[1]["new_chunks"], made[1]["pruned"]) == (0, [made[0]["backup"]])
    listed = json.loads(run_command("backups", bucket, "--json").stdout)
    assert [row["backup"] for row in listed["backups"]] == [made[1]["backup"]]
    assert listed["damaged"] == []
    checked = json.loads(run_command("verify", bucket, "--json").stdout)
    assert (checked["is_sound"], checked["backups"], checked["findings"]) == (True, 1, [])
    restored = json.loads(run_command("restore", bucket, str(tmp_path / "again.db"), "--json").stdout)
    assert restored["backup"] == made[1]["backup"]
    assert json.loads(run_command("verify", str(tmp_path / "again.db"), "--json").stdout)["is_sound"]


FAILURES = [
    (("backup", "none.db", "backups"), 1, "none.db cannot be read: No such file or directory; name the store's file"),
    (("backup", "notes.txt", "backups"), 1, "notes.txt: file is not a database; run tenure verify notes.txt, .*"),
    (("backup", "jobs.db", "ftp://user:word@host/x"), 2, r"destination: 'ftp://\.\.\.@host/x' is not accepted; .*"),
    (("backup", "jobs.db", "s3://key:word@bucket"), 2, r"destination: 's3://\.\.\.' is not accepted; .*"),
    (("backup", "jobs.db", "backups", "--every", "1ms"), 2, "every: '1ms' is not accepted; it must be from 1s .*"),
    (("backup", "jobs.db", "backups", "--keep", "0"), 2, "keep: 0 is not accepted; it must be from 1 to .*"),
    (("restore", "empty", "again.db"), 1, ".*empty holds no backup; make one with tenure backup, .*"),
    (("restore", "empty", "again.db", "--at", "noon"), 2, "at: 'noon' is not accepted; it must be a time such as .*"),
    (("verify", "nowhere"), 1, "nowhere is not a folder; .*"),
]


@pytest.mark.parametrize(("arguments", "code", "sentence"), FAILURES)
async def test_failure_is_one_sentence_with_its_fix(
    arguments: tuple[str, ...], code: int, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.txt").write_text("not a database" * 100)
    await fill(tmp_path / "jobs.db", 1)
    ended = run_command(*arguments)
    assert (ended.returncode, ended.stdout) == (code, "")
    assert re.fullmatch(f"error: {sentence}\n", ended.stderr), ended.stderr
    assert "word" not in ended.stderr


def test_wrong_usage_is_2() -> None:
    for arguments in (("nothing",), ("backup", "a", "b", "--keep", "many")):
        ended = run_command(*arguments)
        assert ended.returncode == 2
        assert "Usage: tenure" in ended.stderr
        assert "Traceback" not in ended.stderr


async def test_findings_are_named_and_exit_with_1(tmp_path: Path) -> None:
    place = tmp_path / "backups"
    await fill(tmp_path / "jobs.db", 300)
    run_command("backup", str(tmp_path / "jobs.db"), str(place))
    chunk = sorted((place / "chunks").iterdir())[0]
    chunk.write_bytes(b"damage")
    ended = run_command("verify", str(place))
    assert (ended.returncode, ended.stderr) == (1, "")
    assert f"chunks/{chunk.name} is damaged: " in ended.stdout
    assert ended.stdout.splitlines()[-1].startswith(f"{place}: 1 finding (")
    found = json.loads(run_command("verify", str(place), "--json").stdout)
    assert (found["is_sound"], len(found["findings"])) == (False, 1)
    [manifest] = (place / "manifests").iterdir()
    manifest.write_bytes(b"{}")
    listed = run_command("backups", str(place))
    assert listed.returncode == 1
    assert manifest.name in listed.stderr


async def test_verify_says_restore_only_of_a_damaged_file(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    await store_with_a_checkpoint(path)
    rewrite_events(path, "events", forget_size)
    odd = run_command("verify", str(path))
    assert (odd.returncode, odd.stderr) == (1, "")
    assert odd.stdout.splitlines()[-1].startswith(f"{path} is not damaged: ")
    assert "from a backup" not in odd.stdout
    with closing(apsw.Connection(str(path))) as db:
        db.execute("UPDATE events SET events = x''")
    damaged = run_command("verify", str(path))
    assert damaged.returncode == 1
    assert damaged.stdout.splitlines()[-1].startswith(f"{path} is damaged: restore it from a backup")
    assert json.loads(run_command("verify", str(path), "--json").stdout)["is_damaged"] is True


def test_keys_are_not_shown_when_a_bucket_cannot_be_used(s3_port: int) -> None:
    ended = run_command("backups", "s3://no-bucket/x", **s3_environment(s3_port))
    assert ended.returncode == 1
    assert "s3://no-bucket/x cannot be used" in ended.stderr
    assert "not-to-be-shown" not in ended.stderr
    assert ended.stderr.count("\n") == 1


async def test_backup_that_is_interrupted_ends_and_is_none(bucket: str, s3_port: int, tmp_path: Path) -> None:
    """The connection is cut when it is told to stop: what was being sent is sent to its end, and nothing else begun."""
    await fill(tmp_path / "jobs.db", 6_000)
    wire = Wire(s3_port, 500_000)
    variables = environment(AWS_ENDPOINT=f"http://127.0.0.1:{wire.port}")
    arguments = command("backup", str(tmp_path / "jobs.db"), bucket)
    with subprocess.Popen(arguments, env=variables, stderr=subprocess.PIPE, text=True) as run:
        try:
            assert await asyncio.to_thread(wire.is_cut.wait, 30)
            run.send_signal(signal.SIGINT)
            wire.mend()
            _, said = await asyncio.to_thread(run.communicate, timeout=30)
        finally:
            run.kill()
            wire.close()
    assert (run.returncode, said) == (130, "error: the backup was stopped; what was sent is used by the next one\n")
    place = open_place(bucket)
    assert list_backups(place) == []
    assert list_chunks(place)
    assert not (tmp_path / "jobs.db-backup").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_schedule_goes_on_after_a_failure_until_it_is_told_to_stop(number: int, tmp_path: Path) -> None:
    """The store is not there at first; then it is."""
    jobs, place = tmp_path / "jobs.db", tmp_path / "backups"
    arguments = command("backup", str(jobs), str(place), "--every", "1s", "--json")
    pipe = subprocess.PIPE
    with subprocess.Popen(arguments, env=environment(), stdout=pipe, stderr=pipe, text=True) as schedule:
        try:
            assert schedule.stderr is not None
            assert schedule.stdout is not None
            assert "cannot be read: No such file or directory" in schedule.stderr.readline()
            await fill(jobs, 10)
            made = [json.loads(schedule.stdout.readline()) for _ in range(2)]
            assert made[1]["at"] - made[0]["at"] >= 500
            schedule.send_signal(number)
            assert schedule.wait(timeout=30) == 0
        finally:
            schedule.kill()
    assert len(list((place / "manifests").iterdir())) >= 2
