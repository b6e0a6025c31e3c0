"""Predicts the rate of a topology on machines that you do not have, for ``actorlearn simulate``.

A discrete-event model (SimPy) simulates the processes of a run: how long they work, send messages and wait. Modules,
each of which uses only those after it: ``report`` (tables, files and pictures), ``sweep`` (the cases to predict for a
topology), ``keys`` (keys of the command line), ``estimate`` (closed-form predictions), ``model`` (the learners),
``exchange`` (how learners exchange gradients or weights), ``network`` (machines, cores and links), ``scenario`` (the
inputs of one prediction, called a case). ``launch/bench/costs.py`` measures the costs.
"""
