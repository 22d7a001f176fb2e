"""Compares torchtrace's records with the calls that the witnesses of witness.py saw."""

import collections
import difflib
import functools
import json
import pathlib
import re

import torch


def read_lines(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


@functools.cache
def schema_of(name):
    """The operator's schema; None for names of other things."""
    base, _, overload = name.partition(".")
    try:
        return torch._C._get_schema(base, overload)
    except RuntimeError:
        return None


# ---- The modes: every call that they saw is recorded, in order ----

# `told`: whether modes see the call.
Call = collections.namedtuple("Call", "level api args kwargs told", defaults=[True])

PROTOCOL = pathlib.Path(__file__).parents[2] / "dialects/torch/function/function_protocol.tsv"


@functools.cache
def told_to_nobody():
    rows = (row.split("\t")[1:] for row in PROTOCOL.read_text("utf-8").splitlines()[1:])
    return {function for function, told, *_ in rows if told == "nobody"}


def are_told(calls):
    """For each of [(number, parent, level, API)] whether a mode at the bottom of the stack sees the
    call. It doesn't see calls that autograd makes back into Python, inside a call of level 1."""
    inside = set()
    told = []
    for number, parent, level, api in calls:
        within = parent in inside
        if within or level == 1:
            inside.add(number)
        told.append(level != 1 or not (within or api in told_to_nobody()))
    return told


def recorded_calls(dump, run):
    """{pid: calls of its main thread}, [calls of other threads] from the lines of
    `torchtrace dump --format jsonl` and run.json."""
    main_threads = {
        (process["pid"], thread["number"])
        for process in run["processes"]
        for thread in process["threads"]
        if thread["os_id"] == process["pid"]
    }
    calls = collections.defaultdict(list)
    others = []
    dump = list(dump)
    told = are_told((line["call"], line.get("parent"), line["level"], line["api"]) for line in dump)
    for line, is_told in zip(dump, told):
        call = Call(line["level"], line["api"], line["args"], line["kwargs"], is_told)
        pid = int(re.search(r"(\d+)\)?$", line["process"])[1])
        (calls[pid] if (pid, line["thread"]) in main_threads else others).append(call)
    return dict(calls), others


def witnessed_calls(folder):
    return {
        int(path.stem.rpartition("-")[2]): [Call(*line) for line in read_lines(path)]
        for path in pathlib.Path(folder).glob("modes-*.jsonl")
    }


def same_value(recorded, seen, level):
    """Whether both are equal as data; a cut record must be the beginning of what was seen."""
    if isinstance(recorded, dict) and isinstance(seen, dict):
        if "cut" in recorded:
            return same_cut(recorded, seen, level)
        if level == 2 and "subclass" in seen:
            # Level 2 sees tensors below Python: it can't tell a Parameter from a Tensor.
            seen = {name: value for name, value in seen.items() if name != "subclass"}
        return recorded.keys() == seen.keys() and all(
            same_value(value, seen[name], level) for name, value in recorded.items()
        )
    if isinstance(recorded, list) and isinstance(seen, list):
        return len(recorded) == len(seen) and all(
            same_value(mine, theirs, level) for mine, theirs in zip(recorded, seen)
        )
    return type(recorded) is type(seen) and recorded == seen


def same_cut(recorded, seen, level):
    kept = recorded["value"]
    whole = seen if isinstance(seen, str) else seen.get("value", ())
    unit = len if not isinstance(whole, str) else lambda text: len(text.encode())
    return unit(kept) + recorded["cut"] == unit(whole) and same_value(
        kept, whole[: len(kept)], level
    )


def as_called_on(call):
    """The call that a mode of level 2 saw, with the arguments of the call that it makes: it gets
    None for an undefined tensor, and drops the last arguments that are their defaults. Of an
    operator that the program registered nothing is known here: its call stays as it is."""
    schema = schema_of(call.api)
    if schema is None:
        return call
    arguments = schema.arguments
    defaults = {each.name: each.default_value for each in arguments if each.has_default_value()}

    def is_default(name, value):
        return name in defaults and same_value(defaults[name], value, 2)

    args = list(call.args)
    # An undefined tensor hides those before it, which PyTorch drops otherwise.
    if args and args[-1] is None:
        while args and is_default(arguments[len(args) - 1].name, args[-1]):
            args.pop()
    kwargs = {
        n: each for n, each in call.kwargs.items() if each is not None or not is_default(n, each)
    }
    return call._replace(args=args, kwargs=kwargs)


def same_call(recorded, seen):
    if (recorded.level, recorded.api) != (seen.level, seen.api):
        return False
    if seen.level == 2:
        seen = as_called_on(seen)
    return same_value(recorded.args, seen.args, seen.level) and same_value(
        recorded.kwargs, seen.kwargs, seen.level
    )


def missing_and_extra(recorded, seen):
    """The first seen call without a record, or None; and the records of no seen call."""
    extra = []
    records = iter(recorded)
    for number, call in enumerate(seen):
        skipped = []
        for record in records:
            if same_call(record, call):
                break
            skipped.append(record)
        else:
            nearest = [each for each in skipped if (each.level, each.api) == call[:2]][:2]
            return (
                f"call {number} of {len(seen)}: {call}\n"
                f"next of that API: {nearest}\nnext: {skipped[:3]}",
                extra,
            )
        extra += skipped
    return None, extra + list(records)


# ---- Level 1 has exactly the calls that a mode sees, section by section ----

Told = collections.namedtuple("Told", "api args kwargs raised")

# attempts.py marks sections and failures with calls of MARK.
MARK = "torch.div"
FAILED = "failed: "


def label_of(call):
    """The text of a mark; None for other calls."""
    return call.kwargs.get("rounding_mode") if call.api == MARK and call.raised else None


def told_of(calls):
    """Of the recorded calls those of level 1 that a mode would receive."""
    told = are_told((each.number, each.parent, each.level, each.api) for each in calls)
    return [call for call, is_told in zip(calls, told) if is_told and call.level == 1]


def recorded_sections(calls):
    threads = collections.defaultdict(list)
    for call in told_of(calls):
        one = Told(call.api, call.args, call.kwargs, call.outcome == "raised")
        threads[call.process, call.thread].append(one)
    return sections(threads.values())


# The same mark at level 2.
MARK_OPERATOR = "aten::div.Tensor_mode"


def label_of_operator(call):
    label = call.kwargs.get("rounding_mode") if call.api == MARK_OPERATOR else None
    return None if label in ("trunc", "floor") else label


def sections(threads, label_of=label_of):
    """{label: calls after that mark} from the lists of calls of each thread. The mark of a failure
    counts as a call."""
    found = {}
    for calls in threads:
        section = []
        for call in calls:
            label = label_of(call)
            if label is None or label.startswith(FAILED):
                section.append(call)
            else:
                assert label not in found, f"two sections named {label}"
                section = found[label] = []
    return found


def told_calls(folder):
    """The calls that a witness saw on each thread."""
    return _of_threads(folder, "told", lambda call: Told(*call))


def dispatched_calls(folder):
    return _of_threads(folder, "dispatched", lambda call: Call(2, *call))


def _of_threads(folder, witness, made):
    threads = collections.defaultdict(list)
    for path in pathlib.Path(folder).glob(f"{witness}-*.jsonl"):
        for thread, *call in read_lines(path):
            threads[path.stem, thread].append(made(call))
    return threads.values()


def recorded_operators(calls):
    """By thread, without what modes don't see: the calls in the kernels of operators that aren't
    PyTorch's own."""
    threads = collections.defaultdict(list)
    inside = set()
    for each in calls:
        if each.parent in inside:
            inside.add(each.number)
        elif each.level == 2:
            inside.add(each.number)
            call = Call(2, each.api, each.args, each.kwargs)
            threads[each.process, each.thread].append(call)
    return threads.values()


# A mode isn't asked when a Parameter is made (`Tensor._make_subclass`), which detaches.
DETACH = "aten::detach"


def same_operators(recorded, seen):
    """Whether the operators that the mode saw are recorded, in order, and nothing else."""
    return _same_but_for(recorded, seen, same_call, [])


def same_but_for_the_mode(recorded, seen):
    """The same, for records of a run without the mode."""

    def same(mine, theirs):
        return same_call(mine, theirs) or (
            mine.api != theirs.api and as_without_mode(mine.api) == as_without_mode(theirs.api)
        )

    return _same_but_for(recorded, seen, same, [DETACH])


def _same_but_for(recorded, seen, same, only_seen):
    recorded = [call._replace(args=defined(call.args)) for call in recorded]
    at = 0
    for call in seen:
        while at < len(recorded) and not same(recorded[at], call) and recorded[at].api == DETACH:
            at += 1
        if at < len(recorded) and same(recorded[at], call):
            at += 1
        elif call.api not in only_seen:
            return False
    return all(call.api == DETACH for call in recorded[at:])


def defined(value):
    """With None for undefined tensors: so a mode gets them."""
    if isinstance(value, list):
        return [defined(each) for each in value]
    if isinstance(value, dict):
        if value.get("defined") is False:
            return None
        return {name: defined(each) for name, each in value.items()}
    return value


# Under a mode autograd calls functional operators, and detaches what it saved.
WITHOUT_MODE = re.compile(r"_(?=\.|$)")


def as_without_mode(api):
    return "aten::view" if api == "aten::_reshape_alias" else WITHOUT_MODE.sub("", api)


# Functions of *args that pass all of them to modes as a single tuple.
TOLD_AS_TUPLE = re.compile(
    r"torch\.(atleast_[123]d|block_diag|broadcast_tensors|cartesian_prod|meshgrid)"
)


def same_told(recorded, told):
    args = [told.args]
    if TOLD_AS_TUPLE.fullmatch(told.api) and len(told.args) == 1:
        args.append(told.args[0].get("value"))
    return (recorded.api, recorded.raised) == (told.api, told.raised) and any(
        same_value([recorded.args, recorded.kwargs], [each, told.kwargs], 1) for each in args
    )


BINARY_OPERATORS = re.compile(
    r"torch\.Tensor\.(__.*__|add_?|sub_?|mul_?|div_?|floor_divide_?|remainder_?|pow_?|matmul"
    r"|[lg][te]|ne|bitwise_(and|or|xor|left_shift|right_shift)_?)"
)


# numpy first calls these with the arguments of its newest version, which may fail.
TRIED_BY_NUMPY = ("torch.Tensor.__array__", "torch.Tensor.__array_wrap__")


def may_be_untold(call, next_call):
    """Whether the call may have failed before the mode saw it: it raised, and the mark of a failure
    follows; or it is a binary operator that returned NotImplemented, to try its second operand."""
    if call.raised:
        failed = next_call is not None and bool(label_of(next_call))
        return failed or call.api in TRIED_BY_NUMPY
    if not BINARY_OPERATORS.fullmatch(call.api):
        return False
    if len(call.args) != 2 or call.kwargs:
        return True
    number = isinstance(call.args[1], (bool, int, float))
    return not is_tensor(call.args[1]) and (not number or call.api.endswith("matmul"))


CONVERSIONS = re.compile(r"torch\.Tensor\.(__(index|int|float|bool|complex)__|dim|item)")


def is_failed_conversion(call):
    return call.raised and CONVERSIONS.fullmatch(call.api) is not None


def same_section(recorded, told):
    """Whether all calls that the mode saw are recorded, in order, and all other records may be
    invisible to it. A call may convert its arguments before the mode sees it, to find a matching
    signature. The mode sees these conversions; they need no record if they or the call fail."""
    told = list(told)
    for call, next_call in zip(recorded, [*recorded[1:], None]):
        while told and not same_told(call, told[0]) and is_failed_conversion(told[0]):
            del told[0]
        if told and same_told(call, told[0]):
            del told[0]
        elif not may_be_untold(call, next_call):
            return False
        else:
            while call.raised and told and CONVERSIONS.fullmatch(told[0].api):
                del told[0]
    return not told


def without_getters(sections):
    return {
        label: [call for call in calls if not call.api.endswith(".__get__")]
        for label, calls in sections.items()
    }


def short(value):
    """A described value in few characters: T[2, 3] is a tensor."""
    if isinstance(value, dict):
        if value.get("type") == "torch.Tensor":
            more = [each for name, each in value.items() if name not in ("type", "shape", "device")]
            return f"T{value.get('shape', ' undefined')}" + "".join(
                f":{each}" for each in more if each != "torch.float32"
            )
        inside = value.get("value", "")
        if isinstance(inside, list):
            inside = ", ".join(map(short, inside))
        return f"{value.get('type')}({inside})"
    return repr(value)


def shown(call):
    arguments = [short(value) for value in call.args]
    arguments += [f"{name}={short(value)}" for name, value in call.kwargs.items()]
    raised = " raised" * getattr(call, "raised", False)
    return f"    {call.api}({', '.join(arguments)}){raised}"[:300]


def differences(ours, theirs, is_known, same):
    """A text for each section that differs."""
    found = []
    for label, wanted in theirs.items():
        if is_known(label):
            continue
        mine = ours.get(label)
        if mine is None or not same(mine, wanted):
            lines = difflib.unified_diff(
                [*map(shown, wanted)],
                [*map(shown, mine or [])],
                "told",
                "recorded",
                n=2,
                lineterm="",
            )
            found.append("\n".join([label, *lines]))
    return found


# ---- The profile: level 2 has exactly the operators directly below autograd ----

# `clones`: the shapes of tensors that it clones first, which may be above or below autograd.
Operator = collections.namedtuple("Operator", "name shapes clones")

# These operators open and close a range of RecordFunction: the profiler shows the range instead.
OPEN_RANGE = "profiler::_record_function_enter_new"
CLOSE_RANGE = "profiler::_record_function_exit._RecordFunction"


@functools.cache
def takes_tensors(name):
    return any("Tensor" in str(argument.type) for argument in schema_of(name).arguments)


@functools.cache
def is_composite(name):
    """Whether it is decomposed into other operators above autograd, which level 2 sees instead."""
    return torch._C._dispatch_has_kernel_for_dispatch_key(
        name, "CompositeImplicitAutograd"
    ) and not torch._C._dispatch_has_kernel_for_dispatch_key(name, "AutogradCPU")


# Autograd does these itself and dispatches nothing.
ENDS_AT_AUTOGRAD = ("aten::detach_",)

# torch.tensor(data) fills a tensor and moves it to its device with all modes and their keys off;
# modes only see the lift_fresh after that.
MAKE_FROM_DATA = ("aten::empty.memory_format", "aten::to.device")
SHOW_MADE = "aten::lift_fresh"


# Lazy conjugation is resolved above level 2, by the first operator that does not support it.
CLONE = "aten::clone"


def without_compiling(profile):
    """The profile without Dynamo's own work, which is inside ranges that Dynamo opens."""
    inside = None
    for depth, name, shapes in profile:
        if inside is not None and depth > inside:
            continue
        inside = depth if name == "dynamo" or name.endswith("(dynamo_timed)") else None
        if inside is None:
            yield depth, name, shapes


def operators_below_autograd(profile):
    """The calls that level 2 should see, in order, from the output of PyTorch's own profiler."""
    expected = []
    inside = None  # the depth of a call that level 2 sees, but not the calls inside
    inference = []  # (depth, is on) of inference modes, inside which nothing is decomposed
    made = 0  # how many of MAKE_FROM_DATA are at the end of `expected`
    for depth, name, shapes in without_compiling(profile):
        while inference and inference[-1][0] >= depth:
            inference.pop()
        if name.startswith("inference_mode "):
            inference.append((depth, name.endswith("True")))
        if inside is not None and depth > inside:
            if name == CLONE and depth == inside + 1:
                expected[-1].clones.append(shapes)
            continue
        inside = None
        if "::" not in name or schema_of(name) is None:
            continue
        whole = inference and inference[-1][1]
        if name in ENDS_AT_AUTOGRAD and not whole:
            continue
        if name == MAKE_FROM_DATA[1]:
            made += made == 1
            if made == 2 and expected[-1].name == MAKE_FROM_DATA[0]:
                expected.append(Operator(name, shapes, []))
                continue
        if not whole and takes_tensors(name) and is_composite(name):
            continue
        if name == SHOW_MADE and made:
            del expected[-made:]
        made = int(name == MAKE_FROM_DATA[0])
        expected.append(Operator(name, shapes, []))
        inside = depth
    return expected


def is_tensor(value):
    return isinstance(value, dict) and value.get("type") == "torch.Tensor"


def same_operator(recorded, operator):
    """Whether the name and the shapes of all tensor arguments, except those in lists, are equal."""
    if recorded.api != operator.name:
        return False
    names = [argument.name for argument in schema_of(operator.name).arguments]
    given = list(enumerate(recorded.args))
    given += [(names.index(name), value) for name, value in recorded.kwargs.items()]
    return all(
        operator.shapes[at] == value["shape"]
        for at, value in given
        if is_tensor(value) and "layout" not in value and value.get("shape") is not None
    )


def first_difference(recorded, operators):
    """The first place where the records of level 2, except ranges, differ from these operators;
    None if there is none."""
    records = [call for call in recorded if call.api not in (OPEN_RANGE, CLOSE_RANGE)]
    at = 0
    for number, operator in enumerate(operators):
        clones = list(operator.clones)
        while at < len(records) and not same_operator(records[at], operator):
            if records[at].api != CLONE or records[at].args[0]["shape"] not in [
                c[0] for c in clones
            ]:
                break
            clones.remove(next(c for c in clones if c[0] == records[at].args[0]["shape"]))
            at += 1
        if at == len(records) or not same_operator(records[at], operator):
            return (
                f"operator {number} of {len(operators)}: {operators[number : number + 3]}\n"
                f"call {at} of {len(records)}: {records[at : at + 3]}"
            )
        at += 1
    return f"too many: {records[at : at + 3]}" if at < len(records) else None


def ranges(recorded):
    """The number of opened ranges, and the number of closed ones."""
    apis = collections.Counter(call.api for call in recorded)
    return apis[OPEN_RANGE], apis[CLOSE_RANGE]
