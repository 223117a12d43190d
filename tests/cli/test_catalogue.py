"""The catalogue: options stand once, in --help, in checks, in values and in files."""

import inspect
import json
import re
import sys
from dataclasses import MISSING, dataclass, fields, is_dataclass
from importlib.metadata import EntryPoint
from pathlib import Path
from types import UnionType
from typing import get_args, get_type_hints

import pytest

from furlkit import catalogue, cli
from furlkit.catalogue import (
    COMMANDS,
    Family,
    Number,
    Objective,
    Option,
    Whole,
    defaults,
    installed,
    recorded,
    resolved,
)
from furlkit.errors import UsageError
from furlkit.inputs.settings import fill
from furlkit.reports.runs import planned_epochs

STAGES = [name for name, entry in COMMANDS.items() if entry.parts]
each = pytest.mark.parametrize("name", STAGES)


def sections(text: str) -> dict[str, str]:
    """The titled groups of a help text."""
    parts = re.split(r"^(\S.*):$", text, flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@each
def test_every_option_stands_in_exactly_one_group_of_help(run, name):
    found = sections(run(*name.split(), "--help-all").out)
    for group in COMMANDS[name].groups:
        for option in group.options:
            flag = re.compile(rf"^  (?:-\S+, )?--{option.name}(?=[ \n/])", re.M)
            places = [title for title in found if flag.search(found[title])]
            assert places == [group.title], option.name


@each
def test_values_have_plain_names_in_help(run, name):
    text = " ".join(sections(run(*name.split(), "--help-all").out).values())
    for word in ("<=", "RANGE", "INTEGER", "FLOAT", "BOOLEAN", "None", "[default: ]"):
        assert word not in text


def test_help_of_many_options_shows_ten_of_them_and_the_titles_of_all(run):
    text = run("local-train", "--help").out
    often, titles = sections(text)["Options used most"], text.split("--help-all:")[1]
    flags = re.findall(r"^  (?:-o, )?--([a-z-]+)", often, re.M)
    assert len(flags) == 10
    assert {"client", "data", "output", "preset", "objective", "epochs"} <= {*flags}
    words = " ".join(titles.split())
    for group in COMMANDS["local-train"].groups:
        flag, _, name = group.title.partition(" ")
        assert (name if flag.startswith("--") else group.title) in words
    assert "--update fedema, dum, astw" in words
    assert len(text.splitlines()) < 80 < len(run("local-train", "--help-all").out) / 100


@each
def test_required_options_are_in_help(run, name):
    text = run(*name.split(), "--help").out
    for option in COMMANDS[name].options.values():
        assert not option.required or f"--{option.name} " in text


def test_defaults_are_shown_as_they_are_typed(run):
    text = " ".join(run("local-train", "--help-all").out.split())
    assert (
        "--crop-scale X,X Random resized crop: range of the area. [default: 0.2,1]"
        in text
    )
    assert "--epochs N Local epochs E. [default: 5]" in text
    text = " ".join(run("evaluate", "semi", "--help-all").out.split())
    assert "[default: 5 for federated; 100 for central]" in text


def test_what_several_entries_say_of_an_option_stands_in_help_once(run):
    text = " ".join(run("aggregate", "--help-all").out.split())
    assert text.count("Largest share of a client, of 1") == 1
    assert "uniform for median, trimmed-" in text  # A line may end at the dash.
    text = " ".join(run("local-train", "--help-all").out.split())
    assert "simclr, moco, nnclr: tau of the contrast. swav: tau of the" in text
    assert "0.5 for simclr; 0.1 for moco, nnclr, swav" in text


def test_commands_are_listed_in_working_order(run):
    names = re.findall(r"^  ([a-z-]+)  ", run("--help").out.split("Commands:")[1], re.M)
    order = "partition sample pack check init pretrain-align pretrain-style local-train embed"
    assert names == [
        *order.split(),
        *["neighbours", "sign", "mask", "aggregate", "attack", "distill"],
        *["evaluate", "audit", "compare", "plot", "ledger", "inspect", "replay"],
        *["export", "presets", "plan", "status", "report", "log", "doctor"],
    ]


LOADED = """
import sys
from furlkit.cli.program import _outcome
_outcome(["--help"])
heavy = ("torch", "numpy", "importlib.metadata", "furlkit.stages")
print([name for name in heavy if name in sys.modules])
"""


def test_help_of_the_program_imports_no_stage_and_no_plugin(python):
    assert python(LOADED).splitlines()[-1] == "[]"


def test_a_command_imports_no_declaration_of_another(python):
    code = (
        "import sys; from furlkit.catalogue import COMMANDS; COMMANDS['embed'].options"
    )
    names = "sorted(m for m in sys.modules if m.startswith('furlkit.cli'))"
    assert (
        python(f"{code}; print({names})").split()
        == str(["furlkit.cli", "furlkit.cli.embed"]).split()
    )


ALLOWED = {"cli", "catalogue", "errors", "console", "presets", "runtime"}


@pytest.mark.parametrize("path", sorted(Path(cli.__file__).parent.glob("*.py")))
def test_a_command_imports_its_stage_and_little_else(path):
    found = set(re.findall(r"from furlkit\.?([\w.]*) import (\w+)", path.read_text()))
    names = {module or name for module, name in found}
    stage = f"stages.{path.stem}"
    others = {n for n in names if not (n == stage or n.startswith(f"{stage}."))}
    extra = {
        "program": {"training.signals", "training", "files", "__version__"},
        "shared": {"files.lock", "files.replaceable", "files", "training"},
        "values": {"files.clients"},
    }.get(path.stem, set())
    assert {n.split(".")[0] for n in others - extra} <= ALLOWED


@each
def test_defaults_are_values_of_their_kind(name):
    for option in COMMANDS[name].options.values():
        value, kind = option.default, option.kind
        if isinstance(kind, Number | Whole) and value is not None:
            assert kind.low is None or value >= kind.low, option.name
            assert kind.high is None or value <= kind.high, option.name
        if isinstance(kind, catalogue.Choice) and value not in (None, ()):
            assert value in kind.words, option.name


def test_kinds_of_values_of_two_classes_differ():
    kinds = [Number(1), Whole(1), catalogue.Numbers(True), catalogue.Flag(True)]
    kinds += [catalogue.Clients(True), catalogue.Labelled(True), Number(1)]
    assert len(set(kinds)) == len(kinds) - 1
    assert kinds[0] == kinds[-1] and kinds[0] != kinds[1]


def test_the_key_of_an_option_is_computed_once():
    option = Option("batch-size", Whole(2))
    assert option.key is option.key == "batch_size"
    assert option._replace(variable="size").key == "size"


# --- what does not apply --------------------------------------------------------------


def given(name: str, **values):
    options = COMMANDS[name].options
    return {**{key: option.default for key, option in options.items()}, **values}


@pytest.mark.parametrize(
    "name, values, words",
    [
        ("local-train", {"objective": "rotation", "form": "full"}, "--form does not apply to --objective rotation"),
        ("pretrain-align", {"objective": "rotation", "form": "full"}, "--objective rotation"),
        ("partition", {"scheme": "iid", "decay": 0.5}, "--decay does not apply to --scheme iid"),
        ("aggregate", {"rule": "mean", "matrix": True}, "--matrix does not apply to --rule mean"),
        ("init", {"encoder": "resnet18", "width": 0.5}, "--width does not apply to --encoder resnet18"),
        ("evaluate semi", {"mode": "central", "rounds": 3}, "--rounds does not apply to --mode central"),
        ("evaluate linear", {"optimiser": "adam", "momentum": 0.5}, "--momentum does not apply to --optimiser adam"),
        ("local-train", {"alpha": 0.5}, "--alpha does not apply without --features-out"),
        ("local-train", {"beta": 0.5}, "--beta does not apply without --align"),
        ("embed", {"top": 5.0}, "--top does not apply without --similarity"),
        ("ledger", {"images": 5}, "--images does not apply without --plan"),
    ],
)  # fmt: skip
def test_what_does_not_apply_is_refused_by_hand(name, values, words):
    with pytest.raises(UsageError, match=words):
        resolved(name, given(name, **values), values.keys(), ())


@pytest.mark.parametrize(
    "name, choice, preset",
    [
        (
            "local-train",
            {"objective": "rotation"},
            {"form": "full", "temperature": 0.1},
        ),
        ("partition", {"scheme": "iid"}, {"concentration": 1.0}),
        ("init", {"encoder": "resnet18"}, {"width": 0.5}),
        ("evaluate linear", {"optimiser": "adam"}, {"momentum": 0.9}),
    ],
)
def test_a_preset_s_own_is_dropped_where_its_choice_is_made_by_hand(
    name, choice, preset
):
    values = given(name, **choice, **preset)
    found = resolved(name, values, choice.keys(), preset.keys())
    assert found == resolved(name, given(name, **choice), choice.keys(), ())
    with pytest.raises(UsageError, match="does not apply"):
        resolved(name, values, (), {*choice, *preset})


def test_needs_of_a_shared_option_are_the_needs_of_the_chosen_entry():
    """--lr of the rule eua needs --length code; --lr of fedavgm needs nothing."""
    values = {"rule": "fedavgm", "lr": 0.5}
    found = resolved("aggregate", given("aggregate", **values), values.keys(), ())
    assert found["lr"] == 0.5 and recorded("aggregate", found)["lr"] == 0.5
    values = {"rule": "eua", "lr": 0.5}
    with pytest.raises(UsageError, match="--lr does not apply to --length mean"):
        resolved("aggregate", given("aggregate", **values), values.keys(), ())


def test_a_preset_of_aggregate_has_options_of_several_rules():
    preset = {"rule": "mean", "dictionary_size": 8, "bn": "keep"}
    found = resolved("aggregate", given("aggregate", **preset), (), preset.keys())
    assert found["bn"] == "keep" and "dictionary_size" not in found


# --- what files record ----------------------------------------------------------------


def test_recorded_options_are_flags_of_what_was_chosen():
    found = recorded("local-train", defaults("local-train"))
    assert (found["objective"], found["temperature"]) == ("simclr", 0.5)
    assert found["batch-size"] == 128 and found["crop-scale"] == [0.2, 1.0]
    absent = {"dictionary-size", "alpha", "beta", "momentum", "data", "seed", "device"}
    assert not absent & found.keys()
    assert json.loads(json.dumps(found)) == found


def test_recorded_options_follow_the_choices():
    values = {"objective": "rotation", "features_out": "f", "optimiser": "sgd"}
    values = resolved("local-train", given("local-train", **values), values.keys(), ())
    found = recorded("local-train", values)
    assert not {"temperature", "form", "beta"} & found.keys()
    assert (found["alpha"], found["dictionary-size"], found["momentum"]) == (
        0.5,
        1024,
        0.9,
    )


# --- values in dataclasses ------------------------------------------------------------


@dataclass(frozen=True)
class Inner:
    lr: float


@dataclass(frozen=True)
class Outer:
    seed: int
    inner: Inner
    other: Inner | None
    own: int = 3


def test_fill_takes_fields_by_name_and_parts_from_the_same_values():
    assert fill(Outer, {"seed": 1, "lr": 0.5}) == Outer(1, Inner(0.5), Inner(0.5))


def test_fill_complains_of_values_that_nobody_reads_and_of_missing_ones():
    with pytest.raises(TypeError, match="no field reads epochs"):
        fill(Outer, {"seed": 1, "lr": 0.5, "epochs": 3})
    with pytest.raises(TypeError, match="seed"):
        fill(Outer, {"lr": 0.5})


def test_an_optional_part_is_left_out_where_its_first_field_has_no_value():
    @dataclass(frozen=True)
    class Whole_:
        inner: Inner | None

    assert fill(Whole_, {"lr": None}) == Whole_(None)


OPTIONS = {
    "partition": "partition:PartitionOptions",
    "pack": "pack:PackOptions",
    "init": "init:InitOptions",
    "pretrain-align": "pretrain_align:PretrainAlignOptions",
    "pretrain-style": "pretrain_style:PretrainStyleOptions",
    "local-train": "local_train.options:LocalTrainOptions",
    "embed": "embed:EmbedOptions",
    "neighbours": "neighbours:NeighboursOptions",
    "distill": "distill:DistillOptions",
    "evaluate knn": "evaluate.frozen:Knn",
    "evaluate personal": "evaluate.personal:PersonalOptions",
    "evaluate semi": "evaluate.finetune:FinetuneOptions",
    "evaluate angles": "evaluate.angles:ModelOptions",
    "evaluate drift": "evaluate.drift:DriftOptions",
}


@pytest.mark.parametrize("name", OPTIONS)
def test_options_of_a_stage_have_no_defaults_of_their_own(name):
    """A default stands in the catalogue, and nowhere else."""
    found = catalogue.load(f"furlkit.stages.{OPTIONS[name]}")
    options = found if isinstance(found, type) else get_type_hints(found)["return"]
    for field in fields(options):
        # None stands for an option that this command does not have.
        assert field.default in (MISSING, None), field.name
        assert field.default_factory is MISSING, field.name


def parts(cls):
    """The dataclasses that a stage's options are made of, itself included.

    Entries of the catalogue are values of an option, and have no options as fields.
    """
    yield cls
    for hint in get_type_hints(cls).values():
        for kind in get_args(hint) if isinstance(hint, UnionType) else (hint,):
            if is_dataclass(kind) and not issubclass(kind, catalogue.Method):
                yield from parts(kind)


@pytest.mark.parametrize(
    "name, cls",
    [
        ("local-train", "stages.local_train.options:LocalTrainOptions"),
        ("evaluate linear", "evaluation.linear:LinearSettings"),
    ],
)
def test_defaults_of_value_classes_are_those_of_the_catalogue(name, cls):
    """Classes of lower layers may be made by hand; then they have the same defaults."""
    usual = {key: option.default for key, option in COMMANDS[name].options.items()}
    checked = 0
    for part in parts(catalogue.load(f"furlkit.{cls}")):
        for field in fields(part):
            if field.default not in (MISSING, ()) and field.name in usual:
                assert field.default == pytest.approx(usual[field.name], abs=1e-4)
                checked += 1
    assert checked > 5


def test_epochs_are_read_from_files_of_both_formats():
    assert planned_epochs(recorded("local-train", defaults("local-train"))) == 5
    assert planned_epochs({"plan": {"epochs": 5}}) == 5
    assert planned_epochs({"plan": 5}) is None


@pytest.mark.parametrize("scheme", catalogue.SCHEMES.values(), ids=lambda s: s.name)
def test_a_scheme_s_options_are_those_its_function_takes(scheme):
    taken = inspect.signature(catalogue.load(scheme.function)).parameters
    keys = {option.key for option in scheme.options}
    by_all = {"data", "clients", "rng", "min_size"}
    read_before = {"public_fraction", "public_count", "clients_per_domain"}
    assert keys - read_before == taken.keys() - by_all


# --- entries of other packages --------------------------------------------------------


def entry(name: str, *options: Option) -> Objective:
    return Objective(name, "a toy", "toy:step", heads=("projector",), options=options)


@pytest.fixture
def points(monkeypatch):
    """Pretend that packages with these objects are installed."""

    def install(**objects):
        for name, value in objects.items():
            monkeypatch.setattr(sys.modules[__name__], name, value, raising=False)
        found = [
            EntryPoint(name, f"{__name__}:{name}", "furlkit.objectives")
            for name in objects
        ]
        monkeypatch.setitem(sys.modules, __name__, sys.modules[__name__])
        monkeypatch.setattr(
            "importlib.metadata.entry_points",
            lambda group: found if "obj" in group else [],
        )
        catalogue.plugins.cache_clear()

    yield install
    catalogue.plugins.cache_clear()
    for added in installed._added.values():
        added.clear()


def test_an_objective_of_another_package_brings_its_options(points):
    points(toy_entry=entry("toy", Option("temperature", Number(above=0), 0.3, "tau.")))
    assert catalogue.add_plugins()
    assert list(catalogue.objectives())[-1] == "toy"
    (shared,) = [o for o in catalogue.OBJECTIVE.options if o.name == "temperature"]
    assert shared.usual.startswith("0.5 for simclr; ") and shared.default is None
    assert shared.usual.endswith("; 0.3 for toy")
    values = given("local-train", objective="toy")
    assert resolved("local-train", values, ("objective",), ())["temperature"] == 0.3


def test_a_broken_package_is_a_warning(points, capsys):
    points(toy_entry=7)
    assert not catalogue.add_plugins()
    assert catalogue.objectives() == catalogue.OBJECTIVES
    assert "cannot load this furlkit.objectives entry" in capsys.readouterr().err


def test_a_name_that_is_taken_is_an_error(points):
    points(toy_entry=entry("simclr"))
    with pytest.raises(UsageError, match="simclr: an installed package adds this name"):
        catalogue.add_plugins()


def test_an_option_that_the_command_has_already_names_both_owners(points):
    points(toy_entry=entry("toy", Option("momentum", Number(above=0), 0.3, "m.")))
    catalogue.add_plugins()
    with pytest.raises(UsageError) as refusal:
        _ = COMMANDS["local-train"].options
    message = str(refusal.value)
    assert message.startswith("--momentum")
    assert "local-train of furlkit (Number(low=0, high=1))" in message
    assert "toy of toy (Number(above=0))" in message
    assert message.endswith("rename the option of toy of toy")


def test_an_option_of_two_types_names_both_owners(points):
    points(toy_entry=entry("toy", Option("temperature", Whole(1), 3, "tau.")))
    catalogue.add_plugins()
    with pytest.raises(UsageError) as refusal:
        _ = catalogue.OBJECTIVE.options
    message = str(refusal.value)
    assert "simclr of furlkit (Number(above=0))" in message
    assert "toy of toy (Whole(low=1))" in message
    assert message.endswith("rename the option of toy of toy")


@pytest.mark.parametrize(
    "key, needs",
    [("parent", lambda rule: rule.parent), ("state_out", lambda rule: rule.state)],
)
def test_the_help_of_a_file_names_the_rules_that_need_the_file(key, needs):
    text = COMMANDS["aggregate"].options[key].help
    words = set(re.split("[ ,.:]+", text)) - {"mean"}
    named = [rule.name for rule in catalogue.rules().values() if rule.name in words]
    assert named == [r.name for r in catalogue.rules().values() if needs(r)]


def test_two_options_of_furlkit_blame_no_package():
    scales = [
        catalogue.Term(
            name, "a toy", f"furlkit.terms.{name}:loss", switch="scale",
            options=(Option("scale", Number(low=0), 0.0, "s."),),
        )
        for name in ("toy", "copy")
    ]  # fmt: skip
    declared = catalogue.Command("t", "a toy", parts=tuple(t.group for t in scales))
    with pytest.raises(UsageError) as refusal:
        _ = declared.options
    assert "package" not in str(refusal.value)
    end = "rename the option of toy of furlkit or of copy of furlkit"
    assert str(refusal.value).endswith(end)


def test_packages_are_searched_only_for_names_that_furlkit_does_not_have(
    world, run, refused, points
):
    points(toy_entry=entry("simclr"))
    words = ("local-train", world.partition, world.model, "--client", 0, "--dry-run")
    own = (*words, "--data", "digits", "-o", world.output)
    assert run(*own).code == 0
    for other in (("--objective", "toy"), ("--shrink", 1), ("--help",)):
        refused(world.folder, 2, ("simclr", "uninstall"), *own, *other)


def test_every_choice_with_entries_is_a_family():
    families = [f for c in COMMANDS.values() for f in c.families]
    assert {f.choice.name for f in families if isinstance(f, Family)} == {
        *("objective", "update", "personal", "rule", "teacher", "scheme", "encoder"),
        *("mode", "solver", "kind"),
    }  # fmt: skip


# --- presets --------------------------------------------------------------------------


def test_presets_lists_and_prints(run):
    code, out, _ = run("presets")
    assert code == 0 and re.search(
        r"^  fedca +FedCA: SimCLR on every client", out, re.M
    )
    code, out, _ = run("presets", "fedca-align")
    assert code == 0 and out.startswith("# FedSimCLR with FedCA's alignment")
    assert "beta = 0.01              # (P)" in out
    assert json.loads(run("presets", "fedu", "--json").out)["name"] == "fedu"
    assert run("presets", "fedfoo").code == 2
