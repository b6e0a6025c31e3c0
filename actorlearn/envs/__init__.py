"""Environments behind one interface: ale-py's Atari games, gymnasium, PettingZoo and EnvPool."""
