"""The `bytewise` command. `tree` lists all nouns and verbs; each noun has a module or a folder."""
