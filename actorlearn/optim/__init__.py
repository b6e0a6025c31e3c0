"""Optimizers as in the papers' code, each on one flat vector of weights, and schedules of the learning rate.

Import from the modules (`interface`, `rmsprop`, `adam`, `groups`, `schedules`): this file imports nothing, so that
reading the settings in `specs` does not load torch.
"""
