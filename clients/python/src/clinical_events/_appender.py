"""Writes the events of one process to its segments."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence

from ._backlog import Backlog
from ._errors import Refused, SpoolFull, SpoolUnwritable
from ._files import FULL, Mine, datasync, errno_name, open_file, sync_directory, write_all
from ._format import END, encode_frame, encode_header, segment_id
from ._parts import Part
from ._segment import Segment

_LAST = (1 << 24) - 1
"""The largest number of a segment in its series."""


class HomeGone(Exception):
    """The segment or its directory was renamed or removed."""


class Appender:
    """Writes groups to the segments of one process. One caller at a time; it takes no lock.

    While the process lives, a group is written whole or not at all.
    """

    def __init__(self, mine: Mine, *, durable: bool, segment_bytes: int, backlog: Backlog) -> None:
        self._mine = mine
        self._durable = durable
        self._segment_bytes = segment_bytes
        self._backlog = backlog
        self.part: Part | None = None
        self.groups = 0
        self._next = 0
        self._fd = -1
        self._segment: Segment | None = None
        self._home: Part | None = None

    def write(self, events: Sequence[tuple[int, int, bytes]], size: int) -> None:
        """Writes the group, as durably as the mode says. ``size`` is the bytes of its frames.

        Raises HomeGone, SpoolFull, SpoolUnwritable; then no event of the group is in the spool.
        """
        segment = self._segment
        if (
            segment is None
            or self._home is not self.part
            or (segment.events and segment.end + size > self._segment_bytes)
        ):
            segment = self._begin()
        number = segment.events or 0
        start = segment.start
        frames = b"".join(
            [encode_frame(start, kind, at, number + i, body) for i, (kind, at, body) in enumerate(events)]
        )
        try:
            # Read from the attribute: in a forked child ``forget`` has changed it.
            written = os.pwrite(self._fd, frames, segment.end)
            if written < len(frames):
                write_all(self._mine, self._fd, frames[written:], segment.end + written)
            if self._durable:
                datasync(self._fd)
            # A process that adopted this part has renamed the file and may have missed this write.
            os.stat(segment.path)
            self._publish(segment, events, len(frames))
        except FileNotFoundError as error:
            self._mine.check()
            self.leave()
            raise HomeGone from error
        except BaseException as error:
            self._mine.check()
            undone = self._undo(segment)
            if isinstance(error, OSError):
                raise _refusal(error, undone) from error
            raise

    def _publish(self, segment: Segment, events: Sequence[tuple[int, int, bytes]], size: int) -> None:
        if segment.first_at is None:
            segment.first_at = events[0][1]
        self._backlog.written += size
        segment.bytes += size
        segment.events = (segment.events or 0) + len(events)
        # This comes last: from here on the reader hands out the events. No interrupt comes between the two.
        segment.end += size
        self.groups += 1

    def _begin(self) -> Segment:
        self.finish()
        part = self.part
        if part is None:
            raise HomeGone
        if self._home is not part:
            self._home, self._next = part, 0
        if self._next > _LAST:
            raise HomeGone
        identity = segment_id(part.series, self._next)
        # The number is used up before the file is made, because an interrupt after that leaves the file.
        self._next += 1
        segment = Segment(part.path, identity.hex(), identity, own=True)
        try:
            self._fd = open_file(segment.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, self._mine)
        except FileNotFoundError as error:
            raise HomeGone from error
        except OSError as error:
            raise _refusal(error, True) from error
        try:
            write_all(self._mine, self._fd, encode_header(identity), 0)
            if self._durable:
                sync_directory(part.path)
        except BaseException as error:
            self._mine.check()
            self._close()
            with contextlib.suppress(OSError):
                self._mine.remove(segment.path)
            if isinstance(error, OSError):
                raise _refusal(error, True) from error
            raise
        self._segment = segment
        self._backlog.begin(segment)
        return segment

    def finish(self) -> None:
        """Ends the open segment with the end frame, which saves its next reader from counting."""
        segment = self._segment
        if segment is None:
            return
        at = segment.first_at or 0
        # The end frame is optional.
        with contextlib.suppress(OSError):
            end = encode_frame(segment.start, END, at, segment.events or 0, b"")
            write_all(self._mine, self._fd, end, segment.end)
        self.leave()

    def leave(self) -> None:
        """Ends the open segment; its acknowledged events stay."""
        segment, self._segment = self._segment, None
        self._close()
        if segment is not None:
            segment.complete = True

    def _undo(self, segment: Segment) -> bool:
        """Leaves the segment and returns whether it contains no event of the failed group.

        Its frame numbers are used up, and after a failed flush the kernel may report unwritten pages as
        clean.
        """
        undone = True
        try:
            os.ftruncate(self._fd, segment.end)
            if self._durable:
                datasync(self._fd)
        except OSError:
            undone = False
        self.leave()
        return undone

    def _close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            with contextlib.suppress(OSError):
                os.close(fd)

    def forget(self) -> None:
        """Closes the descriptor in a forked child."""
        self._close()


def _refusal(error: OSError, undone: bool) -> Refused:
    if not undone:
        return SpoolUnwritable("the event could be neither written nor taken back", uncertain=True)
    if error.errno in FULL:
        return SpoolFull("the disk is full")
    return SpoolUnwritable(f"the event could not be written ({errno_name(error)})")
