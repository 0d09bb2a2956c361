"""What is asked about files in the home of an environment, and how a program there ends: as the portal's scripts and the simulated
site have it in common."""

from enum import IntEnum, StrEnum


class FileVerb(StrEnum):
    """The first word after the home; the folder and the name follow it."""

    LIST = "files:list"
    READ = "files:read"
    WRITE = "files:write"
    FOLDER = "files:folder"
    REMOVE = "files:remove"
    MOVE = "files:move"


class FileOver(StrEnum):
    """What an upload may meet of its name: a file that has to be there, or either."""

    NOTHING = "nothing"
    FILE = "file"
    EITHER = "either"


class FileEnd(IntEnum):
    """Exit codes besides 0 and those of the image's programs."""

    MISSING = 81
    OUTSIDE = 82
    NO_FOLDER = 83
    NO_FILE = 84
    THERE = 85
    NOT_EMPTY = 86
    LARGE = 87
    SHORT = 88
    LINK = 89
    DENIED = 90
    ODD_NAME = 91


# is added to what is wrong with the folder to which something is moved
GOAL = 20
