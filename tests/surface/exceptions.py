"""List what MXNet 1.9.1 has and this library has not, with a reason each.

A key is one or more patterns (:mod:`fnmatch`) separated by spaces. ``test_surface.py`` fails if a pattern is not needed.
"""

C_LIBRARY = "calls MXNet's C library through ctypes"
LOW_PRECISION = "quantized recurrent layers are not available; docs/quantization.md says so"
ONNX = "the inside of MXNet's converter; export_model and import_model are here, written differently"
DOCS = "texts of documentation; declarations of operators have them here"
GENERATED = "a place where MXNet makes its functions; mx.np, mx.npx, mx.nd and mx.sym have them"
GRAPHS = "graph sampling works on csr arrays; symbols compute densely"

#: modules that cannot be imported
MODULES_ABSENT = {
    "mxnet._api_internal mxnet._ctypes* mxnet._ffi* mxnet.ndarray.numpy._api_internal mxnet.api": C_LIBRARY,
    "mxnet.library mxnet.torch": C_LIBRARY,
    "mxnet.rtc": "compiles CUDA kernels; there is no GPU",
    "mxnet.space mxnet.tvmop": "searches for TVM schedules in MXNet's C library",
    "mxnet._numpy_op_doc": DOCS,
    "mxnet.contrib.onnx.onnx2mx._import_helper mxnet.onnx.mx2onnx._op_translations*": ONNX,
    "mxnet.*._register": GENERATED,
    "mxnet.symbol.numpy.linalg mxnet.symbol.numpy.random": "sym.np has neither linear algebra nor random numbers",
    "mxnet.symbol.numpy_extension.image mxnet.symbol.numpy_extension.random": "sym.npx has no image functions and no "
    "random numbers",
}

#: names, by module:name
NAMES = {
    "*:_*": "private; compat/renamed.py and compat/names.json provide those that code in the wild uses",
    "*:check_call *:c_* *:ctypes2* *:MXCallbackList *:c2pyerror *:get_last_ffi_error *:mx_float_p": C_LIBRARY,
    "*:DLContext *:DLDataType *:DLManagedTensor *:DLTensor *:DeleterFunc *:PyCapsuleDestructor": C_LIBRARY,
    "*:dl_managed_tensor_deleter *:profiler_kvstore_handle": C_LIBRARY,
    "mxnet.gluon.data.dataloader:re* *:ConnectionWrapper *:Queue *:SimpleQueue *:fetcher_loop_v1 *:worker_loop_v1": (
        "passes handles of the C library between processes; workers pass arrays in memory of their own"
    ),
    "*:add_fileline_to_docstring *:build_param_doc mxnet.ndarray_doc:* mxnet.symbol_doc:*": DOCS,
    "*:quantize_asym *:quantized_rnn": LOW_PRECISION,
    "mxnet.kvstore.base:TestStore": "an example of a store, for MXNet's own tests",
    "mxnet.contrib.onnx.* mxnet.onnx.*": ONNX,
    "*:backward_*": "gradients are expressions of operators, not operators; autograd.grad returns them",
    "*:IdentityAttachKLSparseReg": "add the penalty to the loss",
    "*:CachedOp": "use HybridBlock.hybridize or mx.compile",
    "*:dgl_* mxnet.*:edge_id": GRAPHS,
    "*:get_indexing_dispatch_code *:get_oshape_of_gather_nd_op *:indexing_key_expand_implicit_axes": (
        "steps of MXNet's indexing"
    ),
    "*:check_boolean_array_dimension": "a step of MXNet's indexing",
    "*:imdecode": "reads a file on a GPU; mx.image.imdecode reads images",
    "*:wrap_np_*": "wrap the C library's functions",
    "*:with_array_*_protocol mxnet.numpy_op_fallback:*": "register MXNet's own functions with NumPy",
    "*:pmt": "NumPy removed it in 1.20; MXNet's raises an error, too",
    "mxnet.numpy.*:mirr mxnet.numpy.*:npv mxnet.numpy.*:ppmt mxnet.numpy.*:pv mxnet.numpy.*:rate": "mx.np has them",
    "mxnet.numpy.*:alltrue mxnet.numpy.*:in1d mxnet.numpy.*:msort mxnet.numpy.*:trapz": (
        "NumPy 2 removed them; MXNet's module holds NumPy's own functions"
    ),
    "mxnet.contrib.text._constants:*": "addresses and checksums of files",
    "*:apache_repo_url": "an address; gluon.utils._get_repo_url returns it",
    "*:make_aux": "a part of Inception that MXNet defines and does not use",
    "*:Pandas_Failed_To_Import *:Bokeh_Failed_To_Import": "flags of MXNet's import",
    "mxnet.test_utils:np_symbol": "mx.sym.np",
    "mxnet:api mxnet:cython": "packages without contents",
    "mxnet:library mxnet:rtc mxnet:space mxnet:th mxnet:torch mxnet:tvmop": C_LIBRARY,
    "mxnet.symbol.numpy:* mxnet.symbol.numpy.*:* mxnet.symbol.numpy_extension*:*": (
        "the C library's names of functions; sym.np and sym.npx have the public ones"
    ),
    "mxnet.ndarray.numpy._internal:*": "the C library's names of the functions of mx.np",
    "mxnet.symbol.gen_*:* mxnet.ndarray.gen_*:* *._internal:*": GENERATED,
    "mxnet.symbol*:reset_arrays mxnet.symbol*:*adamw_update": "change arrays in place; a symbol has none",
    "*:diag_indices_from mxnet.numpy.multiarray:unravel_index": "mx.np has it",
}

INSIDE = "a step of MXNet's implementation"
HANDLE = "the address of an object of the C library"

#: public attributes of classes, by module:class.attribute
ATTRIBUTES = {
    "*.handle": HANDLE,
    "mxnet.autograd:Function.*": INSIDE,
    "mxnet.contrib.text.embedding:*_sha1": "checksums of files",
    "*ModulatedDeformableConvolution.offset_split_index *:VariationalDropoutCell.drop_*_mask": INSIDE,
    "*Handler.monitor_op *:DataLoader.auto_reload *:_BatchNorm.fuse_relu *:_RNNLayer.skip_states": INSIDE,
    "*:SequentialRNNCell.hybrid_forward": "not a hybrid block; MXNet's raises an error",
    "mxnet.image.image:*Aug.* mxnet.image.image:ImageIter.*": INSIDE,
    "mxnet.io.io:MXDataIter.* mxnet.io.io:PrefetchingIter.*": INSIDE,
    "mxnet.metric:*": INSIDE,
    "mxnet.misc:*": "a scheduler of MXNet 0.x; lr_scheduler.FactorScheduler replaces it",
    "mxnet.model:FeedForward.*": INSIDE,
    "mxnet.module.executor_group:DataParallelExecutorGroup.shared_data_arrays": INSIDE,
    "mxnet.notebook.callback:*": "parts of charts that Bokeh draws; Matplotlib draws them here",
    "mxnet.recordio:MXIndexedRecordIO.fidx mxnet.kvstore.kvstore_server:KVStoreServer.init_logginig": INSIDE,
    "mxnet.rnn.*:*": INSIDE,
}

NONE = "None stands for the same default, which depends on the layout or on the number of axes"

#: functions and constructors with other parameters or defaults, by module:name
OWN = "a function of its own, without the keywords of generated functions"
SIGNATURES = {
    "mxnet.gluon.nn.conv_layers:* mxnet.gluon.contrib.rnn.conv_rnn_cell:*": NONE,
    "mxnet.gluon.contrib.cnn.conv_layers:*": "None stands for the same name of an operator",
    "mxnet.gluon.model_zoo.*:* mxnet.gluon.contrib.data.text:WikiText*": "None stands for the same directory and device",
    "mxnet.numpy:* mxnet.ndarray.numpy:*": "more keywords before `out`, or None for the default dtype",
    "mxnet.symbol.numpy:*": "keywords of symbols",
    "mxnet.image:copyMakeBorder mxnet.ndarray.numpy_extension:nonzero mxnet.symbol.contrib:boolean_mask": OWN,
    "mxnet.ndarray.numpy_extension:constraint_check": OWN,
    "mxnet.numpy_extension.random:seed": "the name of the first parameter is that of mx.random.seed",
    "mxnet.visualization:*": "equal defaults that cannot be changed by accident",
    "mxnet.executor:Executor mxnet.symbol.symbol:Symbol mxnet.io.io:MXDataIter mxnet.kvstore.kvstore:KVStore": HANDLE,
    "mxnet.module.*:*Module": "None stands for cpu(0)",
    "*:ModifierCell.begin_state": "`batch_size` is a parameter, as in other cells",
    "mxnet.misc:FactorScheduler": "a scheduler of MXNet 0.x; lr_scheduler.FactorScheduler replaces it",
    "mxnet.model:FeedForward.*": "no default callback; `fit` itself logs the scores",
    "mxnet.ndarray.ndarray:NDArray.diag": "all parameters of the operator",
    "mxnet.rnn.rnn_cell:Conv*": "None stands for the same prefix and activation",
    "*:arange_like *:BatchNorm_v1": "no `ctx`, or moving statistics as inputs",
}
