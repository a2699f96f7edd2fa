"""The scenes of every command, played through a door, and what was said there written down.

Server, store and clock are the same in every run, so the same scene gives the same text, byte for byte. What a scene
expects is said to a client that said HELLO. Other doors answer differently, so here expectations are not checked: what
they ask is asked all the same. A scene that cannot go on ends, and what was said until there is kept.
"""

import ast
import inspect
from base64 import b64encode
from typing import Any, Final

import httpx
import msgspec

from tenure.store.embedded.memory import MemoryStore
from tests.http.store import PLAIN, endpoint_for, query_of
from tests.server import test_commands
from tests.server.house import House, serving
from tests.server.talk import FRAMES, LINES, Manner, Message, Talk
from tests.server.test_commands import Scene, Stage

SECRET: Final = bytes(range(32))
DOORS: Final = ("lines", "frames", "flashq", "flashq-frames", "http", "http-msgpack")
MANNERS: Final[dict[str, tuple[Manner, bool]]] = {
    "lines": (LINES, True),
    "frames": (FRAMES, True),
    "flashq": (LINES, False),
    "flashq-frames": (FRAMES, False),
}
ENDED: Final = (AssertionError, KeyError, TypeError, ValueError)


class Ended(AssertionError):
    """The door cannot say what the scene says next."""


class Heard:
    """A connection that writes down what goes over it, in the order in which the test sees it."""

    def __init__(self, talk: Talk, is_greeted: bool) -> None:
        self._talk = talk
        self._is_greeted = is_greeted
        self.manner = talk.manner
        self.said: list[str] = []

    def send(self, command: str, **fields: Any) -> None:
        if not self._is_greeted:
            raise Ended("to a client of the older protocol the server says nothing unasked, and it waits for it here")
        self._send(command, fields)

    def _send(self, command: str, fields: Message) -> None:
        self.said.append("> " + shown({"cmd": command, **fields}))
        self._talk.send(command, **fields)

    async def receive(self) -> Message:
        found = await self._talk.receive()
        self.said.append("< " + shown(found))
        return found

    async def ask(self, command: str, **fields: Any) -> Message:
        self._send(command, fields)
        return await self.receive()

    do = ask

    async def refused(self, command: str, **fields: Any) -> str:
        return str((await self.ask(command, **fields)).get("code"))


class Requested(Heard):
    """The same over HTTP, where each command is a request of its own."""

    def __init__(self, house: House, is_json: bool) -> None:
        self._form = msgspec.json if is_json else msgspec.msgpack
        self._kind = "application/json" if is_json else "application/msgpack"
        self.manner = LINES if is_json else FRAMES
        self.said = []
        self._client = httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{house.server.http_port}", timeout=30, trust_env=False, verify=PLAIN
        )

    def send(self, command: str, **fields: Any) -> None:
        raise Ended("an HTTP request is answered before the next")

    async def receive(self) -> Message:
        raise Ended("nothing comes unasked")

    async def ask(self, command: str, **fields: Any) -> Message:
        if command == "PULL":
            several = await self.ask("PULLB", **fields)
            return {**several, "job": next(iter(several.get("jobs", ())), None)}
        try:
            endpoint = endpoint_for({"cmd": command, **fields})
        except IndexError:
            return {"ok": False, "error": "there is no such endpoint"}
        path = endpoint.path
        for name in endpoint.fields:
            path = path.replace(f"{{{name}}}", str(fields.pop(name)))
        for name, _ in endpoint.fixed:
            fields.pop(name, None)
        headers = {"accept": self._kind, "content-type": self._kind}
        if endpoint.has_body:
            found = await self._client.request(
                endpoint.method, path, content=self._form.encode(fields), headers=headers
            )
        else:
            fields.pop("changes", None)
            found = await self._client.request(endpoint.method, path, params=query_of(fields), headers=headers)
        body: Message = self._form.decode(found.content)
        self.said.append(f"> {endpoint.method} {path} {shown(fields)}")
        self.said.append(f"< {found.status_code} {shown(body)}")
        return {"ok": found.status_code < 300, **body}

    do = ask

    async def close(self) -> None:
        await self._client.aclose()


def shown(value: object) -> str:
    """As JSON. Bytes say that they are, and keys that are numbers too: in JSON both would be text."""
    return msgspec.json.encode(_plain(value), order="sorted").decode()


def _plain(value: object) -> object:
    if isinstance(value, bytes):
        return f"bytes:{b64encode(value).decode()}"
    if isinstance(value, dict):
        return {key if isinstance(key, str) else f"number:{key}": _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


async def play(door: str, scene: Scene) -> list[str]:
    async with serving(MemoryStore(SECRET), http=True, http_port=0) as house:
        if door.startswith("http"):
            heard: Heard = Requested(house, door == "http")
        else:
            manner, hello = MANNERS[door]
            heard = Heard(await house.talk(manner, hello=hello), hello)
        stage = Stage(house, heard)  # type: ignore[arg-type]
        try:
            await scene(stage)
        except ENDED:
            heard.said.append("ended early")
        finally:
            if isinstance(heard, Requested):
                await heard.close()
    return heard.said


class Unexpecting(ast.NodeTransformer):
    """Makes `assert this` only `this`, and whatever goes wrong in it is passed over."""

    def visit_Assert(self, node: ast.Assert) -> ast.stmt:
        handler = ast.ExceptHandler(ast.Name("Exception", ast.Load()), None, [ast.Pass()])
        return ast.Try([ast.Expr(node.test)], [handler], [], [])


def scenes() -> dict[str, Scene]:
    """By the first of the commands that each shows."""
    tree = Unexpecting().visit(ast.parse(inspect.getsource(test_commands)))
    names: dict[str, Any] = {"__name__": __name__}
    exec(compile(ast.fix_missing_locations(tree), "scenes", "exec"), names)
    played: dict[str, Scene] = names["SCENES"]
    found: dict[Scene, str] = {}
    for name, scene in played.items():
        found.setdefault(scene, name)
    return {name: scene for scene, name in found.items()}


async def play_all(door: str) -> list[str]:
    told: list[str] = []
    for name, scene in scenes().items():
        told += [f"# {name}", *await play(door, scene)]
    return told
