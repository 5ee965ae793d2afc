"""List private names of MXNet that code in the wild uses, with their counterparts in this library.

A line of :data:`RENAMED` is ``module of MXNet: "name=place ..."``; a place is ``module:name`` below the library, or a
name of :mod:`.private`.
"""

from __future__ import annotations

from .locations import LIBRARY

__all__ = ["RENAMED"]

_LINES = {
    "autograd": "_GRAD_REQ_MAP=ndarray:_GRAD_REQ_MAP _parse_head=autograd:_pairs",
    "contrib.text._constants": "UNKNOWN_IDX=zero",
    "contrib.text.embedding": "_TokenEmbedding=contrib.text.embedding:TokenEmbedding",
    "gluon.contrib.data._constants": "EOS_TOKEN=EOS_TOKEN",
    "gluon.data.dataloader": """_MultiWorkerIter=gluon.data.pools:MultiWorkerIter
        _as_in_context=gluon.data.pools:as_in_context _thread_worker_fn=gluon.data.pools:run_thread_task
        _thread_worker_initializer=gluon.data.pools:start_thread _worker_fn=gluon.data.pools:run_worker_task
        _worker_initializer=gluon.data.pools:start_worker DataLoaderV1=gluon.data.dataloader:DataLoader""",
    "gluon.data.dataset": "_DownloadedDataset=gluon.data.vision.datasets:_DownloadedDataset",
    "gluon.nn.basic_layers": "_BatchNorm=gluon.nn.normalization:BatchNorm",
    "gluon.trainer": "KVStore=kvstore:KVStore",
    "gluon.utils": """requests=requests _check_all_np_ndarrays=check_all_np_ndarrays
        _check_same_symbol_type=check_same_symbol_type""",
    "image": "cv2=cv2",
    "image.image": "cv2=cv2 _get_interp_method=image.resizing:choose_method",
    "io.utils": "h5py=h5py _init_data=io.arrays:_name_arrays",
    "lr_scheduler": "pi=pi",
    "metric": "_BinaryClassificationMetrics=metric.classification:_Confusion _create=metric:create",
    "misc": "LearningRateScheduler=lr_scheduler:LRScheduler",
    "model": """SKLEARN_INSTALLED=SKLEARN_INSTALLED _create_kvstore=compat.stores:create_store
        _initialize_kvstore=compat.stores:initialize_store _update_params=compat.stores:update_with_updater
        _update_params_on_kvstore=compat.stores:update_on_store""",
    "module.base_module": """_check_input_names=module.batches:check_names _check_names_match=check_names_match
        _parse_data_desc=parse_data_desc""",
    "ndarray._internal": "NDArrayBase=ndarray:NDArray",
    "ndarray.ndarray": """NDArrayBase=ndarray:NDArray
        _STORAGE_TYPE_UNDEFINED=UNDEFINED_STORAGE _STORAGE_TYPE_DEFAULT=DEFAULT_STORAGE
        _STORAGE_TYPE_ROW_SPARSE=ROW_SPARSE_STORAGE _STORAGE_TYPE_CSR=CSR_STORAGE
        _STORAGE_TYPE_STR_TO_ID=STORAGE_NUMBERS _STORAGE_TYPE_ID_TO_STR=STORAGE_NAMES
        _SIGNED_INT32_UPPER_LIMIT=LARGEST_INT32 _get_broadcast_shape=broadcast_shape
        _int64_enabled=int64_enabled _storage_type=storage_number""",
    "ndarray.register": "NDArrayBase=ndarray:NDArray",
    "notebook": "bokeh=bokeh",
    "notebook.callback": "pd=pandas",
    "numpy.multiarray": "_np_ndarray_cls=np_ndarray_cls",
    "numpy.utils": "_STR_2_DTYPE_=DTYPES",
    "operator": "c_int_p=c_int_p",
    "numpy_extension.image": "cv2=cv2",
    "optimizer.optimizer": "_as_classic=as_classic _flatten_list=flatten_list NDnorm=ndarray:norm",
    "recordio": "cv2=cv2 _IR_FORMAT=RECORD_FORMAT _IR_SIZE=RECORD_SIZE",
    "symbol._internal": "SymbolBase=symbol:Symbol",
    "symbol.register": "SymbolBase=symbol:Symbol",
    "symbol.symbol": "SymbolBase=symbol:Symbol _SIGNED_INT32_UPPER_LIMIT=LARGEST_INT32",
    "test_utils": "requests=requests",
    "util": """_NumpyArrayScope=util:np_array _NumpyShapeScope=util:np_shape _set_np_array=set_np_array
        np_ufunc_legal_option=np_ufunc_legal_option""",
}


def _place(text: str) -> str:
    """Return a whole place for a place of :data:`_LINES`."""
    return f"{LIBRARY}.{text}" if ":" in text else f"{LIBRARY}.compat.private:{text}"


#: {module of MXNet: {name: place}}
RENAMED: dict[str, dict[str, str]] = {
    f"mxnet.{module}": {name: _place(text) for name, text in (pair.split("=") for pair in pairs.split())}
    for module, pairs in _LINES.items()
}
