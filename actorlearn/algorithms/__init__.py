"""Losses and rules for actions: they map tensors to tensors and do not depend on networks, processes or devices.

Import from the modules (`interface`, `settings`, `returns`, `a2c`, `make`): this file imports nothing, so that reading
the settings in `settings` does not load torch.
"""
