"""DINO: a student predicts the distribution of a teacher, a slow copy of the student.

Caron et al., "Emerging Properties in Self-Supervised Vision Transformers", ICCV 2021,
Eq. 1-4 and Algorithm 1.

    s, t            scores of K prototypes by student and teacher                (N, K)
    c               centre: moving average of the teacher's scores               (K)
    tau_s, tau_t    temperatures of student and teacher; a small tau_t sharpens
    m, l            share of the old centre kept in a step; of the old teacher (--ema)

The centre prevents that one prototype wins for all images; sharpening prevents equal
probabilities. Scores are products of unit rows: the projector's z, and prototypes with
a weight norm of 1 (the authors' default). The head counts the steps of the whole run;
prototypes are frozen in the first steps.

Differences from the paper: two views without small crops (the augmentation has one
image size), so Eq. 3 has two terms; tau_t and l are constant, without the warm-up of
tau_t and the growth of l to 1; the projector has BatchNorm.
"""

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from furlkit.objectives.learner import Forward, Through, repeatable_with_target
from furlkit.objectives.momentum import TARGET_PARTS, Target
from furlkit.objectives.simclr import normalise


def teacher_probabilities(t: Tensor, c: Tensor, tau_t: float) -> Tensor:
    """DINO Eq. 1 for the teacher, centred: softmax((t - c) / tau_t), without gradient."""
    return F.softmax((t.detach() - c) / tau_t, dim=1)


def view_loss(s: Tensor, P_t: Tensor, tau_s: float) -> Tensor:
    """DINO Eq. 2: the mean over rows of - sum_k P_t[k] log softmax(s / tau_s)[k]."""
    return -(P_t * F.log_softmax(s / tau_s, dim=1)).sum(dim=1).mean()


def dino_loss(s: Tensor, P_t: Tensor, tau_s: float) -> Tensor:
    """DINO Eq. 3 for two views, halved: each view of s with the second view of P_t.

    s and P_t (2N, K) have all first views, then all second views.
    """
    (s_1, s_2), (P_1, P_2) = s.chunk(2), P_t.chunk(2)
    return (view_loss(s_1, P_2, tau_s) + view_loss(s_2, P_1, tau_s)) / 2


def next_centre(c: Tensor, t: Tensor, m: float) -> Tensor:
    """DINO Eq. 4: m c + (1 - m) times the mean row of t."""
    return m * c + (1 - m) * t.mean(dim=0)


class Settings(NamedTuple):
    """Options of DINO by name."""

    temperature: float
    teacher_temperature: float
    centre_momentum: float
    ema: float
    freeze_steps: int


class Dino(nn.Module):
    """The student, the teacher (`target`) and the centre; only the student is trained."""

    net: Any
    centre: Tensor
    _t: list[Tensor]  # The teacher's scores in the current step, by pass.

    def __init__(self, net: Any, settings: Settings):
        super().__init__()
        self.net, self._settings = net, settings
        self.target = Target(net, (*TARGET_PARTS, "prototypes"))
        weight = net.prototypes.weight
        self.register_buffer("centre", torch.zeros(len(weight), device=weight.device))

    def step(self, batch) -> Forward:
        """Predict from each view the teacher's distribution of the second view."""
        x = batch.two_views()  # (2N, C, S, S)
        self._t, options = [], self._settings

        def forward(h: Tensor, h_target: Tensor, through: Through) -> Forward:
            z = through(self.net.projector, h)  # (2N, d)
            z_target = through(self.target.project, h_target)
            with torch.autocast(z.device.type, enabled=False):
                s = normalise(z.float()) @ normalise(self._prototypes()).T  # (2N, K)
                C = self.target["prototypes"].get_parameter("weight")
                t = normalise(z_target.float()) @ normalise(C).T
                tau_s, tau_t = options.temperature, options.teacher_temperature
                P_t = teacher_probabilities(t, self.centre, tau_t)
                loss = dino_loss(s, P_t, tau_s)
            self._t.append(t)
            return Forward({"dino": loss}, x, h, z)

        h, h_target = self.net.encoder(x), self.target.encode(x)
        return repeatable_with_target(forward, h, h_target)

    def after_step(self) -> None:
        """Move the centre (Eq. 4) and the teacher; count the step."""
        options = self._settings
        t = torch.cat(self._t)
        self.centre.copy_(next_centre(self.centre, t, options.centre_momentum))
        self.target.follow(self.net, options.ema)
        self.net.prototypes.steps += 1

    def end_epoch(self, losses: dict[str, float]) -> dict[str, Any]:
        """Entropy of the teacher's distributions, and prototypes used, in the last step.

        An entropy of log K shows equal probabilities; one used prototype shows that the
        centre lost.
        """
        tau_t = self._settings.teacher_temperature
        P_t = teacher_probabilities(self._t[0], self.centre, tau_t).cpu()
        entropy = torch.special.entr(P_t).sum(dim=1).mean()
        used = len(P_t.argmax(dim=1).unique())
        return {"teacher_entropy": float(entropy), "used_prototypes": used}

    def _prototypes(self) -> Tensor:
        """The student's prototypes; frozen prototypes take no gradient."""
        head = self.net.prototypes
        frozen = int(head.steps) < self._settings.freeze_steps
        return head.weight.detach() if frozen else head.weight


def learner(net: Any, **options: Any) -> Dino:
    """DINO with a copy of the student for the teacher, and a centre of zeros."""
    return Dino(net, Settings(**options))
