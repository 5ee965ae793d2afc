"""Define a custom function: the sigmoid computed by NumPy, with a hand-written gradient."""

import numpy as np

from phonograd import autograd, nd


class Sigmoid(autograd.Function):
    """Compute the logistic function; the code inside forward and backward is not recorded."""

    def forward(self, x: nd.NDArray) -> nd.NDArray:
        """Return 1 / (1 + exp(-x)), computed by NumPy."""
        y = nd.array(1.0 / (1.0 + np.exp(-x.asnumpy())))
        self.save_for_backward(y)
        return y

    def backward(self, dy: nd.NDArray) -> nd.NDArray:
        """Return the gradient with respect to x."""
        y: nd.NDArray = self.saved_tensors[0]
        return dy * y * (1 - y)


def main() -> None:
    """Compare the function and its gradient with those of the built-in operator, and train one weight through it."""
    x = nd.array([-2.0, -0.5, 0.0, 1.0, 3.0])
    x.attach_grad()
    with autograd.record():
        ours = Sigmoid()(x)
    ours.backward()
    our_gradient = x.grad.asnumpy().copy()
    with autograd.record():
        builtin = nd.sigmoid(x)
    builtin.backward()
    print("value:   ", ours.asnumpy().round(4))
    print("gradient:", our_gradient.round(4))
    assert np.allclose(ours.asnumpy(), builtin.asnumpy(), atol=1e-6)
    assert np.allclose(our_gradient, x.grad.asnumpy(), atol=1e-6)

    weight = nd.array([0.0])
    weight.attach_grad()
    for _ in range(200):
        with autograd.record():
            loss = nd.square(Sigmoid()(weight * 2.0) - 0.9).sum()
        loss.backward()
        weight -= 5 * weight.grad
    print(f"sigmoid(2 * {weight.asscalar():.4f}) = 0.9; the exact weight is {np.log(9) / 2:.4f}")
    assert abs(weight.asscalar() - np.log(9) / 2) < 1e-3


if __name__ == "__main__":
    main()
