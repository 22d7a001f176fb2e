def section(run):
    """suites"""
