"""The commands, a file each: what they take on the command line, which job they do, how the result is shown."""
