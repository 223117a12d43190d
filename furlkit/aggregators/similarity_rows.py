"""Any rows of the ensemble similarity, computed on the training device: FLESD Eq. 4."""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from furlkit.aggregators.similarity import ensemble, sharpened, trimmed_ensemble
from furlkit.errors import InputError


class Similarities:
    """M of FLESD Eq. 6 for some images against others, computed on demand.

    `parts`: R_k of each client; or, with `columns`, the largest cosines and the images
    of the columns. `matrix`: M. Memory is the size of these arguments, never n x n
    without a matrix. Images are positions in the public set, a tensor on `device`: the
    device of the parts, or the CPU for a matrix. `trim`: see `trimmed_ensemble`.
    """

    def __init__(
        self,
        parts: Sequence[Tensor],
        columns: Sequence[Tensor] = (),
        matrix: np.ndarray | None = None,
        *,
        tau_T: float,
        trim: float | None = None,
        name: str = "the ensemble",
    ):
        self._parts, self._columns, self._matrix = parts, columns, matrix
        self._tau, self._trim, self._name = tau_T, trim, name
        self.device = parts[0].device if matrix is None else torch.device("cpu")

    def __call__(self, images: Tensor, anchors: Tensor) -> Tensor:
        """M[images][:, anchors], (B, m), up to a factor that Eq. 8 divides out."""
        if self._matrix is not None:
            return self._from_matrix(self._matrix, images, anchors)
        cosines = self._sparse if self._columns else self._products
        found = (sharpened(c, self._tau) for c in cosines(images, anchors))
        if self._trim is None:
            return ensemble(found)
        return trimmed_ensemble(torch.stack([*found]), self._trim)

    def _products(self, images: Tensor, anchors: Tensor) -> Iterator[Tensor]:
        """FLESD Eq. 4 for these images alone: M_k = R_k^T R_k."""
        for rows in self._parts:
            yield rows[images] @ rows[anchors].T  # (B, m)

    def _sparse(self, images: Tensor, anchors: Tensor) -> Iterator[Tensor]:
        """Yield the cosines that were sent; -inf for the remaining cosines."""
        for values, columns in zip(self._parts, self._columns, strict=True):
            row = values.new_full((len(images), len(values)), -torch.inf)  # (B, n)
            yield row.scatter_(1, columns[images], values[images])[:, anchors]

    def _from_matrix(
        self, matrix: np.ndarray, images: Tensor, anchors: Tensor
    ) -> Tensor:
        found = torch.from_numpy(matrix[images.numpy()])[:, anchors]
        # A mapped matrix is checked here, because no other code reads it.
        if not torch.isfinite(found).all() or bool((found < 0).any()):
            raise InputError(
                f"{self._name}: the matrix has values that are not finite or below 0; "
                "re-create it with aggregate --rule ensemble"
            )
        return found
