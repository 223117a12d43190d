"""Shards with known images, and the same images as a folder."""

import io
import json
import tarfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from PIL import Image


def encoded(array, kind="PNG"):
    stream = io.BytesIO()
    Image.fromarray(array).save(stream, kind)
    return stream.getvalue()


def colour_images(count, size=(10, 12), seed=0):
    """Encoded PNG files of random pixels."""
    rng = np.random.default_rng(seed)
    shape = (count, *size, 3)
    return [encoded(each) for each in rng.integers(0, 256, shape, np.uint8)]


def write_folder(folder, images, labels, names, ending="png"):
    """The images in class folders, which sort them by label and then by number."""
    for number, (image, label) in enumerate(zip(images, labels, strict=True)):
        (folder / names[label]).mkdir(parents=True, exist_ok=True)
        (folder / names[label] / f"{number:04}.{ending}").write_bytes(image)
    return folder


def write_tar(path, members):
    """Members as a list of names and bytes, so that names may repeat."""
    with tarfile.open(path, "w") as tar:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return path


def samples(images, labels=None, ending="png", first=0):
    """The members of WebDataset samples."""
    members = []
    for number, image in enumerate(images):
        base = f"{first + number:04}"
        if labels is not None:
            members.append((f"{base}.cls", str(labels[number]).encode()))
        members.append((f"{base}.{ending}", image))
    return members


def table(images, labels=None, names=None, plain=False, columns=("image", "label")):
    """A table as Hugging Face `datasets` writes it."""
    image, label = columns
    cells = [{"bytes": each, "path": None} for each in images]
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    data = {image: pa.array(images if plain else cells, pa.binary() if plain else kind)}
    features = {image: {"_type": "Image"}}
    if labels is not None:
        data[label] = pa.array(labels)
        features[label] = {"names": names, "_type": "ClassLabel"}
    metadata = {"huggingface": json.dumps({"info": {"features": features}})}
    return pa.table(data).replace_schema_metadata(metadata if names else None)


def write_parquet(path, rows, group=4):
    pyarrow.parquet.write_table(rows, path, row_group_size=group)
    return path


def write_arrow(path, rows, batch=4, stream=True, compression=None):
    new = pa.ipc.new_stream if stream else pa.ipc.new_file
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with new(str(path), rows.schema, options=options) as writer:
        writer.write_table(rows, max_chunksize=batch)
    return path
