"""Nodes, the machines of a run, and the messages between them and the head of the run."""
