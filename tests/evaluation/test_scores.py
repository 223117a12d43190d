import pytest
import torch

from furlkit.errors import InputError
from furlkit.evaluation.scores import (
    accuracy,
    check_features,
    check_rows,
    confusion_matrix,
    per_class_accuracy,
)

LABELS = torch.tensor([0, 0, 0, 1, 1, 3])
PREDICTIONS = torch.tensor([0, 0, 1, 1, 3, 3])


def test_scores_by_hand():
    assert accuracy(PREDICTIONS, LABELS) == 4 / 6
    assert per_class_accuracy(PREDICTIONS, LABELS, 4) == [2 / 3, 1 / 2, None, 1.0]
    matrix = confusion_matrix(PREDICTIONS, LABELS, 4)
    assert matrix == [[2, 1, 0, 0], [0, 1, 0, 1], [0, 0, 0, 0], [0, 0, 0, 1]]
    assert all(type(cell) is int for row in matrix for cell in row)


def test_confusion_matrix_matches_loops_and_counts_every_image():
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(0, 5, (333,), generator=generator)
    predictions = torch.randint(0, 5, (333,), generator=generator)
    expected = [[0] * 5 for _ in range(5)]
    for p, y in zip(predictions.tolist(), labels.tolist(), strict=True):
        expected[y][p] += 1
    matrix = confusion_matrix(predictions, labels, 5)
    assert matrix == expected
    assert sum(map(sum, matrix)) == 333
    hits = sum(matrix[c][c] for c in range(5))
    assert accuracy(predictions, labels) == hits / 333


def test_narrow_label_types_do_not_overflow():
    labels = torch.tensor([99, 99], dtype=torch.uint8)
    assert confusion_matrix(labels, labels, 100)[99][99] == 2


@pytest.mark.parametrize("bad", [-1, 4])
def test_labels_outside_the_classes_are_refused(bad):
    labels = torch.tensor([0, bad])
    with pytest.raises(InputError, match="expected 0 to 3"):
        confusion_matrix(torch.tensor([0, 1]), labels, 4)


def test_predictions_must_pair_with_labels():
    for predictions in (PREDICTIONS[:5], PREDICTIONS[:, None]):
        with pytest.raises(InputError, match="predictions"):
            accuracy(predictions, LABELS)
    with pytest.raises(InputError, match="predictions"):
        accuracy(LABELS[:0], LABELS[:0])


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_features_must_be_finite_rows(bad):
    features = torch.zeros(3, 4)
    check_features(features)
    features[1, 2] = bad
    with pytest.raises(InputError, match="NaN"):
        check_features(features)
    with pytest.raises(InputError, match="found shape"):
        check_features(torch.zeros(3))
    with pytest.raises(InputError, match="3 rows .* 2 labels"):
        check_rows(torch.zeros(3, 4), torch.zeros(2))
