"""Train a softmax regression from scratch: a linear classifier separates three clouds of points."""

import phonograd as mx
from phonograd import autograd, nd

CENTERS = [[0.0, 2.0], [-2.0, -1.0], [2.0, -1.0]]


def clouds(count: int) -> tuple[nd.NDArray, nd.NDArray]:
    """Return points of shape (3 * count, 2) around the three centers, and the index of the center of each."""
    points = [nd.random.normal(scale=0.8, shape=(count, 2)) + nd.array([centre]) for centre in CENTERS]
    labels = [nd.full((count,), number) for number in range(3)]
    return nd.concat(*points, dim=0), nd.concat(*labels, dim=0)


def log_softmax(scores: nd.NDArray) -> nd.NDArray:
    """Return the log-probabilities; subtract the largest score first, so that exp cannot overflow."""
    scores = scores - scores.max(axis=1, keepdims=True)
    return scores - nd.log(nd.exp(scores).sum(axis=1, keepdims=True))


def main() -> None:
    """Train on 600 points, and print the accuracy on 600 others."""
    mx.random.seed(2)
    points, labels = clouds(200)
    weight = nd.zeros((2, 3))
    bias = nd.zeros((3,))
    weight.attach_grad()
    bias.attach_grad()

    wanted = nd.one_hot(labels, 3)
    for step in range(1, 101):
        with autograd.record():
            loss = -(wanted * log_softmax(nd.dot(points, weight) + bias)).sum(axis=1).mean()
        loss.backward()
        weight -= 0.5 * weight.grad
        bias -= 0.5 * bias.grad
        if step % 20 == 0:
            print(f"step {step:3d}: cross entropy {loss.asscalar():.4f}")

    fresh_points, fresh_labels = clouds(200)
    guesses = (nd.dot(fresh_points, weight) + bias).argmax(axis=1)
    accuracy = (guesses == fresh_labels).mean().asscalar()
    print(f"accuracy on points never seen: {accuracy:.1%}")
    assert accuracy > 0.95


if __name__ == "__main__":
    main()
