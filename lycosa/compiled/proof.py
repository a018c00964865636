"""Proves an image (`python -m lycosa.compiled.proof`, the image named by `$LYCOSA_KERNELS_DRAFT`).

Loads everything in the image and calls one kernel, without Numba. Exits with 0 if all went well, otherwise with
another code, or by the signal that an unsound image causes.
"""

from __future__ import annotations

import importlib
import sys


def prove() -> None:
    """Prove the image; see the module's docstring."""
    from lycosa import compiled
    from lycosa.compiled import proof_kernels

    image = compiled._image()
    assert image is not None and image.fits
    for (module, name), types in image.entries():
        importlib.import_module(module)
        assert image.load((module, name), types) is not None
    proof_kernels.prove()
    assert "numba" not in sys.modules
    proof_kernels.prove_raising()
    proof_kernels.prove()


if __name__ == "__main__":
    prove()
