"""The service of predictions: ``trainfeed serve``."""

from trainfeed.prediction.service._batcher import BatchBounds
from trainfeed.prediction.service._model_service import ServiceSettings, serve_model

__all__ = ["BatchBounds", "ServiceSettings", "serve_model"]
