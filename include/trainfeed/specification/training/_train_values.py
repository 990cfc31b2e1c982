"""The texts of ``train``: image, names and labels of a cluster, variables of the ranks.

A text that Kubernetes would refuse when the training starts is refused with the specification.
"""

from __future__ import annotations

import re
from typing import Annotated, Final

from pydantic import AfterValidator

from trainfeed.specification._spec_values import WrongValueError, matching, pattern_schema

__all__ = ["DnsName", "Image", "LabelName", "LabelValue", "PlainText", "Variable"]

_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?")
_DNS = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_DNS_RULE = "lower-case letters, digits and -, at most 63 characters"
_SUBDOMAIN = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?){0,8}"
_QUALIFIED = re.compile(rf"({_SUBDOMAIN}/)?[A-Za-z0-9]([A-Za-z0-9._-]{{0,61}}[A-Za-z0-9])?")
_IMAGE = re.compile(
    r"(?=.{1,400}$)([a-z0-9]([a-z0-9.-]*[a-z0-9])?(:[0-9]{1,5})?/)?"
    r"[a-z0-9]+([._/-]+[a-z0-9]+)*(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@sha256:[0-9a-f]{64})?"
)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_RESERVED = re.compile(
    r"(TRAINFEED|KUBERNETES|PADDLE|PET|TRAINER|TRAINERS|JOB_COMPLETION)(_.*)?"
    r"|RANK|LOCAL_RANK|WORLD_SIZE|MASTER_ADDR|MASTER_PORT|ENTRY|POD_IP"
    r"|PATH|PYTHONPATH|PYTHONHOME|LD_.*"
)
_MOST_CHARS: Final = 32 << 10


def _plain_text(text: str) -> str:
    if "\0" in text or len(text) > _MOST_CHARS:
        raise WrongValueError(f"a text of at most {_MOST_CHARS} characters without NUL")
    return text


def _variable(name: str) -> str:
    if _VARIABLE.fullmatch(name) is None:
        raise WrongValueError("a variable name (letters, digits and _, at most 128 characters)")
    if _RESERVED.fullmatch(name) is not None:
        raise WrongValueError("a variable that neither trainfeed nor a launcher sets", "rename it")
    return name


Image = Annotated[
    str,
    matching(_IMAGE, "an image, such as registry/trainer@sha256:… or registry/trainer:tag"),
    pattern_schema(_IMAGE),
]
DnsName = Annotated[str, matching(_DNS, f"a name ({_DNS_RULE})"), pattern_schema(_DNS)]
LabelName = Annotated[
    str,
    matching(_QUALIFIED, "a label name, with or without domain/ in front"),
    pattern_schema(_QUALIFIED),
]
LabelValue = Annotated[
    str,
    matching(_LABEL_VALUE, "a label value (letters, digits, '.', '_' and '-', at most 63)"),
    pattern_schema(_LABEL_VALUE),
]
Variable = Annotated[str, AfterValidator(_variable)]
PlainText = Annotated[str, AfterValidator(_plain_text)]
