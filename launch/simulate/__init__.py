"""Prediction of a topology's rate on more machines than there are, by a discrete-event model of its processes.

Modules, each using only those after it: ``report`` (tables, files and pictures), ``sweep`` (scenarios of a topology),
``keys`` (of the command line), ``estimate`` (closed forms) and ``model`` (the learners), ``exchange`` (the modes
between them), ``network`` (machines, cores and links), ``scenario`` (the numbers of one case). Costs are measured by
``launch/bench/costs.py``.
"""
