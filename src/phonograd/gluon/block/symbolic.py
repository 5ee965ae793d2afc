"""Provide SymbolBlock: a block made from symbols, such as those of an exported network."""

from __future__ import annotations

from typing import Any

from ...core.base.devices import Context
from ...core.base.docstrings import complete_classes
from ...core.base.dtypes import FROM_CODE, HALVES, as_array_dtype, public_type
from ...core.base.errors import MXNetError
from ...symbol import Symbol
from ...symbol.calls import known_operator
from ..parameter import ParameterDict
from ..parameter.parameter import symbols
from ..text import brief_list
from .hybrid import HybridBlock
from .nesting import flatten_arrays, flatten_with_format, make_outline, regroup

__all__ = ["SymbolBlock"]


class SymbolBlock(HybridBlock):
    """Compute the outputs of symbols as a block. All arguments that are not inputs become its parameters.

    Parameters
    ----------
    outputs
        A symbol, or a list of symbols.
    inputs
        The input variables among their arguments.
    params
        The parameters of other blocks to share.
    """

    def __init__(self, outputs: Any, inputs: Any, params: ParameterDict | None = None) -> None:
        super().__init__(prefix=None, params=None)
        self._captures_quietly = True
        self._prefix = ""
        self._params = ParameterDict("", params)
        variables, self._in_form = flatten_with_format([inputs], "input")
        for variable in variables:
            assert len(variable.get_internals().list_outputs()) == 1, (
                f"Input symbols must be variable, but {variable} is an output of operators"
            )
        if isinstance(outputs, (list, tuple)) and len(outputs) == 1:
            outputs = outputs[0]
        #: the nesting of the outputs
        given, self._form = flatten_with_format(outputs, "output")
        self._inputs = [str(variable.name) for variable in variables]
        self._output: Any = given[0] if len(given) == 1 else symbols().Group(given)
        # there is no other Python code that each call has to run
        self._active = not self._output._looks_at_values
        types = _types_of(self._output, variables)
        states = set(self._output.list_auxiliary_states())
        for name in [*self._output.list_arguments(), *self._output.list_auxiliary_states()]:
            if name not in self._inputs:
                # shared arguments keep their request: a scale that is not learned has none
                request = {"grad_req": "null"} if name in states else {}
                self.params.get(name, allow_deferred_init=True, dtype=types[name], **request)
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
        """Return a block from the files that ``HybridBlock.export`` wrote.

        Parameters
        ----------
        symbol_file
            The file of the symbols.
        input_names
            The names of the inputs: ``['data']`` for a block with one input.
        param_file
            The file of the parameters. Without it, initialize the block before use.
        ctx
            The contexts of the parameters.
        allow_missing, ignore_extra
            Whether the file may contain fewer parameters than the network, or more.
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

    @property
    def _in_format(self) -> Any:
        """Return how MXNet describes the nesting of the inputs."""
        return self._in_form

    @_in_format.setter
    def _in_format(self, form: Any) -> None:
        # calls take arrays in any nesting, so the form is only kept
        self._in_form = form

    @property
    def _out_format(self) -> Any:
        """Return how MXNet describes the nesting of the outputs."""
        return self._form

    @_out_format.setter
    def _out_format(self, form: Any) -> None:
        self._form = form
        self._compiled = None

    @property
    def _cached_graph(self) -> tuple[Any, ...]:
        """Return the inputs and the output: a block of symbols is exported without a call before."""
        return self._get_graph(None)

    def _get_graph(self, outline: Any) -> tuple[list[Any], Any]:
        self._output_outline = make_outline(regroup(list(self._output), self._form))
        return [symbols().var(name) for name in self._inputs], self._output

    def _arguments_by_name(self, args: tuple[Any, ...]) -> dict[str, Any]:
        """Return the arguments of a call by the names of the inputs."""
        given = flatten_arrays(args)
        if len(given) != len(self._inputs):
            raise ValueError(
                f"The argument structure of HybridBlock does not match: it has {len(self._inputs)} inputs "
                f"({brief_list(self._inputs)}), but {len(given)} arrays or symbols were given"
            )
        return dict(zip(self._inputs, given))

    def _call(self, context: Context, *args: Any, **params: Any) -> Any:
        given = self._arguments_by_name(args)
        found = {parameter.name: parameter.data(context) for parameter in self._reg_params.values()}
        return regroup(self._output.eval(context, **given, **found), self._form)

    def _run_symbolic(self, *args: Any) -> Any:
        used = self._output.list_inputs()
        given = {name: symbol for name, symbol in self._arguments_by_name(args).items() if name in used}
        return regroup(list(self._output(**given)), self._form)

    def cast(self, dtype: Any) -> None:
        """Convert all parameters to another dtype; those of batch normalization stay float32 for types of 16 bits."""
        super().cast(dtype)
        if as_array_dtype(dtype) not in HALVES:
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
    """Return the dtype of each argument and state: the inferred one, else the declared one, else float32."""
    stated = {name: _dtype_of(attributes.get("__dtype__")) for name, attributes in output.attr_dict().items()}
    names = [*output.list_arguments(), *output.list_auxiliary_states()]
    declared = {variable.name: variable.infer_type_partial()[0][0] for variable in inputs}
    given = {name: dtype for name, dtype in declared.items() if dtype is not None and name in names}
    try:
        arguments, _, states = output.infer_type_partial(**given)
    except MXNetError:
        # no operator takes inputs of these dtypes: a call will raise the error
        arguments, states = [], []
    inferred = dict(zip(names, [*arguments, *states], strict=False))
    return {name: inferred.get(name) or stated.get(name, _dtype_of(None)) for name in names}


def _dtype_of(code: str | None) -> Any:
    """Return the dtype of a type code in a symbol file; float32 without a code."""
    return public_type(FROM_CODE.get(int(code or 0), FROM_CODE[0]))


def _common(names: list[str]) -> int:
    """Return the length of the longest common prefix of all names."""
    first, last = min(names, default=""), max(names, default="")
    for number, (one, other) in enumerate(zip(first, last)):
        if one != other:
            return number
    return min(len(first), len(last))


complete_classes(globals())
