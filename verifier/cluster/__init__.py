"""Enclaves on many machines: the bridge process, which is the Ray driver, and its agents. No process of this folder has a key."""
