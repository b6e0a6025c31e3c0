"""The papers' optimizers, on one flat vector of weights. They do not depend on networks or processes.

Import from the modules (`interface`, `rmsprop`, `adam`, `groups`, `schedules`): this file imports
nothing, so that reading the settings in `specs` does not load torch.
"""
