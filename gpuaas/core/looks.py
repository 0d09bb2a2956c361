"""The tones a state may have; the front end maps each to one color and one glyph shape."""

from enum import StrEnum


class Tone(StrEnum):
    OK = "ok"
    BUSY = "busy"
    WAIT = "wait"
    WARN = "warn"
    BAD = "bad"
    OFF = "off"
