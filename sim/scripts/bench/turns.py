"""What is compared is measured by turns, so that a change of the machine meets all of it."""

from processes import Failed

# What has failed so often without a figure is not tried again: a program may be missing.
ATTEMPTS = 2


def take_turns(subjects, runs):
    """Returns for each subject a list of figures, or of failures, one for each turn."""
    found = {name: [] for name in subjects}
    for turn in range(runs):
        names = list(subjects) if turn % 2 == 0 else list(reversed(subjects))
        for name in names:
            tried = found[name]
            if len(tried) >= ATTEMPTS and all(isinstance(one, Failed) for one in tried):
                tried.append(tried[-1])
                continue
            try:
                tried.append(subjects[name]())
            except Failed as failed:
                tried.append(failed)
    return found


def reason(*turns):
    """Returns why there is no turn in which all have a figure."""
    return next(one for figures in turns for one in figures if isinstance(one, Failed))


def both(one, other):
    """Returns the turns in which both have a figure."""
    turns = zip(one, other, strict=True)
    return [pair for pair in turns if not any(isinstance(figure, Failed) for figure in pair)]
