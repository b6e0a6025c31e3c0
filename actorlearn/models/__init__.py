"""Networks: observations in, one tensor per head out; no algorithm or process is known here.

Import from the modules (`interface`, `encoders`, `heads`, `make`): this file imports nothing, so that reading the
settings in `interface` never loads torch.
"""
