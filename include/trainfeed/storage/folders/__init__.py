"""Whole folders between this machine and a store: complete under their name, or absent.

A folder is copied to a temporary name beside its target, every file is read back and compared, the
manifest ``TRANSFER.json`` is written last, and one rename gives the folder its name. A transfer
never replaces, merges or deletes a folder that is there.
"""

from trainfeed.storage.folders._folder_manifest import TRANSFER_MANIFEST, FolderFile, FolderManifest
from trainfeed.storage.folders._inner_names import check_inner_name
from trainfeed.storage.folders._patience import Patience
from trainfeed.storage.folders._temporary_folder import is_temporary
from trainfeed.storage.folders._transfer import download, download_below, upload
from trainfeed.storage.folders._transfer_report import TransferReport
from trainfeed.storage.folders._verification import read_manifest, verify
from trainfeed.storage.folders._waiting import wait_for
from trainfeed.storage.folders._write_proof import require_writable

__all__ = [
    "TRANSFER_MANIFEST",
    "FolderFile",
    "FolderManifest",
    "Patience",
    "TransferReport",
    "check_inner_name",
    "download",
    "download_below",
    "is_temporary",
    "read_manifest",
    "require_writable",
    "upload",
    "verify",
    "wait_for",
]
