from collections import Counter
from functools import partial

import numpy as np
import pytest
from PIL import Image

from furlkit.data.sets.fingerprint import same_dataset
from furlkit.data.sets.folder import index_folder, read_images
from furlkit.data.sets.source import Source
from furlkit.files.container.read import Container
from furlkit.files.dataset import read_dataset
from furlkit.stages import pack as stage
from tests.data.sets.digit_files import write_mnist, write_svhn, write_usps
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


@pytest.mark.parametrize("damage", [40, 42, 70])
def test_a_damaged_volume_is_named_and_can_be_skipped(tmp_path, run, damage):
    nibabel = pytest.importorskip("nibabel")
    volume = nibabel.Nifti1Image(np.zeros((8, 8, 8), np.int16), np.eye(4))
    for name in ("good.nii", "scan.nii"):
        nibabel.save(volume, tmp_path / name)
    scan = tmp_path / "scan.nii"
    content = bytearray(scan.read_bytes())
    content[damage : damage + 6] = b"\xff\x7f" * 3
    scan.write_bytes(content)
    words = (
        "pack",
        tmp_path,
        "--slices",
        "axial",
        "--window",
        "0,1",
        "--image-size",
        8,
    )
    output = ("-o", tmp_path / "out" / "p.st")
    done = run(*words, *output)
    assert done.code == 65 and f"{scan}: " in done.err and "bug" not in done.err
    done = run(*words, "--skip-broken", *output)
    assert done.code == 0 and "scan.nii" in done.err


@pytest.mark.parametrize("size", [(0, 8), (8, 0)])
@pytest.mark.parametrize("command", ["pack", "init"])
def test_a_tiff_without_pixels_is_named(tmp_path, run, size, command):
    from tests.data.sets.test_hostile_images import tiff

    path = tmp_path / "pictures" / "empty.tif"
    path.parent.mkdir()
    path.write_bytes(tiff(*size, b""))
    output = ("--image-size", 8)
    done = run(command, *(["--data"] * (command == "init")), path.parent, "--window",
               "0,1", *output, "-o", tmp_path / "out.st")  # fmt: skip
    assert "bug" not in done.err
    if command == "pack":
        assert done.code == 65 and f"{path}: " in done.err and "no pixels" in done.err


def test_an_npz_that_unpacks_to_far_more_bytes_is_refused(tmp_path, run):
    path = tmp_path / "bomb.npz"
    images = np.zeros((10**5, 32, 32), np.uint8)
    np.savez_compressed(path, images=images)
    done = run("pack", path, "-o", tmp_path / "p.st")
    assert done.code == 65 and f"{path}: declares 102,4" in done.err


@pytest.mark.parametrize("damage", ["cut", "text"])
def test_a_broken_image_is_named(tmp_path, capsys, damage):
    pictures(tmp_path / "pictures")
    broken = tmp_path / "pictures" / "dog" / "1.png"
    broken.write_bytes(broken.read_bytes()[:60] if damage == "cut" else b"no image")
    path = tmp_path / "d.safetensors"
    path.touch()
    assert furlkit("pack", tmp_path / "pictures", "-o", path) == 65
    assert f"{broken}: " in capsys.readouterr().err
    assert path.read_bytes() == b""
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


@pytest.mark.parametrize("place, value", [(0, 1), (7, 0x80)])
def test_a_damaged_domain_is_found(tmp_path, capsys, place, value):
    path = styles(tmp_path / "styles.npz")
    data = tmp_path / "d.safetensors"
    assert furlkit("pack", path, "-o", data) == 0
    opened, content = Container(data), bytearray(data.read_bytes())
    content[opened.body_start + opened.entry("domains").start + place] ^= value
    data.write_bytes(content)
    assert furlkit("partition", "--data", data, "-o", tmp_path / "p") == 65
    message = capsys.readouterr().err
    assert str(data) in message and "domains" in message


def styles(path, **more):
    """An .npz of 12 images in 2 classes and 3 domains."""
    pixels = np.arange(12 * 64, dtype=np.uint8).reshape(12, 8, 8, 1)
    columns = {"labels": np.arange(12) % 2, "domains": np.arange(12) // 4}
    np.savez(path, images=pixels, **{**columns, **more})
    return path


def test_a_file_with_domains_keeps_them_and_their_names(tmp_path):
    plain, named = styles(tmp_path / "a.npz"), tmp_path / "b.npz"
    styles(named, domain_names=["ink", "oil", "pen"])
    given = ("--domain-names", "x,y,Real World")
    for source, more, names in (
        (plain, (), ["0", "1", "2"]),
        (named, (), ["ink", "oil", "pen"]),
        (plain, given, ["x", "y", "Real World"]),
    ):
        path = tmp_path / "d.safetensors"
        assert furlkit("pack", source, *more, "-o", path) == 0
        packed, opened = read_dataset(path), Source(source).images()
        assert packed.domains.tolist() == [0] * 4 + [1] * 4 + [2] * 4
        assert packed.facts.domain_names == names
        assert Source(path).images().fingerprint == opened.fingerprint
    by_domain = Source(path).images().by_domain()
    assert {name: part.tolist() for name, part in by_domain.items()} == {
        "x": [0, 1, 2, 3], "y": [4, 5, 6, 7], "Real World": [8, 9, 10, 11]
    }  # fmt: skip


def test_a_packed_file_from_before_domains_had_a_hash_still_opens(tmp_path, forge):
    path = tmp_path / "d.safetensors"
    assert furlkit("pack", styles(tmp_path / "a.npz"), "-o", path) == 0
    old = dict(read_dataset(path).facts.fingerprint)
    del old["domains"]
    forge(path, facts={"fingerprint": old, "domain_names": []})
    opened = Source(path).images()
    assert opened.fingerprint == old and opened.domain_names == ("0", "1", "2")
    assert same_dataset(old, Source(tmp_path / "a.npz").images().fingerprint) is None


@pytest.mark.parametrize(
    "sources, more, word",
    [
        (("a.npz",), ("--domain-names", "x,y"), "found 3 domains"),
        (("a.npz",), ("--domain-names", "x,,y"), "--domain-names"),
        (("a.npz",), ("--domain-names", "x,y,x"), "two domains are called x"),
        (("a.npz", "a.npz"), (), "two domains are called a"),
        (("digits",), ("--domain-names", "x"), "found 0 domains"),
        (("digits",), ("--train-fraction", 0.5), "already has splits"),
        (("digits",), ("--seed", 1), "--train-fraction"),
        (("a.npz",), ("--split", "test"), "--train-fraction"),
        (("a.npz",), ("--train-fraction", 0.01), "no images"),
        (("a.npz",), ("--train-fraction", 1), "--train-fraction"),
        (("home", "home"), ("--domain-folders",), "one folder"),
    ],
)
def test_domains_and_splits_that_cannot_be(
    tmp_path, monkeypatch, refused, sources, more, word
):
    styles(tmp_path / "a.npz")
    pictures(tmp_path / "home" / "art")
    monkeypatch.chdir(tmp_path)
    refused(tmp_path, 2, [word], "pack", *sources, *more, "-o", tmp_path / "d")


def test_domains_are_named_by_folder_or_file_and_not_by_its_path(tmp_path):
    pictures(tmp_path / "photo", size=(8, 8))
    sources = ("digits", tmp_path / "photo", styles(tmp_path / "ink.npz"))
    path = tmp_path / "d.safetensors"
    assert furlkit("pack", *sources, "-o", path) == 0
    assert read_dataset(path).facts.domain_names == ["digits", "photo", "ink"]
    assert str(tmp_path).encode() not in path.read_bytes()


def test_digit_is_mnist_svhn_and_usps_of_one_size_in_colour(
    tmp_path, monkeypatch, capsys
):
    rng = np.random.default_rng(0)
    mnist = rng.integers(0, 256, (3, 28, 28), np.uint8)
    svhn = rng.integers(0, 256, (32, 32, 3, 2), np.uint8)
    write_mnist(tmp_path, mnist, [7, 0, 2])
    write_svhn(tmp_path, svhn, [10, 4], monkeypatch)
    write_usps(tmp_path, np.linspace(-1, 1, 256)[None], [10])
    sources, path = ("mnist", "svhn", "usps"), tmp_path / "digit.safetensors"
    form = ("--image-size", 32, "--channels", 3, "--data-root", tmp_path)
    assert furlkit("pack", *sources, *form, "-o", path) == 0
    packed = read_dataset(path)
    assert packed.images.shape == (6, 32, 32, 3)
    assert np.array_equal(packed.images[3:5], svhn.transpose(3, 0, 1, 2))
    grey = Source("mnist", data_root=tmp_path, size=32).images().images
    assert np.array_equal(packed.images[:3], np.repeat(grey, 3, axis=3))
    assert packed.labels.tolist() == [7, 0, 2, 0, 4, 9]
    assert packed.domains.tolist() == [0, 0, 0, 1, 1, 2]
    assert packed.facts.domain_names == ["mnist", "svhn", "usps"]
    said = capsys.readouterr().err.splitlines()
    assert said[0] == (
        "mnist (28 x 28 x 1), usps (16 x 16 x 1): brought to 32 x 32 x 3"
    )
    # MNIST calls them "0 - zero", and of so few images most classes have none.
    assert "mnist and svhn name their 10 classes differently" in said[1]
    assert "svhn: has no images of 8 of 10 classes (1 - one, " in said[3]


OFFICE = {"Art": (5, 1), "Clipart": (10, 2), "Product": (4, 0), "Real World": (7, 3)}


@pytest.fixture
def office(tmp_path):
    """Office-Home's layout: a folder for each domain, in it one for each class."""
    for number, (domain, counts) in enumerate(OFFICE.items()):
        for name, count in zip(("Alarm_Clock", "Bed"), counts, strict=True):
            folder = tmp_path / "office" / domain / name
            folder.mkdir(parents=True)
            for k in range(count):
                picture = Image.new("RGB", (9 + k, 8), (number, k, len(name)))
                picture.save(folder / f"{k:05}.png")
    (tmp_path / "office" / "ImageInfo.csv").write_text("not an image")
    return tmp_path / "office"


def pack_office(office, path, *more):
    form = ("--domain-folders", "--image-size", 8, "--train-fraction", 0.7)
    assert furlkit("pack", office, *form, *more, "-o", path) == 0
    return read_dataset(path)


def test_folders_are_split_within_domain_and_class(office, tmp_path, capsys):
    path = tmp_path / "d.safetensors"
    whole = index_folder(office, domains=True).labels
    train, test = (
        pack_office(office, path, "--split", split) for split in ("train", "test")
    )
    cells = [
        Counter(zip(part.domains.tolist(), part.labels.tolist(), strict=True))
        for part in (whole, train, test)
    ]
    for cell, count in cells[0].items():
        assert cells[1][cell] == round(0.7 * count)
        assert cells[1][cell] + cells[2][cell] == count
    # Every image is in one of the two: pixels tell its domain, class and number.
    pixels = np.concatenate([part.images[:, 4, 4] for part in (train, test)])
    assert len(pixels) == 32 and len(np.unique(pixels, axis=0)) == 32
    for part in (train, test):
        assert part.facts.domain_names == list(OFFICE)
        assert part.facts.class_names == ["Alarm_Clock", "Bed"]
    assert train.facts.fingerprint != test.facts.fingerprint
    said = capsys.readouterr().err
    assert "Product: has no images of 1 of 2 classes (Bed)" in said


def test_a_split_depends_on_its_seed_alone(office, tmp_path):
    path = tmp_path / "d.safetensors"
    found = []
    for seed in (1, 1, 2):
        pack_office(office, path, "--seed", seed)
        found.append(path.read_bytes())
    assert found[0] == found[1] != found[2]
    assert Container(path).header.seed == 2
    assert Container(path).header.options["train-fraction"] == 0.7
    pack_office(office, path)
    assert Container(path).header.seed == 0


def test_an_npz_is_split_like_a_folder(tmp_path):
    source, path = styles(tmp_path / "a.npz"), tmp_path / "d.safetensors"
    images = Source(source).images().images
    parts = []
    for split in ("train", "test"):
        half = ("--train-fraction", 0.5, "--split", split)
        assert furlkit("pack", source, *half, "-o", path) == 0
        packed = read_dataset(path)
        assert np.bincount(packed.domains * 2 + packed.labels).tolist() == [1] * 6
        parts.append(packed.images[:, 0, 0, 0].tolist())
    assert sorted(parts[0] + parts[1]) == sorted(images[:, 0, 0, 0].tolist())


def test_folders_of_splits_are_not_taken_for_domains(tmp_path, refused):
    for split in ("train", "test"):
        pictures(tmp_path / "home" / split, each=1)
    words = ("pack", tmp_path / "home", "--domain-folders", "-o", tmp_path / "d")
    refused(tmp_path, 65, [tmp_path / "home", "splits"], *words)


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


def test_some_images_are_drawn_from_a_folder_by_seed(tmp_path):
    pixels = pictures(tmp_path / "p", each=5)
    found = {}
    for seed, count in ((3, 2), (3, 4), (4, 4)):
        path = tmp_path / f"{seed}_{count}"
        some = ("--images", count, "--seed", seed)
        assert furlkit("pack", tmp_path / "p", *some, "-o", path) == 0
        packed = read_dataset(path)
        names = [np.flatnonzero((pixels == i).all((1, 2, 3)))[0] for i in packed.images]
        assert packed.labels.tolist() == [name // 5 for name in names]
        found[seed, count] = names
        header = Container(path).header
        assert (header.seed, header.options["images"]) == (seed, count)
    assert set(found[3, 2]) < set(found[3, 4]) != set(found[4, 4])


def test_some_images_of_each_source_after_its_split(tmp_path):
    source, path = styles(tmp_path / "a.npz"), tmp_path / "d.safetensors"
    more = ("--train-fraction", 0.5, "--images", 4)
    assert furlkit("pack", source, *more, "-o", path) == 0
    assert len(read_dataset(path).images) == 4
    assert furlkit("pack", "digits", source, "--image-size", 8, "--images", 5,
                   "-o", path) == 0  # fmt: skip
    assert np.bincount(read_dataset(path).domains).tolist() == [5, 5]
