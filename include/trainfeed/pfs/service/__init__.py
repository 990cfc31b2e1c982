"""The file server: ``trainfeed pfs serve``."""

from trainfeed.pfs.service._file_server import FileServerSettings, make_file_server, serve_files
from trainfeed.pfs.service._shares import FileLimits

__all__ = ["FileLimits", "FileServerSettings", "make_file_server", "serve_files"]
