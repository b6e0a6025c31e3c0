"""Losses and action rules: tensors in, tensors out; no network, process or device is known here.

Import from the modules (`interface`, `returns`, `a2c`, `make`): this file imports nothing, so that reading the settings
in `interface` never loads torch.
"""
