from functools import partial

import numpy as np
import pytest
from PIL import Image

from furlkit.data.sets.fingerprint import same_dataset
from furlkit.data.sets.folder import read_images
from furlkit.data.sets.source import Source
from furlkit.files.container.read import Container
from furlkit.files.dataset import read_dataset
from furlkit.stages import pack as stage
from tests.helpers import furlkit


def pictures(folder, classes=("cat", "dog"), each=3, size=(12, 10), seed=0):
    """A folder of PNGs, and their pixels in the order of their names."""
    rng, pixels = np.random.default_rng(seed), []
    for name in classes:
        (folder / name).mkdir(parents=True)
        for number in range(each):
            array = rng.integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
            Image.fromarray(array).save(folder / name / f"{number}.png")
            pixels.append(array)
    return np.stack(pixels)


def test_packed_digits_are_digits(tmp_path, capsys):
    path = tmp_path / "d.safetensors"
    assert furlkit("pack", "digits", "-o", path) == 0
    named, packed = Source("digits").images(), Source(path).images()
    assert np.array_equal(named.images, packed.images)
    assert np.array_equal(named.labels, packed.labels)
    assert packed.fingerprint == named.fingerprint
    assert (packed.mean, packed.std) == (named.mean, named.std)
    assert packed.class_names == named.class_names
    assert capsys.readouterr().out == (
        f"{path}: 1,438 images of 8 x 8 x 1, 10 classes\n"
    )


def test_a_partition_of_one_fits_the_other(tmp_path):
    path, net = tmp_path / "d.safetensors", ("--width", 0.02, "--projector", "16,8")
    assert furlkit("pack", "digits", "-o", path) == 0
    for name, data in (("named", "digits"), ("packed", path)):
        assert furlkit("partition", "--data", data, "-o", tmp_path / f"{name}.p") == 0
        assert furlkit("init", "--data", data, *net, "-o", tmp_path / f"{name}.g") == 0
    for kind in "pg":
        files = [tmp_path / f"{name}.{kind}" for name in ("named", "packed")]
        assert files[0].read_bytes() == files[1].read_bytes()


def test_a_folder_is_packed_block_by_block_and_mapped_on_reading(tmp_path, monkeypatch):
    pixels = pictures(tmp_path / "pictures", each=5)
    path = tmp_path / "d.safetensors"
    monkeypatch.setattr(stage, "read_images", partial(read_images, block=3))
    assert furlkit("pack", tmp_path / "pictures", "-o", path) == 0
    packed = read_dataset(path)
    assert isinstance(packed.images, np.memmap)
    assert np.array_equal(packed.images, pixels)
    assert packed.labels.tolist() == [0] * 5 + [1] * 5
    assert packed.facts.class_names == ["cat", "dog"]
    with pytest.raises(ValueError, match="read-only"):
        packed.images[0] = 0


def test_a_partition_of_the_folder_matches_the_packed_file(tmp_path):
    pictures(tmp_path / "pictures")
    path = tmp_path / "d.safetensors"
    assert furlkit("pack", tmp_path / "pictures", "--image-size", 8, "-o", path) == 0
    folder = Source(tmp_path / "pictures").labels().fingerprint
    assert same_dataset(folder, Source(path).images().fingerprint) is None
    (tmp_path / "pictures" / "dog" / "0.png").rename(tmp_path / "pictures/dog/9.png")
    folder = Source(tmp_path / "pictures").labels().fingerprint
    assert "files" in same_dataset(folder, Source(path).images().fingerprint)


def test_an_image_size_is_the_shorter_side_and_the_centre(tmp_path):
    pictures(tmp_path / "pictures", size=(12, 10))
    path = tmp_path / "d.safetensors"
    assert furlkit("pack", tmp_path / "pictures", "--image-size", 10, "-o", path) == 0
    packed = read_dataset(path).images
    with Image.open(tmp_path / "pictures/cat/0.png") as image:
        expected = np.asarray(image)[:, 1:11]
    assert packed.shape == (6, 10, 10, 3) and np.array_equal(packed[0], expected)
    assert furlkit("pack", "digits", "--image-size", 16, "-o", path) == 0
    assert read_dataset(path).images.shape == (1438, 16, 16, 1)


def test_several_sources_are_domains(tmp_path, capsys):
    one = pictures(tmp_path / "photo", each=2)
    other = pictures(tmp_path / "sketch", ("dog", "eel"), each=1, seed=1)
    path = tmp_path / "d.safetensors"
    sources = (tmp_path / "photo", tmp_path / "sketch")
    assert furlkit("pack", *sources, "-o", path) == 0
    packed = read_dataset(path)
    assert np.array_equal(packed.images, np.concatenate([one, other]))
    assert packed.domains.tolist() == [0] * 4 + [1] * 2
    # Classes are joined by name: cat, dog, eel.
    assert packed.facts.class_names == ["cat", "dog", "eel"]
    assert packed.labels.tolist() == [0, 0, 1, 1, 1, 2]
    assert "3 classes, 2 domains" in capsys.readouterr().out
    draw = ("--scheme", "domains", "--clients", 2, "--concentration", 1)
    code = furlkit("partition", "--data", path, *draw, "-o", tmp_path / "p.st")
    assert code == 0


def test_grey_and_colour_together_become_colour(tmp_path):
    pictures(tmp_path / "pictures", size=(8, 8))
    path = tmp_path / "d.safetensors"
    assert furlkit("pack", "digits", tmp_path / "pictures", "-o", path) == 0
    images = read_dataset(path).images
    assert images.shape == (1444, 8, 8, 3)
    digits = Source("digits").images().images
    assert all(np.array_equal(images[:1438, ..., c], digits[..., 0]) for c in range(3))


def test_labels_can_be_left_out(tmp_path):
    path = tmp_path / "d.safetensors"
    assert furlkit("pack", "digits", "--no-labels", "-o", path) == 0
    packed = read_dataset(path)
    assert packed.labels is None and packed.facts.class_names == []
    assert packed.facts.fingerprint["labels"] is None
    assert np.array_equal(packed.images, Source("digits").images().images)


def test_labels_that_one_source_lacks_are_left_out_with_a_warning(tmp_path, capsys):
    pixels = np.zeros((3, 8, 8, 1), np.uint8)
    np.savez(tmp_path / "bare.npz", images=pixels)
    path = tmp_path / "d.safetensors"
    assert furlkit("pack", "digits", tmp_path / "bare.npz", "-o", path) == 0
    assert "bare.npz: has no labels" in capsys.readouterr().err
    assert read_dataset(path).labels is None


def test_the_same_sources_give_the_same_bytes_and_keep_no_path(tmp_path):
    pictures(tmp_path / "pictures")
    for name in "ab":
        path = tmp_path / f"{name}.safetensors"
        assert furlkit("pack", tmp_path / "pictures", "-o", path) == 0
    a, b = ((tmp_path / f"{name}.safetensors").read_bytes() for name in "ab")
    assert a == b and str(tmp_path).encode() not in a


def test_memory_blocks_do_not_change_the_file(tmp_path, monkeypatch):
    assert furlkit("pack", "digits", "-o", tmp_path / "a.safetensors") == 0
    monkeypatch.setattr(stage, "BLOCK", 100)
    assert furlkit("pack", "digits", "-o", tmp_path / "b.safetensors") == 0
    a, b = ((tmp_path / f"{name}.safetensors").read_bytes() for name in "ab")
    assert a == b


@pytest.mark.parametrize("damage", ["cut", "text"])
def test_a_broken_image_is_named(tmp_path, capsys, damage):
    pictures(tmp_path / "pictures")
    broken = tmp_path / "pictures" / "dog" / "1.png"
    broken.write_bytes(broken.read_bytes()[:60] if damage == "cut" else b"no image")
    path = tmp_path / "d.safetensors"
    path.write_bytes(b"what was there before")
    assert furlkit("pack", tmp_path / "pictures", "-o", path) == 65
    assert f"{broken}: " in capsys.readouterr().err
    assert path.read_bytes() == b"what was there before"
    assert {entry.name for entry in tmp_path.iterdir()} == {"pictures", path.name}


@pytest.mark.parametrize(
    "more, code, message",
    [
        ((), 2, "--image-size"),
        (("--image-size", 8, "--channels", 1), 0, ""),
    ],
)
def test_sources_of_different_sizes(tmp_path, capsys, more, code, message):
    pictures(tmp_path / "one", size=(12, 12))
    pictures(tmp_path / "two", size=(9, 9))
    path = tmp_path / "d.safetensors"
    assert (
        furlkit("pack", tmp_path / "one", tmp_path / "two", *more, "-o", path) == code
    )
    assert message in capsys.readouterr().err


def test_a_dry_run_writes_nothing(tmp_path, capsys):
    path = tmp_path / "d.safetensors"
    assert furlkit("pack", "digits", "-o", path, "--dry-run") == 0
    assert list(tmp_path.iterdir()) == []
    assert "1,438 images of 8 x 8 x 1" in capsys.readouterr().out


def test_the_message_for_a_folder_without_a_size_names_the_option(tmp_path, capsys):
    pictures(tmp_path / "pictures")
    init = ("init", "--data", tmp_path / "pictures", "-o", tmp_path / "g")
    assert furlkit(*init) == 2
    assert "--image-size" in capsys.readouterr().err
    assert furlkit(*init, "--image-size", 10, "--width", 0.02) == 0


@pytest.mark.parametrize("scheme", [("iid",), ("classes", "--classes-per-client", 2)])
@pytest.mark.parametrize("place, value", [(0, 99), (7, 0x80)])
def test_a_damaged_label_is_found(tmp_path, capsys, scheme, place, value):
    path = tmp_path / "d.safetensors"
    assert furlkit("pack", "digits", "-o", path) == 0
    opened, content = Container(path), bytearray(path.read_bytes())
    content[opened.body_start + opened.entry("labels").start + place] = value
    path.write_bytes(content)
    command = ("partition", "--data", path, "--scheme", *scheme)
    assert furlkit(*command, "-o", tmp_path / "p") == 65
    message = capsys.readouterr().err
    assert str(path) in message and "labels" in message


def test_folders_of_domains_are_packed_as_domains(tmp_path):
    for number, name in enumerate(("art/cat", "art/dog", "photo/cat")):
        (tmp_path / "home" / name).mkdir(parents=True)
        picture = Image.new("RGB", (8, 8), (number, 0, 0))
        picture.save(tmp_path / "home" / name / "1.png")
    path = tmp_path / "home.st"
    assert furlkit("pack", tmp_path / "home", "--domain-folders", "-o", path) == 0
    packed = read_dataset(path)
    assert packed.domains.tolist() == [0, 0, 1] and packed.labels.tolist() == [0, 1, 0]
    assert packed.facts.domain_names == ["art", "photo"]
    assert packed.images[:, 0, 0, 0].tolist() == [0, 1, 2]
    assert furlkit("pack", "digits", "--domain-folders", "-o", path) == 2
