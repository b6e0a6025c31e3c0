"""Environments behind one interface: Atari through ale-py, anything else through gymnasium."""
