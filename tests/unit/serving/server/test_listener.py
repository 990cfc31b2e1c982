"""The socket of a server."""

import socket

import pytest

from trainfeed.serving.server import ServerSettings
from trainfeed.serving.server.run import _listening

pytestmark = pytest.mark.usefixtures("socket_enabled")


def test_a_small_answer_is_not_kept_back_until_its_head_is_acknowledged(tmp_path):
    # asyncio sets TCP_NODELAY only on sockets that name their protocol.
    with _listening(ServerSettings(tmp_path / "tokens.txt")) as listener:
        assert listener.proto == socket.IPPROTO_TCP
