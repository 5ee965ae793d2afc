"""Functions that tests of autograd.Function use."""

from phonograd import autograd, nd

from .arrays import flags


class Product(autograd.Function):
    """x * y, remembering how it was called."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def forward(self, x, y):
        self.calls.append(("forward", flags()))
        self.save_for_backward(x, y)
        return x * y

    def backward(self, dz):
        self.calls.append(("backward", flags()))
        x, y = self.saved_tensors
        return dz * y, dz * x


class Square(autograd.Function):
    def forward(self, x):
        self.save_for_backward(x)
        return x * x

    def backward(self, dy):
        return 2 * self.saved_tensors[0] * dy


class Exponential(autograd.Function):
    """exp, whose gradient uses its own output."""

    def forward(self, x):
        y = nd.exp(x)
        self.save_for_backward(y)
        return y

    def backward(self, dy):
        return dy * self.saved_tensors[0]


class Several(autograd.Function):
    """Any number of inputs and outputs: sum and product of all."""

    def forward(self, *inputs):
        self.save_for_backward(*inputs)
        total, product = inputs[0], inputs[0]
        for item in inputs[1:]:
            total, product = total + item, product * item
        return [total * 1, product * 1]

    def backward(self, dtotal, dproduct):
        product = self.saved_tensors[0]
        for item in self.saved_tensors[1:]:
            product = product * item
        return [dtotal + dproduct * product / item for item in self.saved_tensors]
