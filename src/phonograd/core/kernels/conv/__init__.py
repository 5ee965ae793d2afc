"""Convolution: native kernels of the three primitives that convolutions and all their derivatives are made of.

:class:`Convolution` makes the plan of a primitive from shapes: launches with their tables, and the bytes of scratch
memory that they share. There are four algorithms (docs/decisions/0019):

==============  =====================================================================================================
``columns``     weights times columns (the elements of windows), made in the cache for a block of channels and a box of
                windows at a time: any kernel, stride, dilation, padding and groups, one to three axes
``direct``      tap by tap, where a group has so few channels and filters that a product of matrices is none
``winograd``    tiles of small square kernels with stride 1 in single precision, with far fewer multiplications
``pictures``    for the adjoint in the weights in single precision: outer products of vectors of channels and of filters
==============  =====================================================================================================

All of them are made of the same parts:

=========================  ==========================================================================================
``geometry``               sizes, and how a convolution is divided into pieces
``frames``                 parts of images with padding, sorted by stride; lines of columns
``adjoint``                from columns back to images
``microkernels``           products of small matrices in registers
``weights``                weights in the order in which micro-kernels read them
``winograd_weights``       the same for transformed weights
``winograd_sums``          the adjoint in the weights by Winograd's algorithm
``column_sums``            the adjoint in the weights by columns
``picture_sums``           the adjoint in the weights by pictures
``winograd_few``           Winograd's algorithm with weights that are transformed while they are multiplied
``winograd_transforms``    transforms of tiles, and how large their rounding errors are
``winograd_pictures``      images with channels in the lanes of vectors, and back
``plan``, ``*_plan``       from shapes to launches
=========================  ==========================================================================================

Small images are joined, so that vectors are full. Batch sizes are numbers in a table: a new one compiles nothing new.
How work is divided and in which order sums are made follows from the shapes and the processor's vectors, never from the
number of threads. The adjoint in the weights is summed up over fixed blocks of images, whose sums are then added in
their order.

Compatibility
-------------
With Winograd's algorithm, an infinity or NaN in the data makes all outputs of its tiles NaN, not only those whose
windows it lies in, and rounding errors are several times larger than those of plain sums (figures are in
``winograd_transforms``). ``Convolution(..., winograd=0)`` never uses it, ``winograd=4`` only with small errors.
"""

from .plan import Convolution

__all__ = ["Convolution"]
