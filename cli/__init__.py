"""The `bytewise` command: `__main__` names the verbs, each verb has a module."""
