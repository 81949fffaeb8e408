import pytest


@pytest.fixture(autouse=True)
def closed():
    """No figure outlives its test."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    yield
    pyplot.close("all")


@pytest.fixture
def ax():
    """Axes that are rendered at the end."""
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(layout="constrained")
    yield axes
    figure.canvas.draw()
