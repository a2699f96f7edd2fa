"""`tenure serve` as a process: how it starts, what it refuses, how it stops."""

import signal
import stat
from pathlib import Path

import pytest

import tenure
from tenure.server.auth import hash_token
from tenure.server.grpc import tenure_pb2 as pb
from tests.grpc.rig import channel
from tests.server.process import Process, running, start
from tests.server.talk import FRAMES, JSON_FRAMES, LINES, MANNERS, Manner, connect, talking

pytestmark = pytest.mark.slow


async def refused(*arguments: str, folder: Path, environment: dict[str, str] | None = None) -> str:
    """What a server that must not start says."""
    process = await start(*arguments, folder=folder, environment=environment)
    code = await process.stop() if process.process.returncode is not None else await _exit_code(process)
    assert code == 2, process.output
    return process.output


async def _exit_code(process: Process) -> int:
    rest, _ = await process.process.communicate()
    process.said += rest.decode().splitlines()
    return int(process.process.returncode or 0)


@pytest.mark.parametrize("manner", MANNERS, ids=lambda manner: manner.name)
async def test_job_goes_through_a_server_of_its_own(manner: Manner, tmp_path: Path) -> None:
    async with running(tmp_path) as server, talking(server.address, manner) as talk:
        await talk.do("HELLO", version=1)
        id = (await talk.do("PUSH", queue="mail", data={"to": "ü"}))["id"]
        job = (await talk.do("PULL", queue="mail", reqId=7))["job"]
        assert (job["id"], job["data"]) == (id, {"to": "ü"})
        assert (await talk.do("ACK", id=id, result=[1]))["state"] == "completed"
        assert (await talk.do("GETRESULT", id=id))["result"] == [1]


async def test_sigterm_ends_waits_and_loses_nothing(tmp_path: Path) -> None:
    async with running(tmp_path) as server:
        waiting = [await connect(server.address, manner) for manner in MANNERS]
        for talk in waiting:
            talk.send("PULL", queue="nothing", reqId="wait")
            assert (await talk.do("PING", reqId="p"))["reqId"] == "p"
        producer = await connect(server.address, FRAMES)
        for n in range(2_000):
            producer.send("PUSH", queue="mail", data=n, reqId=n)
        ids = [(await producer.receive())["id"] for _ in range(500)]
        server.process.send_signal(signal.SIGTERM)
        rest = [await producer.receive() for _ in range(1_500)]
        ids += [answer["id"] for answer in rest if answer["ok"]]
        assert {answer["code"] for answer in rest if not answer["ok"]} <= {"Unavailable"}
        for talk in waiting:
            answer = await talk.receive()
            assert (answer["reqId"], answer["code"]) == ("wait", "Unavailable")
            assert await talk.ended() == b""
        assert await server.ended() == 0
        for talk in (*waiting, producer):
            await talk.close()
    async with running(tmp_path) as server, talking(server.address) as talk:
        assert (await talk.do("COUNT", queue="mail"))["count"] == len(ids)
        found = (await talk.do("GETJOBSBATCH", ids=ids))["jobs"]
        assert None not in found


async def test_sigint_stops_too_and_the_socket_goes(tmp_path: Path) -> None:
    async with running(tmp_path, "--unix", "socket") as server:
        assert (tmp_path / "socket").exists()
        assert await server.stop(signal.SIGINT) == 0
        assert not (tmp_path / "socket").exists()


async def test_unix_socket_is_for_this_user_only(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    async with running(tmp_path, "--unix", str(path)), talking(str(path), LINES) as talk:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert await talk.do("PING") == {"ok": True}
        async with tenure.connect(f"tenure+unix://{path}") as client:
            assert (await client.enqueue(b"{}", queue="mail")).id > 0


async def test_socket_that_a_killed_server_left_is_replaced_and_nothing_else_is(tmp_path: Path) -> None:
    async with running(tmp_path, "--unix", "socket") as server:
        assert await server.stop(signal.SIGKILL) == -signal.SIGKILL
    assert (tmp_path / "socket").exists()
    async with running(tmp_path, "--unix", "socket"), talking(str(tmp_path / "socket")) as talk:
        assert await talk.do("PING") == {"ok": True}
        other = await start("--no-tcp", "--unix", "socket", folder=tmp_path, store="memory://")
        assert await _exit_code(other) == 1
    (tmp_path / "precious").write_text("a letter")
    process = await start("--no-tcp", "--unix", "precious", folder=tmp_path)
    assert await _exit_code(process) == 1
    assert (tmp_path / "precious").read_text() == "a letter"


async def test_grpc_is_served_too(tmp_path: Path) -> None:
    async with running(tmp_path, "--no-tcp", "--no-http") as server:
        assert "for gRPC" in server.output
        async with channel(server.port) as stub:
            batch = pb.Batch(jobs=[pb.NewJob(payload=b"1")])
            assert (await stub.Enqueue(pb.EnqueueRequest(batch=batch))).outcomes[0].state == "ready"
        assert await server.stop() == 0


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org"])
async def test_public_address_without_tokens_is_refused(host: str, tmp_path: Path) -> None:
    said = await refused("--host", host, folder=tmp_path)
    assert "authentication" in said
    assert not (tmp_path / "jobs.db").exists()


@pytest.mark.parametrize(
    ("file", "word"),
    [
        ("[server]\ntcp_prt = 1\n", "tcp_port"),
        ("[server]\ntcp_port = 'x'\n", "tcp_port"),
        ("[server\n", "cannot be read"),
        ("[server]\nlog_level = 'loud'\n", "log_level"),
        ("[server]\ntcp = false\nhttp = false\ngrpc = false\n", "door"),
        ("[server.tokens.a]\nsha256 = 'short'\n", "SHA-256"),
        (f"[server.tokens.a]\nsha256 = '{'0' * 64}'\nroles = ['king']\n", "producer"),
        (f"[server.tokens.'a/b']\nsha256 = '{'0' * 64}'\n", "a name has"),
        (f"[server.tokens.a]\nsha256 = '{'0' * 64}'\n[server.tokens.b]\nsha256 = '{'0' * 64}'\n", "the same"),
        (f"[server.tokens.a]\nsha256 = '{'0' * 64}'\ntenants = ['a', '*']\n", "alone"),
        (f"[server.tokens.a]\nsha256 = '{'0' * 64}'\ntenants = ['a*']\n", "alone"),
        (f"[server.tokens.a]\nsha256 = '{'0' * 64}'\nqueues = ['ma?l']\n", "a prefix ending in *"),
        (f"[server.tokens.a]\nsha256 = '{'0' * 64}'\nqueues = ['mail', '[ab]c']\n", "a prefix ending in *"),
    ],
)
async def test_wrong_setting_is_refused_and_named(file: str, word: str, tmp_path: Path) -> None:
    (tmp_path / "tenure.toml").write_text(file)
    assert word in await refused(folder=tmp_path)


async def test_flag_wins_over_environment_over_file_over_default(tmp_path: Path) -> None:
    (tmp_path / "tenure.toml").write_text("[server]\ntcp_port = 1\nlog_level = 'error'\nstop_s = 7\n")
    environment = {"TENURE_TCP_PORT": "2", "TENURE_LOG_LEVEL": "warning"}
    async with running(tmp_path, environment=environment) as server:
        rows = [line.replace("│", "|").split("|") for line in server.said]
        table = {row[1].strip(): (row[2].strip(), row[3].strip()) for row in rows if len(row) >= 4}
        assert table["tcp_port"] == ("0", "flag")
        assert table["log_level"] == ("warning", "environment")
        assert table["stop_s"] == ("7.0", "tenure.toml")
        assert table["host"] == ("127.0.0.1", "default")
        assert table["store"] == ("sqlite:///jobs.db", "flag")


async def test_named_file_has_to_be_there(tmp_path: Path) -> None:
    assert "missing.toml" in await refused("--config", "missing.toml", folder=tmp_path)


async def test_tokens_of_the_file_are_asked_for(tmp_path: Path) -> None:
    good = f"[server.tokens.shop]\nsha256 = '{hash_token('good')}'\ntenants = ['acme']\n"
    (tmp_path / "tenure.toml").write_text(good)
    async with running(tmp_path, "--host", "0.0.0.0") as server:
        assert "good" not in server.output
        assert hash_token("good") not in server.output
        for manner in (LINES, FRAMES, JSON_FRAMES):
            async with talking(server.address, manner) as talk:
                assert await talk.do("PING") == {"ok": True}
                for command, fields in (("PUSH", {"queue": "mail", "data": 1}), ("SUBSCRIBE", {}), ("STATS", {})):
                    assert await talk.refused(command, **fields) == "Unauthenticated"
                for wrong in ("", "goo", "good ", "GOOD", hash_token("good"), "x" * 10_000):
                    assert await talk.refused("AUTH", token=wrong) == "Unauthenticated"
                assert await talk.refused("STATS") == "Unauthenticated"
                assert (await talk.do("AUTH", token="good"))["principal"] == "shop"
                id = (await talk.do("PUSH", queue="mail", data=1))["id"]
                assert (await talk.do("GETJOB", id=id))["job"]["tenant"] == "acme"
        async with tenure.connect(f"tenure://127.0.0.1:{server.port}", token="good", tenant="acme") as client:
            assert (await client.enqueue(b"1", queue="mail")).id > 0
