"""Sample inputs of PyTorch's own test suite, forward and backward."""

from tools.comparing.checking import check
from tools.comparing.programs import Place, Program


def _parts(run, name, parts, *options):
    """A program that takes the part of its samples, in so many parts."""
    for part in range(parts):
        if run.is_over():
            run.say(f"parts {part} to {parts - 1} of {parts} were not run: the time is over")
            return
        # A new place each time: traces are large.
        place = Place()
        words = ["-m", f"samples_of_{name}", *options, f"--part={part}/{parts}"]
        run.case(f"part {part} of {parts}", check(place, Program(name, words)))


def opinfo(run):
    """all OpInfos: operators, forward and backward, and those of lists of tensors"""
    _parts(run, "opinfo", 8, "--all")
    others = "--dtypes=float64,bfloat16,complex64,int64,bool"
    _parts(run, "opinfo", 4, "--all", others, "--samples=4")


def moduleinfo(run):
    """all ModuleInfos: modules, forward and backward"""
    _parts(run, "moduleinfo", 3)


def optimizerinfo(run):
    """all OptimizerInfos: steps of optimizers, in all their implementations"""
    _parts(run, "optimizerinfo", 2)
