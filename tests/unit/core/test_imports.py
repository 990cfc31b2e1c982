"""Many modules are imported without the search for garbage, which goes on afterwards."""

import gc
import sys
from importlib import import_module
from types import ModuleType

import pytest

from trainfeed.core.imports import without_collection


def test_garbage_is_collected_again_after_the_imports_also_after_one_that_fails():
    with pytest.raises(ImportError), without_collection():
        import_module("gc" if gc.isenabled() else "trainfeed.nothing")
    assert gc.isenabled()


def test_only_what_new_modules_left_is_not_looked_at_any_more(monkeypatch):
    before = gc.get_freeze_count()
    with without_collection():
        import_module("gc")
    assert gc.get_freeze_count() == before
    with without_collection():
        monkeypatch.setitem(sys.modules, "trainfeed.made_here", ModuleType("made_here"))
    assert gc.get_freeze_count() > before
    gc.unfreeze()


def test_a_process_that_collects_no_garbage_goes_on_so():
    gc.disable()
    try:
        with without_collection():
            import_module("gc")
        assert not gc.isenabled()
    finally:
        gc.enable()
