"""The recording and training flags, and the scopes that set them."""

import pickle

import numpy as np
import pytest

from phonograd import autograd, nd

from .arrays import flags, values, variable


def test_flags_start_off_and_are_plain_booleans():
    assert autograd.is_recording() is False
    assert autograd.is_training() is False
    for wrong in ([1], {"x": 1}):
        with pytest.raises(TypeError):
            autograd.is_recording(*wrong)


@pytest.mark.parametrize(
    "setter, getter",
    [
        (autograd.set_recording, autograd.is_recording),
        (autograd.set_training, autograd.is_training),
    ],
)
def test_setting_a_flag_returns_the_one_before(setter, getter):
    assert setter(True) is False
    assert setter(True) is True
    assert getter() is True
    assert setter(False) is True
    assert getter() is False


@pytest.mark.parametrize("value", [1, 5, -1, np.bool_(True), np.int64(3), np.uint8(1)])
def test_whole_numbers_are_flags(value):
    autograd.set_recording(value)
    autograd.set_training(value)
    assert flags() == (True, True)
    assert autograd.set_recording(type(value)(0)) is True
    assert autograd.set_training(np.bool_(False)) is True
    assert flags() == (False, False)


@pytest.mark.parametrize("value", [None, "1", 1.0, np.float32(1), [True], nd.ones((1,), dtype="int32")])
def test_other_things_are_no_flags(value):
    for setter in (autograd.set_recording, autograd.set_training):
        with pytest.raises(TypeError, match="a flag must be"):
            setter(value)
    assert flags() == (False, False)


def test_flags_are_independent():
    autograd.set_recording(True)
    assert flags() == (True, False)
    autograd.set_training(True)
    autograd.set_recording(False)
    assert flags() == (False, True)
    autograd.set_training(False)


@pytest.mark.parametrize("outside", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize(
    "scope, recording, training",
    [
        (autograd.record, True, True),
        (lambda: autograd.record(train_mode=False), True, False),
        (lambda: autograd.record(False), True, False),
        (lambda: autograd.record(train_mode=None), True, None),
        (lambda: autograd.record(train_mode=7), True, True),
        (autograd.pause, False, False),
        (lambda: autograd.pause(train_mode=True), False, True),
        (lambda: autograd.pause(train_mode=None), False, None),
        (autograd.train_mode, None, True),
        (autograd.predict_mode, None, False),
    ],
)
def test_what_each_scope_sets(outside, scope, recording, training):
    autograd.set_recording(outside[0])
    autograd.set_training(outside[1])
    inside = (outside[0] if recording is None else recording, outside[1] if training is None else training)
    with scope() as bound:
        assert bound is None
        assert flags() == inside
    assert flags() == outside
    autograd.set_recording(False)
    autograd.set_training(False)


def test_modes_take_no_arguments():
    for scope in (autograd.train_mode, autograd.predict_mode):
        with pytest.raises(TypeError):
            scope(True)


def test_scopes_nest():
    with autograd.record():
        with autograd.pause():
            assert flags() == (False, False)
            with autograd.record(train_mode=False):
                assert flags() == (True, False)
                with autograd.train_mode():
                    assert flags() == (True, True)
                assert flags() == (True, False)
            assert flags() == (False, False)
        assert flags() == (True, True)
    assert flags() == (False, False)


def test_exceptions_go_through_and_flags_come_back():
    def fail(scope, error):
        with scope:
            raise error

    with autograd.record():
        with pytest.raises(KeyError):
            fail(autograd.pause(), KeyError)
        assert flags() == (True, True)
    with pytest.raises(ZeroDivisionError):
        fail(autograd.record(), ZeroDivisionError)
    assert flags() == (False, False)


def test_a_scope_is_used_again_and_inside_itself():
    scope = autograd.record()
    for _ in range(3):
        with scope:
            assert flags() == (True, True)
        assert flags() == (False, False)
    with scope, autograd.pause(), scope:
        assert flags() == (True, True)
        with scope:
            assert flags() == (True, True)
        assert flags() == (True, True)
    assert flags() == (False, False)


def test_flags_are_restored_whatever_the_block_did_to_them():
    autograd.set_recording(True)
    with autograd.record():
        autograd.set_recording(False)
        autograd.set_training(False)
    assert flags() == (True, False)
    with autograd.train_mode():
        autograd.set_recording(False)
    assert flags() == (False, False), "a scope that leaves a flag alone does not restore it"


def test_leaving_without_entering():
    scope = autograd.record()
    with pytest.raises(TypeError):
        scope.__exit__(None, None, None)
    with scope:
        pass
    with pytest.raises(TypeError):
        scope.__exit__(None, None, None)


@pytest.mark.parametrize("wrong", ["a", 1.5, [1]])
def test_a_scope_with_a_wrong_mode_changes_nothing(wrong):
    with pytest.raises(TypeError, match="a flag must be"), autograd.record(train_mode=wrong):
        pass
    assert flags() == (False, False)


def test_a_scope_can_be_pickled_even_while_it_is_open():
    scope = autograd.record(train_mode=False)
    with scope:
        other = pickle.loads(pickle.dumps(scope))
    assert (other._enter_is_record, other._enter_train_mode) == (True, False)
    with other:
        assert flags() == (True, False)
    assert flags() == (False, False)


def test_a_decorated_function():
    @autograd.record()
    def square(x, *, power=2):
        """Multiply."""
        assert flags() == (True, True)
        return x**power

    x = variable([3.0])
    y = square(x, power=3)
    assert flags() == (False, False)
    y.backward()
    assert values(x.grad) == [27]
    assert (square.__name__, square.__doc__) == ("square", "Multiply.")

    @autograd.pause()
    def fails():
        raise ZeroDivisionError

    with autograd.record():
        with pytest.raises(ZeroDivisionError):
            fails()
        assert flags() == (True, True)


def test_a_decorated_function_calls_itself():
    @autograd.record()
    def depth(n):
        assert flags() == (True, True)
        with autograd.pause():
            return 0 if n == 0 else 1 + depth(n - 1)

    assert depth(5) == 5
    assert flags() == (False, False)


def test_a_generator_with_a_scope_inside():
    def pieces():
        with autograd.record():
            yield 1
            yield 2

    generator = pieces()
    next(generator)
    assert flags() == (True, True), "as with any context manager, the block is open between the steps"
    generator.close()
    assert flags() == (False, False)


def test_scopes_left_in_another_order():
    def pieces():
        with autograd.record():
            yield

    generator = pieces()
    next(generator)
    with autograd.predict_mode():
        generator.close()
        assert flags() == (False, False)
    assert flags() == (False, True), "what it was when the scope was entered"
    autograd.set_training(False)


def test_a_decorated_generator_has_the_flags_only_while_it_runs():
    seen = []

    @autograd.record()
    def pieces(x):
        try:
            got = yield x * 2
            seen.append((got, flags()))
            yield x * 3
        except ValueError:
            seen.append(("thrown", flags()))
            yield x * 4
        finally:
            seen.append(("closed", flags()))
        return "end"

    x = variable([1.0])
    generator = pieces(x)
    first = next(generator)
    assert flags() == (False, False)
    first.backward()
    assert values(x.grad) == [2]
    generator.send("sent").backward()
    assert values(x.grad) == [3]
    generator.throw(ValueError).backward()
    assert values(x.grad) == [4]
    with pytest.raises(StopIteration) as stop:
        next(generator)
    assert stop.value.value == "end"
    assert seen == [("sent", (True, True)), ("thrown", (True, True)), ("closed", (True, True))]
    other = pieces(x)
    next(other)
    other.close()
    assert seen[-1] == ("closed", (True, True))
    assert flags() == (False, False)


def test_an_asynchronous_generator_cannot_be_decorated():
    with pytest.raises(TypeError, match="asynchronous generator"):

        @autograd.record()
        async def pieces():
            yield 1


def test_the_training_flag_reaches_operators():
    x = nd.ones((1000,))
    with autograd.train_mode():
        assert 0 in values(nd.Dropout(x, p=0.5))
    with autograd.record(train_mode=False):
        assert 0 not in values(nd.Dropout(x, p=0.5))
    with autograd.record():
        with autograd.predict_mode():
            assert 0 not in values(nd.Dropout(x, p=0.5))
        assert 0 in values(nd.Dropout(x, p=0.5))
    assert 0 not in values(nd.Dropout(x, p=0.5))


def test_the_names_that_a_star_import_brings():
    scope = {}
    exec("from phonograd.autograd import *", scope)
    expected = (
        "set_recording set_training is_recording is_training record pause train_mode predict_mode mark_variables "
        "backward grad get_symbol Function NDArray Symbol"
    )
    assert set(expected.split()) <= set(scope)
    assert scope["NDArray"] is nd.NDArray


@pytest.mark.parametrize("reads", [1, 20])
def test_reading_while_recording_is_paused_changes_no_bit_of_gradients(reads):
    factors = np.random.default_rng(0).normal(size=(12, 5))

    def gradient(reads):
        x = nd.array(np.arange(1.0, 6.0), dtype="float64")
        x.attach_grad()
        with autograd.record():
            total = x * 0
            for factor in factors:
                total = total + x * nd.array(factor, dtype="float64") * x
                with autograd.pause():
                    for _ in range(reads):
                        (x + 1).asnumpy()
        total.backward()
        return x.grad.asnumpy().tobytes()

    assert gradient(reads) == gradient(0)
