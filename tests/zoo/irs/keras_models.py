"""Models and layers of Keras 3, as SavedModels."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from zoo.ir_sources import BuiltIr, Inputs, floats, from_keras, ids
from zoo.registry import IRS, model

#: Classifiers, with the size of the images.
_APPLICATIONS = {
    "ConvNeXtTiny": 64,
    "DenseNet121": 64,
    "EfficientNetB0": 64,
    "EfficientNetV2B0": 64,
    "MobileNet": 64,
}


def _application(name: str, size: int) -> BuiltIr:
    import keras

    made = getattr(keras.applications, name)(weights=None, input_shape=(size, size, 3), classes=10)
    return from_keras(made, floats(size, size, 3))


def _layers(shape: tuple[int, ...], dtype: str, *names: tuple[str, dict[str, Any]]) -> Callable[[], Any]:
    def make() -> Any:
        import keras

        return keras.Sequential(
            [keras.Input(shape, dtype=dtype), *(getattr(keras.layers, name)(**options) for name, options in names)]
        )

    return make


_LAYERS: dict[str, tuple[Callable[[], Any], Inputs]] = {
    "Bidirectional GRU": (
        lambda: _recurrent("GRU"),
        floats(6, 8),
    ),
    "Bidirectional LSTM": (
        lambda: _recurrent("LSTM"),
        floats(6, 8),
    ),
    "Conv1D": (
        _layers(
            (16, 4),
            "float32",
            ("Conv1D", {"filters": 6, "kernel_size": 3, "dilation_rate": 2, "padding": "causal"}),
            ("GlobalMaxPooling1D", {}),
            ("Dense", {"units": 3, "activation": "gelu"}),
        ),
        floats(16, 4),
    ),
    "Conv3D": (
        _layers(
            (6, 8, 8, 2),
            "float32",
            ("Conv3D", {"filters": 4, "kernel_size": 3, "padding": "same"}),
            ("MaxPooling3D", {}),
        ),
        floats(6, 8, 8, 2),
    ),
    "Conv2DTranspose": (
        _layers(
            (8, 8, 2),
            "float32",
            ("Conv2DTranspose", {"filters": 4, "kernel_size": 3, "strides": 2}),
            ("LeakyReLU", {}),
            ("UpSampling2D", {"interpolation": "bilinear"}),
        ),
        floats(8, 8, 2),
    ),
    "Embedding": (
        _layers(
            (7,),
            "int64",
            ("Embedding", {"input_dim": 20, "output_dim": 4}),
            ("GlobalAveragePooling1D", {}),
            ("LayerNormalization", {}),
            ("Dense", {"units": 3, "activation": "softmax"}),
        ),
        ids(20, "x"),
    ),
    "SeparableConv2D": (
        _layers(
            (9, 9, 4),
            "float32",
            ("SeparableConv2D", {"filters": 5, "kernel_size": 3, "strides": 2, "padding": "same"}),
            ("GroupNormalization", {"groups": 1}),
            ("ZeroPadding2D", {}),
            ("Cropping2D", {}),
        ),
        floats(9, 9, 4),
    ),
}


def _recurrent(kind: str) -> Any:
    import keras

    cell = getattr(keras.layers, kind)(5, return_sequences=True)
    return keras.Sequential([keras.Input((6, 8)), keras.layers.Bidirectional(cell)])


def _build(make: Callable[[], Any], inputs: Inputs) -> BuiltIr:
    return from_keras(make(), inputs)


for _name, _size in _APPLICATIONS.items():
    model(f"keras/{_name}", among=IRS)(partial(_application, _name, _size))
for _name, (_make, _inputs) in _LAYERS.items():
    model(f"keras/{_name}", quick=True, among=IRS)(partial(_build, _make, _inputs))
