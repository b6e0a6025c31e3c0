"""Names of hyperparameters in other libraries, and the keys of a topology that are their counterparts."""
