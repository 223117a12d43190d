"""Who may import whom, read from the syntax tree."""

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import furlkit

PACKAGE = Path(furlkit.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))
HEAVY = (
    "torch",
    "torchvision",
    "timm",
    "sklearn",
    "scipy",
    "matplotlib",
    "rich",
)


def test_a_wheel_has_all_files_of_the_package():
    project = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text())
    patterns = project["tool"]["setuptools"]["package-data"]["furlkit"]
    others = {p for p in PACKAGE.rglob("*.*") if p.suffix not in (".py", ".pyc")}
    assert others == {path for pattern in patterns for path in PACKAGE.glob(pattern)}
    assert {m.parent for m in MODULES} == {
        m.parent for m in PACKAGE.rglob("__init__.py")
    }


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


def imports(path: Path) -> set[str]:
    """Every module a file imports, at its top or anywhere below."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            found.add(node.module)
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def ours(path: Path) -> set[str]:
    """The parts of furlkit a file imports: files, stages, errors, ..."""
    names = (name.split(".") for name in imports(path))
    return {parts[1] for parts in names if parts[0] == "furlkit" and len(parts) > 1}


def below(folder: str) -> list[Path]:
    found = sorted((PACKAGE / folder).rglob("*.py"))
    assert found, folder
    return found


def importers(module: str) -> set[str]:
    """The modules that import `module` or something below it."""
    return {
        module_name(path)
        for path in MODULES
        if any(
            name == module or name.startswith(module + ".") for name in imports(path)
        )
    }


# Modules that may lie at the top, and what each layer may import. A layer may always
# import itself; `stages` may not import other stages, which has a test of its own.
TOP = {
    "__init__": set(),
    "__main__": {"cli"},
    "errors": set(),
    "console": {"errors"},
    "randomness": set(),
    "runtime": {"console", "errors", "__version__"},
    "weights": set(),
    "nets": {"models"},  # The name that encoders exported by furlkit 0.1 import.
}
BASE = {"errors", "console", "randomness", "runtime", "weights", "catalogue"}
LAYERS = {
    "catalogue": {"console", "errors"},
    "objectives": set(),
    "terms": set(),
    "personal": {"objectives", "terms", "weights"},
    "updates": {"weights", "errors"},
    "aggregators": {"weights", "errors"},
    "attacks": {"errors"},
    "audits": {"errors"},
    "evaluation": {"errors"},
    "files": {"errors", "catalogue"},
    "data": {"files", "errors", "console", "catalogue"},
    "models": {"data", "files"} | BASE,
    "training": {
        *("data", "files", "models", "objectives", "terms"),
        *("evaluation", "aggregators", "attacks"),
        *BASE,
    },
    "inputs": {"data", "files", "models", "updates", "personal", "aggregators"} | BASE,
    "exchanges": {
        *("data", "files", "models", "inputs", "training", "objectives", "updates"),
        *("aggregators", "evaluation", "terms"),
        *BASE,
    },
    "recipes": {"files", "presets", "randomness", "catalogue", "errors"},
    "reports": {"data", "files", "models", "evaluation"} | BASE,
    "stages": {
        *("data", "files", "models", "objectives", "terms", "personal", "updates"),
        *("aggregators", "evaluation", "training", "inputs", "reports", "recipes"),
        *("exchanges", "attacks", "audits"),
        *BASE,
    },
    "cli": {"stages", "training", "presets", "files", *BASE},
    "presets": {"catalogue", "files", "errors"},
}


def test_the_top_level_is_these_modules_and_layers():
    modules = {path.stem for path in PACKAGE.glob("*.py")}
    folders = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert modules == TOP.keys()
    assert folders == LAYERS.keys()


@pytest.mark.parametrize("layer", LAYERS)
def test_a_layer_imports_only_what_it_may(layer):
    for path in below(layer):
        assert ours(path) <= LAYERS[layer] | {layer, "__version__"}, path


@pytest.mark.parametrize("module", TOP)
def test_a_top_level_module_imports_only_what_it_may(module):
    assert ours(PACKAGE / f"{module}.py") <= TOP[module]


def test_no_module_imports_itself_through_others():
    plain = [path for path in MODULES if path.stem != "__init__"]
    names = {module_name(path): imports(path) for path in plain}
    graph = {name: (found & names.keys()) - {name} for name, found in names.items()}
    done: set[str] = set()

    def visit(name, above):
        assert name not in above, " -> ".join([*above, name])
        if name not in done:
            for other in sorted(graph[name]):
                visit(other, [*above, name])
            done.add(name)

    for name in sorted(graph):
        visit(name, [])


def stage_of(name: str) -> str:
    return ".".join(name.split(".")[:3])


def test_stages_never_import_each_other():
    for path in below("stages"):
        own = stage_of(module_name(path))
        others = {
            stage_of(name)
            for name in imports(path)
            if name.startswith("furlkit.stages.")
        }
        assert others <= {own}, path


def test_nobody_but_the_command_line_imports_stages_or_the_command_line():
    outside = {
        name
        for name in importers("furlkit.stages") | importers("furlkit.cli")
        if not name.startswith(("furlkit.cli", "furlkit.stages"))
    }
    assert outside == {"furlkit.__main__"}


def test_a_command_imports_its_own_stage_alone():
    shared = {"furlkit.cli.program", "furlkit.cli.shared", "furlkit.cli.values"}
    for path in below("cli"):
        name = module_name(path)
        if path.stem == "__init__":
            continue
        used = {
            other.split(".")[2]
            for other in imports(path)
            if other.startswith("furlkit.stages.")
        }
        assert used <= ({name.split(".")[2]} if name not in shared else set()), path
        training = {n for n in imports(path) if n.startswith("furlkit.training")}
        allowed = {f"furlkit.training{n}" for n in ("", ".signals", ".processes")}
        assert training <= (allowed if name in shared else set())


def test_click_only_in_the_command_line_and_in_no_declaration_of_a_command():
    names = ("program", "shared", "values")
    assert importers("click") == {f"furlkit.cli.{name}" for name in names}


def test_rich_only_in_console():
    assert importers("rich") == {"furlkit.console"}


def test_safetensors_only_in_the_container():
    assert importers("safetensors") == {"furlkit.files.container.read"}


def test_cryptography_only_in_the_keys():
    assert importers("cryptography") == {"furlkit.files.keys"}


def test_timm_only_where_its_encoders_are_built():
    assert importers("timm") == {"furlkit.models.libraries", "furlkit.models.timm"}


@pytest.mark.parametrize("module", ["importlib.import_module", "dill"])
def test_modules_that_nobody_imports(module):
    assert importers(module) == set()


def test_no_pickle_is_read_or_written():
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute):
                assert ast.unparse(node) not in ("torch.load", "torch.save"), path
                # torchvision's CIFAR raises this error; nobody else touches pickle.
                if ast.unparse(node.value) == "pickle":
                    assert node.attr == "UnpicklingError", path
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "np.load":
                words = {word.arg: ast.unparse(word.value) for word in node.keywords}
                assert words.get("allow_pickle") == "False", path


def test_nothing_touches_a_global_seed():
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                assert called not in ("torch.manual_seed", "np.random.seed"), path
                assert not called.startswith("random."), path


def test_nothing_is_asserted_outside_tests():
    for path in MODULES:
        nodes = ast.walk(ast.parse(path.read_text()))
        assert not any(isinstance(node, ast.Assert) for node in nodes), path


LOADED = """
import sys
from furlkit.cli.program import _outcome
code = _outcome(sys.argv[1:])
print([code, *(m for m in {heavy} if m in sys.modules)], file=sys.stderr)
"""


@pytest.mark.parametrize(
    "command, allowed",
    [
        (["--help"], []),
        (["--version"], []),
        (["local-train", "--help"], []),
        (["inspect", "{client}"], []),
        (["inspect", "--verify", "--json", "{partition}"], []),
        (["aggregate", "{client}", "-o", "{output}"], []),
        (["aggregate", "{client}", "{client}", "--bn", "keep", "-o", "{output}"], []),
        (["sample", "--clients", "0-9", "--fraction", "0.5"], []),
        (["partition", "--data", "digits", "-o", "{output}"], ["sklearn", "scipy"]),
    ],
)
def test_light_commands_load_nothing_heavy(world, environment, command, allowed):
    places = {"client": world.clients[0], "partition": world.partition}
    words = [word.format(output=world.output, **places) for word in command]
    code = LOADED.format(heavy=HEAVY)
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        capture_output=True, text=True, env=environment, check=True,
    )  # fmt: skip
    code, *loaded = ast.literal_eval(done.stderr.splitlines()[-1])
    assert code == 0, done.stderr
    assert set(loaded) <= set(allowed)
