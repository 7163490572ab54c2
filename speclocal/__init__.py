"""Make a local language model answer faster without changing its answer."""

__version__ = "0.1.0"
