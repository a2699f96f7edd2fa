"""From `module:app` to the app."""

import importlib
import os
import sys
from difflib import get_close_matches
from types import ModuleType

from tenure.app.app import App
from tenure.core.error import InvalidRequest


def load_app(name: str) -> App:
    """The app that the text names: a module, and after a colon what the app is called there (app, if left out)."""
    module_name, _, attribute = name.partition(":")
    if not module_name:
        raise InvalidRequest("app", name, "it must be a module and the name of the app in it, such as tasks:app")
    module = _import(name, module_name)
    found: object = module
    for part in (attribute or "app").split("."):
        found = getattr(found, part, None)
    if isinstance(found, App):
        return found
    apps = sorted(key for key, value in vars(module).items() if isinstance(value, App))
    if not attribute and len(apps) == 1:
        only = getattr(module, apps[0])
        assert isinstance(only, App)
        return only
    named = ", ".join(f"{module_name}:{each}" for each in apps)
    raise InvalidRequest("app", name, f"there is no app of that name; {module_name} has {named or 'none'}")


def _import(name: str, module_name: str) -> ModuleType:
    folder = os.getcwd()
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not (module_name == error.name or module_name.startswith(f"{error.name}.")):
            raise  # the module is there, and imports what is not
        here = sorted(file[:-3] for file in os.listdir(folder) if file.endswith(".py"))
        close = get_close_matches(module_name, here, 1)
        hint = f"did you mean {close[0]}?" if close else f"modules in {folder}: {', '.join(here) or 'none'}"
        raise InvalidRequest("app", name, f"there is no module {module_name}; {hint}") from None
