"""Lets pytest explain the assertions of the suite, which live in the package."""

import pytest

pytest.register_assert_rewrite("tenure.store.behaviour")
