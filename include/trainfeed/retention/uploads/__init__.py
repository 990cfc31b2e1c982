"""Retention of uploads: files and kept bytes of retired intervals; the receipts stay."""

from trainfeed.retention.uploads._upload_kind import RetiredUploads

__all__ = ["RetiredUploads"]
