"""Headers that would exhaust the memory or the time of their reader."""

import pytest

ENTRY = '{"dtype":"F32","shape":[0],"data_offsets":[0,0]}'
OBJECTS = "{}," * 1_390_000 + "{}"


def entries(count: int) -> str:
    return "{" + ",".join(f'"{k}":{ENTRY}' for k in range(count)) + "}"


def metadata(text: str) -> str:
    return '{"__metadata__":{"furlkit":"' + text + '"}}'


# The last four are as large as furlkit reads a header at all.
BOMBS = {
    "a million entries": lambda: entries(10**6),
    "90 MB": lambda: "{" + " " * (90 * 10**6) + "}",
    "70,000 entries": lambda: entries(70_000),
    "objects": lambda: '{"a":[' + OBJECTS + "]}",
    "objects in the metadata": lambda: metadata('{\\"facts\\":[' + OBJECTS + "]}"),
    "nesting in the metadata": lambda: metadata("[" * 4_000_000),
}
MEASURED = """
import resource, sys, time
from furlkit.errors import InputError
from furlkit.files.container.read import Container

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

before, began = peak(), time.process_time()
try:
    Container(sys.argv[1]).tensors()
except InputError as error:
    assert sys.argv[1] in str(error) and len(str(error)) < 400
    print(time.process_time() - began, peak() - before)
"""


@pytest.mark.parametrize("bomb", BOMBS)
def test_bomb_is_refused_in_seconds_and_200_megabytes(tmp_path, python, refused, bomb):
    path = tmp_path / "bomb.safetensors"
    text = BOMBS[bomb]().encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text)
    seconds, megabytes = map(float, python(MEASURED, path).split())
    # 0.2 s as a rule; a machine that is busy may take several times as long.
    assert seconds < 20
    assert megabytes < 200
    output = tmp_path / "output.safetensors"
    refused(tmp_path, 65, (path,), "aggregate", path, "-o", output)
