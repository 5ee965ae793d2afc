"""Mistakes that newcomers make. Type checkers report every line that ends with a mark, and no other one."""

import phonograd as mx
from phonograd import nd

x = nd.array([[1.0, 2.0]])
a = mx.np.array([1.0])
s = mx.sym.var("data")

nd.convolution(x)  # error: a lower-case name
nd.Convolution(x, x, num_filter=4)  # error: kernel is missing
nd.Convolution(x, x, kernel="3x3", num_filter=4)  # error: text for a shape
nd.Convolution(x, x, kernel=(3, 3), num_filter=4, padding=(1, 1))  # error: PyTorch's name of pad
nd.Activation(x, act_type="Relu")  # error: not a choice
nd.softmax(x, dim=1)  # error: PyTorch's name of axis
nd.softmax()  # error: the array is missing
nd.exp([1.0, 2.0])  # error: a list in place of an array
nd.FullyConnected(x, x)  # error: num_hidden is missing
nd.one_hot(x)  # error: depth is missing
nd.sum(x, keepdim=True)  # error: PyTorch's name of keepdims
nd.concat([x, x])  # error: a list in place of arrays
nd.Pooling(x, kernel=(2, 2), pool_type="average")  # error: not a choice
x.softmaxx()  # error: a misspelled method
x.sum(axis="0")  # error: text for an axis
x.numpy()  # error: PyTorch's name of asnumpy
x.backward(retain=True)  # error: the name is retain_graph
x.attach_gradient()  # error: the name is attach_grad
x + "1"  # error: text in arithmetic
x.topk(k=1, ret_typ="values")  # error: not a choice
mx.np.arrayy([1])  # error: a misspelled function
mx.np.sum(a, axes=0)  # error: the name is axis
mx.np.exp("1")  # error: text in place of an array
mx.np.linalg.eigenvalues(a)  # error: the name is eigvals
mx.npx.softmax(a, dim=-1)  # error: the name is axis
a.summ()  # error: a misspelled method
mx.sym.FullyConnected(s)  # error: num_hidden is missing
mx.sym.Activation(s, act_type="rellu")  # error: not a choice
s.list_argument()  # error: the name is list_arguments
mx.gluon.nn.Dens(3)  # error: the name is Dense
mx.gluon.nn.Dense()  # error: units is missing
mx.gluon.nn.Dense("10")  # error: text for a number
mx.gluon.nn.Dense(3, bias=False)  # error: the name is use_bias
mx.gluon.nn.Conv2D(3, 3, in_channel=1)  # error: the name is in_channels
mx.gluon.nn.Dropout(0.5, axis=1)  # error: the name is axes
mx.gluon.nn.BatchNorm(eps=1e-5)  # error: the name is epsilon
mx.gluon.nn.Embedding(3, 4, sparse=True)  # error: the name is sparse_grad
mx.gluon.rnn.LSTM(3, layers=2)  # error: the name is num_layers
mx.gluon.loss.L2Loss(reduction="mean")  # error: losses are means
mx.optimizer.Adam(lr=0.1)  # error: the name is learning_rate
mx.optimizer.SGD(weight_decay=0.1)  # error: the name is wd
mx.gluon.los.L2Loss()  # error: the name is loss
mx.autograd.recording()  # error: the name is record
mx.ndarray.linalg.gemm3(x, x)  # error: no such operator
mx.nd.random.norm(shape=(2,))  # error: the name is normal
nd.zeros(2, 3)  # error: two extents in place of a shape
nd.random.uniform(shape="3")  # error: text for a shape
