"""Names of ``mxnet.base`` and ``mxnet.libinfo``."""

import numpy as np
import pytest

from phonograd import base, libinfo
from phonograd.core.base.errors import MXNetError


@pytest.fixture
def registered():
    """Forget the errors that a test registers."""
    before = dict(base.error_types)
    yield base.error_types
    base.error_types.clear()
    base.error_types.update(before)


def test_type_tuples_and_markers():
    assert isinstance("a", base.string_types)
    assert not isinstance(b"a", base.string_types)
    assert all(isinstance(number, base.numeric_types) for number in (1, 1.5, np.float32(1), np.int8(1)))
    assert all(isinstance(number, base.integer_types) for number in (1, np.int32(1), np.int64(1)))
    assert not isinstance(1.5, base.integer_types)
    assert base.mx_real_t is np.float32
    assert base.mx_uint(2**32 - 1).value == 2**32 - 1
    assert repr(base._Null) == "_Null"
    assert base.py_str("größe".encode()) == "größe"
    assert base._as_list(3) == [3]
    assert base._as_list((1, 2)) == (1, 2)


def test_known_errors():
    assert base.MXNetError is MXNetError
    assert issubclass(MXNetError, RuntimeError)
    names = {"NotImplementedForSymbol", "InternalError", "ValueError", "TypeError", "AttributeError", "IndexError"}
    assert names | {"NotImplementedError"} <= set(base.error_types)


def test_errors_are_registered_in_three_ways(registered):
    @base.register_error
    class Plain(MXNetError):
        pass

    @base.register_error("scope.Named")
    class Named(MXNetError):
        pass

    assert base.register_error("Borrowed", OSError) is OSError
    assert registered["Plain"] is Plain
    assert registered["scope.Named"] is Named
    assert registered["Borrowed"] is OSError
    assert base.register is base.register_error


def test_errors_about_arguments_name_their_types():
    error = base.NotImplementedForSymbol(np.zeros, "zeros_op", 1, "a")
    assert str(error) == (
        "Function zeros (namely operator \"zeros_op\") with arguments (<class 'int'>, <class 'str'>) is not "
        "implemented for Symbol and only available in NDArray."
    )
    error = base.NotSupportedForSparseNDArray(np.zeros, None)
    assert str(error) == "Function zeros is not supported for SparseNDArray and only available in NDArray."


def test_class_properties_can_be_read_and_set():
    class Settings(base.with_metaclass(base._MXClassPropertyMetaClass, dict)):
        _value = 1

        @base.classproperty
        def value(cls):
            return cls._value

        @value.setter
        def value(cls, new):
            cls._value = new

        @base.classproperty
        def fixed(cls):
            return 7

    assert issubclass(Settings, dict)
    assert (Settings.value, Settings().value) == (1, 1)
    Settings.value = 5
    assert (Settings.value, Settings().value, Settings._value) == (5, 5, 5)
    Settings().value = 6
    assert Settings.value == 6
    with pytest.raises(AttributeError, match="cannot be set"):
        Settings.fixed = 8
    Settings.other = 3
    assert Settings.other == 3


def test_data_directory(monkeypatch):
    monkeypatch.delenv("MXNET_HOME", raising=False)
    assert base.data_dir() == base.data_dir_default()
    assert base.data_dir_default().endswith(".mxnet")
    monkeypatch.setenv("MXNET_HOME", "/elsewhere")
    assert base.data_dir() == "/elsewhere"


def test_there_is_no_c_library():
    assert libinfo.__version__ == "1.9.1"
    assert libinfo.find_lib_path() == []
    with pytest.raises(RuntimeError, match="no C headers"):
        libinfo.find_include_path()
    with pytest.raises(RuntimeError, match="Cannot find the TVM op config"):
        libinfo.find_conf_path()
