def section(run):
    """processes"""
