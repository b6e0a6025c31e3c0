"""Settings of networks, which are the keys of the section ``model`` of a topology, and specs of networks.

A spec describes a network without importing it. This file does not load torch. There are two kinds of networks:

* An encoder maps observations to features, and its settings are `EncoderSettings`. It is made by Name(settings,
  observation_shape); its attribute ``features`` is the number of its outputs. ``models/make.py`` adds heads, a
  recurrent cell, noise and the initialisation.
* A whole network includes all of these. It is made by Name(observation_shape, heads), or by Name(observation_shape,
  heads, settings) if its class has ``Settings``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Annotated, Any, Literal, Self

from msgspec import Meta

from actorlearn.observation_parts import ImagePart
from actorlearn.registry import Registry, Settings, Spec, settings_of, tag_settings

Width = Annotated[int, Meta(ge=1, le=65_536)]
Activation = Literal["tanh", "relu", "leaky_relu", "elu", "gelu", "silu"]
LayerNorm = Annotated[
    bool,
    Meta(
        description="layer normalisation before each activation function; for convolutions over the channels at each "
        "position"
    ),
]


MOST_ROWS_BEFORE_LEARNING = 10_000
"""Limit on the default of ``model.statistics_rows``."""


class ModelSettings(Settings, frozen=True, kw_only=True):
    """The network. These keys exist for every network."""

    normalize_observation: Annotated[
        bool,
        Meta(
            description="subtract the running mean from observations, divide by the standard deviation and clip to "
            "±10; for images this is done for each pixel, which emphasises moving objects; the default of networks "
            "of images is false with every algorithm"
        ),
    ] = False
    statistics_rows: Annotated[
        Annotated[int, Meta(ge=0)] | None,
        Meta(
            description="with normalize_observation: number of observations that are collected for the statistics "
            "before learning starts; the steps played until then are dropped; null = a hundredth of "
            "total_steps, at most 10,000"
        ),
    ] = None


def rows_before_learning(settings: ModelSettings, total_steps: int) -> int:
    """Return the number of observations that the statistics must include before learning begins."""
    if not settings.normalize_observation:
        return 0
    if settings.statistics_rows is not None:
        return settings.statistics_rows
    return min(total_steps // 100, MOST_ROWS_BEFORE_LEARNING)


class EncoderSettings(ModelSettings, frozen=True, kw_only=True):
    """Keys of networks that are an encoder, with heads, noise and recurrence added to it."""

    init: Annotated[
        Literal["torch", "orthogonal", "ba3c"],
        Meta(
            description="initial weights; torch = U(±1/sqrt(fan_in)) for weights and biases, as in PAAC; orthogonal "
            "as in GALA; ba3c = N(0, 0.03) for convolutions and U(±1.43 sqrt(3/fan_in)) for other layers"
        ),
    ] = "torch"
    log_std_init: Annotated[
        float,
        Meta(
            ge=-10,
            le=10,
            description="initial log standard deviation of Box actions, for algorithms in which it is a separate "
            "parameter (a2c, impala, ppo)",
        ),
    ] = 0.0
    recurrence: Annotated[
        Literal["none", "lstm", "gru"],
        Meta(description="recurrent cell between encoder and heads; none = the network has no memory"),
    ] = "none"
    recurrent_size: Annotated[Width, Meta(description="units of the recurrent cell")] = 256
    noisy: Annotated[
        float,
        Meta(
            ge=0,
            le=100,
            description="sigma_0 of NoisyNet: the layers for action values have noise, whose standard deviation is at "
            "first sigma_0 divided by the square root of the layer's number of inputs; 0 = no noise",
        ),
    ] = 0.0


class ImageSettings(EncoderSettings, frozen=True, kw_only=True):
    """Keys of networks of images."""

    stream_gradient: Annotated[
        float,
        Meta(
            gt=0,
            le=1,
            description="with algorithm.dueling: factor by which the gradient that the two streams (value and "
            "advantages) pass back to the convolutions is multiplied",
        ),
    ] = 2**-0.5


class StackSettings(ImageSettings, frozen=True, kw_only=True):
    """Keys of networks that consist of convolutions and one fully connected layer."""

    layer_norm: LayerNorm = False


class BA3CSettings(ImageSettings, frozen=True, kw_only=True, tag="ba3c"):
    """Keys of BA3C's network."""

    init: Annotated[
        Literal["torch", "orthogonal", "ba3c"],
        Meta(
            description="initial weights; ba3c = N(0, 0.03) for convolutions and U(±1.43 sqrt(3/fan_in)) for other "
            "layers; torch and orthogonal are explained for the other networks"
        ),
    ] = "ba3c"
    hidden_units: Annotated[
        Width, Meta(description="outputs of the layer after the convolutions; the first version of BA3C had 256")
    ] = 128
    hidden: Annotated[
        Literal["linear", "relu"],
        Meta(
            description="type of the layer after the convolutions; linear = without bias and ReLU, as in the authors' "
            "code; relu = with bias and ReLU, as the paper's parameter counts imply"
        ),
    ] = "linear"


class MLPSettings(EncoderSettings, frozen=True, kw_only=True, tag="mlp"):
    """Keys of the perceptron."""

    hidden_sizes: Annotated[tuple[Width, ...], Meta(max_length=16, description="units per hidden layer")] = (64, 64)
    value_hidden_sizes: Annotated[
        Annotated[tuple[Width, ...], Meta(max_length=16)] | None,
        Meta(
            description="units per hidden layer of the network of the value (a2c, impala, ppo, vaco), or of each "
            "critic (sac); null = hidden_sizes"
        ),
    ] = None
    activation: Annotated[Activation, Meta(description="activation function of each hidden layer")] = "tanh"
    layer_norm: LayerNorm = False


class MixedSettings(MLPSettings, frozen=True, kw_only=True, tag="mixed"):
    """Keys of the network for observations of several parts."""

    init: Annotated[
        Literal["torch", "orthogonal", "ba3c"],
        Meta(description="initial weights; the values are explained for the other networks"),
    ] = "orthogonal"
    images: Annotated[
        tuple[ImagePart, ...],
        Meta(
            max_length=64,
            description="images in the observation, each with its first element in the flat observation, its "
            "shape, and whether the channels are its last dimension; default: the images of the "
            "environment's space",
        ),
    ] = ()
    image_features: Annotated[Width, Meta(description="outputs of the layer after the convolutions of an image")] = 128
    activation: Annotated[
        Activation, Meta(description="activation function of each hidden layer; convolutions have relu")
    ] = "relu"


@dataclass(frozen=True, kw_only=True)
class ModelSpec(Spec):
    """Description of a network that does not import it; ``made_by`` names its class."""

    methods = ("forward", "parameters")
    described_in = "actorlearn/models/interface.py"
    settings: type[ModelSettings]
    takes_settings: bool = False
    """Whether a whole network is made with its settings as the third argument."""
    separate: bool = False
    """Whether each head has its own encoder; False: all heads share one."""
    convolutional: bool = False
    """Whether the network is for images and large enough that bfloat16 saves time."""
    defaults: Mapping[str, bool] = field(default_factory=dict)
    """Defaults of keys of ``model`` for this network; they have precedence over those of the algorithm."""
    strided: bool = False
    """Whether the network's first convolution has a stride, so that squares of pixels can become channels."""

    @classmethod
    def of(cls, name: str, found: Any, module: ModuleType) -> Self:
        """Make a spec for a class that has none: an encoder if its ``Settings`` are `EncoderSettings`."""
        settings = settings_of(found, module, ModelSettings)
        own = settings is not ModelSettings
        return cls(name=name, settings=tag_settings(settings, name), made_by=name, takes_settings=own)


IMAGE_DEFAULTS: Mapping[str, bool] = {"normalize_observation": False}
"""Images are normalised for each pixel only if the topology says so.

Defaults of algorithms that normalise observations were measured with vectors. Networks for images already scale pixels
to numbers from 0 to 1."""


def _stack(name: str, strided: bool = True, large: bool = True) -> ModelSpec:
    return ModelSpec(
        name=name,
        settings=tag_settings(StackSettings, name),
        made_by="actorlearn.models.encoders:ConvolutionalEncoder",
        convolutional=large,
        strided=strided,
        defaults=IMAGE_DEFAULTS,
    )


NIPS = _stack("nips")
NATURE = _stack("nature")
A3C = _stack("a3c")
DQN_NET = _stack("dqn-net")
GALA = _stack("gala")
BA3C = ModelSpec(
    name="ba3c",
    settings=BA3CSettings,
    made_by="actorlearn.models.ba3c:BA3CEncoder",
    convolutional=True,
    defaults=IMAGE_DEFAULTS,
)
MINATAR = _stack("minatar", strided=False, large=False)
IMPALA = ModelSpec(
    name="impala",
    settings=tag_settings(ImageSettings, "impala"),
    made_by="actorlearn.models.residual:ResidualEncoder",
    convolutional=True,
    defaults=IMAGE_DEFAULTS,
)
MLP = ModelSpec(name="mlp", settings=MLPSettings, made_by="actorlearn.models.encoders:Perceptron", separate=True)

MIXED = ModelSpec(
    name="mixed",
    settings=MixedSettings,
    made_by="actorlearn.models.mixed:MixedEncoder",
    separate=True,
    defaults=IMAGE_DEFAULTS,
)

MODELS = Registry("model", "actorlearn.models", ModelSpec)
