"""The version: the build takes it from the last tag and writes it into ``_version.py``."""

__all__ = ["__version__"]

try:
    from mustdp._version import version as __version__  # type: ignore[import-not-found, unused-ignore]
except ImportError:  # the source tree, never built
    __version__ = "0.1.0"
