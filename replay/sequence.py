"""Calls in order with the data passed from one to the next: `torchtrace replay --sequence`.

A step refers to its tensors by numbers (serialize/flow). A tensor that no step returned is made as
for a single config, or has the recorded contents. For each storage, marks hold which bytes equal
those of the recorded program: these are compared with recorded contents, the others are overwritten
by them.
"""

import contextlib
import fnmatch
import functools
import re

import torch

from replay import arguments, attempts, calling, fills, names, program
from replay.arguments import TensorSpec
from replay.names import Skip

ALL = "all"


class Marks:
    """A subset of a storage's bytes."""

    def __init__(self, nbytes, every):
        self.nbytes = nbytes
        self.which = ALL if every else None  # None, ALL, or a mask

    def of(self, tensor):
        """Whether the tensor has any marked bytes."""
        if self.which is None or tensor.numel() == 0:
            return False
        return self.which is ALL or bool(by_bytes(self.which, tensor).any())

    def set(self, tensor, marked):
        if self.which is (ALL if marked else None):
            return
        if tensor.numel() * tensor.element_size() == self.nbytes and is_dense(tensor):
            self.which = ALL if marked else None
            return
        if not isinstance(self.which, torch.Tensor):
            self.which = torch.full((self.nbytes,), self.which is ALL, dtype=torch.bool)
        try:
            by_bytes(self.which, once(tensor)).fill_(marked)
        except RuntimeError:  # elements overlap
            self.which = ALL
            return
        if not marked and not bool(self.which.any()):
            self.which = None


class Storage:
    """Which of a storage's bytes are known."""

    def __init__(self, nbytes, known, written):
        self.users = 0
        self.shared = False  # the program has access to its memory, and may write there unrecorded
        self.resize(nbytes, known, written)

    def resize(self, nbytes, known, written):
        self.nbytes = nbytes
        self.unknown = Marks(nbytes, not known)  # may differ from the recorded ones
        self.unwritten = Marks(nbytes, not written)  # uninitialized

    def write(self, tensor, known):
        self.unknown.set(tensor, not known)
        self.unwritten.set(tensor, False)


class Slot:
    def __init__(self, tensor, storage, address):
        self.tensor = tensor
        self.storage = storage
        self.address = address  # of its storage, the key of storages; None: unreadable


def is_dense(tensor):
    return tensor.is_contiguous() or tensor.untyped_storage().nbytes() == 0


def by_bytes(flat, tensor):
    """A view of `flat`, which has an element for each byte of the storage, for the tensor's
    bytes."""
    size = tensor.element_size()
    return flat.as_strided(
        (*tensor.shape, size),
        (*(stride * size for stride in tensor.stride()), 1),
        tensor.storage_offset() * size,
    )


def once(tensor, other=None):
    """The tensor without repeated elements (stride 0), or the same places of another tensor."""
    result = tensor if other is None else other
    for dim, (size, stride) in enumerate(zip(tensor.shape, tensor.stride())):
        if stride == 0 and size > 1:
            result = result.narrow(dim, 0, 1)
    return result


def is_plain(tensor):
    return (
        type(tensor) in (torch.Tensor, torch.nn.Parameter)
        and tensor.layout == torch.strided
        and tensor.device.type != "meta"
        and not tensor.is_nested
    )


def has_bytes(tensor):
    """Whether its elements are stored as they are in a readable storage."""
    return (
        is_plain(tensor)
        and tensor.device.type == "cpu"
        and not tensor.is_conj()
        and not tensor.is_neg()
    )


def bytes_of(tensor):
    storage = torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage())
    return by_bytes(storage, tensor)


class Builder(arguments.Builder):
    """Makes tensors by taking those of the sequence."""

    def __init__(self, sequence, fills, generator, seed):
        super().__init__(fills, generator, seed)
        self.sequence = sequence

    def _tensor(self, spec):
        return self.sequence.tensor(spec, self)

    def make(self, spec):
        wanted, spec.requires_grad = spec.requires_grad, False
        made = super()._tensor(spec)
        spec.requires_grad = wanted
        return made


class Sequence:
    def __init__(self, replay):
        self.replay = replay
        rules = replay.options["rules"]
        # Of other calls of a program those inside them are made.
        self.names = names.Names(rules, names.WRITTEN_ALONE)
        self.random = globs(rules["random"])
        self.chances = rules["random by arguments"]
        self.hands_out = globs(rules["hands memory out"])
        self.writes_gradients = globs(rules["writes gradients"])
        self.uninitialised = globs(rules["uninitialised"])
        self.overwrites = globs(rules["overwrites"])
        self.slots = {}  # by number
        self.storages = {}  # by address, while slots use them
        self.inputs = set()  # numbers of slots that no step returned and that require no gradient

    def forget(self):
        """After a step with unknown writes."""
        self.slots.clear()
        self.storages.clear()
        self.inputs.clear()

    def run(self, step):
        """The result of a step, or whether an API may be called."""
        if "may" in step:
            return {"result": "ok", "may": self.names.may_call(step["may"])}
        self.counts = {"compared": 0, "equal": 0, "filled": 0, "made": 0}
        self.differences = []
        self.replay.allow(1)
        try:
            answer = self._run(step)
        except Exception as error:
            if not calling.out_of_memory(error):
                raise
            answer = {"result": "skipped", "reason": calling.NO_MEMORY}
        finally:
            self.replay.allow(0)
        self._see_memory(step)
        for number in step["released"]:
            self._drop(number)
            self.inputs.discard(number)
        if answer["result"] == "ok" and self.differences:
            answer["difference"] = self.differences[0]
            if len(self.differences) > 1:
                answer["difference"] += f" (and {len(self.differences) - 1} more)"
        return {**answer, **self.counts}

    # Slots and the state of their storages.

    def _keep(self, number, tensor, known=False, written=True):
        """`known` and `written` apply to a new storage."""
        address, nbytes = None, 0
        if has_bytes(tensor):
            untyped = tensor.untyped_storage()
            address, nbytes = untyped._cdata, untyped.nbytes()
        storage = self.storages.get(address) if address else None
        if storage is None:
            if not written and number not in self.slots and is_plain(tensor):
                # The old contents of that memory may be invalid indices.
                tensor.untyped_storage().fill_(0)
            storage = Storage(nbytes, known, written)
            if address:
                self.storages[address] = storage
        elif storage.nbytes != nbytes:
            storage.resize(nbytes, known, written)
        storage.users += 1
        self._drop(number)
        self.slots[number] = Slot(tensor, storage, address)
        return self.slots[number]

    def _drop(self, number):
        slot = self.slots.pop(number, None)
        if slot is None:
            return
        slot.storage.users -= 1
        if slot.storage.users == 0:
            self.storages.pop(slot.address, None)

    def _see_memory(self, step):
        """Marks what is written from now on, or was, without a recorded step."""
        name = step["api"].rpartition(".")[2]
        if self.writes_gradients.fullmatch(name):
            for slot in map(self.slots.get, self.inputs):
                if slot is not None and has_bytes(slot.tensor):
                    slot.storage.unknown.set(slot.tensor, True)
        # NumPy may write to each of these tensors.
        if not self.hands_out.fullmatch(name):
            return
        for plain in program.tensors_in(
            [step["args"], list(step["kwargs"].values()), step.get("result")]
        ):
            slot = self.slots.get(plain.get("id"))
            if slot is not None:
                slot.storage.shared = True

    # Tensors that a step takes.

    def tensor(self, spec, builder):
        slot = self.slots.get(spec.number)
        if slot is None or not is_as_described(slot.tensor, spec):
            slot = self._make(spec, builder)
        if slot.tensor.requires_grad != spec.requires_grad and slot.tensor.is_leaf:
            # This flag also affects how functions compute, and so the last bits.
            slot.tensor.requires_grad_(spec.requires_grad)
        return slot.tensor

    def _make(self, spec, builder):
        self.counts["made"] += 1
        tensor = builder.make(spec)
        slot = self._keep(spec.number, tensor, known=spec.is_known and not has_bytes(tensor))
        if spec.is_known and has_bytes(tensor):
            slot.storage.write(tensor, known=True)
        return slot

    def _make_source(self, source, spec, builder):
        base = self.slots.get(source.get("base"))
        if source["kind"] == "view" and base is not None:
            tensor = base.tensor
            if not source.get("same"):
                tensor = view_of(base.tensor, spec, source["shift"], source.get("other_dtype"))
            if tensor is not None:
                self._keep(spec.number, tensor)
                return
        self._make(spec, builder)
        if not spec.requires_grad:
            self.inputs.add(spec.number)

    # One step.

    def _run(self, step):
        replay = self.replay
        parser = arguments.Parser(replay.names, replay.device)
        problem = target = None
        try:
            args = [parser.parse(arg) for arg in step["args"]]
            kwargs = {name: parser.parse(value) for name, value in step["kwargs"].items()}
            arguments.attach(parser.specs, step.get("notes", ()))
        except Skip as skip:
            problem, args, kwargs = str(skip), [], {}
        specs = [spec for spec in parser.specs if isinstance(spec, TensorSpec)]
        bound = {}
        try:
            names.check_level(step)
            target = replay.names.resolve(step["api"])
            if replay.results.is_by_state(target):
                raise Skip("what it does depends on more than its arguments")
            args, kwargs = calling.as_declared(target, args, kwargs)
            parser.read_texts(target.key, args, kwargs, returned=not step.get("raised"))
            target, args, kwargs = parser.move(target, args, kwargs)
            bound = calling.bind(target, args, kwargs)
            replay.fills.assign(target.key, bound)
        except Skip as skip:
            problem = problem or str(skip)
        seed = (step["call"] * 0x9E3779B97F4A7C15 ^ replay.options["seed"]) & (2**62 - 1)
        generator = torch.Generator().manual_seed(seed)
        builder = Builder(self, replay.fills, generator, seed)
        nbytes = 0
        try:
            by_number = {spec.number: spec for spec in reversed(specs)}
            sources = []
            for source in step["sources"]:
                spec = by_number.get(source["id"])
                if spec is None:
                    spec = arguments.Parser(replay.names, replay.device).parse(source)
                sources.append((source, spec))
            made = [spec for source, spec in sources if source["kind"] != "view"]
            taken = {id(spec): spec for spec in (*parser.specs, *made)}
            nbytes = arguments.measure(taken.values(), replay.options["max_bytes"])
            replay.allow(1 + nbytes / (64 << 20))
            for source, spec in sources:
                self._make_source(source, spec, builder)
            if not problem:
                args, kwargs = builder.build(args), builder.build(kwargs)
                if names.is_operator(step["api"]):
                    calling.wrap_numbers(target.schema, args, kwargs)
                written = set()
                if self.overwrites.fullmatch(target.key) or "out" in kwargs:
                    written = {spec.number for spec in written_specs(target, bound)}
                self._see_arguments(specs, written, builder)
        except Skip as skip:
            problem = problem or str(skip)
        except Exception as error:
            if calling.out_of_memory(error):
                problem = "its arguments need more memory than --max-memory"
            problem = problem or f"its arguments can't be made: {calling.said(error)}"
        if problem:
            self._go_without(step, specs, None, builder)
            return {"result": "skipped", "reason": problem}
        made_up = len(parser.specs) > len(specs)
        return self._call(step, target, args, kwargs, bound, specs, builder, made_up)

    def _see_arguments(self, specs, overwritten, builder):
        for i, spec in enumerate(specs):
            slot = self.slots.get(spec.number)
            if slot is None:
                continue
            if slot.storage.shared and has_bytes(slot.tensor):
                slot.storage.unknown.set(slot.tensor, True)
            self._see(slot, spec.contents, f"argument {i}")
            tells = spec.fill is not None or spec.range is not None
            if tells and spec.number not in overwritten and has_bytes(slot.tensor):
                self._write(slot, spec, builder)

    def _write(self, slot, spec, builder):
        """Fills in what the program wrote there unrecorded, for example through NumPy."""
        unwritten, tensor = slot.storage.unwritten, slot.tensor
        if not unwritten.of(tensor):
            return
        self.counts["made"] += 1
        ours, made = bytes_of(once(tensor)), bytes_of(once(tensor, builder.make(spec)))
        if unwritten.which is not ALL:
            made = torch.where(by_bytes(unwritten.which, once(tensor)), made, ours)
        try:
            ours.copy_(made)
        except RuntimeError:
            return  # elements overlap
        slot.storage.write(tensor, known=False)

    def _see(self, slot, contents, where):
        """Compares a tensor with recorded contents; bytes that may differ are overwritten by
        these."""
        tensor = slot.tensor
        if contents is None or self.replay.device is not None or not has_bytes(tensor):
            return
        if len(contents) != tensor.numel() * tensor.element_size() or not contents:
            return
        ours = bytes_of(tensor)
        recorded = torch.frombuffer(contents, dtype=torch.uint8).view(ours.shape)
        if not slot.storage.unknown.of(tensor):
            self.counts["compared"] += 1
            if torch.equal(ours, recorded):
                self.counts["equal"] += 1
                return
            self.differences.append(f"{where}: {difference_of(tensor, recorded)}")
        else:
            self.counts["filled"] += 1
        ours, recorded = bytes_of(once(tensor)), once(tensor, recorded)
        try:
            ours.copy_(recorded)
        except RuntimeError:
            return  # elements overlap
        slot.storage.write(tensor, known=True)

    def _call(self, step, target, args, kwargs, bound, specs, builder, made_up):
        replay = self.replay
        recorded_error = step.get("raised", "")
        # The contents of arrays and storages aren't recorded.
        is_known = not made_up and all(self._is_known(spec) for spec in specs)
        changes = target.in_place or "out" in kwargs
        sizes = replay.results.sizes_are_told(target, is_known, specs)
        tried = attempts.Attempts(replay, step, target, step.get("result"), sizes, builder.seed)

        def same(value=None):
            if value is not None:
                raise attempts.NothingToChange
            return args, kwargs

        try:
            around = functools.partial(self._surroundings, step)
            done = tried.make([(args, kwargs)], around, None if changes else same)
        except (Skip, calling.Refused) as reason:
            self._go_without(step, specs, bound, builder)
            return {"result": "skipped", "reason": str(reason)}
        answer = done.answer()
        if answer["result"] != "ok":
            if "result" in step:
                self._go_without(step, specs, bound, builder)
            return answer
        difference = answer.pop("difference")
        if difference and not recorded_error:
            self.differences.insert(0, difference)
        uninitialised = bool(self.uninitialised.fullmatch(target.key))
        known_after = not (uninitialised or self._is_random(target, bound))
        written = list(written_specs(target, bound))
        if self.overwrites.fullmatch(target.key) or "out" in kwargs:
            numbers = {spec.number for spec in written}
            known_after &= all(self._is_known(s) for s in specs if s.number not in numbers)
        else:
            known_after &= is_known
        for spec in written:
            slot = self.slots.get(spec.number)
            if slot is not None and has_bytes(slot.tensor):
                slot.storage.write(slot.tensor, known_after)
        if "result" in step:
            aside = replay.results.outputs_aside(target)
            self._keep_results(step, done.returned, known_after, uninitialised, aside)
        return answer

    def _surroundings(self, step):
        # Operators of level 2 were recorded below autograd.
        stack = contextlib.ExitStack()
        stack.enter_context(torch.no_grad())
        if step["level"] == 2:
            stack.enter_context(torch._C._AutoDispatchBelowAutograd())
        return stack

    def _is_known(self, spec):
        slot = self.slots.get(spec.number)
        return slot is None or not slot.storage.unknown.of(slot.tensor)

    def _is_random(self, target, bound):
        if self.random.fullmatch(target.key):
            return True
        chances = [bound[name] for name in self.chances["chances"] if name in bound]
        if chances:
            return any(chances) and all(bound.get(name, True) for name in self.chances["modes"])
        return torch.Tag.nondeterministic_seeded in target.tags

    # What a step returned.

    def _keep_results(self, step, returned, known, uninitialised, aside):
        contents = contents_by_position(step.get("result_notes", ()))
        pairs = [
            (known and output not in aside, *pair)
            for output, of in enumerate(zip(step["result"], returned))
            for pair in paired_tensors(*of)
        ]
        for position, (is_known, plain, value) in enumerate(pairs):
            slot = self._keep(plain["id"], value, is_known, written=not uninitialised)
            # The program may write there unrecorded, so compare when it is read.
            if not uninitialised:
                self._see(slot, contents.get(position), f"result {position}")

    def _go_without(self, step, specs, bound, builder):
        """After a step that was not called or not completed: makes its results."""
        for spec in specs:
            # It may have written to any of them.
            slot = self.slots.get(spec.number)
            if slot is not None and has_bytes(slot.tensor):
                slot.storage.unknown.set(slot.tensor, True)
        if "result" not in step:
            return
        contents = contents_by_position(step.get("result_notes", ()))
        places = {note["position"]: note for note in step.get("result_notes", ())}
        argument_places = {
            note["storage"]: (specs[note["position"]], note["offset"])
            for note in step.get("notes", ())
            if note.get("storage") and note["position"] < len(specs)
        }
        parser = arguments.Parser(self.replay.names, self.replay.device)
        try:
            for value in step["result"]:
                parser.parse(value)
            made = [spec for spec in parser.specs if isinstance(spec, TensorSpec)]
            arguments.measure(made, self.replay.options["max_bytes"])
        except Skip:
            return
        for position, spec in enumerate(made):
            spec.contents = contents.get(position)
            if spec.contents is not None and len(spec.contents) != spec.numel * spec.dtype.itemsize:
                spec.contents = None
            try:
                slot = self.slots.get(spec.number)
                place = places.get(position, {})
                of = argument_places.get(place.get("storage"))
                base = of and self.slots.get(of[0].number)
                if slot is None and base is not None and of[0].dtype == spec.dtype:
                    view = view_of(base.tensor, spec, place["offset"] - of[1], False)
                    slot = view is not None and self._keep(spec.number, view)
                if not slot or not is_as_described(slot.tensor, spec):
                    slot = self._make(spec, builder)
                self._see(slot, spec.contents, f"result {position}")
            except Exception:
                # The step that takes it makes it.
                continue


def globs(names):
    return re.compile("|".join(fnmatch.translate(name) for name in names))


def is_as_described(tensor, spec):
    if tensor.layout != spec.layout or tensor.dtype != spec.dtype:
        return False
    return tensor.is_nested or tuple(tensor.shape) == spec.shape


def view_of(base, spec, shift, other_dtype):
    """A tensor as described on the storage of another; None if that isn't large enough."""
    if base.layout != torch.strided or spec.layout != torch.strided:
        return None
    offset = shift if other_dtype else base.storage_offset() + shift
    stride = spec.stride or arguments.contiguous(spec.shape)
    end = (offset + spec.extent) * spec.dtype.itemsize
    if offset < 0 or end > base.untyped_storage().nbytes():
        return None
    if not other_dtype:
        return base.as_strided(spec.shape, stride, offset).data
    view = torch.empty(0, dtype=spec.dtype, device=base.device)
    return view.set_(base.untyped_storage(), offset, spec.shape, stride)


def contents_by_position(notes):
    return {note["position"]: note["contents"] for note in notes if "contents" in note}


def paired_tensors(plain, values):
    """Pairs of a tensor's description and the tensor, as far as both have the same structure."""
    if isinstance(plain, dict):
        if plain.get("type") == "torch.Tensor":
            if "id" in plain and isinstance(values, torch.Tensor):
                yield plain, values
            return
        plain = plain.get("value")
        if isinstance(plain, dict) and isinstance(values, dict):
            plain, values = list(plain.values()), list(values.values())
    if isinstance(plain, list) and isinstance(values, (list, tuple)):
        for inner, value in zip(plain, values):
            yield from paired_tensors(inner, value)


def written_specs(target, bound):
    if target.schema is not None:
        for argument in target.schema.arguments:
            if argument.alias_info is not None and argument.alias_info.is_write:
                yield from fills.specs_in(bound.get(argument.name))
        return
    if target.in_place and bound:
        yield from fills.specs_in(bound.get("self", next(iter(bound.values()))))
    yield from fills.specs_in(bound.get("out"))


def difference_of(tensor, recorded):
    """How many elements differ from `recorded`, which holds bytes."""
    count = int((bytes_of(tensor) != recorded).any(-1).sum())
    text = f"{count} of {tensor.numel()} elements differ from the record"
    if tensor.dtype.is_floating_point:
        theirs = recorded.clone().view(-1).view(tensor.dtype).to(torch.float64)
        apart = (tensor.detach().reshape(-1).to(torch.float64) - theirs).abs().max()
        text += f", by up to {float(apart):.3g}"
    return text
