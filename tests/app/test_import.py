"""What `import tenure` does not bring along."""

import subprocess
import sys

import pytest

import tenure

CODE = "import sys, tenure; tenure.App('memory://'); print([name for name in sys.modules if name.split('.')[0] == %r])"


@pytest.mark.parametrize("package", ["opentelemetry", "cryptography"])
def test_package_is_imported_only_by_those_who_use_it(package: str) -> None:
    found = subprocess.run([sys.executable, "-c", CODE % package], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_every_public_name_is_there() -> None:
    for name in tenure.__all__:
        assert getattr(tenure, name) is not None
    assert not hasattr(tenure, "no_such_name")
