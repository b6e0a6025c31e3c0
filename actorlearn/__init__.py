"""actorlearn: independent processes that train deep-RL agents through shared-memory tensors and ZeroMQ control."""

__version__ = "0.1.0"
