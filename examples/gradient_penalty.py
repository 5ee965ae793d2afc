"""Train a critic with a gradient penalty: its slope is part of the loss, as in Wasserstein GANs.

The critic should score real points above fake ones, and its gradient with respect to its *input* should have length
one in between. The second goal puts a gradient inside the loss, so training differentiates a derivative.
"""

import phonograd as mx
from phonograd import autograd, nd


def critic(points: nd.NDArray, parameters: list[nd.NDArray]) -> nd.NDArray:
    """Return one score per point from a network with one hidden layer."""
    weight, bias, readout = parameters
    return nd.dot(nd.tanh(nd.dot(points, weight) + bias), readout)


def slopes(points: nd.NDArray, parameters: list[nd.NDArray]) -> nd.NDArray:
    """Return the length of the critic's gradient at every point, in differentiable form."""
    points.attach_grad()
    with autograd.record():
        scores = critic(points, parameters)
        gradient = autograd.grad(scores, points, create_graph=True)[0]
        return nd.sqrt((gradient * gradient).sum(axis=1) + 1e-12)


def main() -> None:
    """Train the critic, and print how well it separates the points and how long its gradients are."""
    mx.random.seed(3)
    real = nd.random.normal(scale=0.3, shape=(256, 2)) + nd.array([[1.0, 1.0]])
    fake = nd.random.normal(scale=0.3, shape=(256, 2)) - nd.array([[1.0, 1.0]])
    parameters = [
        nd.random.normal(scale=0.5, shape=(2, 32)),
        nd.zeros((32,)),
        nd.random.normal(scale=0.2, shape=(32, 1)),
    ]
    for parameter in parameters:
        parameter.attach_grad()

    for step in range(1, 301):
        mix = nd.random.uniform(shape=(256, 1))
        between = mix * real + (1 - mix) * fake
        with autograd.record():
            gap = critic(real, parameters).mean() - critic(fake, parameters).mean()
            penalty = nd.square(slopes(between, parameters) - 1).mean()
            loss = 10 * penalty - gap
        loss.backward()
        for parameter in parameters:
            parameter -= 0.02 * parameter.grad
        if step % 60 == 0:
            print(f"step {step:3d}: gap {gap.asscalar():.3f}  penalty {penalty.asscalar():.4f}")

    middle = (real + fake) / 2
    length = slopes(middle, parameters).mean().asscalar()
    gap = (critic(real, parameters).mean() - critic(fake, parameters).mean()).asscalar()
    print(f"mean length of the gradient half way: {length:.3f}; gap between real and fake: {gap:.3f}")
    # The centers are 2.83 apart. A slope s between them costs 10 (s - 1)^2 and gains 2.83 s: best at s = 1.14.
    assert abs(length - 1) < 0.2
    assert 2.0 < gap < 3.5


if __name__ == "__main__":
    main()
