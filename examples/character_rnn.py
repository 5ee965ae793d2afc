"""Train a recurrent network from scratch to continue a sentence, character by character."""

import phonograd as mx
from phonograd import autograd, nd

TEXT = "the needle follows the groove and the groove remembers the song; "
LETTERS = sorted(set(TEXT))
HIDDEN = 64
STEPS = 20
BATCH = len(TEXT)


class Recurrent:
    """h' = tanh(x W + h U + b), scores = h' V + c."""

    def __init__(self) -> None:
        letters = len(LETTERS)
        self.weight = nd.random.normal(scale=0.3, shape=(letters, HIDDEN))
        self.recurrence = nd.random.normal(scale=0.1, shape=(HIDDEN, HIDDEN))
        self.bias = nd.zeros((HIDDEN,))
        self.readout = nd.random.normal(scale=0.3, shape=(HIDDEN, letters))
        self.offset = nd.zeros((letters,))
        self.parameters = [self.weight, self.recurrence, self.bias, self.readout, self.offset]
        for parameter in self.parameters:
            parameter.attach_grad()

    def __call__(self, letter: nd.NDArray, state: nd.NDArray) -> tuple[nd.NDArray, nd.NDArray]:
        """Return the scores of the next letter, and the next state."""
        state = nd.tanh(nd.dot(letter, self.weight) + nd.dot(state, self.recurrence) + self.bias)
        return nd.dot(state, self.readout) + self.offset, state


def continued(network: Recurrent, start: str, length: int) -> str:
    """Return the start, continued with the letters that the network finds most likely."""
    state = nd.zeros((1, HIDDEN))
    text = start
    for position in range(len(start) + length - 1):
        letter = nd.one_hot(nd.array([LETTERS.index(text[position])]), len(LETTERS))
        scores, state = network(letter, state)
        if position >= len(start) - 1:
            text += LETTERS[int(scores.argmax(axis=1).asscalar())]
    return text


def main() -> None:
    """Train on every substring of the sentence, and let the network recite it."""
    mx.random.seed(4)
    network = Recurrent()
    codes = nd.array([LETTERS.index(letter) for letter in TEXT * 2])
    # Row t holds the t-th letter of every substring: one substring begins at each letter of the sentence.
    rows = [codes[t : t + BATCH] for t in range(STEPS + 1)]
    letters = [nd.one_hot(row, len(LETTERS)) for row in rows]
    for step in range(1, 151):
        with autograd.record():
            state = nd.zeros((BATCH, HIDDEN))
            loss = nd.zeros((1,))
            for t in range(STEPS):
                scores, state = network(letters[t], state)
                loss = loss - nd.pick(nd.log_softmax(scores), rows[t + 1]).mean() / STEPS
        loss.backward()
        norm = nd.sqrt(nd.add_n(*[nd.square(p.grad).sum() for p in network.parameters])).asscalar()
        for parameter in network.parameters:
            parameter -= min(1.0, 1.0 / norm) * parameter.grad
        if step % 30 == 0:
            print(f"step {step:3d}: loss {loss.asscalar():.4f} per letter")
    recited = continued(network, "the needle", len(TEXT) - len("the needle"))
    print("recited:", recited)
    assert recited == TEXT


if __name__ == "__main__":
    main()
