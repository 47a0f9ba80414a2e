"""What an ordinary run has of the long procedures: each on one server, and some of its cases, as the run's seed says. WEIR_FAULTS=all: everything on both; full: that, and what is
scaled down otherwise at full size."""
import os
import random

FULL = os.environ.get("WEIR_FAULTS") == "full"
ALL = FULL or os.environ.get("WEIR_FAULTS") == "all"


def draw(*of):
    """-> random numbers that are the same in the whole run, for each purpose others"""
    return random.Random(f"{os.environ['WEIR_SEED']} {of}")


def some(cases, n):
    """n of the cases, in their order"""
    cases = list(cases)
    return cases if ALL or n >= len(cases) else [cases[i] for i in sorted(draw("some", *map(str, cases)).sample(range(len(cases)), n))]
