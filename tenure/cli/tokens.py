"""`tenure tokens make`, and `tenure token` for short."""

from typing import Annotated

import typer

from tenure.cli.argument import AsJson
from tenure.cli.screen import show_json, show_line
from tenure.core.bound import nearest
from tenure.core.error import InvalidRequest
from tenure.core.tenant import ROLE_NAMES

app = typer.Typer(help="Make tokens for a server.", no_args_is_help=True)


def token(as_json: AsJson = False) -> None:
    """Make a token: what to give to its holder, and what to put into the server's settings."""
    from tenure.server.auth import hash_token, make_token

    made = make_token()
    if as_json:
        show_json({"token": made, "sha256": hash_token(made)})
        return
    show_line(f"token   {made}")
    show_line(f"sha256  {hash_token(made)}")


@app.command()
def make(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What the server calls its holder.")],
    role: Annotated[
        list[str] | None,
        typer.Option(metavar="ROLE", help="producer, worker, operator or admin; repeat it. All if left out."),
    ] = None,
    tenant: Annotated[
        list[str] | None, typer.Option(metavar="TENANT", help="A tenant it is for; repeat it. All if left out.")
    ] = None,
    queue: Annotated[
        list[str] | None, typer.Option(metavar="QUEUE", help="A queue, or image-*; repeat it. All if left out.")
    ] = None,
    rate: Annotated[int, typer.Option(metavar="N", min=0, help="Requests a second; 0 is no bound.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Make a token, and the lines for the server's tenure.toml that let it in."""
    from tenure.server.auth import hash_token, make_token
    from tenure.server.config import TOKEN_NAME, check_scope

    if not TOKEN_NAME.fullmatch(name):
        raise InvalidRequest("name", name, "it has letters, digits, dots, dashes and underscores")
    for each in role or ():
        if each not in ROLE_NAMES:
            raise InvalidRequest("role", each, nearest(each, ROLE_NAMES))
    check_scope("", tenant or (), queue or ())
    made = make_token()
    settings: dict[str, object] = {"sha256": hash_token(made)}
    for key, given in (("roles", role), ("tenants", tenant), ("queues", queue), ("rate", rate)):
        if given:
            settings[key] = given
    if as_json:
        show_json({"token": made, "name": name, "settings": settings})
        return
    show_line(f"token {made}\n")
    show_line(f'[server.tokens."{name}"]' if "." in name else f"[server.tokens.{name}]")
    for key, value in settings.items():
        show_line(f"{key} = {_toml(value)}")


def _toml(value: object) -> str:
    import msgspec

    return msgspec.json.encode(value).decode()  # of texts, lists of texts and numbers the two are the same
