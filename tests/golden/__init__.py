"""Fixed command lines of every command, to compare two versions of furlkit."""
