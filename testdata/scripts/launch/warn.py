import warnings

warnings.warn("shown by default")
warnings.warn("deprecated, and in __main__", DeprecationWarning)
warnings.warn("shown with -Walways or -Xdev", ResourceWarning)
open(__file__)
