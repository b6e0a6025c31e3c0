"""Random faults in living runs; environments and weights count rows, which shows what was lost or used twice.

``make chaos FAULTS=1000 SEED=7`` calls ``python -m tests.chaos``. ``schedule.py`` draws the faults, ``trial.py``
inflicts them on one run, ``judge.py`` checks the counts, ``census.py`` finds leftovers, ``results.py`` keeps findings.
"""
