"""Convolution: kernels of the three primitives that convolutions and all their derivatives consist of.

:class:`Convolution` makes the plan of a primitive from shapes: launches with their tables, and the bytes of scratch
memory that they share. There are five algorithms (docs/decisions/0019):

=================  ==================================================================================================
``im2col``         weights times columns (the elements of windows), made in the cache for a block of channels and a box
                   of windows at a time: any kernel, stride, dilation, padding and groups, one to three axes
``direct``         tap by tap, for groups with too few channels and filters for matrix products
``winograd``       tiles of small kernels, square or along one axis, in single precision: far fewer multiplications
``pointwise``      kernels of one element: matrix products of weights and data
``channels_last``  weight gradient in single precision: outer products of vectors of channels and of filters
=================  ==================================================================================================

They share these parts:

=============================  ======================================================================================
``geometry``                   sizes, and the division of a convolution into boxes
``padding``                    padded frames of images, sorted by stride; panels and lines of columns
``adjoint``                    from columns back to images (col2im)
``microkernels``               products of small matrices in registers
``weights``                    weights packed in the order in which micro-kernels read them
``winograd_weights``           the same for transformed weights
``winograd_weight_grad``       weight gradient by Winograd's algorithm
``lines``                      im2col for few filters, without columns
``im2col_weight_grad``         weight gradient by columns, transposed for products
``few_weights_grad``           gradient of few weights by columns, as dot products
``channels_last_weight_grad``  weight gradient in channels-last layout
``phases``                     images of every n-th element: dilated kernels for ``winograd``
``strides``                    kernels with strides for ``winograd``: phases are channels
``winograd_few``               Winograd's algorithm with weights that are transformed while they are multiplied
``winograd_transforms``        transforms of tiles, and bounds of their rounding errors
``winograd_channels_last``     images to channels-last layout and back
``depthwise``                  direct convolutions of 3 by 3 kernels that read images in place
``depthwise_small``            the same for small images, with vectors of channels
``depthwise_data_grad``        their data gradient with stride 2
``depthwise_weight_grad``      their weight gradient
``subsample``                  images of the elements that a kernel of one element with a stride reads
``plan``, ``*_plan``           from shapes to launches
=============================  ======================================================================================

Small images are joined to fill vectors. The batch size is a number in a table: a new one compiles nothing new. The
shapes and the vector width determine the division of the work and the order of sums; the number of threads does not.
The weight gradient is summed up over fixed blocks of images, whose sums are then added in order.

Compatibility
-------------
With Winograd's algorithm, an infinity or NaN in the data makes all outputs of its tiles NaN, not only those whose
windows contain it. Its rounding errors are several times larger than those of plain sums (figures are in
``winograd_transforms``). ``Convolution(..., winograd=0)`` never uses it, ``winograd=4`` only with small errors.
"""

from .plan import Convolution

__all__ = ["Convolution"]
