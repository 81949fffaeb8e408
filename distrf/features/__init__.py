"""scikit-learn estimators over the maps."""

from ..lazy import exports

__getattr__, __all__ = exports(
    __name__,
    {
        ".binning": "RandomBinningFeatures",
        ".blockwise": "Blockwise",
        ".fourier": "RandomFourierFeatures",
        ".laplace": "RandomLaplaceFeatures",
        ".nystroem": "NystroemFeatures",
        ".scaler": "StreamingScaler",
        ".tefm": "TEFM",
        ".tensor_sketch": "TensorSketchFeatures",
        ".with_columns": "WithColumns",
    },
)
