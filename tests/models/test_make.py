"""The shipped networks: sizes, initial weights, seeds, refusals, and one of the user's own."""

from __future__ import annotations

from math import sqrt

import msgspec
import pytest
import torch
from torch import Tensor, nn

from actorlearn.models.heads import ask_only
from actorlearn.models.interface import state_size
from actorlearn.models.make import make
from actorlearn.models.specs import EncoderSettings, ModelSettings
from tests import named
from tests.models.networks import ATARI, HEADS, images, network


class Own(nn.Module):
    """Stands for a network outside the library: linear in the mean observation."""

    def __init__(self, observation_shape: tuple[int, ...], heads: dict[str, int]) -> None:
        super().__init__()
        self.observation_shape = observation_shape
        self.heads = nn.ModuleDict({name: nn.Linear(1, size) for name, size in heads.items()})

    def forward(self, observation: Tensor) -> dict[str, Tensor]:
        mean = observation.float().flatten(1).mean(1, keepdim=True)
        return {name: head(mean) for name, head in self.heads.items()}


def weights(module: nn.Module) -> Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in module.parameters()])


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        # 16@8x8 on 4, 32@4x4, 9*9*32 -> 256, 256 -> 6 + 1, each with biases.
        ("nips", 4 * 64 * 16 + 16 + 16 * 16 * 32 + 32 + 2592 * 256 + 256 + 257 * 7),
        # 32@8x8 on 4, 64@4x4, 64@3x3, 7*7*64 -> 512, 512 -> 6 + 1.
        # Sections of 16, 32, 32: a convolution, two blocks of two each; 84 -> 42 -> 21 -> 11, 11*11*32 -> 256.
        (
            "impala",
            sum(9 * c * s + s + 4 * (9 * s * s + s) for c, s in ((4, 16), (16, 32), (32, 32)))
            + 3872 * 256
            + 256
            + 257 * 7,
        ),
        ("nature", 4 * 64 * 32 + 32 + 32 * 16 * 64 + 64 + 64 * 9 * 64 + 64 + 3136 * 512 + 512 + 513 * 7),
        # 16@3x3 on 4 channels of 84x84, 82*82*16 -> 128, 128 -> 6 + 1.
        ("minatar", 4 * 9 * 16 + 16 + 82 * 82 * 16 * 128 + 128 + 129 * 7),
        ("gala", 4 * 64 * 32 + 32 + 32 * 16 * 64 + 64 + 64 * 9 * 32 + 32 + 32 * 7 * 7 * 512 + 512 + 513 * 7),
    ],
)
def test_the_papers_networks_have_the_papers_sizes(name, parameters):
    module = network(name)
    assert sum(parameter.numel() for parameter in module.parameters()) == parameters
    outputs = module(images(3))
    assert {head: (output.shape, output.dtype) for head, output in outputs.items()} == {
        "logits": ((3, 6), torch.float32),
        "value": ((3, 1), torch.float32),
    }


def test_nips_is_the_function_it_says():
    """The same weights in plain functional form."""
    module = network()
    w = dict(module.named_parameters())
    x = images(2).float() / 255.0
    for layer, stride in ((0, 4), (2, 2)):
        x = nn.functional.conv2d(
            x, w[f"encoder.layers.{layer}.weight"], w[f"encoder.layers.{layer}.bias"], stride
        ).relu()
    x = (x.flatten(1) @ w["encoder.layers.5.weight"].T + w["encoder.layers.5.bias"]).relu()
    expected = x @ w["heads.value.weight"].T + w["heads.value.bias"]
    torch.testing.assert_close(module(images(2))["value"], expected)


def normal(x: Tensor, weights: dict[str, Tensor], layer: str) -> Tensor:
    """The last dimension with mean 0 and deviation 1, times gains, plus biases."""
    centered = x - x.mean(-1, keepdim=True)
    x = centered / (centered.square().mean(-1, keepdim=True) + 1e-5).sqrt()
    return x * weights[f"{layer}.weight"] + weights[f"{layer}.bias"]


def shaken(module: nn.Module) -> nn.Module:
    """The network with other weights than its first: gains are 1 there, and biases 0."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter += 0.1 * torch.randn(parameter.shape, generator=generator)
    return module


def test_layer_norm_of_convolutions_is_of_the_channels_of_each_place():
    """The same weights in plain functional form."""
    module = shaken(network(layer_norm=True))
    w = {name.removeprefix("encoder.layers."): p for name, p in module.named_parameters()}
    x = images(2).float() / 255.0
    for layer, stride in ((0, 4), (3, 2)):
        x = nn.functional.conv2d(x, w[f"{layer}.weight"], w[f"{layer}.bias"], stride)
        x = normal(x.permute(0, 2, 3, 1), w, str(layer + 1)).permute(0, 3, 1, 2).relu()
    x = normal(x.flatten(1) @ w["7.weight"].T + w["7.bias"], w, "8").relu()
    expected = x @ w["heads.value.weight"].T + w["heads.value.bias"]
    torch.testing.assert_close(module(images(2))["value"], expected)


def test_layer_norm_of_a_perceptron_is_before_its_activation():
    module = shaken(make(named.model("mlp", hidden_sizes=[5, 3], layer_norm=True), (4,), "float32", {"q": 2}, 0))
    w = {name.removeprefix("trunks.q.encoder.layers."): p for name, p in module.named_parameters()}
    x = rows = torch.randn(6, 4, generator=torch.Generator().manual_seed(1))
    for layer in (0, 3):
        x = normal(x @ w[f"{layer}.weight"].T + w[f"{layer}.bias"], w, str(layer + 1)).tanh()
    expected = x @ w["trunks.q.heads.q.weight"].T + w["trunks.q.heads.q.bias"]
    torch.testing.assert_close(module(rows)["q"], expected)


def test_a_network_with_layer_norm_is_of_any_precision_and_can_be_trained():
    for name, shape in (("nips", ATARI), ("minatar", (4, 10, 10))):
        module = network(name, shape, layer_norm=True)
        with torch.autocast("cpu", torch.bfloat16):
            half = module(images(3, shape))["value"]
        whole = module(images(3, shape))["value"]
        assert half.dtype == torch.float32
        torch.testing.assert_close(half, whole, rtol=0.05, atol=0.05)
        whole.sum().backward()
        assert all(p.grad is not None for p in module.encoder.parameters())


def test_impala_is_the_function_it_says():
    """The same weights in plain functional form: every section convolves, pools and adds two blocks."""
    module = network("impala", shape := (4, 30, 21))
    weights = iter(list(module.encoder.layers.parameters()))

    def convolve(x: Tensor) -> Tensor:
        return nn.functional.conv2d(x, next(weights), next(weights), padding=1)

    x = images(2, shape).float() / 255.0
    for _section in range(3):
        x = nn.functional.pad(convolve(x), (1, 1, 1, 1), value=-torch.inf)
        x = x.unfold(2, 3, 2).unfold(3, 3, 2).amax((-1, -2))
        for _block in range(2):
            x = x + convolve(convolve(x.relu()).relu())
    x = nn.functional.linear(x.relu().flatten(1), next(weights), next(weights)).relu()
    assert next(weights, None) is None
    expected = nn.functional.linear(x, module.heads["logits"].weight, module.heads["logits"].bias)
    torch.testing.assert_close(module(images(2, shape))["logits"], expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", ["nips", "impala"])
@pytest.mark.parametrize("shape", [(4, 104, 80), (1, 20, 20), (3, 21, 50)])
def test_images_that_are_large_enough_are_taken(name, shape):
    assert network(name, shape)(images(2, shape))["logits"].shape == (2, 6)


@pytest.mark.parametrize(
    ("name", "shape", "side"),
    [
        *(("nips", (4, 19, 84), 20), ("nature", (4, 84, 35), 36), ("nips", (4,), 20), ("nature", (84, 84), 36)),
        ("impala", (84, 84), 1),
    ],
)
def test_observations_the_convolutions_cannot_take_are_refused_with_the_way_out(name, shape, side):
    with pytest.raises(ValueError) as refused:
        network(name, shape)
    for part in (repr(name), str(list(shape)), f"{side}x{side}", "model.name: mlp"):
        assert part in str(refused.value)
    alone = f"to use only an image of a Dict, of at least {side}x{side}, write env.wrappers"
    found = {1: alone, 2: "add an axis of one channel: observation[None]"}
    assert found.get(len(shape), "") in str(refused.value)


@pytest.mark.parametrize(("name", "side"), [("nature", 36), ("a3c", 12), ("dqn-net", 12), ("impala", 1), ("ba3c", 52)])
def test_the_smallest_images_pass(name, side):
    assert network(name, (4, side, side))(images(1, (4, side, side)))["value"].shape == (1, 1)


def test_a3c_makes_12_x_9_cells_of_the_papers_screens():
    """accel_rl's spec 0 on 104 x 80: the padded second convolution gives 32 x 12 x 9 to the layer of 256."""
    shapes = [tuple(parameter.shape) for parameter in network("a3c", (4, 104, 80)).encoder.parameters()]
    assert shapes == [(16, 4, 8, 8), (16,), (32, 16, 4, 4), (32,), (256, 32 * 12 * 9), (256,)]


def test_dqn_net_has_the_papers_3_620_518_parameters_on_its_screens_with_pongs_six_actions():
    """accel_rl's spec 1, every convolution after the first padded: 64 x 12 x 9 cells; nature has 1,851,046 there."""
    module = make(named.model(name="dqn-net"), (4, 104, 80), "uint8", {"q": 6}, seed=0)
    assert [layer.padding for layer in module.modules() if isinstance(layer, nn.Conv2d)] == [(0, 0), (1, 1), (1, 1)]
    assert weights(module).numel() == 3_620_518
    nature = make(named.model(name="nature"), (4, 104, 80), "uint8", {"q": 6}, seed=0)
    assert weights(nature).numel() == 1_851_046


def test_mlp_flattens_scales_bytes_and_leaves_numbers_alone():
    module = network("mlp", (2, 3), hidden_sizes=[5])
    whole = images(4, (2, 3))
    torch.testing.assert_close(module(whole)["logits"], module(whole.double() / 255.0)["logits"])


def test_mlp_has_a_tanh_trunk_for_each_head():
    module = network("mlp", (4,), "float32", hidden_sizes=[8, 8])
    outputs = module(torch.ones(1, 4))
    gradients = torch.autograd.grad(outputs["value"].sum(), list(module.parameters()), allow_unused=True)
    touched = {
        name.split(".")[1] for (name, _), g in zip(module.named_parameters(), gradients, strict=True) if g is not None
    }
    assert touched == {"value"}
    assert sum(isinstance(layer, nn.Tanh) for layer in module.modules()) == 4


def widths(module: nn.Module, head: str) -> list[int]:
    """Outputs of the linear layers before the head."""
    trunk = module.trunks[head].encoder
    return [layer.out_features for layer in trunk.modules() if isinstance(layer, nn.Linear)]


@pytest.mark.parametrize("value", [[16, 4, 2], []])
def test_the_network_of_the_value_has_sizes_of_its_own(value):
    module = network("mlp", (4,), "float32", hidden_sizes=[8], value_hidden_sizes=value)
    assert (widths(module, "logits"), widths(module, "value")) == ([8], value)
    outputs = module(torch.ones(3, 4))
    assert (outputs["logits"].shape, outputs["value"].shape) == ((3, 6), (3, 1))


def test_sizes_of_the_value_that_equal_the_others_change_nothing():
    plain = network("mlp", (4,), "float32", hidden_sizes=[8, 8])
    assert torch.equal(weights(plain), weights(network("mlp", (4,), "float32", hidden_sizes=[8, 8])))
    own = network("mlp", (4,), "float32", hidden_sizes=[8, 8], value_hidden_sizes=[8, 8])
    assert torch.equal(weights(plain), weights(own))


@pytest.mark.parametrize(
    ("keys", "heads", "says"),
    [
        ({"recurrence": "gru"}, {"logits": 2, "value": 1}, "all outputs share one encoder"),
        ({}, {"q": 2}, "the algorithm has no network of a state value and no critics"),
    ],
)
def test_sizes_of_the_value_without_a_network_for_it_are_refused(keys, heads, says):
    settings = named.model("mlp", value_hidden_sizes=[8], **keys)
    with pytest.raises(ValueError, match=rf"model.value_hidden_sizes: \[8\]: .*{says}; leave the key out"):
        make(settings, (4,), "float32", heads, 0)


@pytest.mark.parametrize(
    ("word", "kind"),
    [("leaky_relu", nn.LeakyReLU), ("elu", nn.ELU), ("gelu", nn.GELU), ("silu", nn.SiLU), ("relu", nn.ReLU)],
)
def test_mlp_has_the_activation_function_that_is_named(word, kind):
    module = network("mlp", (4,), "float32", hidden_sizes=[8, 8], activation=word)
    assert sum(isinstance(layer, kind) for layer in module.modules()) == 4


@pytest.mark.parametrize(("shape", "observations"), [((), torch.tensor([3, 1])), ((3,), torch.zeros(2, 3))])
def test_mlp_takes_single_numbers_and_no_hidden_layers(shape, observations):
    assert network("mlp", shape, "int64", hidden_sizes=[])(observations)["logits"].shape == (2, 6)


@pytest.mark.parametrize("init", ["torch", "orthogonal"])
@pytest.mark.parametrize(("name", "shape"), [("nips", ATARI), ("mlp", (4,))])
def test_weights_depend_on_the_seed_alone_and_the_global_generator_is_left_alone(name, shape, init):
    torch.manual_seed(123)
    before = torch.random.get_rng_state()
    first = weights(network(name, shape, seed=5, init=init))
    assert torch.equal(torch.random.get_rng_state(), before)
    torch.manual_seed(456)
    assert torch.equal(first, weights(network(name, shape, seed=5, init=init)))
    assert not torch.equal(first, weights(network(name, shape, seed=6, init=init)))


def test_init_torch_is_uniform_within_one_over_root_fan_in():
    """PAAC's "torch" initialisation, of weights and of biases."""
    module = network()
    for layer, fan_in in (
        (module.encoder.layers[0], 4 * 64),
        (module.encoder.layers[5], 2592),
        (module.heads["logits"], 256),
    ):
        for parameter in (layer.weight, layer.bias):
            assert parameter.abs().max() <= 1 / sqrt(fan_in)
        assert layer.weight.std().item() == pytest.approx(1 / sqrt(3 * fan_in), rel=0.1)


@pytest.mark.parametrize(("name", "shape"), [("nips", ATARI), ("impala", (1, 16, 16)), ("mlp", (4,))])
def test_init_orthogonal_has_the_gains_and_no_biases(name, shape):
    module = network(name, shape, init="orthogonal")
    gains = {}
    for path, layer in module.named_modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            assert torch.all(layer.bias == 0)
            matrix = layer.weight.flatten(1).detach()
            singular = torch.linalg.svdvals(matrix)
            torch.testing.assert_close(singular, singular[0].expand_as(singular), rtol=1e-4, atol=1e-5)
            gains[path.removeprefix("trunks.logits.").removeprefix("trunks.value.")] = singular[0].item()
    assert gains.pop("heads.logits") == pytest.approx(0.01)
    assert gains.pop("heads.value") == pytest.approx(1.0)
    assert list(gains.values()) == pytest.approx([sqrt(2)] * len(gains))


def test_outputs_are_float32_under_autocast():
    with torch.autocast("cpu", dtype=torch.bfloat16):
        outputs = network()(images(2))
    assert {output.dtype for output in outputs.values()} == {torch.float32}


@pytest.mark.parametrize(
    ("changes", "heads"),
    [
        ({}, HEADS),
        ({"name": "mlp"}, HEADS),
        ({"name": "impala"}, HEADS),
        ({"noisy": 0.5}, {"q": 6}),
        ({}, {"value": 1, "advantage": 6}),
        ({}, {"value": 51, "advantage": 6 * 51}),
        ({"recurrence": "gru"}, HEADS),
    ],
)
def test_heads_are_computed_in_float32_under_autocast(changes, heads):
    """Near 3 the numbers of bfloat16 are 0.016 apart, which made ratios of unchanged policies wrong by 3 %."""
    module = make(named.model(**changes), (1, 20, 20), "uint8", heads, seed=0)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if ".bias" in name and "heads." in name:
                parameter.fill_(3.0075)  # bfloat16's nearest is 3.0
            elif "heads." in name:
                parameter.mul_(1e-4)
    rows = images(2, (1, 20, 20)), torch.zeros(1, 256), torch.zeros(1, 2, dtype=torch.bool)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        outputs = module(rows[0].unsqueeze(0), *rows[1:])[0] if "recurrence" in changes else module(rows[0])
    for output in outputs.values():
        assert output.dtype == torch.float32
        torch.testing.assert_close(output, torch.full_like(output, 3.0075), rtol=0.0, atol=1e-3)


@torch.no_grad()
def test_probabilities_of_unchanged_weights_are_those_of_acting_when_both_are_computed_in_bfloat16():
    """PPO's ratios begin at 1, however many rows are acted on and learned from together."""
    module, rows = network("nips", init="orthogonal"), images(64)
    module.heads["logits"].weight.mul_(500.0)  # a policy that has learned: its logits differ by several
    with torch.autocast("cpu", dtype=torch.bfloat16):
        acting = torch.cat([module(part)["logits"] for part in rows.split(16)]).log_softmax(-1)
        learning = module(rows)["logits"].log_softmax(-1)
    assert acting.std() > 1.0
    assert ((learning - acting).exp() - 1.0).abs().max() < 1e-3


def test_a_network_of_ones_own_gets_shape_and_heads_and_is_seeded():
    name = f"{__name__}:Own"
    first, again = (make(named.model(name=name), [2, 3], "float32", HEADS, seed=1) for _ in range(2))  # type: ignore[arg-type]
    assert isinstance(first, Own) and first.observation_shape == (2, 3)
    assert torch.equal(weights(first), weights(again))
    for key, value in (("init", "orthogonal"), ("recurrence", "lstm"), ("noisy", 0.5)):
        with pytest.raises(msgspec.ValidationError, match=f"unknown field `{key}`"):
            named.model(name=name, **{key: value})


class Sized(Own):
    """Has a key of its own, and is handed its settings."""

    class Settings(ModelSettings, frozen=True, kw_only=True):
        size: int = 3

    def __init__(self, observation_shape, heads, settings) -> None:
        super().__init__(observation_shape, heads)
        self.size = settings.size


class Halves(nn.Module):
    """An encoder of one's own: what the house adds to encoders goes for it too."""

    class Settings(EncoderSettings, frozen=True, kw_only=True):
        pass

    def __init__(self, settings, observation_shape) -> None:
        super().__init__()
        self.features = observation_shape[0]

    def forward(self, observation: Tensor) -> Tensor:
        return observation.float() / 2


def test_a_network_of_ones_own_has_keys_of_its_own():
    assert make(named.model(f"{__name__}:Sized", size=5), (2, 3), "float32", HEADS, seed=1).size == 5


def test_an_encoder_of_ones_own_gets_heads_a_cell_and_noise():
    heads = make(named.model(f"{__name__}:Halves", noisy=0.5), (3,), "float32", HEADS, seed=1)
    assert {name: head.shape for name, head in heads(torch.ones(2, 3)).items()} == {"logits": (2, 6), "value": (2, 1)}
    assert state_size(make(named.model(f"{__name__}:Halves", recurrence="lstm"), (3,), "float32", HEADS, seed=1)) == 512


@pytest.mark.parametrize("name", ["resnet", "json", "no.such.module:X", "json:NoSuchName"])
def test_names_that_lead_nowhere_are_refused_with_the_way_out(name):
    with pytest.raises(ValueError, match=rf"model\.name: '{name}'"):
        network(name)


@pytest.mark.parametrize(("key", "value"), [("init", "xavier"), ("hidden_sizes", [64, 0]), ("stream_gradient", 0.5)])
def test_settings_without_meaning_are_refused_by_name(key, value):
    with pytest.raises(msgspec.ValidationError, match=key):
        named.model("mlp", **{key: value})


def test_an_observation_type_that_is_no_number_is_refused():
    with pytest.raises(ValueError, match="'object' is not a numpy number type"):
        network("mlp", (4,), "object")


@pytest.mark.parametrize(("name", "shape", "dtype"), [("nips", ATARI, "uint8"), ("mlp", (3,), "float32")])
@pytest.mark.parametrize("init", ["torch", "orthogonal"])
def test_a_deviation_is_a_parameter_of_its_own_whatever_is_seen(name, shape, dtype, init):
    heads = {"log_std": 2, "mean": 2, "value": 1}
    module = make(named.model(name=name, init=init), shape, dtype, heads, 0)
    seen = images(5, shape) if dtype == "uint8" else torch.randn(5, *shape)
    outputs = module(seen)
    assert {head: output.shape for head, output in outputs.items()} == {h: (5, size) for h, size in heads.items()}
    assert not outputs["log_std"].any()
    free = {path: p for path, p in module.named_parameters() if "log_std" in path}
    assert [tuple(p.shape) for p in free.values()] == [(2,)]
    outputs["log_std"].sum().backward()
    assert next(iter(free.values())).grad.tolist() == [5.0, 5.0]
    if init == "orthogonal":
        assert outputs["mean"].abs().max() < 0.1, "a policy begins around 0"


@pytest.mark.parametrize("recurrence", ["none", "gru"])
def test_a_deviation_begins_where_the_settings_say(recurrence):
    model = named.model("mlp", log_std_init=-1.5, recurrence=recurrence)
    module = make(model, (3,), "float32", {"log_std": 2, "mean": 2, "value": 1}, 0)
    assert [p.tolist() for path, p in module.named_parameters() if "log_std" in path] == [[-1.5, -1.5]]


def test_a_trunk_that_is_not_asked_for_is_not_computed() -> None:
    made = make(named.model("mlp"), (4,), "float32", {"logits": 2, "value": 1}, 0)
    observation = torch.randn(3, 4)
    whole = made(observation)
    ask_only(made, ["logits"])
    asked = made(observation)
    assert [*whole] == ["logits", "value"] and [*asked] == ["logits"]
    assert torch.equal(asked["logits"], whole["logits"])


def test_a_shared_trunk_computes_all_heads_whatever_is_asked_for() -> None:
    made = network("nips")
    ask_only(made, ["logits"])
    assert made(images(1)).keys() == HEADS.keys()
