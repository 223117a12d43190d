"""Losses agree with solo-learn's and stable-pretraining's on random rows.

    pip install --no-deps --target libraries solo-learn stable-pretraining
    PYTHONPATH=libraries python -m pytest tests/objectives/test_other_libraries.py

solo-learn pins torch 1.9 and installs a package `tests`, so neither package belongs into
the environment. The tests import modules with equations alone.
"""

import importlib
import sys
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, distribution
from types import ModuleType
from typing import Any

import pytest
import torch

from furlkit.objectives.byol import byol_loss
from furlkit.objectives.dino import dino_loss, next_centre, teacher_probabilities
from furlkit.objectives.mae import mae_loss, random_order
from furlkit.objectives.nnclr import nnclr_loss
from furlkit.objectives.simclr import normalise
from furlkit.objectives.vicreg import Weights, vicreg_loss
from tests.objectives.tiny import rows

Load = Callable[..., Any]


@pytest.fixture
def load(monkeypatch) -> Load:
    """Import a module of a package alone: no __init__ module, `absent` names are None."""

    def load(package: str, name: str, **absent: str) -> Any:
        try:
            files = distribution(package)
        except PackageNotFoundError:
            pytest.skip(f"needs {package}, see the top of this file")
        words = name.split(".")
        for length in range(1, len(words)):
            parent = ModuleType(".".join(words[:length]))
            parent.__path__ = [str(files.locate_file("/".join(words[:length])))]
            monkeypatch.setitem(sys.modules, parent.__name__, parent)
        for value, place in absent.items():
            module = ModuleType(place)
            setattr(module, value, None)
            monkeypatch.setitem(sys.modules, place, module)
        monkeypatch.delitem(sys.modules, name, raising=False)
        return importlib.import_module(name)

    return load


def pair(number: int, width: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    return rows(number, width, seed=seed).float(), rows(
        number, width, seed=seed + 1
    ).float()


@pytest.mark.parametrize("scale", [0.1, 1.0, 3.0])
def test_vicreg_agrees_with_solo_learn(load, scale):
    theirs = load("solo-learn", "solo.losses.vicreg").vicreg_loss_func
    z_1, z_2 = (scale * z for z in pair(16, 7))
    # solo-learn adds the variances of both views; ours is the mean, as in lightly and in
    # the authors' code.
    ours = vicreg_loss(z_1, z_2, Weights(25.0, 2 * 25.0, 1.0))
    torch.testing.assert_close(ours, theirs(z_1, z_2))


def test_dino_and_its_centre_agree_with_solo_learn(load):
    theirs = load("solo-learn", "solo.losses.dino").DINOLoss(7, 0.04, 0.04, 0, 1)
    c = torch.zeros(7)
    for step in range(3):
        s, t = pair(10, 7, seed=2 * step)
        ours = dino_loss(s, teacher_probabilities(t, c, 0.04), 0.1)
        torch.testing.assert_close(ours, theirs(s, t))
        c = next_centre(c, t, 0.9)
        torch.testing.assert_close(c, theirs.center.flatten())


def test_nnclr_agrees_with_solo_learn(load):
    theirs = load("solo-learn", "solo.losses.nnclr").nnclr_loss_func
    nn_1, p_2 = map(normalise, pair(9, 5))
    ours = nnclr_loss(nn_1, p_2, 0.1, "oneway")
    torch.testing.assert_close(ours, theirs(nn_1, p_2, 0.1))


def test_byol_agrees_with_solo_learn(load):
    theirs = load("solo-learn", "solo.losses.byol").byol_loss_func
    p, z = pair(9, 5)
    torch.testing.assert_close(byol_loss(p, z), theirs(p, z))


@pytest.mark.parametrize("normalised", [False, True])
def test_mae_agrees_with_stable_pretraining(load, normalised):
    place = "stable_pretraining.backbone.patch_masking"
    name = "stable_pretraining.losses.reconstruction"
    theirs = load("stable-pretraining", name, patchify=place).mae
    t, y = rows(3, 16, 8).float(), rows(3, 16, 8, seed=1).float()
    hidden = random_order(3, 16, torch.Generator().manual_seed(0))[:, 4:]
    mask = torch.zeros(3, 16).scatter(1, hidden, 1.0)
    ours = mae_loss(
        *(x.take_along_dim(hidden[..., None], 1) for x in (y, t)), normalised
    )
    torch.testing.assert_close(ours, theirs(t, y, mask, normalised))
