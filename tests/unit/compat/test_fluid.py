"""``fluid.layers`` and its neighbours as far as they go without PaddlePaddle."""

import sys
from types import SimpleNamespace

import pytest

from trainfeed.compat.paddle import fluid
from trainfeed.compat.plsc.models.base_model import BaseModel, require_network
from trainfeed.errors import ConfigError


@pytest.mark.parametrize(
    "name", ["layers.lstm", "initializer.MSRA", "optimizer.Ftrl", "param_attr.WeightNormParamAttr"]
)
def test_a_name_that_no_network_of_plsc_uses_is_not_offered(name):
    room, last = name.split(".")
    with pytest.raises(AttributeError, match=f"fluid.{name} is not offered"):
        getattr(getattr(fluid, room), last)


def test_a_layer_outside_of_a_network_is_refused_before_the_framework_is_imported():
    with pytest.raises(ConfigError, match="inside of build_network"):
        fluid.layers.prelu(None, "all")


def test_without_the_framework_an_operator_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "paddle", None)
    with pytest.raises(ConfigError, match=r"install trainfeed\[paddle\]"):
        fluid.layers.relu(None)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: fluid.layers.prelu(None, "element"), "'all' or 'channel'"),
        (lambda: fluid.layers.dropout(None, 0.5, dropout_implementation="up"), "upscale_in_train"),
    ],
)
def test_a_wrong_choice_is_named(call, said):
    with pytest.raises(ConfigError, match=said):
        call()


def test_optimizers_take_the_arguments_of_the_originals_in_their_order():
    momentum = fluid.optimizer.Momentum(0.1, 0.8, regularization=fluid.regularizer.L2Decay(1e-4))
    assert (momentum.learning_rate, momentum.momentum) == (0.1, 0.8)
    adam = fluid.optimizer.Adam(0.1, 0.8, 0.99, 1e-6)
    assert (adam.beta1, adam.beta2, adam.epsilon) == (0.8, 0.99, 1e-6)


def test_an_optimizer_is_made_with_its_fields_under_the_names_of_paddle(monkeypatch):
    def kind(name):
        return lambda **given: (name, given)

    optimizers = SimpleNamespace(**{name: kind(name) for name in ("SGD", "Momentum", "Adam")})
    decay = SimpleNamespace(L2Decay=lambda factor: ("L2Decay", factor))
    stub = SimpleNamespace(optimizer=optimizers, regularizer=decay)
    monkeypatch.setitem(sys.modules, "paddle", stub)
    shared = {"parameters": [1], "weight_decay": None, "grad_clip": None}
    assert fluid.optimizer.SGD(0.5).made((1,)) == ("SGD", {"learning_rate": 0.5, **shared})
    l2 = fluid.regularizer.L2Decay(1e-4)
    name, given = fluid.optimizer.Momentum(0.1, 0.8, regularization=l2).made([1])
    own = {"learning_rate": 0.1, "momentum": 0.8, "use_nesterov": False}
    assert (name, given) == ("Momentum", {**shared, **own, "weight_decay": ("L2Decay", 1e-4)})
    name, given = fluid.optimizer.Adam(0.1, grad_clip="clip").made([1])
    own = {"learning_rate": 0.1, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8}
    assert (name, given) == ("Adam", {**shared, **own, "grad_clip": "clip"})


def test_the_base_class_of_the_optimizers_cannot_be_set():
    with pytest.raises(TypeError, match="abstract"):
        fluid.optimizer.Optimizer(0.1)


def test_a_model_without_a_network_is_refused():
    class Empty(BaseModel):
        pass

    with pytest.raises(ConfigError, match="expected Empty to override build_network"):
        require_network(Empty())
