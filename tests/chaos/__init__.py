"""Random faults over living runs, judged by a ledger that is part of the environment and of the weights.

``make chaos FAULTS=1000 SEED=7`` is ``python -m tests.chaos``; ``schedule.py`` draws the faults, ``trial.py`` inflicts
them on one run, ``judge.py`` says what was lost or used twice, ``census.py`` what was left, ``results.py`` keeps it.
"""
