"""Makes networks from the section ``model`` of a topology, and lays out their weights as one flat vector."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import signature
from math import prod
from typing import Any

import torch
from msgspec.structs import replace
from torch import Tensor, nn

from actorlearn.extra_networks import ExtraNetwork
from actorlearn.models import ba3c
from actorlearn.models.dueling import DUELING, Dueling
from actorlearn.models.encoders import PixelConvolution
from actorlearn.models.heads import FREE, Free, SeparateTrunks, SharedTrunk, orthogonal
from actorlearn.models.masked import Masked
from actorlearn.models.noisy import make_noisy
from actorlearn.models.normalize import Normalized, statistics
from actorlearn.models.recurrent import Recurrent
from actorlearn.models.several import ActionConditioned, FreeParameters, SeveralNetworks
from actorlearn.models.specs import MODELS, EncoderSettings, ImageSettings, MLPSettings, ModelSettings
from actorlearn.observation_parts import ActionMask

VALUE = "value"
"""The output of a state value or of a critic, whose encoder may have its own sizes (``model.value_hidden_sizes``)."""


def make(
    settings: ModelSettings,
    observation_shape: tuple[int, ...],
    observation_dtype: str,
    heads: Mapping[str, int],
    seed: int,
    extra: Mapping[str, ExtraNetwork] | None = None,
    action_mask: ActionMask | None = None,
) -> nn.Module:
    """Make a network that maps observations [N, *observation_shape] to {head: float32 [N, size]} (`interface.Model`).

    Its weights depend only on the arguments; torch's global generator is not changed. With ``extra`` networks, such as
    critics, the result is a `several.SeveralNetworks` of the actor and these. With ``action_mask``, observations end
    with a mask of valid actions, which the result returns as one more output (`masked.Masked`).
    """
    shape = tuple(action_mask.observation_shape if action_mask else observation_shape)
    if not observation_dtype.startswith(("uint8", "float", "int", "bool")):
        raise ValueError(
            f"observation_dtype: {observation_dtype!r} is not a numpy number type such as 'uint8' or 'float32'"
        )
    _check_value(settings, heads, extra or {})
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # only the CPU's: torch.manual_seed would seed every device
        network = _initialised(settings, shape, heads)
        others = {name: _extra(settings, shape, name, asked) for name, asked in (extra or {}).items()}
    if settings.normalize_observation:
        network = Normalized(network, shape, observation_dtype == "uint8")
    if action_mask:
        network = Masked(network, action_mask)
        seeing = [name for name, asked in (extra or {}).items() if asked.observation]
        others |= {name: Masked(others[name], action_mask) for name in seeing}
    return SeveralNetworks(network, others) if others else network


def _initialised(settings: ModelSettings, shape: tuple[int, ...], heads: Mapping[str, int]) -> nn.Module:
    """Make a network, and set its noise and initial weights as the settings say."""
    network = construct(settings, shape, heads)
    if isinstance(settings, EncoderSettings):
        if settings.noisy:
            make_noisy(network, settings.noisy)
        if settings.init == "orthogonal":
            orthogonal(network)
        elif settings.init == "ba3c":
            ba3c.initialize(network)
        for module in network.modules():
            if isinstance(module, Free):
                nn.init.constant_(module.value, settings.log_std_init)
    return network


def _extra(settings: ModelSettings, shape: tuple[int, ...], name: str, asked: ExtraNetwork) -> nn.Module:
    """Make a network besides the actor, such as a critic.

    Raises ValueError if the settings ask for normalisation or recurrence, or if a network for images would have to read
    an action too.
    """
    if settings.normalize_observation:
        raise ValueError(
            f"model.normalize_observation: true supports only one network, but the algorithm also has {name}"
        )
    if isinstance(settings, EncoderSettings) and settings.recurrence != "none":
        raise ValueError(
            f"model.recurrence: {settings.recurrence!r} supports only one network, but the algorithm also has {name}"
        )
    if not asked.observation:
        return FreeParameters(asked.heads)
    if not asked.action:
        return _initialised(settings, shape, asked.heads)
    if isinstance(settings, ImageSettings):
        raise ValueError(
            f"model.name: {settings.name!r} reads only images, but the network {name} also reads {asked.action} "
            "numbers of an action; use model.name: mlp"
        )
    return ActionConditioned(_initialised(settings, (prod(shape) + asked.action,), asked.heads))


def construct(settings: ModelSettings, shape: tuple[int, ...], heads: Mapping[str, int]) -> nn.Module:
    """Make the network that the settings name, with the class's own initial weights.

    A class whose settings are `EncoderSettings` makes only an encoder; heads and perhaps a recurrent cell are added to
    it. Any other class makes the whole network.
    """
    spec = MODELS.spec(settings.name)
    kind = spec.load()
    if not isinstance(settings, EncoderSettings):
        arguments: dict[str, Any] = {"observation_shape": shape, "heads": dict(heads)}
        if spec.takes_settings:
            arguments["settings"] = settings
        try:
            signature(kind).bind(*arguments.values())
        except TypeError as error:
            raise ValueError(
                f"model.name: {settings.name!r} must be called as Name({', '.join(arguments)}) and make a torch module "
                f"(actorlearn/models/interface.py): {error}"
            ) from error
        whole: nn.Module = kind(*arguments.values())
        return whole
    if settings.recurrence != "none":
        encoder = kind(settings, shape)
        return Recurrent(encoder, encoder.features, settings.recurrence, settings.recurrent_size, heads)
    if spec.separate:
        encoders = {head: kind(_of_head(settings, head), shape) for head in heads if head not in FREE}
        return SeparateTrunks(encoders, {head: encoder.features for head, encoder in encoders.items()}, heads)
    encoder = kind(settings, shape)
    if DUELING in heads and isinstance(settings, ImageSettings):
        return Dueling(encoder, heads, settings.stream_gradient)
    return SharedTrunk(encoder, encoder.features, heads)


def _of_head(settings: EncoderSettings, head: str) -> EncoderSettings:
    """Return the settings of the encoder of one head; the value's encoder may have other hidden sizes."""
    if head == VALUE and isinstance(settings, MLPSettings) and settings.value_hidden_sizes is not None:
        return replace(settings, hidden_sizes=settings.value_hidden_sizes)
    return settings


def _check_value(settings: ModelSettings, heads: Mapping[str, int], extra: Mapping[str, ExtraNetwork]) -> None:
    """Raise ValueError if ``model.value_hidden_sizes`` is set but no encoder serves only the value."""
    if not isinstance(settings, MLPSettings) or settings.value_hidden_sizes is None:
        return
    if settings.recurrence != "none":
        why = f"with model.recurrence: {settings.recurrence} all outputs share one encoder"
    elif VALUE not in {*heads, *(head for asked in extra.values() for head in asked.heads)}:
        why = "the algorithm has no network of a state value and no critics"
    else:
        return
    raise ValueError(f"model.value_hidden_sizes: {[*settings.value_hidden_sizes]}: {why}; leave the key out")


def flatten(module: nn.Module) -> tuple[Tensor, Tensor]:
    """Move a network's weights and gradients into two flat float32 vectors, of which its tensors become views.

    The first vector has the parameters, in the order of `module.parameters()`, followed by the statistics of
    normalisation. Statistics have no gradients, so an optimizer works on `weights[:gradients.numel()]`. A write to this
    vector changes the network.

    `backward` adds to the second vector. Set it to zero in place (`gradients.zero_()`, or zero_grad with
    set_to_none=False), and do not replace `.grad`. Move the module to its device before this call: a later `.to(...)`
    would detach it from the vectors.

    Raises ValueError for a network without parameters, with parameters that are not float32 on one device, or with
    persistent buffers.
    """
    parameters = list(module.parameters())
    fixed = statistics(module)
    if not parameters:
        raise ValueError(f"flatten: {type(module).__name__} has no parameters to train and publish")
    kinds = sorted({f"{parameter.dtype} on {parameter.device}" for parameter in parameters})
    if len(kinds) > 1 or parameters[0].dtype != torch.float32:
        raise ValueError(f"flatten: parameters are {kinds}, but one vector needs torch.float32 on one device")
    included = {id(tensor) for tensor in (*parameters, *fixed)}
    buffers = sorted(name for name, tensor in module.state_dict(keep_vars=True).items() if id(tensor) not in included)
    if buffers:
        raise ValueError(
            f"flatten: {type(module).__name__} keeps state in buffers {buffers}, but only parameters are sent between "
            "processes; register constants with persistent=False, and use no layer with running statistics"
        )
    weights = torch.cat([tensor.detach().reshape(-1) for tensor in (*parameters, *fixed)])
    gradients = torch.zeros(sum(parameter.numel() for parameter in parameters), device=weights.device)
    start = 0
    for tensor in (*parameters, *fixed):
        end = start + tensor.numel()
        tensor.data = weights[start:end].view(tensor.shape)
        if end <= gradients.numel():
            tensor.grad = gradients[start:end].view(tensor.shape)
        start = end
    return weights, gradients


def autocast(device: str, precision: str, keep_casts: bool = True) -> torch.autocast:
    """Return the context for a forward pass: with "bf16" torch computes most layers in bfloat16; "fp32": no change.

    ``keep_casts`` must be False if a network is called without and then with gradient in the same context. Releases of
    torch before pytorch/pytorch#165068 would use the weights again that were cast without gradient.
    """
    enabled = precision == "bf16"
    return torch.autocast(torch.device(device).type, torch.bfloat16, enabled=enabled, cache_enabled=keep_casts)


def set_layout(network: nn.Module, layout: str) -> None:
    """Set how a built-in network computes its first convolution (`encoders.PixelConvolution.layout`).

    Weights and outputs stay the same.
    """
    for module in network.modules():
        if isinstance(module, PixelConvolution):
            module.layout = layout
