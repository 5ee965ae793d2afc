"""Random arrays: reproducible whatever is evaluated when, with the shapes, dtypes and distributions asked for."""

import itertools
import math
import os
import threading

import numpy as np
import pytest

import phonograd as mx
from phonograd import autograd, nd, settings
from phonograd.core.graph.node import statistics
from phonograd.test_utils import chi_square_check, gen_buckets_probs_with_ppf, mean_check, var_check, verify_generator

random = nd.random


def program(between=lambda array: None):
    """Return the numbers of a program; ``between`` is called with each array as it is made."""
    mx.random.seed(42)
    arrays = []
    for make in (
        lambda: random.uniform(-1, 1, shape=(3, 4)),
        lambda: random.normal(2, 3, shape=(5,), dtype="float64"),
        lambda: random.randint(0, 100, shape=(7,)),
        lambda: random.exponential(2.0, shape=(2, 2)),
        lambda: random.gamma(2.0, 0.5, shape=(4,)),
        lambda: random.poisson(3.0, shape=(6,)),
        lambda: random.shuffle(nd.arange(10)),
        lambda: random.multinomial(nd.array([0.2, 0.3, 0.5]), shape=8),
        lambda: nd.Dropout(nd.ones((20,)), p=0.5, mode="always"),
        lambda: random.negative_binomial(3, 0.4, shape=(5,)),
    ):
        array = make()
        between(array)
        arrays.append(array)
    return [array.asnumpy() for array in arrays]


class TestReproducibility:
    def test_same_seed_same_numbers(self):
        for first, second in zip(program(), program()):
            np.testing.assert_array_equal(first, second)

    def test_another_seed_other_numbers(self):
        mx.random.seed(1)
        first = random.uniform(shape=(100,)).asnumpy()
        mx.random.seed(2)
        assert not np.array_equal(random.uniform(shape=(100,)).asnumpy(), first)

    @pytest.mark.parametrize(
        "between",
        [
            lambda array: array.asnumpy(),
            lambda array: nd.waitall(),
            lambda array: (nd.ones((3, 3)) * 2).asnumpy(),
            lambda array: repr(array),
            lambda array: (array.astype("float32") * 2 + 1).sum(),
        ],
    )
    def test_it_does_not_matter_what_is_evaluated_when(self, between):
        for expected, found in zip(program(), program(between)):
            np.testing.assert_array_equal(found, expected)

    def test_recording_and_engines_do_not_matter(self):
        expected = program()
        with autograd.record(train_mode=False):
            recorded = program()
        with settings.override(naive=True):
            naive = program()
        for one, two, three in zip(expected, recorded, naive):
            np.testing.assert_array_equal(one, two)
            np.testing.assert_array_equal(one, three)

    def test_order_of_evaluation_does_not_matter(self):
        mx.random.seed(5)
        a, b = random.uniform(shape=(4,)), random.uniform(shape=(4,))
        first = (b.asnumpy(), a.asnumpy())
        mx.random.seed(5)
        a, b = random.uniform(shape=(4,)), random.uniform(shape=(4,))
        second = (a.asnumpy(), b.asnumpy())
        np.testing.assert_array_equal(first[1], second[0])
        np.testing.assert_array_equal(first[0], second[1])

    def test_calls_differ_from_each_other(self):
        seen = {random.uniform(shape=(4,)).asnumpy().tobytes() for _ in range(50)}
        assert len(seen) == 50

    def test_looking_twice_gives_the_same_numbers(self):
        x = random.uniform(shape=(4,))
        y = x * 1
        np.testing.assert_array_equal(x.asnumpy(), y.asnumpy())
        np.testing.assert_array_equal(x.asnumpy(), x.asnumpy())

    @pytest.mark.usefixtures("planned")
    def test_loop_makes_no_new_expressions_but_new_numbers(self):
        def step():
            return (random.normal(0, 1, shape=(3,)) + random.uniform(shape=(3,))).asnumpy().tobytes()

        step()
        step()
        before = statistics.snapshot()
        assert len({step() for _ in range(5)}) == 5
        after = statistics.snapshot()
        assert (after["nodes"], after["plans"]) == (before["nodes"], before["plans"])

    def test_gradient_sees_the_numbers_of_the_forward_pass(self):
        x = nd.ones((50,))
        x.attach_grad()
        with autograd.record():
            noise = random.uniform(shape=(50,))
            y = (x * noise).sum()
        y.backward()
        np.testing.assert_array_equal(x.grad.asnumpy(), noise.asnumpy())

    def test_threads_draw_from_one_stream_without_repeating(self):
        seen, lock = [], threading.Lock()

        def work():
            for _ in range(20):
                numbers = random.uniform(shape=(3,)).asnumpy().tobytes()
                with lock:
                    seen.append(numbers)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(set(seen)) == 80

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
    @pytest.mark.filterwarnings("ignore::DeprecationWarning")
    def test_child_process_draws_other_numbers(self):
        mx.random.seed(3)
        end, start = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(start, random.uniform(shape=(2,)).asnumpy().tobytes())
            os._exit(0)
        os.waitpid(child, 0)
        assert os.read(end, 100) != random.uniform(shape=(2,)).asnumpy().tobytes()

    @pytest.mark.parametrize("seed", [0, 1, -1, 2**31, 2**63, 2**70, np.int64(7), True])
    def test_seeds(self, seed):
        mx.random.seed(seed)
        first = random.uniform(shape=(3,)).asnumpy()
        mx.random.seed(seed, ctx=mx.cpu(0))
        np.testing.assert_array_equal(random.uniform(shape=(3,)).asnumpy(), first)

    @pytest.mark.parametrize("seed", [1.5, "a", None])
    def test_what_is_no_seed(self, seed):
        with pytest.raises(ValueError, match="seed_state must be int"):
            mx.random.seed(seed)


class TestShapesAndTypes:
    @pytest.mark.parametrize("shape", [1, (2,), (2, 3), (0,), (2, 0), ()])
    @pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
    @pytest.mark.parametrize("name", ["uniform", "normal", "exponential", "gamma", "poisson"])
    def test_shape_and_dtype(self, shape, dtype, name):
        x = getattr(random, name)(shape=shape, dtype=dtype)
        assert x.dtype == np.dtype(dtype).type
        assert x.shape == (shape if isinstance(shape, tuple) else (shape,))
        assert np.isfinite(x.asnumpy()).all()

    def test_default_shape_and_dtype(self):
        for name in ("uniform", "normal", "exponential", "gamma", "poisson", "negative_binomial"):
            x = getattr(random, name)()
            assert (x.shape, x.dtype) == ((1,), np.float32)
        assert random.randint(0, 5).dtype == np.int32
        assert random.multinomial(nd.array([1.0])).dtype == np.int32
        assert random.randn(2, 3).shape == (2, 3)

    def test_parameters_that_are_arrays(self):
        low, high = nd.array([0.0, 100.0]), nd.array([1.0, 200.0])
        assert random.uniform(low, high).shape == (2,)
        x = random.uniform(low, high, shape=(500,)).asnumpy()
        assert x.shape == (2, 500)
        assert (x[0] < 1).all()
        assert ((x[1] >= 100) & (x[1] < 200)).all()
        assert random.normal(low, high, shape=(2, 3)).shape == (2, 2, 3)

    def test_out(self):
        x = nd.zeros((2, 3))
        assert random.uniform(1, 2, out=x) is x
        assert (x.asnumpy() >= 1).all()
        with pytest.raises(mx.MXNetError, match="output"):
            random.uniform(shape=(4,), out=x)

    def test_context(self):
        assert random.normal(shape=(2,), ctx=mx.cpu(1)).context == mx.cpu(1)
        assert random.uniform_like(nd.ones((2,), ctx=mx.cpu(1))).context == mx.cpu(1)

    def test_mixed_and_wrong_parameters(self):
        with pytest.raises(AssertionError, match="must all have the same type"):
            random.uniform(nd.zeros((1,)), 1)
        with pytest.raises(ValueError, match="either NDArray or numbers"):
            random.uniform("a", 1)
        for wrong in (
            lambda: random.normal(0, -1, shape=(2,)),
            lambda: random.poisson(-1, shape=(2,)),
            lambda: random.randint(5, 5, shape=(2,)),
        ):
            with pytest.raises(mx.MXNetError):
                wrong().asnumpy()
        with pytest.raises(mx.MXNetError, match="Cannot find argument 'shpe'"):
            random.uniform(shpe=(2,))
        with pytest.raises(mx.MXNetError, match="negative"):
            random.uniform(shape=(2, -1))

    def test_no_gradient_to_parameters(self):
        mu, sigma = nd.zeros((2,)), nd.ones((2,))
        mu.attach_grad()
        with autograd.record():
            y = (random.normal(mu, sigma, shape=(3,)) + mu.reshape((2, 1))).sum()
        y.backward()
        assert mu.grad.asnumpy().tolist() == [3, 3]


def quantiles(function):
    return gen_buckets_probs_with_ppf(function, 8)


class TestDistributions:
    """Statistics at a fixed seed, so that chance is drawn once and for all."""

    @pytest.fixture(autouse=True)
    def seeded(self):
        mx.random.seed(1234)

    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    def test_uniform(self, dtype):
        def draw(count):
            return random.uniform(-2, 3, shape=(count,), dtype=dtype).asnumpy()

        values = draw(100_000)
        assert values.min() >= -2
        assert values.max() < 3
        buckets, probabilities = quantiles(lambda q: 5 * q - 2)
        verify_generator(draw, buckets, probabilities, nsamples=100_000, nrepeat=3)
        assert mean_check(draw, 0.5, 5 / math.sqrt(12), nsamples=100_000)

    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    def test_normal(self, dtype):
        def draw(count):
            return random.normal(1, 2, shape=(count,), dtype=dtype).asnumpy()

        edges = [-math.inf, -1.15035, -0.67449, -0.31864, 0, 0.31864, 0.67449, 1.15035, math.inf]
        buckets = [(1 + 2 * a, 1 + 2 * b) for a, b in itertools.pairwise(edges)]
        verify_generator(draw, buckets, [1 / 8] * 8, nsamples=100_000, nrepeat=3)
        assert mean_check(draw, 1, 2, nsamples=100_000)
        assert var_check(draw, 2, nsamples=100_000)

    def test_exponential(self):
        def draw(count):
            return random.exponential(0.5, shape=(count,), dtype="float64").asnumpy()

        buckets, probabilities = quantiles(lambda q: -0.5 * math.log1p(-q) if q < 1 else math.inf)
        verify_generator(draw, buckets, probabilities, nsamples=100_000, nrepeat=3)
        assert mean_check(draw, 0.5, 0.5, nsamples=100_000)

    def test_randint(self):
        def draw(count):
            return random.randint(-3, 5, shape=(count,)).asnumpy()

        verify_generator(draw, list(range(-3, 5)), [1 / 8] * 8, nsamples=100_000, nrepeat=3)

    def test_poisson(self):
        rate = 2.5
        probabilities = [math.exp(-rate) * rate**k / math.factorial(k) for k in range(8)]
        probability, counted, _ = chi_square_check(
            lambda count: np.minimum(random.poisson(rate, shape=(count,)).asnumpy(), 8),
            list(range(9)),
            [*probabilities, 1 - sum(probabilities)],
            nsamples=100_000,
        )
        assert counted.sum() == 100_000
        assert probability > 0.001

    def test_gamma(self):
        draws = random.gamma(3.0, 0.5, shape=(200_000,), dtype="float64").asnumpy()
        assert draws.mean() == pytest.approx(1.5, abs=3 * math.sqrt(0.75 / 200_000))
        assert draws.var() == pytest.approx(0.75, rel=0.03)

    def test_negative_binomial(self):
        draws = random.negative_binomial(4, 0.4, shape=(200_000,)).asnumpy()
        assert draws.mean() == pytest.approx(6, rel=0.02)
        assert draws.var() == pytest.approx(15, rel=0.05)

    def test_generalized_negative_binomial(self):
        draws = random.generalized_negative_binomial(3, 0.5, shape=(200_000,)).asnumpy()
        assert draws.mean() == pytest.approx(3, rel=0.02)
        assert draws.var() == pytest.approx(3 + 0.5 * 9, rel=0.05)

    def test_multinomial(self):
        probabilities = [0.1, 0.2, 0.3, 0.4]
        verify_generator(
            lambda count: random.multinomial(nd.array(probabilities), shape=count).asnumpy(),
            list(range(4)),
            probabilities,
            nsamples=100_000,
            nrepeat=3,
        )
        draws, logarithms = random.multinomial(nd.array(probabilities), shape=10, get_prob=True)
        np.testing.assert_allclose(logarithms.asnumpy(), np.log(np.array(probabilities)[draws.asnumpy()]), rtol=1e-5)

    def test_shuffle(self):
        x = nd.array(np.arange(24.0).reshape(12, 2))
        mixed = random.shuffle(x).asnumpy()
        assert sorted(map(tuple, mixed)) == sorted(map(tuple, x.asnumpy()))
        assert not np.array_equal(mixed, x.asnumpy())
        firsts = [random.shuffle(nd.arange(4)).asnumpy()[0] for _ in range(2000)]
        assert np.bincount(np.array(firsts, int), minlength=4).min() > 400

    def test_zipfian(self):
        classes, expected_true, expected_drawn = nd.contrib.rand_zipfian(nd.array([0, 3]), 50_000, 10)
        assert classes.dtype == np.int64
        shares = np.log((np.arange(10) + 2) / (np.arange(10) + 1)) / np.log(11)
        counted = np.bincount(classes.asnumpy(), minlength=10) / 50_000
        np.testing.assert_allclose(counted, shares, atol=0.01)
        np.testing.assert_allclose(expected_true.asnumpy(), 50_000 * shares[[0, 3]])
        assert expected_drawn.shape == (50_000,)

    def test_neighbouring_calls_are_independent(self):
        a = np.stack([random.uniform(shape=(1000,), dtype="float64").asnumpy() for _ in range(20)])
        correlation = np.corrcoef(a)
        assert np.abs(correlation - np.eye(20)).max() < 0.15


def test_module_has_the_same_functions():
    for name in mx.random.__all__:
        if name != "seed":
            assert getattr(mx.random, name) is getattr(random, name)
