"""Compiles the core and the engine with mypyc where there is a C compiler; packages plain Python where there is none.

TENURE_COMPILE=0 never compiles, TENURE_COMPILE=1 fails without a compiler, unset compiles when it can.
"""

import os
import re
import sys
import tempfile
from pathlib import Path

from setuptools import Distribution, Extension, setup
from setuptools.errors import BaseError, CCompilerError

# Calls inside the library may be direct and inlined: nobody puts other functions in their place.
COMPILER_FLAGS = ["-fno-semantic-interposition"] if os.name == "posix" else []

# Modules that hold msgspec structs or exceptions only.
EXCLUDED: frozenset[str] = frozenset({"tenure/core/error.py", "tenure/core/fact.py", "tenure/core/record.py"})

COMPILED_PACKAGES = ("tenure/core", "tenure/engine")
COMPILED_MODULES = frozenset({"tenure/wire/column.py"})  # of packages that are not

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
        probe = Extension("probe", [str(source)], extra_compile_args=COMPILER_FLAGS)
        command = Distribution({"ext_modules": [probe]}).get_command_obj("build_ext")
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
    return sorted(COMPILED_MODULES | {path for path in paths - EXCLUDED if not path.endswith("/__init__.py")})


def spare_the_trashcan(sources: list[str]) -> None:
    """Let only objects of the cyclic collector be put aside by the deallocator that bounds its depth.

    It links what it puts aside through the header of the collector. An acyclic class has none, and mypyc uses it there
    too: the sixteen bytes before an object would be overwritten when it is freed fifty deallocations deep.
    """
    found = 0
    for source in map(Path, sources):
        text, count = re.subn(
            r"CPy_TRASHCAN_BEGIN\(self, (\w+)\)",
            r"CPy_TRASHCAN_BEGIN(self, (PyObject_IS_GC((PyObject *)self) ? (destructor)\1 : NULL))",
            source.read_text(),
        )
        if count:
            source.write_text(text)
            found += count
    if not found:
        raise SystemExit("tenure: mypyc's deallocators look otherwise than setup.py knows; read spare_the_trashcan")


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

    built = mypycify(compiled_modules(), opt_level="3", debug_level="0", multi_file=False)
    spare_the_trashcan([source for extension in built for source in extension.sources])
    for extension in built:
        extension.extra_compile_args.extend(COMPILER_FLAGS)
    return built


setup(ext_modules=extensions())
