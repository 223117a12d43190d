import os

import numpy as np
import pytest
from PIL import Image

from furlkit.data.sets.decode import decode_file, fitted
from furlkit.data.sets.fingerprint import same_dataset
from furlkit.data.sets.folder import folder_shape, index_folder, read_images
from furlkit.data.sets.source import Source
from furlkit.data.sets.window import Reading
from furlkit.errors import InputError

RNG = np.random.default_rng(0)


def save(path, shape=(8, 8, 3), **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = RNG.integers(0, 256, shape, np.uint8)
    Image.fromarray(pixels).save(path, **options)
    return pixels


def by_class(root):
    return {
        name: save(root / name)
        for name in ("cat/b.png", "cat/a.PNG", "dog/deep/er/c.bmp", "ant/z.png")
    }


def test_index_is_sorted_nested_and_skips_other_files(tmp_path):
    by_class(tmp_path)
    save(tmp_path / "cat/.hidden.png")
    save(tmp_path / ".cache/x.png")
    (tmp_path / "cat/notes.txt").write_text("no image")
    (tmp_path / "empty").mkdir()
    (tmp_path / "README.md").write_text("no image either")
    index = index_folder(tmp_path)
    assert index.paths == ("ant/z.png", "cat/a.PNG", "cat/b.png", "dog/deep/er/c.bmp")
    assert index.labels.class_names == ("ant", "cat", "dog")
    assert list(index.labels.labels) == [0, 1, 1, 2]
    assert index.labels.domains is None


def test_pixels_are_in_the_order_of_the_index(tmp_path):
    saved = by_class(tmp_path)
    opened = Source(tmp_path).images()
    expected = np.stack([saved[name] for name in index_folder(tmp_path).paths])
    assert np.array_equal(opened.images, expected)
    assert opened.classes == 3 and opened.mean == (0.485, 0.456, 0.406)


def test_blocks_cover_the_folder_in_order(tmp_path):
    for number in range(7):
        save(tmp_path / f"c/{number}.png")
    index = index_folder(tmp_path)
    blocks = list(read_images(index, None, block=3))
    assert [len(block) for block in blocks] == [3, 3, 1]
    assert np.array_equal(np.concatenate(blocks), Source(tmp_path).images().images)
    assert folder_shape(index, None) == (7, 8, 8, 3)
    assert folder_shape(index, 5) == (7, 5, 5, 3)


def test_flat_folder_has_no_labels(tmp_path):
    save(tmp_path / "b.png")
    save(tmp_path / "a.jpg")
    opened = Source(tmp_path).images()
    assert opened.labels is None and opened.classes == 0 and len(opened.images) == 2


def test_stray_image_beside_class_folders_is_named(tmp_path):
    by_class(tmp_path)
    save(tmp_path / "stray.png")
    with pytest.raises(InputError, match="stray.png .*class folder.* 4 .*--no-labels"):
        index_folder(tmp_path, labelled=True)


def test_images_at_any_depth_are_read_without_labels(tmp_path, capsys):
    by_class(tmp_path)
    save(tmp_path / "stray.png")
    save(tmp_path / "2024" / "may" / "deep.png")
    opened = Source(tmp_path).images()
    assert opened.labels is None and opened.class_names == ()
    assert len(opened.images) == 6 and opened.fingerprint["labels"] is None
    assert "stray.png is not inside a class folder" in capsys.readouterr().err
    silent = index_folder(tmp_path, labelled=False).labels
    assert silent.fingerprint == opened.fingerprint and capsys.readouterr().err == ""


def test_domains_without_labels_need_domain_folders_alone(tmp_path):
    for name in ("art/cat/1.png", "art/2.png", "photo/1.png"):
        save(tmp_path / name)
    opened = index_folder(tmp_path, domains=True, labelled=False).labels
    assert opened.labels is None and list(opened.domains) == [0, 0, 1]
    save(tmp_path / "stray.png")
    with pytest.raises(
        InputError, match="stray.png is not inside a domain folder, but"
    ):
        index_folder(tmp_path, domains=True, labelled=False)


def test_domains_above_classes(tmp_path):
    for name in ("art/cat/1.png", "art/dog/1.png", "photo/cat/1.png"):
        save(tmp_path / name)
    opened = index_folder(tmp_path, domains=True).labels
    assert opened.domain_names == ("art", "photo")
    assert list(opened.domains) == [0, 0, 1]
    assert opened.class_names == ("cat", "dog") and list(opened.labels) == [0, 1, 0]


def test_domains_without_classes_are_refused(tmp_path):
    save(tmp_path / "art/1.png")
    with pytest.raises(InputError, match="art/1.png .*domain folder"):
        index_folder(tmp_path, domains=True)


def test_folder_of_splits_is_not_taken_for_classes(tmp_path):
    save(tmp_path / "train/cat/1.png")
    save(tmp_path / "val/cat/1.png")
    with pytest.raises(InputError, match="train, val"):
        index_folder(tmp_path)
    assert index_folder(tmp_path / "train").labels.class_names == ("cat",)


def test_folder_without_images(tmp_path):
    with pytest.raises(InputError, match="no images"):
        Source(tmp_path).labels()


def test_links_are_followed_but_not_in_cycles(tmp_path):
    save(tmp_path / "real/1.png")
    os.symlink(tmp_path / "real", tmp_path / "linked")
    os.symlink(tmp_path, tmp_path / "real" / "circle")
    assert index_folder(tmp_path).paths == ("linked/1.png", "real/1.png")


def test_labels_match_images_until_a_file_changes(tmp_path):
    by_class(tmp_path)
    labels = Source(tmp_path).labels()
    for size in (None, 5):
        opened = Source(tmp_path, size=size).images()
        assert same_dataset(labels.fingerprint, opened.fingerprint) is None
    save(tmp_path / "cat/b.png", (9, 9, 3))
    assert "files" in same_dataset(
        labels.fingerprint, Source(tmp_path).labels().fingerprint
    )


def test_same_folder_elsewhere_is_the_same_dataset(tmp_path):
    save(tmp_path / "one/cat/1.png")
    (tmp_path / "one").rename(tmp_path / "two")
    before = Source(tmp_path / "two").labels().fingerprint
    (tmp_path / "two").rename(tmp_path / "three")
    assert Source(tmp_path / "three").labels().fingerprint == before


def test_mixed_sizes_need_image_size(tmp_path):
    save(tmp_path / "c/1.png", (8, 8, 3))
    save(tmp_path / "c/2.png", (6, 10, 3))
    with pytest.raises(InputError, match="2.png: .*10 x 6.*--image-size"):
        Source(tmp_path).images()
    assert Source(tmp_path, size=4).images().images.shape == (2, 4, 4, 3)


@pytest.mark.parametrize("shape", [(20, 31, 3), (33, 20, 3), (16, 16, 3), (7, 40, 3)])
def test_resize_and_crop_match_torchvision(tmp_path, shape):
    from torchvision.transforms.v2 import functional

    save(tmp_path / "a.png", shape)
    with Image.open(tmp_path / "a.png") as image:
        expected = functional.center_crop(functional.resize(image, [16]), [16])
    found = fitted(decode_file(tmp_path / "a.png", 3).pixels, 16)
    assert np.array_equal(found, np.asarray(expected))


def test_broken_image_is_named(tmp_path):
    by_class(tmp_path)
    path = tmp_path / "cat/b.png"
    path.write_bytes(path.read_bytes()[:60])
    with pytest.raises(InputError, match="cat/b.png: cannot be read"):
        Source(tmp_path).images()
    path.write_bytes(b"not an image")
    with pytest.raises(InputError, match="cat/b.png: cannot be read"):
        Source(tmp_path).images()


def test_camera_orientation_is_honoured(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by 90 degrees clockwise
    pixels = save(tmp_path / "c/a.png", (4, 6, 3), exif=exif)
    found = Source(tmp_path).images().images[0]
    assert np.array_equal(found, np.rot90(pixels, -1))


def test_modes_become_rgb(tmp_path):
    grey = np.arange(64, dtype=np.uint8).reshape(8, 8) * 4
    deep = grey.astype(np.uint16) * 257
    image = Image.fromarray(grey)
    image.save(tmp_path / "l.png")
    image.convert("P").save(tmp_path / "p.png")
    Image.merge("LA", [image, image]).save(tmp_path / "la.png")
    Image.merge("RGBA", [image] * 4).save(tmp_path / "rgba.png")
    Image.fromarray(deep).save(tmp_path / "deep.png")
    Image.fromarray(deep).save(tmp_path / "deep.tif")
    zero = Image.new("L", (8, 8))
    black = Image.fromarray(255 - grey)
    Image.merge("CMYK", [zero, zero, zero, black]).save(tmp_path / "cmyk.tif")
    how = Reading("full")  # For the images of 16 bits; the others are unchanged.
    for path in sorted(tmp_path.iterdir()):
        found = decode_file(path, 3, how).pixels
        assert np.array_equal(found, np.repeat(grey[..., None], 3, axis=2)), path.name
        assert np.array_equal(decode_file(path, 1, how).pixels[..., 0], grey), path.name


def test_unreadable_folder_is_named(tmp_path):
    os.symlink(tmp_path / "gone", tmp_path / "link.png")
    with pytest.raises(InputError, match="link.png: cannot be read"):
        index_folder(tmp_path)
