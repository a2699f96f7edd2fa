"""A process that is to end with the one that started it, however that ends."""

import ctypes

PR_SET_PDEATHSIG = 1  # of Linux


def end_with_parent(number: int) -> None:
    """The signal comes when the parent is gone; where the system has no such thing, nothing does."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(PR_SET_PDEATHSIG, int(number))
