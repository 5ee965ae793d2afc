"""SymbolBlock: a block made from symbols, such as those of an exported network."""

from __future__ import annotations

from typing import Any

from ...context import Context
from ...symbol import Symbol
from ..parameter import ParameterDict
from ..parameter.parameter import symbols
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
        types = self._output.attr_dict()
        states = set(self._output.list_auxiliary_states())
        for name in [*self._output.list_arguments(), *self._output.list_auxiliary_states()]:
            if name not in self._inputs:
                dtype = _dtype_of(types.get(name, {}).get("__dtype__"))
                kind = "null" if name in states else "write"
                self.params.get(name, grad_req=kind, allow_deferred_init=True, dtype=dtype)
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

    def _call(self, context: Context, *args: Any, **params: Any) -> Any:
        given = dict(zip(self._inputs, flattened(args), strict=True))
        found = {parameter.name: parameter.data(context) for parameter in self._reg_params.values()}
        return regrouped(self._output.eval(context, **given, **found), self._form)

    def _composed(self, *args: Any) -> Any:
        given: dict[str, Symbol] = dict(zip(self._inputs, flattened(args), strict=True))
        return regrouped(list(self._output(**given)), self._form)

    def reset_ctx(self, ctx: Any) -> None:
        """Move all parameters to other contexts."""
        self.collect_params().reset_ctx(ctx)


def _dtype_of(code: str | None) -> Any:
    """Return the dtype that a number in a symbol file stands for; float32 if there is none."""
    from ...dtypes import FROM_CODE

    return FROM_CODE.get(int(code or 0), FROM_CODE[0]).type


def _common(names: list[str]) -> int:
    """Return how many letters all names have in common at the beginning."""
    first, last = min(names, default=""), max(names, default="")
    for number, (one, other) in enumerate(zip(first, last)):
        if one != other:
            return number
    return min(len(first), len(last))
