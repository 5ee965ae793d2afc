"""SymbolBlock: a block made from symbols, such as those of an exported network."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.base.devices import Context
from ...core.base.dtypes import FROM_CODE
from ...core.base.errors import MXNetError
from ...symbol import Symbol
from ...symbol.calls import known_operator
from ..parameter import ParameterDict
from ..parameter.parameter import symbols
from ..text import brief_list
from .hybrid import HybridBlock
from .nesting import flattened, flattened_with_format, outlined, regrouped

__all__ = ["SymbolBlock"]


class SymbolBlock(HybridBlock):
    """A block that computes the outputs of symbols. All arguments that are no inputs are parameters of the block.

    Parameters
    ----------
    outputs
        A symbol, or several.
    inputs
        The variables among their arguments that are inputs.
    params
        Parameters of other blocks, to be shared.
    """

    def __init__(self, outputs: Any, inputs: Any, params: ParameterDict | None = None) -> None:
        super().__init__(prefix=None, params=None)
        self._prefix = ""
        self._params = ParameterDict("", params)
        variables, _ = flattened_with_format([inputs], "input")
        for variable in variables:
            assert len(variable.get_internals().list_outputs()) == 1, (
                f"Input symbols must be variable, but {variable} is an output of operators"
            )
        if isinstance(outputs, (list, tuple)) and len(outputs) == 1:
            outputs = outputs[0]
        #: how the outputs are nested
        given, self._form = flattened_with_format(outputs, "output")
        self._inputs = [str(variable.name) for variable in variables]
        self._output: Any = given[0] if len(given) == 1 else symbols().Group(given)
        types = _types_of(self._output, variables)
        states = set(self._output.list_auxiliary_states())
        for name in [*self._output.list_arguments(), *self._output.list_auxiliary_states()]:
            if name not in self._inputs:
                kind = "null" if name in states else "write"
                self.params.get(name, grad_req=kind, allow_deferred_init=True, dtype=types[name])
        start = _common(list(self._params.keys()))
        self._reg_params = {name[start:]: parameter for name, parameter in self._params.items()}

    @staticmethod
    def imports(
        symbol_file: str,
        input_names: str | list[str],
        param_file: str | None = None,
        ctx: Any = None,
        allow_missing: bool = False,
        ignore_extra: bool = False,
    ) -> SymbolBlock:
        """Return the block that ``HybridBlock.export`` has written to files.

        Parameters
        ----------
        symbol_file
            The file with the symbols.
        input_names
            The names of the inputs: ``['data']``, unless there are several.
        param_file
            The file with the parameters; without it, the block is to be initialised.
        ctx
            Where the parameters go.
        allow_missing, ignore_extra
            Whether there may be fewer parameters in the file than in the network, or more.
        """
        names = [input_names] if isinstance(input_names, str) else input_names
        block = SymbolBlock(symbols().load(symbol_file), [symbols().var(name) for name in names])
        if param_file is not None:
            block.collect_params().load(
                param_file, ctx, allow_missing, ignore_extra, cast_dtype=True, dtype_source="saved"
            )
        return block

    def __repr__(self) -> str:
        outputs = len(self._output.list_outputs())
        return f"{type(self).__name__}(\n{self._output} : {len(self._inputs)} -> {outputs}\n)"

    def _get_graph(self, outline: Any) -> tuple[list[Any], Any]:
        self._output_outline = outlined(regrouped(list(self._output), self._form))
        return [symbols().var(name) for name in self._inputs], self._output

    def _named(self, args: tuple[Any, ...]) -> dict[str, Any]:
        """Return what a call is given by the names of inputs."""
        given = flattened(args)
        if len(given) != len(self._inputs):
            raise ValueError(
                f"The argument structure of HybridBlock does not match: it has {len(self._inputs)} inputs "
                f"({brief_list(self._inputs)}), but {len(given)} arrays or symbols were given"
            )
        return dict(zip(self._inputs, given))

    def _call(self, context: Context, *args: Any, **params: Any) -> Any:
        given = self._named(args)
        found = {parameter.name: parameter.data(context) for parameter in self._reg_params.values()}
        return regrouped(self._output.eval(context, **given, **found), self._form)

    def _run_symbolic(self, *args: Any) -> Any:
        used = self._output.list_inputs()
        given = {name: symbol for name, symbol in self._named(args).items() if name in used}
        return regrouped(list(self._output(**given)), self._form)

    def cast(self, dtype: Any) -> None:
        """Convert all parameters to another dtype; for float16 those of batch normalisation stay float32."""
        super().cast(dtype)
        if np.dtype(dtype) != np.float16:
            return
        for entry in self._output._entries():
            if not entry.is_argument and _has_moving_averages(entry.operator):
                for source, _ in entry.inputs[1:]:
                    if source.name in self.params:
                        self.params[source.name].cast("float32")

    def reset_ctx(self, ctx: Any) -> None:
        """Move all parameters to other contexts."""
        self.collect_params().reset_ctx(ctx)


def _has_moving_averages(operator: str) -> bool:
    """Return whether an operator is a batch normalization: its states are moving averages."""
    declared = known_operator(operator)
    return declared is not None and "moving_mean" in declared.interface.auxiliary


def _types_of(output: Symbol, inputs: list[Symbol]) -> dict[str, Any]:
    """Return the dtypes of all arguments and states by name: as they follow from inputs, as stated, or float32."""
    stated = {name: _dtype_of(attributes.get("__dtype__")) for name, attributes in output.attr_dict().items()}
    names = [*output.list_arguments(), *output.list_auxiliary_states()]
    declared = {variable.name: variable.infer_type_partial()[0][0] for variable in inputs}
    given = {name: dtype for name, dtype in declared.items() if dtype is not None and name in names}
    try:
        arguments, _, states = output.infer_type_partial(**given)
    except MXNetError:
        # inputs of these types cannot be computed with, which a call will tell
        arguments, states = [], []
    inferred = dict(zip(names, [*arguments, *states], strict=False))
    return {name: inferred.get(name) or stated.get(name, _dtype_of(None)) for name in names}


def _dtype_of(code: str | None) -> Any:
    """Return the dtype that a number in a symbol file stands for; float32 if there is none."""
    return FROM_CODE.get(int(code or 0), FROM_CODE[0]).type


def _common(names: list[str]) -> int:
    """Return how many letters all names have in common at the beginning."""
    first, last = min(names, default=""), max(names, default="")
    for number, (one, other) in enumerate(zip(first, last)):
        if one != other:
            return number
    return min(len(first), len(last))
