"""Typed options: a frozen dataclass is a group of them, and a verb is called with one object per group.

    @option_group("Draws")
    class DrawOptions:
        seed: int = option("The same seed gives the same table.", 0, at_least=0)
        policies: tuple[str, ...] = option("Give it again for more.", (), flags=("--policy",))

    @verb()
    @click.argument("pool")
    def compare(pool: str, draws: DrawOptions, output: Path | None = option("The file to write.")) -> None: ...

An option that stands alone is a parameter of the verb. The type of a field or parameter says what the option takes: a
number, a string, a file for ``Path``, one of the words of a ``Literal``, a flag for ``bool`` (``--no-...`` where it is
on by default), several values for a ``tuple``. A dataclass of a lower layer serves too: its fields with ``help`` in
their metadata are options. ``--help`` lists the options under the groups' titles, rare ones with ``--help-all`` alone,
and one that ``needs`` another is refused without it. What is not on the command line comes from the
environment (``PETS_SOLVE_BUDGET``), then from ``pets.toml``.
"""

import functools
import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, dataclass_transform, get_args, get_origin, get_type_hints

import click
from click.core import ParameterSource

from pets.arguments import Interval
from pets.cli._config_file import ConfigFile
from pets.cli._terminal import MESSAGE_OPTIONS, echo, messages, say, terminal_text
from pets.cli.main import OPTIONS, SuggestingGroup
from pets.engine.spec import SECTIONS, is_honoured
from pets.errors import InputError

Group = TypeVar("Group")

SPEC_FIELDS = {spec.name: spec for section in SECTIONS.values() for spec in fields(section)}
HELP_ALL = "pets.help_all"  # in a context's meta where rare options are shown too
METAVARS = {int: "N", float: "X"}
LAST_TITLE = "Other"
LOOSE_TITLE = "Options"  # of those that are in no group
SAYS_DEFAULT = "if not given"  # in a help text that names the default itself
UNSAID = (None, ParameterSource.DEFAULT)  # where the value of an option comes from that nobody said
FILE = click.Path(path_type=Path, dir_okay=False)


@dataclass_transform(frozen_default=True)
def option_group(title: str) -> Callable[[type[Group]], type[Group]]:
    """Make a class a group of options: a frozen dataclass, whose options ``--help`` lists under that title."""

    def decorate(cls: type[Group]) -> type[Group]:
        group = dataclass(frozen=True, slots=True)(cls)
        type.__setattr__(group, "title", title)
        return group

    return decorate


def option(
    text: str,
    default: Any = None,
    *,
    flags: Sequence[str] = (),
    kind: "click.ParamType[Any] | None" = None,
    at_least: float | None = None,
    within: Interval | None = None,
    metavar: str | None = None,
    required: bool = False,
    alone: str | None = None,
    needs: str | None = None,
    rare: bool = False,
) -> Any:
    """A field that is an option; ``flags`` are its names (``--field-name`` if none).

    ``alone`` is its value where it is given without one, which not every option may be; ``needs`` is the field that it
    says something about: without that one nothing would read it. A ``rare`` option is listed by ``--help-all`` alone.
    """
    within = within if at_least is None else Interval(at_least)
    metadata: dict[str, Any] = {"help": text, "flags": tuple(flags), "kind": kind, "within": within}
    metadata |= {"metavar": metavar, "alone": alone, "needs": needs, "rare": rare}
    return field(default=MISSING if required else default, metadata=metadata)


class SpecOptions(dict[str, Any]):
    """What the user said of a run, by the fields of its :class:`~pets.engine.RunSpec`; the rest keeps its defaults.

    A verb that takes these has the option of every field that it honours, under the title of its section.
    """

    def refuse(self, verb: str, reason: str) -> None:
        """Refuse what the user typed that ``verb`` does not honour."""
        refuse_named(reason, *(self.keys() - self.honoured(verb).keys()))

    def honoured(self, verb: str) -> "SpecOptions":
        return SpecOptions({name: value for name, value in self.items() if is_honoured(SPEC_FIELDS[name], verb)})


class GroupedOption(click.Option):
    """An option that knows its group's title and the option that it needs, and whether it is a rare one."""

    def __init__(self, *args: Any, title: str, needs: str | None = None, rare: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.title, self.needs, self.rare = title, needs, rare


class Verb(click.Command):
    """A command whose help has a section per option group, and rare options in ``--help-all`` alone."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the options under their groups' titles; those of no group, such as --help, last."""
        sections: dict[str, list[tuple[str, str]]] = {}
        group = None if ctx.parent is None else ctx.parent.command
        common = [p for p in group.params if p.opts[-1] in group.common] if isinstance(group, VerbGroup) else []
        for parameter in (*common, *self.get_params(ctx)):
            if getattr(parameter, "rare", False) and HELP_ALL not in ctx.meta:
                continue
            record = parameter.get_help_record(ctx) if isinstance(parameter, click.Option) else None
            if record is not None:
                sections.setdefault(getattr(parameter, "title", LAST_TITLE), []).append(record)
        for title in sorted(sections, key=LAST_TITLE.__eq__):
            with formatter.section(title if len(sections) > 1 else "Options"):
                formatter.write_dl(sections[title])

    def get_help(self, ctx: click.Context) -> str:
        """As click's, with control characters shown: a default may come from a file."""
        return terminal_text(super().get_help(ctx), keep="\n")

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click's, with the defaults of ``pets.toml``; a former name of an option is answered with its new one."""
        words, file = ctx.command_path.split()[1:], ctx.find_object(ConfigFile)
        options = dict[str, click.Option]()
        for option in self.params:
            if isinstance(option, click.Option):
                name = option.opts[-1].lstrip("-")
                options[name] = option
                if ctx.auto_envvar_prefix:
                    option.envvar = f"{ctx.auto_envvar_prefix}_{name.replace('-', '_').upper()}"
        if file is not None and words:
            ctx.default_map = file.defaults(words, options, self.commands if isinstance(self, click.Group) else ())
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            name = error.option_name
            if (successor := OPTIONS.get(f"{' '.join(words)} {name}", OPTIONS.get(name))) is not None:
                raise click.UsageError(f"{name} is now {successor}.", ctx) from None
            raise
        except click.BadParameter as error:
            source = None if error.param is None else ctx.get_parameter_source(error.param.name or "")
            if source is ParameterSource.DEFAULT_MAP and file is not None:
                raise click.BadParameter(f'{error.message} It stands in "{file.path}".', ctx, error.param) from None
            if source is ParameterSource.ENVIRONMENT and error.param is not None:
                origin = f"It comes from {error.param.envvar!s}."
                raise click.BadParameter(f"{error.message} {origin}", ctx, error.param) from None
            raise

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command with logs as the user wants them; refuse a file of options that is not trusted yet.

        Which options come from ``pets.toml`` is said: a file in a folder above may name a server.
        """
        file = ctx.find_object(ConfigFile)
        if file is not None and ctx.get_parameter_source("trust") is not ParameterSource.COMMANDLINE:
            file.check_trusted()
        verbose, quiet = ctx.params.pop("verbose", False), ctx.params.pop("quiet", False)
        with messages(verbose, quiet, ctx.params.pop("log_file", None)):
            if file is not None:
                sources = ((option, ctx.get_parameter_source(option.name or "")) for option in self.params)
                if flags := [option.opts[-1] for option, source in sources if source is ParameterSource.DEFAULT_MAP]:
                    say(f"{', '.join(flags)}: as {file.path!s} says.")
            return super().invoke(ctx)


class VerbGroup(SuggestingGroup, Verb):
    """A verb of several commands; ``common`` are options of them all, typed before a command or after it."""

    common: tuple[str, ...] = ()

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As every verb's, with the common options put before the command's name, wherever they were typed."""
        own, rest = list[str](), list(args)
        for flag in self.common:
            for index in reversed(range(rest.index("--") if "--" in rest else len(rest))):
                taken = 2 if rest[index] == flag else int(rest[index].startswith(f"{flag}="))
                own[:0] = rest[index : index + taken]
                del rest[index : index + taken]
        return super().parse_args(ctx, [*own, *rest])

    def verb(self, name: str | None = None) -> Callable[[Callable[..., None]], Verb]:
        """Add one of its commands, made as :func:`verb` makes them."""

        def decorate(function: Callable[..., None]) -> Verb:
            command = verb(name)(function)
            command.short_help = command.get_short_help_str(1000)  # its whole first sentence
            self.add_command(command)
            return command

        return decorate


def verb(name: str | None = None) -> Callable[[Callable[..., None]], Verb]:
    """Make a command of a function; every parameter of it that is an option group adds its options."""

    def show_all(ctx: click.Context, parameter: click.Parameter, wanted: bool) -> None:
        if wanted:
            ctx.meta[HELP_ALL] = True
            echo(*ctx.get_help().split("\n"))
            ctx.exit()

    def decorate(function: Callable[..., None]) -> Verb:
        command = click.command(name, cls=Verb)(_with_groups(function, name))
        command.params += MESSAGE_OPTIONS
        if rare := sum(getattr(parameter, "rare", False) for parameter in command.params):
            words = f"Show this message with {rare} more options and exit."
            eager: dict[str, Any] = {"is_flag": True, "is_eager": True, "expose_value": False, "callback": show_all}
            command.params.append(click.Option(["--help-all"], help=words, **eager))
        return command

    return decorate


def verb_group(
    *, common: Sequence[str] = (), invoke_without_command: bool = False
) -> Callable[[Callable[..., None]], VerbGroup]:
    """Make a verb of several commands of a function, its options as in :func:`verb`, some ``common`` to them all."""

    def decorate(function: Callable[..., None]) -> VerbGroup:
        group = click.group(cls=VerbGroup, invoke_without_command=invoke_without_command)(_with_groups(function))
        group.common = tuple(common)
        return group

    return decorate


def named_options() -> dict[str, str]:
    """The options that the user named on the command line: field name to flag, ``--no-texts`` too."""
    context, flags = click.get_current_context(), dict[str, str]()
    for option in context.command.params:
        named = context.get_parameter_source(option.name or "") is ParameterSource.COMMANDLINE
        if isinstance(option, GroupedOption) and option.name is not None and named:
            off = context.params.get(option.name) is False
            flags[option.name] = (option.secondary_opts if off else option.opts)[-1]
    return flags


def refuse_named(reason: str, *ignored: str | type) -> None:
    """Refuse those of these fields and groups that the user named on the command line: nothing would read them."""
    names = {own for own in ignored if isinstance(own, str)}
    names |= {spec.name for group in ignored if not isinstance(group, str) for spec in fields(group)}
    if flags := [flag for name, flag in named_options().items() if name in names]:
        raise InputError(f"{reason}: leave out {', '.join(flags)}.")


def _with_groups(function: Callable[..., None], verb_name: str | None = None) -> Callable[..., None]:
    hints, parameters = get_type_hints(function), inspect.signature(function).parameters
    groups: dict[str, list[GroupedOption]] = {}
    for name in parameters:
        if hints.get(name) is SpecOptions:
            verb = verb_name or function.__name__
            groups[name] = [option for section in SECTIONS.values() for option in _group_options(section, verb)]
        elif is_dataclass(hints.get(name)):
            groups[name] = list(_group_options(hints[name]))
    options = [option for group in groups.values() for option in group]
    for name, parameter in parameters.items():
        if isinstance(parameter.default, Field):
            options.append(_make_option(name, hints[name], parameter.default, LOOSE_TITLE))

    @functools.wraps(function)
    def call(*args: Any, **values: Any) -> None:
        context = click.get_current_context()
        for option in options:
            unmet = option.needs and values[option.needs] in (None, False, ())
            if unmet and context.get_parameter_source(str(option.name)) is ParameterSource.COMMANDLINE:
                flag = named_options()[str(option.name)]
                needed = next(other.opts[-1] for other in options if other.name == option.needs)
                raise InputError(f"{flag} is read with {needed} alone: add {needed}, or leave {flag} out.")
        for name, group in groups.items():
            own, of_spec = dict[str, Any](), hints[name] is SpecOptions
            for option in group:
                value = values.pop(option.name)
                # Of a spec, what is neither typed nor in the environment or pets.toml is not said.
                if not of_spec or context.get_parameter_source(str(option.name)) not in UNSAID:
                    own[str(option.name)] = value
            values[name] = hints[name](**own)
        function(*args, **values)

    # click's own decorators add from the last to the first, and leave them on the function.
    call.__click_params__ = [*reversed(options), *getattr(function, "__click_params__", ())]  # type: ignore[attr-defined]
    return call


def _group_options(group: Any, verb: str = "") -> Iterator[GroupedOption]:
    """An option for every field of a dataclass that has a help text and, of a spec's section, that the verb honours."""
    hints = get_type_hints(group)
    for spec in fields(group):
        if "help" in spec.metadata and verb in spec.metadata.get("verbs", (verb,)):
            yield _make_option(spec.name, hints[spec.name], spec, group.title)


def _make_option(name: str, hint: Any, spec: Field[Any], title: str) -> GroupedOption:
    metadata, word, default = spec.metadata, name.replace("_", "-"), spec.default
    shown: dict[str, Any] = {}
    if default is not MISSING:
        nothing = default is None or default is False or default == () or (isinstance(default, float) and not default)
        shown = {"default": default, "show_default": not nothing and SAYS_DEFAULT not in metadata["help"]}
    return GroupedOption(
        [*(metadata.get("flags") or (f"--{word}/--no-{word}" if default is True else f"--{word}",)), name],
        help=metadata["help"],
        required=default is spec.default_factory is MISSING,
        title=title,
        needs=metadata.get("needs"),
        rare=metadata.get("rare", False),
        **_kind(hint, metadata, several=name == "price"),
        **shown,
    )


def _kind(hint: Any, metadata: Mapping[str, Any], several: bool) -> Mapping[str, Any]:
    """Map a type to click's settings: a flag, numbers in their range, words of a list, a file, else a text."""
    if get_origin(hint) in (Union, UnionType):
        hint = next(member for member in get_args(hint) if member is not NoneType)
    if hint is bool:
        return {"is_flag": True}
    if get_origin(hint) is tuple:
        several, hint = True, get_args(hint)[0]
    kind: Any = metadata.get("kind") or (FILE if hint is Path else str)
    if get_origin(hint) is Literal:
        kind = click.Choice(get_args(hint))
    elif hint in METAVARS and metadata.get("kind") is None:
        kind = hint
        if (within := metadata.get("within")) is not None:
            most = None if within.most == math.inf else within.most
            ends = {"min_open": "(" in within.open, "max_open": ")" in within.open and most is not None}
            kind = (click.IntRange if hint is int else click.FloatRange)(within.least, most, **ends)
            kind.name = "integer" if hint is int else "number"  # else click speaks of "a valid float range"
    alone = {} if metadata.get("alone") is None else {"is_flag": False, "flag_value": metadata["alone"]}
    return {"type": kind, "multiple": several, "metavar": metadata.get("metavar") or METAVARS.get(hint), **alone}
