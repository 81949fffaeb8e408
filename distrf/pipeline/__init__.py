"""One public way to a good model: what is chosen from a sample of rows, and the training that follows."""

from ..lazy import exports

__getattr__, __all__ = exports(
    __name__,
    {
        ".making": "make_model",
        ".training": "train BaselineWarning",
        ".writing": "featurize write_rows append_rows",
        ".predicting": "predict",
        ".evaluating": "evaluate",
        ".adding": "add_rows",
    },
)
