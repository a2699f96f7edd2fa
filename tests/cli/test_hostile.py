"""Names, payloads, errors and log lines of others are text on the terminal, and nothing else."""

import ast
import json
from pathlib import Path

import pytest

import tenure
from tenure.core.printable import printable, printable_json, printable_line
from tests.cli.rig import ROOT, Ended, Place, run
from tests.cli.test_commands import NAMES

# Title of the window, cursor, an 8-bit introducer, backspace, carriage return, another direction, no width, a link.
PARTS = (
    "\x1b]0;owned\x07",
    "\x1b[2J\x1b[1;1H",
    "\x9b31m",
    "\x08\x7f",
    "a\rb",
    "\u202egpj.exe\u2066",
    "\u200b\u2028",
    "\t",
)
HOSTILE = "".join(PARTS) + "[link=http://evil.example]x[/link][red]:skull:\u3000\U000e0041"
LINE = HOSTILE + "\n2026-01-01T00:00:00.000Z  forged"
PAYLOAD = json.dumps({"a": HOSTILE}, ensure_ascii=False).encode()
SPACES = frozenset("\u3000\xa0")
OPENERS = ("\x1b]", "\x1b[2J", "\x1b[1;1H")  # none of them is written by rich for colours
DATA_OF_OTHERS = {
    "events": ("--limit", "1000"),
    "top": ("--once", "--interval", "100ms"),
    "doctor": (),
    "jobs list": (),
    "jobs show": ("@failed",),
    "jobs explain": ("@failed",),
    "jobs logs": ("@failed",),
    "jobs cancel": ("@ready", "no-such-\x1b[2J\u202e"),
    "jobs replay": ("@replayed",),
    "jobs promote": ("--worker", HOSTILE, "--error", HOSTILE, "--yes"),
    "jobs clone": ("@failed",),
    "queues list": (),
    "queues show": ("mail",),
    "queues pause": ("mail",),
    "queues resume": ("mail",),
    "queues limit": ("mail", "--concurrency", "5"),
    "queues empty": ("empty", "--yes"),
    "queues clean": ("mail", "--state", "completed", "--yes"),
    "queues obliterate": ("other", "--yes"),
    "dead list": (),
    "dead groups": (),
    "dead replay": ("--error", HOSTILE, "--yes"),
    "dead purge": ("--error", HOSTILE, "--queue", "nowhere", "--yes"),
    "workers list": (),
    "workers stop": ("no-such-\x1b[2J\u202e",),
    "tenants list": (),
    "tenants show": ("@tenant",),
    "tenants set": ("@tenant", "--weight", "2"),
    "tenants export": ("@tenant", "@folder"),
    "enqueue": ("send", "1", "--custom-id", HOSTILE),
}
# They work on whole files, lakes and clusters, and go through the same screen: see below.
OTHERS = {
    "worker",
    "dev",
    "serve",
    "bench",
    "token",
    "backup",
    "backups",
    "restore",
    "verify",
    "copy",
    "tenants import",
}


class Planted:
    def __init__(self, place: Place, folder: Path) -> None:
        self.place = place
        with place.client() as client:
            common = {"queue": "mail", "task": "send", "tags": [HOSTILE[:60]], "metadata": {"k" + HOSTILE: HOSTILE}}
            self.failed = self._fail(client, "a" + HOSTILE, **common)
            self.replayed = self._fail(client, "b" + HOSTILE, **common)
            self.ready = client.enqueue(PAYLOAD, **common).id
            client.enqueue(PAYLOAD, queue="other", task="send")
            client.enqueue(PAYLOAD, queue="empty", task="send", group="g" + HOSTILE, limit_keys=["key" + HOSTILE])
            client.configure("key", "key" + HOSTILE, concurrency=1)
            [running] = client.claim("mail", n=1, worker="w" + HOSTILE)
            client.progress(running, 50, HOSTILE)
        self.words = {
            "@failed": str(self.failed),
            "@replayed": str(self.replayed),
            "@ready": str(self.ready),
            "@tenant": place.tenant,
            "@folder": str(folder / "export"),
        }

    def _fail(self, client: tenure.SyncClient, custom_id: str, **fields: object) -> int:
        client.enqueue(PAYLOAD, custom_id=custom_id, max_attempts=1, **fields)
        [job] = client.claim("mail", n=1, worker="w" + HOSTILE)
        client.log(job, LINE)
        client.fail(job, "Type" + HOSTILE, HOSTILE, trace=f"Traceback\n{LINE}")
        return job.id

    def run(self, command: str, *more: str, env: dict[str, str] | None = None) -> Ended:
        given = [self.words.get(word, word) for word in DATA_OF_OTHERS[command]]
        whose = () if command.startswith("tenants") else ("--tenant", self.place.tenant)
        return run(*command.split(), *given, "--url", self.place.url, *whose, *more, env=env)


@pytest.fixture
def planted(tmp_path: Path) -> Planted:
    return Planted(Place(f"sqlite:///{tmp_path / 'jobs.db'}", "acme"), tmp_path)


def unseen(text: str) -> list[str]:
    return [char for char in text if not char.isprintable() and char != "\n" and char not in SPACES]


@pytest.mark.parametrize("command", DATA_OF_OTHERS)
def test_no_control_character_but_a_newline_is_written(command: str, planted: Planted) -> None:
    for more in ((), ("--json",)):
        ended = planted.run(command, *more)
        assert "unexpected" not in ended.err
        assert "Usage:" not in ended.err, ended
        assert unseen(ended.out + ended.err) == []
        if more:
            for line in ended.out.splitlines():
                json.loads(line)


@pytest.mark.parametrize("command", DATA_OF_OTHERS)
def test_on_a_terminal_nothing_is_steered_but_colours(command: str, planted: Planted) -> None:
    ended = planted.run(command, env={"FORCE_COLOR": "1", "TERM": "xterm-256color", "COLUMNS": "3000"})
    said = ended.out + ended.err
    for opener in OPENERS:
        assert opener not in said
    assert "a\rb" not in said  # progress bars return the carriage themselves
    assert [char for char in unseen(said) if char not in "\x1b\r"] == []


def test_what_was_written_is_still_to_be_seen(planted: Planted) -> None:
    shown = planted.run("jobs show").out
    for word in (
        r"\x1b]0;owned\x07",
        r"\x9b31m",
        r"\u202egpj.exe",
        "[link=http://evil.example]x[/link]",
        "[red]:skull:",
    ):
        assert word in shown
    found = planted.run("jobs show", "--json").json
    assert found["payload"] == {"a": HOSTILE}
    assert found["error"]["message"] == HOSTILE
    assert found["custom_id"] == "a" + HOSTILE


def test_log_line_of_a_job_forges_no_other(planted: Planted) -> None:
    assert len(planted.run("jobs logs").out.splitlines()) == 1


def test_every_command_was_thought_of() -> None:
    rest = {name for name in NAMES if name.split()[0] not in ("lake", "spark", "tokens")}
    assert rest == set(DATA_OF_OTHERS) | OTHERS


def test_commands_write_through_the_screen_alone() -> None:
    """Whoever adds a command cannot forget it."""
    found = []
    for path in sorted((ROOT / "tenure" / "cli").glob("*.py")):
        if path.name == "screen.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            name = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
            if name in ("print", "Console", "rich.print", "typer.echo", "typer.secho", "click.echo") or (
                name.startswith(("sys.stdout.", "sys.stderr.")) and name.endswith(("write", "writelines"))
            ):
                found.append(f"{path.name}:{node.lineno} {name}")  # type: ignore[attr-defined]
    assert found == []


def test_escapes() -> None:
    assert printable("a\x1b[2J\nb\t\r") == "a\\x1b[2J\nb\\t\\r"
    assert printable_line("a\nb") == "a\\nb"
    assert printable("é ñ 漢字 \u3000 🙂") == "é ñ 漢字 \u3000 🙂"
    assert printable("\ud800\u202e\U000e0041") == "\\ud800\\u202e\\U000e0041"
    text = '{"a":"\u202e\x7f\x9b\U000e0041"}'
    assert printable_json(text).isprintable()
    assert json.loads(printable_json(text)) == json.loads(text)
    assert printable(printable(HOSTILE)) == printable(HOSTILE)
