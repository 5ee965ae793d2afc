"""What a profile saw of scopes, in few words."""

from phonograd.profiler import FunctionEvent, profile


def summary(prof: profile) -> list[tuple[str, str | None]]:
    """Return (name, parent's name) of the events."""
    return [(event.name, event.parent.name if event.parent else None) for event in prof.events()]


def named(prof: profile, name: str) -> list[FunctionEvent]:
    """Return the events of a name."""
    return [event for event in prof.events() if event.name == name]
