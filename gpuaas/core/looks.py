"""The tones of states; the front end maps each to one color and one glyph shape."""

from enum import StrEnum


class Tone(StrEnum):
    """Each has its own glyph, so that color is never alone."""

    OK = "ok"
    BUSY = "busy"
    WAIT = "wait"
    WARN = "warn"
    BAD = "bad"
    OFF = "off"
