"""scikit-learn estimators over the maps."""

from .binning import RandomBinningFeatures
from .blockwise import Blockwise
from .fourier import RandomFourierFeatures
from .laplace import RandomLaplaceFeatures
from .nystroem import NystroemFeatures
from .scaler import StreamingScaler
from .tefm import TEFM
from .tensor_sketch import TensorSketchFeatures
from .with_columns import WithColumns

__all__ = [
    "TEFM",
    "Blockwise",
    "NystroemFeatures",
    "RandomBinningFeatures",
    "RandomFourierFeatures",
    "RandomLaplaceFeatures",
    "StreamingScaler",
    "TensorSketchFeatures",
    "WithColumns",
]
