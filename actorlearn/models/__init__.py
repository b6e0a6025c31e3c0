"""Networks: they map observations to a tensor for each head, which is a named output that an algorithm asks for.

Import from the modules (`interface`, `specs`, `encoders`, `heads`, `make`): this file imports nothing, so that reading
the settings in `specs` does not load torch.
"""
