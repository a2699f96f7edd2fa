"""What the compiled build must not do to memory."""

import os
import subprocess
import sys

# The interpreter puts deallocations deeper than fifty aside through a header that acyclic objects do not have.
FREE_DEEP = """
from tenure.core.clock import Now

for depth in range(120):
    nest = [Now(1, 1)]
    for _ in range(depth):
        nest = [nest]
    del nest
"""


def test_acyclic_objects_may_be_freed_at_any_depth() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FREE_DEEP],
        env={**os.environ, "PYTHONMALLOC": "debug"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
