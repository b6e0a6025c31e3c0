"""The papers' optimizers on one flat vector of weights; no network or process is known here.

Import from the modules (`interface`, `rmsprop`, `adam`, `clip`, `groups`, `schedules`, `make`): this file imports
nothing, so that reading the settings in `specs` never loads torch.
"""
