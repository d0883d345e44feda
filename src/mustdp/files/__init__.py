"""Files that must survive: replaced in one move, locked, sealed with a checksum.

replacing   a file changes in one move and has reached the disk when the call returns; a new file
            appears complete, and what a killed process left behind is removed; locks
reading     a whole file up to a stated size, links and devices refused; strict, canonical JSON;
            format, version and checksum around a body of JSON or bytes

A checksum finds damage, not malice: a user who may write a file may seal it again. What keeps
others from writing is the folder: links in place of a file are refused, the folders on the way to
it are taken as they are. This package knows nothing of privacy.
"""
