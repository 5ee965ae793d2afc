"""Fit a linear regression from scratch: recover the weights behind noisy measurements by gradient descent."""

import phonograd as mx
from phonograd import autograd, nd


def main() -> None:
    """Recover two weights and a bias, and print them beside the true ones."""
    mx.random.seed(1)
    true_weight = nd.array([[2.0], [-3.4]])
    true_bias = 4.2
    features = nd.random.normal(shape=(1000, 2))
    targets = nd.dot(features, true_weight) + true_bias + nd.random.normal(scale=0.01, shape=(1000, 1))

    weight = nd.random.normal(scale=0.01, shape=(2, 1))
    bias = nd.zeros((1,))
    parameters = [weight, bias]
    for parameter in parameters:
        parameter.attach_grad()

    rate, batch = 0.1, 50
    for epoch in range(1, 6):
        for start in range(0, 1000, batch):
            chunk = slice(start, start + batch)
            with autograd.record():
                error = nd.dot(features[chunk], weight) + bias - targets[chunk]
                loss = (error * error).mean() / 2
            loss.backward()
            for parameter in parameters:
                parameter -= rate * parameter.grad
        error = nd.dot(features, weight) + bias - targets
        print(f"epoch {epoch}: mean squared error {(error * error).mean().asscalar():.6f}")

    found = [*weight.asnumpy().ravel(), bias.asscalar()]
    print("true weights and bias: ", [2.0, -3.4, 4.2])
    print("found weights and bias:", [round(float(value), 3) for value in found])
    assert all(abs(value - truth) < 0.01 for value, truth in zip(found, [2.0, -3.4, 4.2]))


if __name__ == "__main__":
    main()
