import numpy as np

from furlkit.data.sets.fingerprint import (
    fingerprint_of,
    image_fingerprint,
    same_dataset,
    sample_positions,
)

IMAGES = np.random.default_rng(0).integers(0, 256, (3000, 4, 4, 3), np.uint8)
LABELS = np.random.default_rng(1).integers(0, 10, 3000)


def test_positions_are_1024_and_reach_both_ends():
    positions = sample_positions(3000)
    assert len(np.unique(positions)) == 1024
    assert positions[0] == 0 and positions[-1] == 2999
    assert list(sample_positions(3)) == [0, 1, 2]


def test_memory_layout_does_not_matter_but_content_and_shape_do():
    strided = np.asfortranarray(IMAGES)
    assert image_fingerprint(strided) == image_fingerprint(IMAGES)
    changed = IMAGES.copy()
    changed[-1, 0, 0, 0] ^= 1
    assert image_fingerprint(changed) != image_fingerprint(IMAGES)
    reshaped = IMAGES.reshape(3000, 2, 8, 3)
    assert image_fingerprint(reshaped) != image_fingerprint(IMAGES)


def test_only_hashes_that_both_have_are_compared():
    whole = fingerprint_of(3000, images=IMAGES, labels=LABELS)
    assert same_dataset(whole, fingerprint_of(3000, images=IMAGES)) is None
    assert (
        same_dataset(whole, fingerprint_of(3000, labels=LABELS.astype(np.int8))) is None
    )
    assert same_dataset(whole, whole) is None


def test_the_result_names_what_differs():
    whole = fingerprint_of(3000, images=IMAGES, labels=LABELS)
    fewer = fingerprint_of(2999, images=IMAGES[1:], labels=LABELS[1:])
    other = fingerprint_of(3000, images=IMAGES, labels=LABELS[::-1])
    assert same_dataset(whole, fewer) == "one has 3,000 examples, the other 2,999"
    assert "labels" in same_dataset(whole, other)


def test_no_common_hash_is_not_agreement():
    files = fingerprint_of(2, files=[("a.png", 3), ("b.png", 4)])
    labels = fingerprint_of(2, labels=np.array([0, 1]))
    assert "in common" in same_dataset(files, labels)


def test_files_are_hashed_in_any_order_with_their_sizes():
    one = fingerprint_of(2, files=[("a.png", 3), ("b.png", 4)])
    assert (
        same_dataset(one, fingerprint_of(2, files=[("b.png", 4), ("a.png", 3)])) is None
    )
    assert same_dataset(one, fingerprint_of(2, files=[("a.png", 3), ("b.png", 5)]))


def test_domains_are_compared_but_do_not_identify_a_dataset():
    domains = np.arange(3000) % 3
    whole = fingerprint_of(3000, labels=LABELS, domains=domains)
    other = fingerprint_of(3000, labels=LABELS, domains=domains[::-1])
    assert "other domains" in same_dataset(whole, other)
    # Files from before they had a hash have none of it.
    assert same_dataset(whole, fingerprint_of(3000, labels=LABELS)) is None
    alone = fingerprint_of(3000, domains=domains)
    assert "in common" in same_dataset(whole, alone)
    assert "domains" not in fingerprint_of(3000, images=IMAGES, labels=LABELS)
