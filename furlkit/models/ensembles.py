"""Any part of an ensemble's similarities, computed when it is asked for."""

from collections.abc import Iterator

import torch
from torch import Tensor

from furlkit.aggregators.similarity import mean_of, sharpened
from furlkit.errors import InputError
from furlkit.files.ensemble import Ensemble


class Similarities:
    """M of FLESD Eq. 6 for some images against others, never n x n.

    Memory is what the ensemble holds: the sum over clients of n d_k numbers where it
    has their rows. Images are named by their place in the public set.
    """

    def __init__(self, ensemble: Ensemble, device: torch.device):
        self._ensemble, self._device = ensemble, device
        self._tau = ensemble.facts.temperature
        self._parts = [torch.from_numpy(p).to(device) for p in ensemble.parts.values()]
        self._columns = [
            torch.from_numpy(places).long().to(device)
            for places in ensemble.columns.values()
        ]

    def rows(self, images: Tensor, anchors: Tensor) -> Tensor:
        """M[images][:, anchors], (B, m), up to a factor that Eq. 8 divides out."""
        if self._ensemble.matrix is not None:
            return self._looked_up(images, anchors)
        images, anchors = images.to(self._device), anchors.to(self._device)
        cosines = self._sparse if self._columns else self._products
        return mean_of(sharpened(c, self._tau) for c in cosines(images, anchors))

    def _products(self, images: Tensor, anchors: Tensor) -> Iterator[Tensor]:
        """FLESD Eq. 4 for these images alone: M_k = R_k^T R_k."""
        for rows in self._parts:
            yield rows[images] @ rows[anchors].T

    def _sparse(self, images: Tensor, anchors: Tensor) -> Iterator[Tensor]:
        """Cosines that were not sent are -inf."""
        n = len(self._ensemble.index)
        for values, columns in zip(self._parts, self._columns, strict=True):
            row = values.new_full((len(images), n), -torch.inf)
            yield row.scatter_(1, columns[images], values[images])[:, anchors]

    def _looked_up(self, images: Tensor, anchors: Tensor) -> Tensor:
        matrix = self._ensemble.matrix
        if matrix is None:
            raise ValueError("an ensemble without a matrix")
        found = torch.from_numpy(matrix[images.cpu().numpy()])[:, anchors.cpu()]
        # A mapped matrix is checked where it is read, which is the only place.
        if not torch.isfinite(found).all() or bool((found < 0).any()):
            raise InputError(
                f"{self._ensemble.path}: its matrix has values that are not finite or "
                "below 0; make it anew with aggregate --rule ensemble"
            )
        return found.to(self._device)
