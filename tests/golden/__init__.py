"""A scripted life of data sets, recorded file by file and command by command, and played again."""
