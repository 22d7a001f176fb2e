"""Calls OpInfos on their sample inputs, forward and backward: each call is a section, each result
is kept. Options: those of opinfo_samples.py."""

import outcome  # first  # noqa: I001

from opinfo_samples import UNDEFINED_RESULTS, chosen, gradients, parse_options, samples_of


def run(op, dtypes, most):
    outcome.seed(11)
    label = f"{op.name}.{op.variant_test_name or 'default'}"
    defined = not any(word in op.name for word in UNDEFINED_RESULTS)
    outcome.mark(f"making samples of {label}")
    for number, sample in enumerate(samples_of(op, dtypes, most)):
        results = []

        def forward(sample=sample, results=results):
            results.append(op(sample.input, *sample.args, **sample.kwargs))
            return results[0] if defined else None

        outcome.attempt(f"{label} {number}", forward)
        if results:
            outcome.attempt(f"{label} {number} backward", gradients, results[0], sample)
    outcome.mark(f"after {label}")


if __name__ == "__main__":
    options = parse_options()
    for each in outcome.one_by_one(chosen(options)):
        run(*each, options.samples)
