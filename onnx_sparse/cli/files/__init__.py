"""The files that commands read and write: a file is written next to its name, then renamed."""
