"""Scopes of old scripts: AttrScope, NameManager, Prefix and the bulk size."""

import threading

import pytest

from phonograd import engine
from phonograd.attribute import AttrScope
from phonograd.name import NameManager, Prefix


def in_another_thread(function):
    results = []
    thread = threading.Thread(target=lambda: results.append(function()))
    thread.start()
    thread.join()
    return results[0]


def test_attributes_are_merged():
    assert AttrScope(a="1").get({"b": "2"}) == {"a": "1", "b": "2"}
    assert AttrScope(a="1").get({"a": "2"}) == {"a": "2"}
    assert AttrScope(a="1").get(None) == {"a": "1"}
    assert AttrScope().get(None) == {}


def test_inner_attributes_win():
    with AttrScope(a="1", c="x") as outer:
        assert AttrScope.current is outer
        with AttrScope(a="2"):
            assert AttrScope.current.get({"z": "q"}) == {"a": "2", "c": "x", "z": "q"}
        assert AttrScope.current.get({}) == {"a": "1", "c": "x"}
    assert AttrScope.current.get({}) == {}


def test_an_attribute_scope_forgets_where_it_was_used():
    scope = AttrScope(b="2")
    with AttrScope(a="1"), scope:
        assert AttrScope.current.get({}) == {"a": "1", "b": "2"}
    with scope, scope:
        assert AttrScope.current.get({}) == {"b": "2"}
    assert scope.get({}) == {"b": "2"}


def test_attributes_are_text():
    with pytest.raises(ValueError, match="Attributes need to be string"):
        AttrScope(a=1)


def test_attributes_belong_to_a_thread_and_can_be_replaced():
    with AttrScope(a="1"):
        assert in_another_thread(lambda: AttrScope.current.get({})) == {}
        before = AttrScope.current
        AttrScope.current = AttrScope(b="2")
        assert AttrScope.current.get({}) == {"b": "2"}
        AttrScope.current = before


def test_names_are_numbered_by_hint():
    names = NameManager()
    assert [names.get(None, "fc"), names.get("", "fc"), names.get(None, "conv")] == ["fc0", "fc1", "conv0"]
    assert names.get("mine", "fc") == "mine"


def test_name_scopes_nest():
    outside = NameManager.current
    with NameManager() as names:
        assert NameManager.current is names
        assert in_another_thread(lambda: NameManager.current is names) is False
        with Prefix("net_") as prefixed:
            assert NameManager.current is prefixed
            assert [prefixed.get(None, "fc"), prefixed.get("mine", "fc")] == ["net_fc0", "net_mine"]
        assert NameManager.current is names
    assert NameManager.current is outside


def test_the_bulk_size_is_remembered():
    assert engine.set_bulk_size(10) == 0
    with engine.bulk(3) as scope:
        assert scope is not None
        assert engine.set_bulk_size(4) == 3
    assert in_another_thread(lambda: engine.set_bulk_size(0)) == 0
    assert engine.set_bulk_size(0) == 10


def test_the_bulk_size_is_a_whole_number():
    for wrong in ("a", 1.5, None):
        with pytest.raises(TypeError):
            engine.set_bulk_size(wrong)
    with pytest.raises(ValueError, match="must not be negative"):
        engine.set_bulk_size(-1)
