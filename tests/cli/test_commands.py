"""What all commands have in common: help, JSON, the nearest name, and that they start quickly."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest
import typer.main
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from tenure.cli.main import app
from tests.cli.rig import ROOT, run

WITHOUT_JSON = {"serve", "worker", "dev"}  # it has --log-format json
HEAVY = (
    "apsw",
    "cryptography",
    "grpc",
    "jwt",
    "obstore",
    "matplotlib",
    "pyarrow",
    "pyspark",
    "starlette",
    "tenure.engine",
    "tenure.server",
    "uvicorn",
    "uvloop",
)


def commands(group: TyperGroup, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], TyperCommand]]:
    for name, command in group.commands.items():
        if isinstance(command, TyperGroup):
            yield from commands(command, (*path, name))
        else:
            assert isinstance(command, TyperCommand)
            yield (*path, name), command


def root() -> TyperGroup:
    found = typer.main.get_command(app)
    assert isinstance(found, TyperGroup)
    return found


ALL = list(commands(root()))
NAMES = [" ".join(path) for path, _ in ALL]


def test_every_command_of_the_plan_is_there() -> None:
    jobs = [f"jobs {name}" for name in ("list", "show", "explain", "cancel", "replay", "promote", "clone", "logs")]
    queues = ("list", "show", "pause", "resume", "limit", "empty", "clean", "obliterate")
    dead = [f"dead {name}" for name in ("list", "groups", "replay", "purge")]
    tenants = [f"tenants {name}" for name in ("list", "show", "set")]
    rest = ["enqueue", "workers list", "events", "top", "doctor", "token", "tokens make", "serve", "backup", "verify"]
    assert {*jobs, *(f"queues {name}" for name in queues), *dead, *tenants, *rest} <= set(NAMES)


@pytest.mark.parametrize(("path", "command"), ALL, ids=NAMES)
def test_command_has_help_json_and_a_word_on_every_option(path: tuple[str, ...], command: TyperCommand) -> None:
    assert command.help
    for parameter in command.params:
        assert isinstance(parameter, (TyperOption, TyperArgument))
        assert parameter.help, (path, parameter.name)
    options = {name for parameter in command.params for name in parameter.opts}
    assert ("--json" in options) != (path[-1] in WITHOUT_JSON)


@pytest.mark.parametrize(("path", "command"), ALL, ids=NAMES)
def test_help_is_shown(path: tuple[str, ...], command: TyperCommand) -> None:
    ended = run(*path, "--help")
    assert ended.code == 0
    for parameter in command.params:
        if isinstance(parameter, TyperOption):
            assert parameter.opts[0] in ended.out


@pytest.mark.parametrize(
    "arguments", [(), ("jobs",), ("queues",), ("dead",), ("workers",), ("tenants",), ("tokens",), ("lake",), ("spark",)]
)
def test_group_without_a_command_shows_its_help(arguments: tuple[str, ...]) -> None:
    ended = run(*arguments)
    assert "Usage: tenure" in ended.out + ended.err


@pytest.mark.parametrize(
    ("arguments", "nearest"),
    [
        (("jbos",), "'jobs'"),
        (("enque",), "'enqueue'"),
        (("jobs", "lst"), "'list'"),
        (("queues", "puase"), "'pause'"),
        (("jobs", "list", "--quee", "x"), "--queue"),
        (("enqueue", "x", "--tennant", "y"), "--tenant"),
        (("top", "--onec"), "--once"),
    ],
)
def test_wrong_name_is_answered_with_the_nearest(arguments: tuple[str, ...], nearest: str) -> None:
    ended = run(*arguments)
    assert (ended.code, nearest in ended.err) == (2, True), ended


def test_help_does_not_wait_for_the_engine_and_the_server() -> None:
    """Seconds differ from machine to machine; what is imported does not."""
    code = (
        "import sys; sys.argv = ['tenure', 'jobs', 'list', '--help']; from tenure.cli.main import main\ntry: main()\n"
    )
    code += f"finally: print('imported', *(name for name in {HEAVY!r} if name in sys.modules))"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    [found] = re.findall(r"^imported.*$", done.stdout, re.MULTILINE)
    assert found == "imported"


def test_every_public_name_is_found_where_it_is_said_to_be() -> None:
    """The package imports its names when they are asked for."""
    import tenure

    assert sorted(tenure._HOMES) == sorted(tenure.__all__)
    for name in tenure.__all__:
        assert getattr(tenure, name).__name__ == name
    assert set(tenure.__all__) <= set(dir(tenure))
    source = (ROOT / "tenure" / "__init__.py").read_text(encoding="utf-8")
    assert all(re.search(rf"\b{name}\b", source.split("_HOMES")[0]) for name in tenure.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        tenure.nonsense  # type: ignore[attr-defined]  # noqa: B018
