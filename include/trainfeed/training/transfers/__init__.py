"""Models to and from stores around a training, outside its ranks; each step can be repeated."""

from trainfeed.training.transfers._model_upload import (
    missing_upload,
    require_upload,
    upload_model,
    upload_version,
)
from trainfeed.training.transfers._start_model import (
    download_start_model,
    has_start_model,
    open_start_model,
    start_model_digest,
)

__all__ = [
    "download_start_model",
    "has_start_model",
    "missing_upload",
    "open_start_model",
    "require_upload",
    "start_model_digest",
    "upload_model",
    "upload_version",
]
