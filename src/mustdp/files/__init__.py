"""Whole files: replaced in one move, locked, sealed; the only room that writes what must last.

replacing   a file changes in one move and has reached the disk when the call returns
creating    a new file that others fill appears complete, and replaces nothing
parts       the new content on its way there, and what a killed process left of it
reading     a file as a whole, links and devices refused, up to a size that is stated
lock        one process at a time, noticed when the lock is taken away
plain       JSON that means one thing: canonical text, no duplicate names, no deep nesting
envelope    format, version and checksum around a body of JSON or bytes

A checksum finds damage, not malice: whoever may write a file may seal it again. What keeps others
from writing is the folder: links in place of a file are refused, the folders on the way to it are
taken as they are. This room knows nothing of privacy.
"""
