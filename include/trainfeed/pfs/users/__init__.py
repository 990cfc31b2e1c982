"""Users of shared storage on a CephFS: a home, a namespace of objects, a key and a quota for each.

Path caps keep users from names; only a namespace keeps them from the bytes of others.
"""

from trainfeed.pfs.users._add_user import AddedUser, add_user
from trainfeed.pfs.users._ceph_program import CephProgram
from trainfeed.pfs.users._home_folder import HomeWish
from trainfeed.pfs.users._list_users import UserState, list_users, public_problems
from trainfeed.pfs.users._remove_user import RemovedUser, remove_user
from trainfeed.pfs.users._shared_layout import Layout
from trainfeed.pfs.users._shared_storage import SharedStorage, open_shared_storage
from trainfeed.pfs.users._user_name import require_user_name
from trainfeed.pfs.users._user_record import lost_attributes, require_attributes
from trainfeed.pfs.users._user_sessions import EndedSessions

__all__ = [
    "AddedUser",
    "CephProgram",
    "EndedSessions",
    "HomeWish",
    "Layout",
    "RemovedUser",
    "SharedStorage",
    "UserState",
    "add_user",
    "list_users",
    "lost_attributes",
    "open_shared_storage",
    "public_problems",
    "remove_user",
    "require_attributes",
    "require_user_name",
]
