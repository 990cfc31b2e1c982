"""The setters of what an ``Entry`` trains: network, head, optimizer, mixed precision.

Their values are objects of the caller or of the framework, checked without importing the framework.
"""

from __future__ import annotations

from dataclasses import replace
from inspect import signature
from typing import Any

from trainfeed.compat.paddle.fluid.optimizer import Optimizer
from trainfeed.compat.plsc._checked_values import flag, real, refused, takes_three
from trainfeed.compat.plsc._settings import (
    EntrySettings,
    LossType,
    MixedPrecision,
    rank_from_environ,
)
from trainfeed.compat.plsc.models.base_model import BaseModel
from trainfeed.whole_numbers import whole_value

__all__ = ["NetworkSetters"]


class NetworkSetters:
    """The settings of an entry, and the methods that change its network and optimizer."""

    __slots__ = ("_settings",)

    def __init__(self) -> None:
        rank, world_size = rank_from_environ()
        self._settings = EntrySettings(rank=rank, world_size=world_size)

    @property
    def settings(self) -> EntrySettings:
        """The settings as they are now."""
        return self._settings

    @property
    def margin(self) -> float:
        """Margin of ArcFace in radians; assignable."""
        return self._settings.margin

    @margin.setter
    def margin(self, value: float) -> None:
        self._set(margin=real("margin", value))

    @property
    def scale(self) -> float:
        """Scale of ArcFace's logits; assignable."""
        return self._settings.scale

    @scale.setter
    def scale(self, value: float) -> None:
        self._set(scale=real("scale", value, above=0))

    def set_loss_type(self, loss_type: object) -> None:
        """Set the head: softmax, arcface, dist_softmax or dist_arcface."""
        names = [kind.value for kind in LossType]
        if not isinstance(loss_type, str) or loss_type not in names:
            raise refused(f"loss_type among {', '.join(names)}", loss_type)
        self._set(loss_type=LossType(loss_type))

    def set_model(self, model: object) -> None:
        """Set the network: an object of a class that overrides ``BaseModel.build_network``."""
        if not isinstance(model, BaseModel):
            raise refused(
                "an object of a class derived from trainfeed.compat.plsc.models.BaseModel", model
            )
        if type(model).build_network is BaseModel.build_network:
            raise refused("a class that overrides build_network(input, label, is_train)", model)
        if not takes_three(model.build_network):
            raise refused(
                "build_network with the arguments input, label and is_train",
                str(signature(model.build_network)),
            )
        self._set(model=model)

    def set_optimizer(self, optimizer: Any) -> None:
        """Set the optimizer, in place of momentum with the rate of the settings.

        Args:
            optimizer: Of ``trainfeed.compat.paddle.fluid.optimizer``, or a function from a list of
                parameters to an optimizer of ``paddle.optimizer``: the parameters do not exist yet.
        """
        is_made = hasattr(optimizer, "minimize") or isinstance(optimizer, type)
        if not isinstance(optimizer, Optimizer) and (is_made or not callable(optimizer)):
            raise refused(
                "an optimizer of trainfeed.compat.paddle.fluid.optimizer, or a function that makes"
                " one of paddle.optimizer from a list of parameters",
                optimizer,
            )
        self._set(optimizer=optimizer)

    def set_distfc_attr(self, param_attr: Any = None, bias_attr: Any = None) -> None:
        """Set the attributes of the weights and of the bias of the head; None for the defaults."""
        for name, value in (("param_attr", param_attr), ("bias_attr", bias_attr)):
            if value is not None and not hasattr(value, "initializer"):
                raise refused(f"{name} as a ParamAttr", value)
        self._set(distfc_param_attr=param_attr, distfc_bias_attr=bias_attr)

    def set_mixed_precision(  # noqa: PLR0913, PLR0917 (the original's arguments)
        self,
        use_fp16: bool,
        init_loss_scaling: float = 1.0,
        incr_every_n_steps: int = 2000,
        decr_every_n_nan_or_inf: int = 2,
        incr_ratio: float = 2.0,
        decr_ratio: float = 0.5,
        use_dynamic_loss_scaling: bool = True,
        amp_lists: Any = None,
    ) -> None:
        """Set the parameters of mixed precision; see ``MixedPrecision``."""
        self._set(
            mixed_precision=MixedPrecision(
                use_fp16=flag("use_fp16", use_fp16),
                init_loss_scaling=real("init_loss_scaling", init_loss_scaling, above=0),
                incr_every_n_steps=whole_value("incr_every_n_steps", incr_every_n_steps, 1),
                decr_every_n_nan_or_inf=whole_value(
                    "decr_every_n_nan_or_inf", decr_every_n_nan_or_inf, 1
                ),
                incr_ratio=real("incr_ratio", incr_ratio, above=1),
                decr_ratio=_shrinking(decr_ratio),
                use_dynamic_loss_scaling=flag("use_dynamic_loss_scaling", use_dynamic_loss_scaling),
                amp_lists=amp_lists,
            )
        )

    def _set(self, **values: Any) -> None:
        self._settings = replace(self._settings, **values)


def _shrinking(value: object) -> float:
    ratio = real("decr_ratio", value, above=0)
    if ratio >= 1:
        raise refused("decr_ratio below 1", value)
    return ratio
