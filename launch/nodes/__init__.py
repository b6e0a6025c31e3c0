"""Nodes: the machines of a run, and what passes between them and its head."""
