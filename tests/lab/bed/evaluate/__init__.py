"""Studies of `tune evaluate`."""
