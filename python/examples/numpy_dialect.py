"""A dialect for NumPy (docs/EXTENDING.md)."""

import torchtrace


class NumpyDialect(torchtrace.FrameworkDialect):
    package = "numpy"

    def discover_apis(self):
        return [
            "numpy.zeros",
            "numpy.concatenate",
            "numpy.dot",
            "numpy.linalg.norm",
            "numpy.linalg.solve",
        ]

    def serialize_special_type(self, value):
        import numpy

        if isinstance(value, numpy.ndarray):
            return {"shape": value.shape, "dtype": str(value.dtype)}
        if isinstance(value, numpy.random.Generator):
            return {"type": "numpy.random.Generator", "bits": type(value.bit_generator).__name__}
        return None

    def format_special_type(self, properties):
        return f"{properties['type']}({properties['bits']})"
