"""Networks: they map observations to one tensor per head. They do not depend on algorithms or processes.

Import from the modules (`interface`, `specs`, `encoders`, `heads`, `make`): this file imports nothing, so that reading
the settings in `specs` does not load torch.
"""
