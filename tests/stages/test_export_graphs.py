"""export --onnx and --torch-export: graphs for programs without furlkit."""

import sys
import zipfile

import pytest
import torch

from furlkit.files.checkpoint import read_checkpoint
from furlkit.models.loading import load_net

ONNX = ("onnx", "onnxscript", "onnxruntime")


def images_and_h(path, size):
    """Random images, and h of the encoder in a checkpoint."""
    encoder = load_net(read_checkpoint(path), torch.device("cpu")).encoder.eval()
    x = torch.randn(size, 1, 8, 8, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        return x, encoder(x)


def has_paths(path):
    return any(word in path.read_bytes() for word in (b"site-packages", b".py\x00"))


@torch.no_grad()
def test_torch_loads_the_graph_for_any_number_of_images(world, run):
    outcome = run("export", world.model, "--torch-export", "-o", world.folder / "e")
    assert "model.pt2 differs by at most 0.0e+00" in outcome.out
    graph = torch.export.load(world.folder / "e/model.pt2").module()
    for size in (1, 5):
        x, h = images_and_h(world.model, size)
        assert torch.equal(graph(x), h)
    assert not has_paths(world.folder / "e/model.pt2")
    again = run("export", world.model, "--torch-export", "-o", world.folder / "f")
    assert again.code == 0
    one, other = (world.folder / name / "model.pt2" for name in "ef")
    assert one.read_bytes() == other.read_bytes()


def test_the_graph_of_torch_contains_no_pickle(world, run):
    run("export", world.model, "--torch-export", "-o", world.folder / "e")
    with zipfile.ZipFile(world.folder / "e/model.pt2") as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    assert any("weights/" in name for name in members)
    for name, content in members.items():
        # A pickle starts with the byte 128, torch's zip of a pickle with PK.
        assert not content.startswith((b"\x80", b"PK")), name
        assert not name.endswith(".pkl")


@torch.no_grad()
def test_onnx_loads_the_graph_for_any_number_of_images(world, run):
    for name in ONNX:
        pytest.importorskip(name, reason=f"{name} of the extra onnx is not installed")
    import onnxruntime

    assert run("export", world.model, "--onnx", "-o", world.folder / "e").code == 0
    session = onnxruntime.InferenceSession(world.folder / "e/model.onnx")
    assert session.get_inputs()[0].shape == ["batch", 1, 8, 8]
    for size in (1, 5):
        x, h = images_and_h(world.model, size)
        found = torch.from_numpy(session.run(["h"], {"images": x.numpy()})[0])
        torch.testing.assert_close(found, h, rtol=1e-5, atol=1e-5)
    assert not has_paths(world.folder / "e/model.onnx")
    assert run("export", world.model, "--onnx", "-o", world.folder / "f").code == 0
    one, other = (world.folder / name / "model.onnx" for name in "ef")
    assert one.read_bytes() == other.read_bytes()


@pytest.mark.parametrize("dry", [(), ("--dry-run",)])
def test_a_missing_package_names_the_extra(world, refused, monkeypatch, dry):
    monkeypatch.setitem(sys.modules, "onnx", None)
    words = ("--onnx", "is not installed", "furlkit[onnx]")
    output = ("-o", world.folder / "e")
    refused(world.folder, 2, words, "export", world.model, "--onnx", *output, *dry)


@pytest.mark.parametrize("content", [b"", b"a graph of another program"])
def test_graphs_of_other_programs_are_not_replaced(world, refused, run, content):
    graph = world.folder / "e/model.pt2"
    graph.parent.mkdir()
    graph.write_bytes(content)
    command = ("export", world.model, "-o", graph.parent)
    refused(world.folder, 2, (graph, "did not write"), *command, "--torch-export")
    assert run(*command).code == 0
    assert graph.read_bytes() == content


def test_a_graph_of_other_weights_is_removed(world, run):
    folder = world.folder / "e"
    command = ("export", world.clients[0], "--torch-export", "-o", folder)
    assert run(*command).code == 0
    assert (folder / "model.pt2").exists()
    assert run("export", world.model, "-o", folder).code == 0
    assert not (folder / "model.pt2").exists()
