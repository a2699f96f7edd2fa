"""Compiles the core and the engine with mypyc where there is a C compiler; packages plain Python where there is none.

TENURE_COMPILE=0 never compiles, TENURE_COMPILE=1 fails without a compiler, unset compiles when it can.
"""

import os
import sys
import tempfile
from pathlib import Path

from setuptools import Distribution, Extension, setup
from setuptools.errors import BaseError, CCompilerError

# Modules that hold msgspec structs or exceptions only.
EXCLUDED: frozenset[str] = frozenset({"tenure/core/error.py", "tenure/core/fact.py", "tenure/core/record.py"})

COMPILED_PACKAGES = ("tenure/core", "tenure/engine")

# Commands that need the extensions. Metadata commands do not, and an editable install stays interpreted.
BUILD_COMMANDS = frozenset({"build", "build_ext", "bdist_wheel", "install"})

PROBE = """\
#include <Python.h>
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "probe", NULL, -1, NULL, NULL, NULL, NULL, NULL};
PyMODINIT_FUNC PyInit_probe(void) { return PyModule_Create(&definition); }
"""


def has_compiler() -> bool:
    """Compile and link a tiny extension: a compiler without the Python headers does not count."""
    with tempfile.TemporaryDirectory() as directory:
        source = Path(directory, "probe.c")
        source.write_text(PROBE)
        command = Distribution({"ext_modules": [Extension("probe", [str(source)])]}).get_command_obj("build_ext")
        command.build_lib = command.build_temp = directory
        try:
            command.ensure_finalized()
            command.run()
        except (BaseError, CCompilerError, OSError) as error:
            print(f"tenure: no working C compiler: {error}", file=sys.stderr)
            return False
    return True


def compiled_modules() -> list[str]:
    """Every module to compile, as a path with forward slashes."""
    paths = {path.as_posix() for package in COMPILED_PACKAGES for path in Path(package).glob("*.py")}
    if unknown := EXCLUDED - paths:
        raise SystemExit(f"tenure: EXCLUDED names no module: {', '.join(sorted(unknown))}")
    return sorted(path for path in paths - EXCLUDED if not path.endswith("/__init__.py"))


def extensions() -> list[Extension]:
    wish = os.environ.get("TENURE_COMPILE", "")
    if wish not in {"", "0", "1"}:
        raise SystemExit(f"tenure: TENURE_COMPILE must be 0, 1 or unset, not {wish!r}")
    if wish == "0" or BUILD_COMMANDS.isdisjoint(sys.argv[1:]):
        return []
    if not has_compiler():
        if wish == "1":
            raise SystemExit("tenure: TENURE_COMPILE=1 asks for the compiled build and there is no working C compiler")
        print("tenure: building plain Python", file=sys.stderr)
        return []

    from mypyc.build import mypycify

    return mypycify(compiled_modules(), opt_level="3", debug_level="0", multi_file=False)


setup(ext_modules=extensions())
